fn forward(
    &self,
    x: Tensor<2>,
    indices: Tensor<2, Int>,
    routing: Tensor<2>,
) -> Tensor<2> {
    ::burn_kernels::__private::declare_site! {
        static SITE = { kernel : "npu_fused_moe", item : "forward", form : Form::Method,
        key : SemanticsKey::Moe(MoeKey { activation : Activation::Silu, projections :
        Projections::Chunked, clamp : Clamp::None, up_offset : Offset::Zero, layout :
        ExpertLayout::Matmul, bias : ExpertBias::None }), key_json :
        "{\"op\":\"moe\",\"part\":\"experts\",\"activation\":\"silu\",\"projections\":\"chunked\",\"clamp\":\"none\",\"up_offset\":\"zero\",\"layout\":\"matmul\",\"bias\":\"none\"}",
        layer : ::core::option::Option::None }
    }
    ::burn_kernels::__private::experts_list(
        ::burn_kernels::__private::At::new(&SITE),
        x,
        indices,
        routing,
        self.experts.len(),
        &|expert| ::burn_kernels::__private::ListedExpert::packed(
            ::burn_kernels::__private::plain_linear!(
                & self.experts[expert].gate_up_proj
            ),
            ::burn_kernels::__private::plain_linear!(& self.experts[expert].down_proj),
        ),
        ::core::option::Option::None,
        |x, indices, routing| self.forward_reference(x, indices, routing),
    )
}
/// The plain computation of [`Self::forward`], which the kernel `npu_fused_moe` is verified against.
fn forward_reference(
    &self,
    x: Tensor<2>,
    indices: Tensor<2, Int>,
    routing: Tensor<2>,
) -> Tensor<2> {
    each(x, indices, routing, |e, x| self.experts[e].forward(x))
}
