#[inline]
#[track_caller]
pub(crate) fn rotate(
    k: Tensor<4>,
    q: Tensor<4>,
    cos: &Tensor<2>,
    sin: Tensor<2>,
) -> (Tensor<4>, Tensor<4>) {
    ::burn_kernels::__private::declare_site! {
        static SITE = ::burn_kernels::__private::SiteSpec { kernel : "npu_fused_rope",
        item : "rotate", path : ::core::option::Option::None, module :
        ::core::module_path!(), krate : "models", crate_version : "1.2.3", file :
        "src/lib.rs", line : 7u32, form : ::burn_kernels::__private::Form::Function, key
        :
        ::burn_kernels::__private::SemanticsKey::Rope(::burn_kernels::__private::RopeKey
        { style : ::burn_kernels::__private::RopeStyle::Interleaved, width :
        ::burn_kernels::__private::RotaryWidth::Full, layout :
        ::burn_kernels::__private::HeadLayout::Bnsd, table :
        ::burn_kernels::__private::TableLayout::Pairs, sections :
        ::burn_kernels::__private::Sections::None }), layer :
        ::core::option::Option::None, condition : ::core::option::Option::None }, json :
        ::core::concat!("{\"schema\":3,\"record\":\"site\",\"kernel\":\"npu_fused_rope\",\"crate\":\"models\",\"crate_version\":\"1.2.3\",\"module\":\"",
        ::core::module_path!(),
        "\",\"form\":\"function\",\"item\":\"rotate\",\"file\":\"src/lib.rs\",\"line\":7,\"key\":{\"op\":\"rope\",\"style\":\"interleaved\",\"width\":\"full\",\"layout\":\"bnsd\",\"table\":\"pairs\",\"sections\":\"none\"},\"layer\":null,\"condition\":null}")
    }
    ::burn_kernels::__private::rope(
        ::burn_kernels::__private::At::new(&SITE),
        q,
        k,
        cos,
        ::core::clone::Clone::clone(&sin),
        &mut ::burn_kernels::__private::once(|(q, k): (Tensor<4>, Tensor<4>)| {
            let copy_of_cos = ::burn_kernels::__private::detached!(cos);
            let copy_of_sin = ::burn_kernels::__private::detached!(& sin);
            ::burn_kernels::__private::begin();
            rotate_reference(k, q, copy_of_cos.get(cos), copy_of_sin.own(sin))
        }),
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
