#[inline]
pub(crate) fn rotate(
    k: Tensor<4>,
    q: Tensor<4>,
    cos: &Tensor<2>,
    sin: Tensor<2>,
) -> (Tensor<4>, Tensor<4>) {
    ::burn_kernels::__private::declare_site! {
        static SITE = { kernel : "npu_fused_rope", item : "rotate", form :
        Form::Function, key : SemanticsKey::Rope(RopeKey { style :
        RopeStyle::Interleaved, width : RotaryWidth::Full, layout : HeadLayout::Bnsd,
        table : TableLayout::Pairs, sections : Sections::None }), key_json :
        "{\"op\":\"rope\",\"style\":\"interleaved\",\"width\":\"full\",\"layout\":\"bnsd\",\"table\":\"pairs\",\"sections\":\"none\"}",
        layer : ::core::option::Option::None }
    }
    ::burn_kernels::__private::rope(
        ::burn_kernels::__private::At::new(&SITE),
        q,
        k,
        cos,
        ::core::clone::Clone::clone(&sin),
        |q, k| rotate_reference(k, q, cos, sin),
    )
}
/// The plain computation of [`rotate`], which the kernel `npu_fused_rope` is verified against.
#[inline]
pub(crate) fn rotate_reference(
    k: Tensor<4>,
    q: Tensor<4>,
    cos: &Tensor<2>,
    sin: Tensor<2>,
) -> (Tensor<4>, Tensor<4>) {
    (turn(q, cos, &sin), turn(k, cos, &sin))
}
