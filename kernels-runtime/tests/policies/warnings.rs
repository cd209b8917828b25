//! Tests of warnings in the log, which appear once for each kind of call.

use crate::acme::{inference, is_fused, limited, llama, newer, path, training};
use crate::process;
use crate::warnings_log::{listen, said};
use kernels_runtime::dispatch::DeviceKind;
use kernels_runtime::mapping::{self, Mapping, Rule};
use kernels_runtime::policy::{self, Policy};
use kernels_runtime::registry::FloatType::F32;

#[test]
fn warnings_are_said_once_for_each_kind_of_call_and_name_reason_and_remedy() {
    if !process::is_own() {
        process::alone(
            "warnings::warnings_are_said_once_for_each_kind_of_call_and_name_reason_and_remedy",
        );
        return;
    }
    listen();
    let _policy = policy::scope(Policy::auto());
    for _ in 0..3 {
        path(newer(), inference(F32));
    }
    let warnings = said();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    for words in [
        "acme::Newer::forward",
        "f32 tensors for inference",
        "not for this generation of the device",
        "`kernels list`",
    ] {
        assert!(warnings[0].contains(words), "{warnings:?}");
    }
    path(newer(), training(F32));
    assert_eq!(said().len(), 1, "another kind of call");

    // Calls beyond the limits also warn.
    for n in [7, 9, 7] {
        assert!(!is_fused(limited(), n));
    }
    let warnings = said();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("does not take this shape"));

    // Sites that the policy switches off cause no warning, nor do sites that run.
    {
        let _off = policy::scope(Policy::reference());
        path(newer(), inference(F32));
    }
    assert!(is_fused(limited(), 4));
    path(llama(), inference(F32));
    assert_eq!(said(), Vec::<String>::new());

    // A mapping without a rule for this device.
    let elsewhere = Rule::new("RMSNorm", DeviceKind::Npu, "acme_norm");
    let _mapping = mapping::scope(Mapping::new().with(elsewhere).unwrap());
    for _ in 0..2 {
        assert_eq!(path(llama(), inference(F32)), "cpu-simd");
    }
    let warnings = said();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("the mapping has nothing for this device"));

    // Reactions by reason.
    let _loud = policy::scope("none,warn:policy".parse().unwrap());
    path(newer(), inference(F32));
    assert_eq!(said().len(), 1);
    let _quiet = policy::scope("all,silent:capability".parse().unwrap());
    path(newer(), inference(F32));
    assert_eq!(said(), Vec::<String>::new());
}
