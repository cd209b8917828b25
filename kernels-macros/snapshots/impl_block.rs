impl<L: Layer> Mlp<L> {
    const WIDTH: usize = 4;
    /// The user's docs.
    #[must_use]
    #[tracing::instrument]
    #[track_caller]
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        ::burn_kernels::__private::declare_site! {
            static SITE = ::burn_kernels::__private::SiteSpec { kernel :
            "npu_fused_swiglu", item : "Mlp::forward", path :
            ::core::option::Option::None, module : ::core::module_path!(), krate :
            "models", crate_version : "1.2.3", file : "src/lib.rs", line : 7u32, form :
            ::burn_kernels::__private::Form::Impl, key :
            ::burn_kernels::__private::SemanticsKey::Glu(::burn_kernels::__private::GluKey
            { activation : ::burn_kernels::__private::Activation::Silu, projections :
            ::burn_kernels::__private::Projections::Separate, clamp :
            ::burn_kernels::__private::Clamp::None, up_offset :
            ::burn_kernels::__private::Offset::Zero, topk :
            ::burn_kernels::__private::TopK::None }), layer :
            ::core::option::Option::None, condition :
            ::core::option::Option::Some("self . act == Act :: Silu") }, json :
            ::core::concat!("{\"schema\":3,\"record\":\"site\",\"kernel\":\"npu_fused_swiglu\",\"crate\":\"models\",\"crate_version\":\"1.2.3\",\"module\":\"",
            ::core::module_path!(),
            "\",\"form\":\"impl\",\"item\":\"Mlp::forward\",\"file\":\"src/lib.rs\",\"line\":7,\"key\":{\"op\":\"glu\",\"activation\":\"silu\",\"projections\":\"separate\",\"clamp\":\"none\",\"up_offset\":\"zero\",\"topk\":\"none\"},\"layer\":null,\"condition\":\"self . act == Act :: Silu\"}")
        }
        ::burn_kernels::__private::glu_mlp(
            ::burn_kernels::__private::At::when(&SITE, self.act == Act::Silu)
                .instance(&|| ()),
            x,
            &|x| {
                let again = ::core::clone::Clone::clone(&x);
                let gate = {
                    let copy = ::burn_kernels::__private::detached!(& self.gate_proj);
                    ::burn_kernels::__private::begin();
                    (*copy.get(&self.gate_proj)).forward(again)
                };
                let up = {
                    let copy = ::burn_kernels::__private::detached!(& self.up_proj);
                    ::burn_kernels::__private::begin();
                    (*copy.get(&self.up_proj)).forward(x)
                };
                (gate, up)
            },
            &|hidden| {
                let copy = ::burn_kernels::__private::detached!(& self.down_proj);
                ::burn_kernels::__private::begin();
                (*copy.get(&self.down_proj)).forward(hidden)
            },
            ::core::option::Option::None,
            ::core::option::Option::None,
            &mut |x| {
                let copy_of_self = ::burn_kernels::__private::detached!(self);
                ::burn_kernels::__private::begin();
                copy_of_self.get(self).forward_reference::<D>(x)
            },
        )
    }
    /// The plain computation of [`Self::forward`], which the kernel `npu_fused_swiglu` is verified against.
    #[must_use]
    pub fn forward_reference<const D: usize>(&self, mut x: Tensor<D>) -> Tensor<D> {
        x = x * 2.0;
        let gate = self.act.apply(self.gate_proj.forward(x.clone()));
        self.down_proj.forward(gate * self.up_proj.forward(x))
    }
    fn other(&self) {}
}
