#[track_caller]
fn loss(
    hidden: Tensor<2>,
    lm_head: Tensor<2>,
    bias: Tensor<1>,
    labels: Tensor<1, Int>,
    z_loss: f64,
) -> Tensor<1> {
    ::burn_kernels::__private::declare_site! {
        static SITE = ::burn_kernels::__private::SiteSpec { kernel :
        "npu_fused_linear_cross_entropy", item : "loss", path :
        ::core::option::Option::None, module : ::core::module_path!(), krate : "models",
        crate_version : "1.2.3", file : "src/lib.rs", line : 7u32, form :
        ::burn_kernels::__private::Form::Function, key :
        ::burn_kernels::__private::SemanticsKey::LinearCrossEntropy(::burn_kernels::__private::LinearCrossEntropyKey
        { reduction : ::burn_kernels::__private::LossReduction::Mean, cap :
        ::burn_kernels::__private::LogitCap::None, layout :
        ::burn_kernels::__private::OutputLayout::OutputMajor, shift :
        ::burn_kernels::__private::Shift::Bias }), layer : ::core::option::Option::None,
        condition : ::core::option::Option::None }, json :
        ::core::concat!("{\"schema\":3,\"record\":\"site\",\"kernel\":\"npu_fused_linear_cross_entropy\",\"crate\":\"models\",\"crate_version\":\"1.2.3\",\"module\":\"",
        ::core::module_path!(),
        "\",\"form\":\"function\",\"item\":\"loss\",\"file\":\"src/lib.rs\",\"line\":7,\"key\":{\"op\":\"linear_cross_entropy\",\"reduction\":\"mean\",\"cap\":\"none\",\"layout\":\"output_major\",\"shift\":\"bias\"},\"layer\":null,\"condition\":null}")
    }
    ::burn_kernels::__private::linear_cross_entropy_biased(
        ::burn_kernels::__private::At::new(&SITE),
        (hidden, lm_head, bias, labels),
        ::burn_kernels::__private::LossNumbers {
            ignore_index: ::core::option::Option::None,
            label_smoothing: ::core::option::Option::None,
            cap: ::core::option::Option::None,
            z_loss: ::core::option::Option::Some(
                ::burn_kernels::__private::Number::number(&z_loss),
            ),
        },
        &mut |(hidden, lm_head, bias, labels)| {
            ::burn_kernels::__private::begin();
            loss_reference(hidden, lm_head, bias, labels, z_loss)
        },
    )
}
/// The plain computation of [`loss`], which the kernel `npu_fused_linear_cross_entropy` is verified against.
fn loss_reference(
    hidden: Tensor<2>,
    lm_head: Tensor<2>,
    bias: Tensor<1>,
    labels: Tensor<1, Int>,
    z_loss: f64,
) -> Tensor<1> {
    hidden.sum()
}
