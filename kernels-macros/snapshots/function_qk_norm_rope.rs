#[track_caller]
fn prepare(
    q: Tensor<4>,
    k: Tensor<4>,
    q_norm: &Param<Tensor<1>>,
    k_norm: &Param<Tensor<1>>,
    cos: Tensor<3>,
    sin: Tensor<3>,
    eps: f64,
) -> (Tensor<4>, Tensor<4>) {
    ::burn_kernels::__private::declare_site! {
        static SITE = ::burn_kernels::__private::SiteSpec { kernel :
        "npu_fused_qk_norm_rope", item : "prepare", path : ::core::option::Option::None,
        module : ::core::module_path!(), krate : "models", crate_version : "1.2.3", file
        : "src/lib.rs", line : 7u32, form : ::burn_kernels::__private::Form::Function,
        key :
        ::burn_kernels::__private::SemanticsKey::QkNormRope(::burn_kernels::__private::QkNormRopeKey
        { norm : ::burn_kernels::__private::QkNorm::Head, offset :
        ::burn_kernels::__private::Offset::One, rounding :
        ::burn_kernels::__private::Rounding::Gemma, style :
        ::burn_kernels::__private::RopeStyle::Half, width :
        ::burn_kernels::__private::RotaryWidth::Full, layout :
        ::burn_kernels::__private::HeadLayout::Bnsd, table :
        ::burn_kernels::__private::TableLayout::Halves, sections :
        ::burn_kernels::__private::Sections::None }), layer :
        ::core::option::Option::None, condition : ::core::option::Option::None }, json :
        ::core::concat!("{\"schema\":3,\"record\":\"site\",\"kernel\":\"npu_fused_qk_norm_rope\",\"crate\":\"models\",\"crate_version\":\"1.2.3\",\"module\":\"",
        ::core::module_path!(),
        "\",\"form\":\"function\",\"item\":\"prepare\",\"file\":\"src/lib.rs\",\"line\":7,\"key\":{\"op\":\"qk_norm_rope\",\"norm\":\"head\",\"offset\":\"one\",\"rounding\":\"gemma\",\"style\":\"half\",\"width\":\"full\",\"layout\":\"bnsd\",\"table\":\"halves\",\"sections\":\"none\"},\"layer\":null,\"condition\":null}")
    }
    ::burn_kernels::__private::qk_norm_rope(
        ::burn_kernels::__private::At::new(&SITE),
        (q, k),
        ::burn_kernels::__private::QkWeights::queries_first(
            &{
                let value = ::core::cell::Cell::new(
                    ::core::option::Option::Some(
                        ::burn_kernels::__private::NormWeight::norm_weight(q_norm),
                    ),
                );
                move || value.take()
            },
            &{
                let value = ::core::cell::Cell::new(
                    ::core::option::Option::Some(
                        ::burn_kernels::__private::NormWeight::norm_weight(k_norm),
                    ),
                );
                move || value.take()
            },
        ),
        (::core::clone::Clone::clone(&cos), ::core::clone::Clone::clone(&sin)),
        ::core::option::Option::Some(::burn_kernels::__private::Epsilon::epsilon(&eps)),
        &mut ::burn_kernels::__private::once(|(q, k): (Tensor<4>, Tensor<4>)| {
            let copy_of_q_norm = ::burn_kernels::__private::detached!(q_norm);
            let copy_of_k_norm = ::burn_kernels::__private::detached!(k_norm);
            let copy_of_cos = ::burn_kernels::__private::detached!(& cos);
            let copy_of_sin = ::burn_kernels::__private::detached!(& sin);
            ::burn_kernels::__private::begin();
            prepare_reference(
                q,
                k,
                copy_of_q_norm.get(q_norm),
                copy_of_k_norm.get(k_norm),
                copy_of_cos.own(cos),
                copy_of_sin.own(sin),
                eps,
            )
        }),
    )
}
/// The plain computation of [`prepare`], which the kernel `npu_fused_qk_norm_rope` is verified against.
fn prepare_reference(
    q: Tensor<4>,
    k: Tensor<4>,
    q_norm: &Param<Tensor<1>>,
    k_norm: &Param<Tensor<1>>,
    cos: Tensor<3>,
    sin: Tensor<3>,
    eps: f64,
) -> (Tensor<4>, Tensor<4>) {
    (q, k)
}
