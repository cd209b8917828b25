#[track_caller]
fn experts(
    limit: f64,
    routing: Tensor<2>,
    indices: Tensor<2, Int>,
    x: Tensor<2>,
    w13: Tensor<3>,
    w2: &Param<Tensor<3>>,
) -> Tensor<2> {
    ::burn_kernels::__private::declare_site! {
        static SITE = ::burn_kernels::__private::SiteSpec { kernel : "npu_fused_moe",
        item : "experts", path : ::core::option::Option::None, module :
        ::core::module_path!(), krate : "models", crate_version : "1.2.3", file :
        "src/lib.rs", line : 7u32, form : ::burn_kernels::__private::Form::Function, key
        :
        ::burn_kernels::__private::SemanticsKey::MoeExperts(::burn_kernels::__private::MoeExpertsKey
        { activation : ::burn_kernels::__private::Activation::Silu, projections :
        ::burn_kernels::__private::Projections::Chunked, clamp :
        ::burn_kernels::__private::Clamp::Limit, up_offset :
        ::burn_kernels::__private::Offset::Zero, layout :
        ::burn_kernels::__private::ExpertLayout::Linear, bias :
        ::burn_kernels::__private::ExpertBias::None }), layer :
        ::core::option::Option::None, condition : ::core::option::Option::None }, json :
        ::core::concat!("{\"schema\":3,\"record\":\"site\",\"kernel\":\"npu_fused_moe\",\"crate\":\"models\",\"crate_version\":\"1.2.3\",\"module\":\"",
        ::core::module_path!(),
        "\",\"form\":\"function\",\"item\":\"experts\",\"file\":\"src/lib.rs\",\"line\":7,\"key\":{\"op\":\"moe\",\"part\":\"experts\",\"activation\":\"silu\",\"projections\":\"chunked\",\"clamp\":\"limit\",\"up_offset\":\"zero\",\"layout\":\"linear\",\"bias\":\"none\"},\"layer\":null,\"condition\":null}")
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
        &mut ::burn_kernels::__private::once(|
            (x, indices, routing): (Tensor<2>, Tensor<2, Int>, Tensor<2>)|
        {
            let copy_of_w13 = ::burn_kernels::__private::detached!(& w13);
            let copy_of_w2 = ::burn_kernels::__private::detached!(w2);
            ::burn_kernels::__private::begin();
            experts_reference(
                limit,
                routing,
                indices,
                x,
                copy_of_w13.own(w13),
                copy_of_w2.get(w2),
            )
        }),
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
