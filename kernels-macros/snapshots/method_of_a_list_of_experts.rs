#[track_caller]
fn forward(
    &self,
    x: Tensor<2>,
    indices: Tensor<2, Int>,
    routing: Tensor<2>,
) -> Tensor<2> {
    ::burn_kernels::__private::declare_site! {
        static SITE = ::burn_kernels::__private::SiteSpec { kernel : "npu_fused_moe",
        item : "forward", path :
        ::core::option::Option::Some(::burn_kernels::__private::PathInside(|| { fn here()
        {} ::core::any::type_name_of_val(& here) })), module : ::core::module_path!(),
        krate : "models", crate_version : "1.2.3", file : "src/lib.rs", line : 7u32, form
        : ::burn_kernels::__private::Form::Method, key :
        ::burn_kernels::__private::SemanticsKey::MoeExperts(::burn_kernels::__private::MoeExpertsKey
        { activation : ::burn_kernels::__private::Activation::Silu, projections :
        ::burn_kernels::__private::Projections::Chunked, clamp :
        ::burn_kernels::__private::Clamp::None, up_offset :
        ::burn_kernels::__private::Offset::Zero, layout :
        ::burn_kernels::__private::ExpertLayout::Matmul, bias :
        ::burn_kernels::__private::ExpertBias::None }), layer :
        ::core::option::Option::None, condition : ::core::option::Option::None }, json :
        ::core::concat!("{\"schema\":3,\"record\":\"site\",\"kernel\":\"npu_fused_moe\",\"crate\":\"models\",\"crate_version\":\"1.2.3\",\"module\":\"",
        ::core::module_path!(),
        "\",\"form\":\"method\",\"item\":\"forward\",\"file\":\"src/lib.rs\",\"line\":7,\"key\":{\"op\":\"moe\",\"part\":\"experts\",\"activation\":\"silu\",\"projections\":\"chunked\",\"clamp\":\"none\",\"up_offset\":\"zero\",\"layout\":\"matmul\",\"bias\":\"none\"},\"layer\":null,\"condition\":null}")
    }
    ::burn_kernels::__private::experts_list(
        ::burn_kernels::__private::At::new(&SITE).instance(&|| ()),
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
        &mut |(x, indices, routing)| {
            let copy_of_self = ::burn_kernels::__private::detached!(self);
            ::burn_kernels::__private::begin();
            copy_of_self.get(self).forward_reference(x, indices, routing)
        },
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
