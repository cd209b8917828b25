//! Tests that operations of mixtures without an attribute obey the policy, and that the report has their paths.

use crate::acme::alone;
use burn::tensor::{Device, FloatDType, Int, Tensor};
use kernels_runtime::ops::moe::experts::{
    self, Adapter, GateUp, Part, Projection, Weights, sharded,
};
use kernels_runtime::ops::moe::{Routing, moe_permute, moe_unpermute, route};
use kernels_runtime::policy;
use kernels_runtime::report::{report, reset};
use kernels_runtime::semantics::{MoeExpertsKey, RouterKey};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

const EXPERTS: usize = 3;
const KEY: MoeExpertsKey = MoeExpertsKey::QWEN3;

fn numbers<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    let count = shape.iter().product::<usize>() as i64;
    let counted = Tensor::<1, Int>::arange(0..count, &Device::flex());
    (counted.float() * 0.7).sin().reshape(shape)
}

fn experts(is_adapted: bool) -> Weights {
    let projection = |inputs: usize, outputs: usize| Projection {
        weight: numbers([EXPERTS, outputs, inputs]).into(),
        bias: None,
        quantised: None,
        adapter: is_adapted.then(|| Adapter {
            a: numbers([EXPERTS, inputs, 2]),
            b: numbers([EXPERTS, 2, outputs]),
            scale: 0.5,
        }),
    };
    Weights {
        gate_up: GateUp::Packed(projection(4, 12)),
        down: projection(6, 4),
    }
}

/// Runs every step, and returns all numbers.
fn steps() -> Vec<f32> {
    let x = numbers([5, 4]);
    let routing = Routing::new(RouterKey::MIXTRAL, EXPERTS, 2).unwrap();
    let routed = route(numbers([5, EXPERTS]), None, &routing);
    let (indices, weights) = (routed.indices, routed.weights);
    let sorted = moe_permute(x.clone(), indices.clone(), EXPERTS, None);
    let y = moe_unpermute(sorted.rows, sorted.row_map, Some(weights.clone()));
    let (of, chosen) = (x.clone(), indices.clone());
    let adapted = experts::fused(of, chosen, weights.clone(), experts(true), None, KEY).unwrap();
    let part = Part {
        x,
        indices,
        routing: weights,
    };
    let shards = sharded(vec![part], &[experts(false)], None, KEY);
    let all = [y, adapted].into_iter().chain(shards);
    all.flat_map(|y| y.into_data().iter::<f32>().collect::<Vec<_>>())
        .collect()
}

/// Returns the paths of the steps, with their numbers of calls.
fn paths() -> BTreeMap<String, Vec<(String, u64)>> {
    let mut paths = BTreeMap::<_, Vec<_>>::new();
    for row in report().rows {
        let step = row.site.strip_prefix("kernels_runtime::ops::moe::");
        if let (Some(step), Some(call)) = (step, row.call) {
            let path = (call.path(), row.calls);
            paths.entry(step.to_owned()).or_default().push(path);
        }
    }
    paths
}

#[test]
fn they_obey_the_policy_and_stand_in_the_report() {
    let _alone = alone();
    let run = |policy: &str| {
        let _policy = policy::scope(policy.parse().unwrap());
        reset();
        (steps(), paths())
    };
    let (fused, paths) = run("all,strict");
    let expected = [
        ("experts::adapted::glu", "fused cpu-simd", 1),
        // Gate with up, and down: each has a weight and two factors.
        ("experts::adapted::grouped_matmul", "fused cpu-simd", 6),
        ("experts::sharded", "fused cpu-simd", 1),
        ("moe_permute", "fused cpu-simd", 3),
        ("moe_unpermute", "fused cpu-simd", 3),
        ("route", "fused cpu-router", 1),
    ];
    let of = |path: Option<&str>| -> BTreeMap<_, _> {
        let each = expected.iter().map(|(step, fused, calls)| {
            let path = path.unwrap_or(fused).to_owned();
            ((*step).to_owned(), vec![(path, *calls)])
        });
        each.collect()
    };
    assert_eq!(paths, of(None));

    for policy in ["none", "all,strict,-npu_fused_moe"] {
        let (plain, paths) = run(policy);
        assert_eq!(paths, of(Some("reference: switched off by the policy")));
        assert_eq!(plain.len(), fused.len());
        for (a, b) in fused.iter().zip(&plain) {
            // Sums of at most a dozen terms of size one.
            assert!((a - b).abs() <= 1e-5, "{a} is not {b}");
        }
    }
}

#[test]
fn a_step_that_cannot_run_gives_its_reason_and_in_strict_panics() {
    let _alone = alone();
    let call = || {
        let tokens = numbers([2, 4]);
        let chosen = Tensor::<2, Int>::zeros([2, 1], &Device::flex());
        let sorted = moe_permute(tokens, chosen, 1, None);
        let half = Tensor::<2>::ones([2, 1], &Device::flex()).cast(FloatDType::F16);
        moe_unpermute(sorted.rows, sorted.row_map, Some(half))
    };
    reset();
    let y = call().into_data();
    y.assert_eq(&numbers([2, 4]).into_data(), true);
    let expected = vec![("reference: the tensors have different dtypes".to_owned(), 1)];
    assert_eq!(paths()["moe_unpermute"], expected);
    for policy in [
        "all,strict",
        "none,+npu_fused_moe",
        "all,strict:mixed_dtypes",
    ] {
        let _policy = policy::scope(policy.parse().unwrap());
        for _ in 0..2 {
            let panic = catch_unwind(AssertUnwindSafe(call)).unwrap_err();
            let said = *panic.downcast::<String>().unwrap();
            for words in [
                "ops::moe::moe_unpermute",
                "the tensors have different dtypes",
            ] {
                assert!(said.contains(words), "{policy}: {said}");
            }
        }
    }
}
