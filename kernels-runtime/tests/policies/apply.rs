//! Tests of kernels that are applied by name to the whole process.

use crate::acme::{self, alone, inference, llama, path, random, training};
use burn::tensor::Device;
use kernels_runtime::apply::{
    Applied, Apply, ApplyError, Include, apply_default_kernels, apply_kernel,
};
use kernels_runtime::dispatch::{DeviceKind, Mode};
use kernels_runtime::policy::{self, Policy};
use kernels_runtime::registry::FloatType::F32;

fn here() -> Apply {
    Apply::on(&Device::flex())
}

#[test]
fn a_list_applies_these_kernels_and_no_others() {
    let _alone = alone();
    policy::install(Policy::auto());
    let applied = here().kernels("npu_fused_rmsnorm, acme_random").unwrap();
    assert_eq!(
        policy::current().unwrap().to_string(),
        "none,+acme_random,+npu_fused_rmsnorm"
    );
    assert_eq!(path(llama(), inference(F32)), "cpu-simd");
    assert_eq!(path(acme::limited(), inference(F32)), "policy");
    let rows: Vec<_> = applied
        .kernels
        .iter()
        .map(|k| (k.id, k.sites, k.fused))
        .collect();
    assert_eq!(rows, [("acme_random", 1, 1), ("npu_fused_rmsnorm", 2, 2)]);
    assert!(applied.to_string().contains("fused cpu-simd"));

    for include in [
        Include::from(["acme_random"]),
        Include::from(vec!["acme_random".to_owned()]),
    ] {
        here().kernels(include).unwrap();
        assert_eq!(path(llama(), inference(F32)), "policy");
        assert_eq!(path(random(), inference(F32)), "random");
    }
}

/// Returns the path of a site in the plan that was returned.
fn planned(applied: &Applied, site: &kernels_runtime::registry::Site) -> String {
    let mut rows = applied.plan.sites.iter();
    rows.find(|row| row.site == site.name()).unwrap().path()
}

#[test]
fn the_shorthands_return_the_plan_for_the_device() {
    let _alone = alone();
    policy::install(Policy::reference());
    let device = Device::flex();
    let applied = apply_kernel("acme_random", &device).unwrap();
    let kernels: Vec<_> = applied.kernels.iter().map(|one| one.id).collect();
    assert_eq!(kernels, ["acme_random"]);
    let plan = &applied.plan;
    assert_eq!((plan.device, plan.mode), (DeviceKind::Cpu, Mode::Training));
    assert_eq!(planned(&applied, random()), "fused random");
    assert!(planned(&applied, llama()).contains("switched off"));

    let applied = apply_default_kernels("npu_fused_rmsnorm", &device).unwrap();
    assert_eq!(applied.kernels[0].id, "npu_fused_rmsnorm");
    assert_eq!((applied.kernels[0].sites, applied.kernels[0].fused), (2, 2));
    assert_eq!(planned(&applied, llama()), "fused cpu-simd");
    assert!(planned(&applied, random()).contains("switched off"));
    assert_eq!(path(llama(), training(F32)), "cpu-simd");
    assert_eq!(path(random(), training(F32)), "policy");

    // The device's own float type is the one that is checked.
    let error = apply_kernel("acme_newer", &device).unwrap_err();
    assert!(error.to_string().contains("on cpu with f32"), "{error}");
}

#[test]
fn one_kernel_is_added_to_what_runs() {
    let _alone = alone();
    policy::install(Policy::reference().deterministic());
    here().mode(Mode::Inference).kernel("acme_random").unwrap();
    assert_eq!(
        policy::current().unwrap().to_string(),
        "none,+acme_random,deterministic"
    );
    here().kernel("npu_fused_rmsnorm").unwrap();
    assert_eq!(path(random(), inference(F32)), "steady");
    assert_eq!(path(llama(), inference(F32)), "cpu-simd");
}

#[test]
fn auto_and_none() {
    let _alone = alone();
    policy::install(Policy::auto());
    let applied = here().kernels("auto").unwrap();
    assert!(applied.kernels.len() > 3);
    assert_eq!(path(llama(), inference(F32)), "cpu-simd");
    let applied = here().kernels(false).unwrap();
    assert!(applied.kernels.is_empty());
    assert_eq!(path(llama(), inference(F32)), "policy");
}

#[test]
fn one_wrong_name_or_unmet_request_and_nothing_is_applied() {
    let _alone = alone();
    policy::install(Policy::reference());
    let error = here().kernels("acme_random, npu_fused_rmsnor").unwrap_err();
    assert!(
        error
            .to_string()
            .contains("did you mean `npu_fused_rmsnorm`?"),
        "{error}"
    );
    assert!(here().kernel("nothing").is_err());
    let error = here().kernels("acme_random,,acme_norm").unwrap_err();
    assert!(error.to_string().contains("unknown kernel ``"), "{error}");
    // A site names this kernel, and the processor is too old for it.
    let error = here().kernel("acme_newer").unwrap_err();
    assert!(matches!(error, ApplyError::Unmet(_)), "{error}");
    assert!(
        error.to_string().contains("not for this generation"),
        "{error}"
    );
    assert_eq!(policy::current().unwrap(), Policy::reference());
}

#[test]
fn a_kernel_that_no_site_runs_is_a_warning_and_in_strict_an_error() {
    let _alone = alone();
    policy::install(Policy::auto());
    let applied = here().kernel("acme_norm").unwrap();
    assert!(
        applied.to_string().contains("warning: no site asks for it"),
        "{applied}"
    );
    assert_eq!(policy::current().unwrap().to_string(), "all,+acme_norm");

    let strict = Policy::reference().strict();
    policy::install(strict.clone());
    let error = here().kernels(["acme_norm"]).unwrap_err();
    assert!(
        matches!(&error, ApplyError::NoSite(ids) if ids == &["acme_norm"]),
        "{error}"
    );
    assert_eq!(policy::current().unwrap(), strict);
}
