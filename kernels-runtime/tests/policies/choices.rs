//! Tests of the choice between the implementations of a kernel.

use crate::acme::{self, alone, inference, is_fused, limited, newer, path, random};
use kernels_runtime::dispatch::Mode;
use kernels_runtime::policy::{self, Policy};
use kernels_runtime::registry::{FloatType::F32, Site, kernel};
use kernels_runtime::report::{report, reset};

fn paths(site: &Site) -> Vec<(String, u64)> {
    let rows = report()
        .rows
        .into_iter()
        .filter(|row| row.site == site.name());
    let mut paths: Vec<_> = rows
        .filter_map(|row| row.call.map(|call| (call.path(), row.calls)))
        .collect();
    paths.sort();
    paths
}

fn message(run: impl FnOnce() + std::panic::UnwindSafe) -> String {
    let panic = std::panic::catch_unwind(run).unwrap_err();
    panic.downcast_ref::<String>().expect("a message").clone()
}

#[test]
fn kernels_of_other_crates_are_registered_with_their_crate() {
    let spec = kernel("acme_norm").unwrap();
    assert_eq!(
        spec.krate, "kernels-runtime",
        "the test is a part of this package"
    );
    assert_eq!(
        spec.origin(),
        concat!("kernels-runtime ", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn limits_are_asked_for_each_call_and_the_next_implementation_is_tried() {
    let _alone = alone();
    let _policy = policy::scope(Policy::auto());
    reset();
    // Even rows; short odd rows; rows that are neither.
    for n in [8, 3, 2, 7, 8, 9, 1] {
        assert_eq!(is_fused(limited(), n), !matches!(n, 7 | 9), "{n}");
    }
    let expected = [
        ("fused even", 3),
        ("fused short", 2),
        ("reference: the implementation does not take this shape", 2),
    ];
    let expected = expected.map(|(path, calls)| (path.to_owned(), calls));
    assert_eq!(paths(limited()), expected);
}

#[test]
fn limits_of_a_call_that_was_asked_for_are_an_error_on_that_call_alone() {
    let _alone = alone();
    let _policy = policy::scope(Policy::reference().enable("acme_limited").unwrap());
    assert!(is_fused(limited(), 6));
    for _ in 0..2 {
        let message = message(|| {
            is_fused(limited(), 7);
        });
        assert!(message.contains("does not take this shape"), "{message}");
        let table = "  even            cpu     the implementation does not take this shape\n  \
                     short           cpu     the implementation does not take this layout";
        assert!(message.contains(table), "{message}");
    }
    assert!(is_fused(limited(), 6));
}

#[test]
fn preferred_and_deterministic_implementations() {
    let _alone = alone();
    for (policy, expected) in [
        ("all", "random"),
        ("all,prefer:steady", "steady"),
        ("all,prefer:cpu-simd,prefer:random,prefer:steady", "random"),
        ("all,deterministic", "steady"),
        ("all,deterministic,prefer:random", "steady"),
        ("all,-*Random", "policy"),
        ("none,+acme_random", "random"),
        ("none,+*Random,-acme_random", "random"),
    ] {
        let _policy = policy::scope(policy.parse().unwrap());
        assert_eq!(path(random(), inference(F32)), expected, "{policy}");
    }
}

#[test]
fn implementations_for_other_capabilities_are_refused() {
    let _alone = alone();
    let _policy = policy::scope(Policy::auto());
    assert_eq!(path(newer(), inference(F32)), "capability");
    let mut future = inference(F32);
    future.capability = 9;
    assert_eq!(path(newer(), future), "acme");
}

#[test]
fn a_false_condition_is_a_reason() {
    let _alone = alone();
    let _policy = policy::scope(Policy::auto());
    let mut query = inference(F32);
    query.condition = false;
    assert_eq!(path(random(), query), "condition");
}

#[test]
fn site_patterns_are_checked_and_shown() {
    let policy: Policy = "none,+policies::acme.*,-*Random".parse().unwrap();
    assert_eq!(policy.to_string(), "none,+policies::acme::*,-*Random");
    assert_eq!(policy.to_string().parse(), Ok(policy.clone()));
    assert_eq!(Policy::from_toml(&policy.to_toml()), Ok(policy.clone()));
    let built = Policy::reference()
        .enable_sites("policies.acme.*")
        .unwrap()
        .disable_sites("*Random")
        .unwrap();
    assert_eq!(policy, built);
    // The builder treats a plain name as a pattern, and so does the policy's text.
    let plain = Policy::auto().disable_sites("Random").unwrap();
    assert_eq!(plain.to_string(), "all,-*::Random");
    assert_eq!(plain.to_string().parse(), Ok(plain));

    let error = "+policies.acme.Norms"
        .parse::<Policy>()
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("no site matches `policies.acme.Norms`"),
        "{error}"
    );
    assert!(
        error.contains("the nearest are policies::acme::Norm::forward"),
        "{error}"
    );
    let error = "+*Norm,-*Norm".parse::<Policy>().unwrap_err().to_string();
    assert!(error.contains("`+*Norm` and `-*Norm`"), "{error}");
    assert!(Policy::auto().enable_sites("a..b").is_err());
}

#[test]
fn plans_show_kernel_crate_and_candidates() {
    let _alone = alone();
    let _policy = policy::scope("all,+acme_newer".parse().unwrap());
    let device = burn::tensor::Device::flex();
    let plan =
        kernels_runtime::dispatch::plan_for(&device, burn::tensor::DType::F32, Mode::Training);
    let plan = plan.unwrap();
    assert!(!plan.is_met());
    let row = |site: &Site| {
        plan.sites
            .iter()
            .find(|row| row.site == site.name())
            .unwrap()
    };
    assert_eq!(row(random()).krate, Some("kernels-runtime"));
    assert_eq!(row(random()).implementation, Some("random"));
    let names: Vec<_> = row(random())
        .candidates
        .iter()
        .map(|c| c.implementation)
        .collect();
    assert_eq!(names, ["random", "steady"]);
    assert_eq!(row(acme::llama()).layer, Some("RMSNorm"));
    let newer = row(newer());
    assert!(
        newer
            .unmet
            .as_ref()
            .is_some_and(|text| text.contains("+acme_newer"))
    );
    assert_eq!(plan.check(&plan.to_toml()), Ok(()));
    let json = serde_json::to_value(&plan).unwrap();
    assert!(json["sites"][0]["candidates"][0]["implementation"].is_string());
}
