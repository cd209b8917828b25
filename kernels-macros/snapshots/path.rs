impl Head {
    #[track_caller]
    pub fn forward<const D: usize>(
        &self,
        logits: Tensor<D>,
        bias: &Tensor<1>,
    ) -> Tensor<D> {
        ::burn_kernels::__private::declare_site! {
            static SITE = { kernel : acme::soft_cap::ID, item : "Head::forward", path :
            ::core::option::Option::None, form : Form::Impl, key :
            SemanticsKey::Custom(acme::soft_cap::KEY), key_json : "", layer :
            ::core::option::Option::Some("SoftCap"), condition :
            ::core::option::Option::None }
        }
        ::burn_kernels::__private::custom(
            ::burn_kernels::__private::At::new(&SITE).instance(&|| ()),
            acme::soft_cap::Operands {
                cap: ::core::clone::Clone::clone(&self.limit),
                logits: logits,
                bias: ::core::clone::Clone::clone(bias),
            },
            |acme::soft_cap::Operands { logits: logits, .. }| {
                let copy_of_bias = ::burn_kernels::__private::detached!(bias);
                let copy_of_self = ::burn_kernels::__private::detached!(self);
                ::burn_kernels::__private::begin();
                copy_of_self
                    .get(self)
                    .forward_reference::<D>(logits, copy_of_bias.get(bias))
            },
        )
    }
    /// The plain computation of [`Self::forward`], which the kernel `acme::soft_cap` is verified against.
    pub fn forward_reference<const D: usize>(
        &self,
        logits: Tensor<D>,
        bias: &Tensor<1>,
    ) -> Tensor<D> {
        (logits / self.limit).tanh() * self.limit + bias.clone().unsqueeze()
    }
}
