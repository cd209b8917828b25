#[track_caller]
fn attend(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    mask: Tensor<4>,
    chunk_size: usize,
    scaling: f64,
) -> Tensor<4> {
    ::burn_kernels::__private::declare_site! {
        static SITE = ::burn_kernels::__private::SiteSpec { kernel :
        "npu_fused_attention", item : "attend", path : ::core::option::Option::None,
        module : ::core::module_path!(), krate : "models", crate_version : "1.2.3", file
        : "src/lib.rs", line : 7u32, form : ::burn_kernels::__private::Form::Function,
        key :
        ::burn_kernels::__private::SemanticsKey::Attention(::burn_kernels::__private::AttentionKey
        { mask : ::burn_kernels::__private::AttentionMask::Causal, window :
        ::burn_kernels::__private::AttentionWindow::Chunked, bias :
        ::burn_kernels::__private::AttentionBias::Additive, cap :
        ::burn_kernels::__private::ScoreCap::None, sink :
        ::burn_kernels::__private::Sinks::None, lengths :
        ::burn_kernels::__private::SequenceLengths::None, layout :
        ::burn_kernels::__private::HeadLayout::Bnsd }), layer :
        ::core::option::Option::None, condition : ::core::option::Option::None }, json :
        ::core::concat!("{\"schema\":3,\"record\":\"site\",\"kernel\":\"npu_fused_attention\",\"crate\":\"models\",\"crate_version\":\"1.2.3\",\"module\":\"",
        ::core::module_path!(),
        "\",\"form\":\"function\",\"item\":\"attend\",\"file\":\"src/lib.rs\",\"line\":7,\"key\":{\"op\":\"attention\",\"mask\":\"causal\",\"window\":\"chunked\",\"bias\":\"additive\",\"cap\":\"none\",\"sink\":\"none\",\"lengths\":\"none\",\"layout\":\"bnsd\"},\"layer\":null,\"condition\":null}")
    }
    ::burn_kernels::__private::attention_biased(
        ::burn_kernels::__private::At::new(&SITE),
        [q, k, v, mask],
        &|| ::core::option::Option::None,
        ::core::option::Option::None,
        ::burn_kernels::__private::AttentionSettings {
            scale: ::core::option::Option::Some(
                ::burn_kernels::__private::Number::number(&scaling),
            ),
            prefix: ::core::option::Option::None,
            window: ::core::option::Option::Some(
                ::burn_kernels::__private::Count::count(&chunk_size),
            ),
            cap: ::core::option::Option::None,
            offset: ::core::option::Option::None,
        },
        &mut |(q, k, v, mask)| {
            ::burn_kernels::__private::begin();
            attend_reference(q, k, v, mask, chunk_size, scaling)
        },
    )
}
/// The plain computation of [`attend`], which the kernel `npu_fused_attention` is verified against.
fn attend_reference(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    mask: Tensor<4>,
    chunk_size: usize,
    scaling: f64,
) -> Tensor<4> {
    q
}
