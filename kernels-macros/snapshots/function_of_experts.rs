fn experts(
    limit: f64,
    routing: Tensor<2>,
    indices: Tensor<2, Int>,
    x: Tensor<2>,
    w13: Tensor<3>,
    w2: &Param<Tensor<3>>,
) -> Tensor<2> {
    ::burn_kernels::__private::declare_site! {
        static SITE = { kernel : "npu_fused_moe", item : "experts", form :
        Form::Function, key : SemanticsKey::Moe(MoeKey { activation : Activation::Silu,
        projections : Projections::Chunked, clamp : Clamp::Limit, up_offset :
        Offset::Zero, layout : ExpertLayout::Linear, bias : ExpertBias::None }), key_json
        :
        "{\"op\":\"moe\",\"part\":\"experts\",\"activation\":\"silu\",\"projections\":\"chunked\",\"clamp\":\"limit\",\"up_offset\":\"zero\",\"layout\":\"linear\",\"bias\":\"none\"}",
        layer : ::core::option::Option::None }
    }
    ::burn_kernels::__private::experts(
        ::burn_kernels::__private::At::new(&SITE),
        x,
        indices,
        routing,
        ::burn_kernels::__private::StackedExperts::packed(
            &::core::clone::Clone::clone(&w13),
            w2,
        ),
        ::core::option::Option::Some(::burn_kernels::__private::Number::number(&limit)),
        |x, indices, routing| experts_reference(limit, routing, indices, x, w13, w2),
    )
}
/// The plain computation of [`experts`], which the kernel `npu_fused_moe` is verified against.
fn experts_reference(
    limit: f64,
    routing: Tensor<2>,
    indices: Tensor<2, Int>,
    x: Tensor<2>,
    w13: Tensor<3>,
    w2: &Param<Tensor<3>>,
) -> Tensor<2> {
    apply(x, indices, routing, w13, w2, limit)
}
