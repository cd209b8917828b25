//! Tests of layers that are mapped to kernels of another crate.

use crate::acme::{self, alone, gemma, inference, llama, path, training};
use burn::tensor::Device;
use kernels_runtime::dispatch::{DeviceKind, Reason};
use kernels_runtime::mapping::{
    self, KernelizeError, Mapping, ModeFlags, Rule, kernelize, kernelized, revert,
};
use kernels_runtime::policy::{self, Policy, Reaction};
use kernels_runtime::registry::{CapabilityRange, FloatType::F32};
use kernels_runtime::report::report;

const COMPILE: ModeFlags = ModeFlags::COMPILE;

fn rule(layer: &str, kernel: &str) -> Rule {
    Rule::new(layer, DeviceKind::Cpu, kernel)
}

fn norm(kernel: &str) -> Rule {
    rule("RMSNorm", kernel)
}

fn of<const N: usize>(rules: [Rule; N]) -> Mapping {
    rules
        .into_iter()
        .try_fold(Mapping::new(), Mapping::with)
        .unwrap()
}

/// Resets mapping and policy to their defaults.
fn fresh() {
    mapping::replace(Mapping::new());
    revert();
    policy::install(Policy::auto());
}

fn problems(error: KernelizeError) -> Vec<String> {
    match error {
        KernelizeError::Layers(problems) => problems.iter().map(ToString::to_string).collect(),
        other => panic!("{other}"),
    }
}

#[test]
fn a_registered_mapping_counts_at_once_and_everywhere() {
    let _alone = alone();
    assert_eq!(path(llama(), training(F32)), "cpu-simd");
    mapping::register(of([norm("acme_norm")]));
    assert_eq!(path(llama(), training(F32)), "acme");
    let elsewhere = std::thread::spawn(|| path(llama(), training(F32)));
    assert_eq!(elsewhere.join().unwrap(), "acme");
    assert!(acme::is_fused(llama(), 3));
    // Other layers keep the kernel of their attribute.
    assert_eq!(path(gemma(), training(F32)), "cpu-simd");
    // The report names the kernel that ran.
    let calls: Vec<_> = report()
        .rows
        .into_iter()
        .filter(|row| row.site == llama().name())
        .filter_map(|row| row.call?.kernel)
        .collect();
    assert!(calls.contains(&"acme_norm") && calls.contains(&"npu_fused_rmsnorm"));

    mapping::replace(Mapping::new());
    assert_eq!(path(llama(), training(F32)), "cpu-simd");
}

#[test]
fn modes_devices_and_capabilities_of_calls() {
    let _alone = alone();
    let _mapping = mapping::scope(of([
        norm("acme_norm").during(ModeFlags::TRAINING),
        norm("acme_no_gradient").during(ModeFlags::INFERENCE),
        Rule::new("GemmaRMSNorm", DeviceKind::Npu, "acme_norm"),
    ]));
    assert_eq!(path(llama(), training(F32)), "acme");
    assert_eq!(path(llama(), inference(F32)), "acme");
    // The mapping has nothing for this device, so the attribute's kernel runs.
    assert_eq!(path(gemma(), training(F32)), "cpu-simd");
    let _only = mapping::scope_only(of([
        norm("reference").on(CapabilityRange::new(0, 4)),
        norm("acme_norm"),
    ]));
    assert_eq!(path(llama(), training(F32)), "mapping");
    let _other = mapping::scope_only(of([
        norm("reference").on(CapabilityRange::new(5, 9)),
        norm("acme_norm"),
    ]));
    assert_eq!(path(llama(), training(F32)), "acme");
}

#[test]
fn a_mapped_kernel_that_cannot_run_leaves_the_reference_with_its_reason() {
    let _alone = alone();
    for (kernel, reason) in [
        ("acme_no_gradient", "no_gradient"),
        ("acme_newer", "capability"),
        ("acme_elsewhere", "no_implementation"),
        ("npu_fused_rope", "semantics"),
    ] {
        let _mapping = mapping::scope(of([norm(kernel)]));
        assert_eq!(path(llama(), training(F32)), reason);
    }
    // `acme_norm` does not compute Gemma's order of rounding.
    let _mapping = mapping::scope(of([rule("GemmaRMSNorm", "acme_norm")]));
    assert_eq!(path(gemma(), training(F32)), "semantics");
}

#[test]
fn the_policy_speaks_of_the_kernel_that_is_mapped_and_may_map_itself() {
    let _alone = alone();
    let _mapping = mapping::scope(of([norm("acme_norm")]));
    {
        let _policy = policy::scope("all,-acme_norm".parse().unwrap());
        assert_eq!(path(llama(), training(F32)), "policy");
    }
    {
        let _policy = policy::scope("all,-npu_fused_rmsnorm".parse().unwrap());
        assert_eq!(path(llama(), training(F32)), "acme");
        assert_eq!(path(gemma(), training(F32)), "policy");
    }
    {
        let _policy = policy::scope("all,-policies::acme.Norm".parse().unwrap());
        assert_eq!(path(llama(), training(F32)), "policy");
        assert_eq!(path(gemma(), training(F32)), "cpu-simd");
    }
    let _policy = policy::scope("all,map:RMSNorm@cpu=reference".parse().unwrap());
    assert_eq!(path(llama(), training(F32)), "mapping");
}

#[test]
fn what_nothing_is_mapped_for_can_be_made_an_error() {
    let _alone = alone();
    let _mapping = mapping::scope(of([Rule::new("RMSNorm", DeviceKind::Npu, "acme_norm")]));
    let strict = Policy::auto().react(Reason::NoDevice, Reaction::Strict);
    let _policy = policy::scope(strict);
    let panic = std::panic::catch_unwind(|| path(llama(), training(F32))).unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(
        message.contains("the mapping has nothing for this device"),
        "{message}"
    );
}

#[test]
fn a_kernel_for_a_mode_that_it_cannot_do_is_refused_when_it_is_registered() {
    let _alone = alone();
    for (kernel, mode, words) in [
        ("acme_no_gradient", ModeFlags::TRAINING, "no gradient"),
        (
            "acme_barrier",
            ModeFlags::INFERENCE | COMPILE,
            "ends Burn's fusion stream",
        ),
    ] {
        let error = Mapping::new().with(norm(kernel).during(mode)).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        // A rule without a mode is a fallback. It is accepted, and the reaction handles the conflict.
        assert!(Mapping::new().with(norm(kernel)).is_ok());
    }
}

#[test]
fn kernelize_holds_the_mode_and_the_mapping_until_it_is_reverted() {
    let _alone = alone();
    let device = Device::flex();
    mapping::register(of([
        norm("acme_norm").during(ModeFlags::TRAINING),
        norm("acme_no_gradient").during(ModeFlags::INFERENCE),
    ]));
    let plan = kernelize(ModeFlags::TRAINING, &device).unwrap();
    let row = plan
        .sites
        .iter()
        .find(|row| row.site == llama().name())
        .unwrap();
    assert_eq!(
        (row.kernel, row.implementation),
        ("acme_norm", Some("acme"))
    );
    assert_eq!(row.mapped, Some(ModeFlags::TRAINING));
    assert_eq!(kernelized(), Some(ModeFlags::TRAINING));
    // Evaluation keeps the kernel of training.
    let calls = |site: &kernels_runtime::registry::Site| {
        let rows = report()
            .rows
            .into_iter()
            .filter(|row| row.site == site.name());
        rows.filter_map(|row| row.call.map(|call| (call.kernel, row.calls)))
            .collect::<Vec<_>>()
    };
    kernels_runtime::report::reset();
    path(llama(), inference(F32));
    assert_eq!(calls(llama()), [(Some("acme_norm"), 1)]);

    // Another mode. A registration after `kernelize` takes effect only at the next `kernelize`.
    kernelize(ModeFlags::INFERENCE, &device).unwrap();
    mapping::register(of([norm("reference").during(ModeFlags::INFERENCE)]));
    kernels_runtime::report::reset();
    path(llama(), inference(F32));
    assert_eq!(calls(llama()), [(Some("acme_no_gradient"), 1)]);
    // A scope has precedence on its thread, with the current mode.
    {
        let _scope = mapping::scope_only(of([norm("reference").during(ModeFlags::INFERENCE)]));
        assert_eq!(path(llama(), training(F32)), "mapping");
    }

    revert();
    assert_eq!(kernelized(), None);
    assert_eq!(path(llama(), inference(F32)), "mapping");
    assert_eq!(path(llama(), training(F32)), "acme");
}

#[test]
fn compile_refuses_what_ends_the_fusion_stream() {
    let _alone = alone();
    mapping::register(of([norm("acme_barrier")]));
    kernelize(ModeFlags::TRAINING | COMPILE, &Device::flex()).unwrap();
    assert_eq!(path(llama(), training(F32)), "fusion_barrier");
    kernelize(ModeFlags::TRAINING, &Device::flex()).unwrap();
    assert_eq!(path(llama(), training(F32)), "acme");
    fresh();
}

#[test]
fn kernelize_lists_every_problem_and_changes_nothing() {
    let _alone = alone();
    let device = Device::flex();
    mapping::register(of([norm("acme_norm")]));
    kernelize(ModeFlags::INFERENCE, &device).unwrap();
    let before = mapping::registered();

    let _policy = policy::scope(Policy::auto().strict());
    let wrong = of([
        norm("acme_newer"),
        rule("GemmaRMSNorm", "acme_norm"),
        rule("RMSNom", "acme_norm"),
    ]);
    let _mapping = mapping::scope(wrong);
    let problems = problems(kernelize(ModeFlags::TRAINING, &device).unwrap_err());
    assert_eq!(problems.len(), 3, "{problems:#?}");
    let has = |words: [&str; 2]| {
        let mut problems = problems.iter();
        assert!(
            problems.any(|line| words.iter().all(|word| line.contains(word))),
            "{words:?}"
        );
    };
    has(["layer `RMSNorm`", "not for this generation of the device"]);
    has(["layer `GemmaRMSNorm`", "computes something else"]);
    has(["layer `RMSNom`", "did you mean `RMSNorm`?"]);
    assert_eq!(kernelized(), Some(ModeFlags::INFERENCE));
    assert_eq!(mapping::registered(), before);
    fresh();
}

#[test]
fn kernelize_reacts_to_each_of_the_fallback_cases() {
    let _alone = alone();
    let device = Device::flex();
    let at = |mapping: Mapping, mode: ModeFlags, reason: Reason, reaction: Reaction| {
        fresh();
        let _policy = policy::scope(Policy::auto().react(reason, reaction));
        let _mapping = mapping::scope(mapping);
        kernelize(mode, &device).map_err(problems)
    };
    let other = || rule("GemmaRMSNorm", "npu_fused_rmsnorm");
    let train = ModeFlags::TRAINING;
    let cases = [
        (of([other()]), train, Reason::NoLayer),
        (
            of([other(), Rule::new("RMSNorm", DeviceKind::Npu, "acme_norm")]),
            train,
            Reason::NoDevice,
        ),
        (
            of([other(), norm("acme_norm").on(CapabilityRange::new(9, 9))]),
            train,
            Reason::NoCapability,
        ),
        (
            of([other(), norm("acme_norm").during(ModeFlags::INFERENCE)]),
            train,
            Reason::NoMode,
        ),
        (
            of([other(), norm("acme_no_gradient")]),
            train,
            Reason::NoGradient,
        ),
        (
            of([other(), norm("acme_barrier")]),
            train | COMPILE,
            Reason::FusionBarrier,
        ),
        (
            of([other(), norm("acme_elsewhere")]),
            train,
            Reason::NoImplementation,
        ),
    ];
    for (mapping, mode, reason) in cases {
        for lenient in [Reaction::Warn, Reaction::Silent] {
            let plan = at(mapping.clone(), mode, reason, lenient);
            assert!(plan.is_ok(), "{reason:?}: {plan:?}");
        }
        let problems = at(mapping, mode, reason, Reaction::Strict).unwrap_err();
        assert_eq!(problems.len(), 1, "{reason:?}: {problems:#?}");
        assert!(problems[0].contains(&reason.to_string()), "{problems:#?}");
        assert_eq!(kernelized(), None);
    }
    for mode in [ModeFlags::FALLBACK, COMPILE, train | ModeFlags::INFERENCE] {
        let error = kernelize(mode, &device).unwrap_err();
        assert!(matches!(error, KernelizeError::Mode(_)), "{error}");
    }
}
