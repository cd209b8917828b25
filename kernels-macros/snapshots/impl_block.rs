impl<L: Layer> Mlp<L> {
    const WIDTH: usize = 4;
    /// The user's docs.
    #[must_use]
    #[tracing::instrument]
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        ::burn_kernels::__private::declare_site! {
            static SITE = { kernel : "npu_fused_swiglu", item : "Mlp::forward", form :
            Form::Impl, key : SemanticsKey::Glu(GluKey { activation : Activation::Silu,
            projections : Projections::Separate, clamp : Clamp::None, up_offset :
            Offset::Zero, topk : TopK::None }), key_json :
            "{\"op\":\"glu\",\"activation\":\"silu\",\"projections\":\"separate\",\"clamp\":\"none\",\"up_offset\":\"zero\",\"topk\":\"none\"}",
            layer : ::core::option::Option::None }
        }
        ::burn_kernels::__private::glu_mlp(
            ::burn_kernels::__private::At::when(&SITE, self.act == Act::Silu),
            x,
            |x| (
                self.gate_proj.forward(::core::clone::Clone::clone(&x)),
                self.up_proj.forward(x),
            ),
            |hidden| self.down_proj.forward(hidden),
            ::core::option::Option::None,
            ::core::option::Option::None,
            |x| self.forward_reference::<D>(x),
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
