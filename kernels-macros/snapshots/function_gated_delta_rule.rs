#[track_caller]
fn delta_rule(
    query: Tensor<4>,
    key: Tensor<4>,
    value: Tensor<4>,
    g: Tensor<3>,
    beta: Tensor<3>,
    recurrent_state: Tensor<4>,
) -> (Tensor<4>, Tensor<4>) {
    ::burn_kernels::__private::declare_site! {
        static SITE = ::burn_kernels::__private::SiteSpec { kernel :
        "npu_fused_gated_delta_rule", item : "delta_rule", path :
        ::core::option::Option::None, module : ::core::module_path!(), krate : "models",
        crate_version : "1.2.3", file : "src/lib.rs", line : 7u32, form :
        ::burn_kernels::__private::Form::Function, key :
        ::burn_kernels::__private::SemanticsKey::GatedDeltaRule(::burn_kernels::__private::GatedDeltaRuleKey
        { decay : ::burn_kernels::__private::Decay::Head, norm :
        ::burn_kernels::__private::KeyNorm::L2, state :
        ::burn_kernels::__private::InitialState::Given, lengths :
        ::burn_kernels::__private::SequenceLengths::None }), layer :
        ::core::option::Option::None, condition : ::core::option::Option::None }, json :
        ::core::concat!("{\"schema\":3,\"record\":\"site\",\"kernel\":\"npu_fused_gated_delta_rule\",\"crate\":\"models\",\"crate_version\":\"1.2.3\",\"module\":\"",
        ::core::module_path!(),
        "\",\"form\":\"function\",\"item\":\"delta_rule\",\"file\":\"src/lib.rs\",\"line\":7,\"key\":{\"op\":\"gated_delta_rule\",\"decay\":\"head\",\"norm\":\"l2\",\"state\":\"given\",\"lengths\":\"none\"},\"layer\":null,\"condition\":null}")
    }
    ::burn_kernels::__private::gated_delta_rule_from_state(
        ::burn_kernels::__private::At::new(&SITE),
        (query, key, value, g, beta, recurrent_state),
        ::core::option::Option::None,
        ::core::option::Option::None,
        &mut |(query, key, value, g, beta, recurrent_state)| {
            ::burn_kernels::__private::begin();
            delta_rule_reference(query, key, value, g, beta, recurrent_state)
        },
    )
}
/// The plain computation of [`delta_rule`], which the kernel `npu_fused_gated_delta_rule` is verified against.
fn delta_rule_reference(
    query: Tensor<4>,
    key: Tensor<4>,
    value: Tensor<4>,
    g: Tensor<3>,
    beta: Tensor<3>,
    recurrent_state: Tensor<4>,
) -> (Tensor<4>, Tensor<4>) {
    (value, recurrent_state)
}
