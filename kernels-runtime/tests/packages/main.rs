//! Tests of functions of packages as implementations: their names, how they are chosen, their results and gradients,
//! and live verification. The packages are libraries in C, which the tests compile.
#![cfg(all(feature = "packages", target_os = "linux"))]

mod made;
#[path = "../../../kernels-packages/tests/support/mod.rs"]
mod support;

use burn::tensor::activation::silu;
use burn::tensor::{Device, Distribution, Tensor};
use kernels_runtime::__private::{
    At, NormParameters, declare_site, glu, layer_norm, once, rms_norm, softcap,
};
use kernels_runtime::dispatch::{Decision, Mode, Query, TensorType, plan};
use kernels_runtime::live::{self, Sampling};
use kernels_runtime::packages::Error;
use kernels_runtime::policy::{self, Policy};
use kernels_runtime::registry::{FloatType, Gradient, Site, kernel, replaced};
use kernels_runtime::report::report;

use made::registered;
use std::panic::{AssertUnwindSafe, catch_unwind};

macro_rules! sites {
    ($($name:ident: $kernel:literal, $key:expr;)*) => {
        $(declare_site! {
            static $name = {
                kernel: $kernel,
                item: stringify!($name),
                form: Form::Function,
                key: $key,
                key_json: r#"{"op":"not read here"}"#,
                layer: Some("PackagedLayer"),
            }
        })*
    };
}

sites! {
    NORM: "npu_fused_rmsnorm", SemanticsKey::RmsNorm(RmsNormKey::LLAMA);
    NORM_THAT_RAN: "npu_fused_rmsnorm", SemanticsKey::RmsNorm(RmsNormKey::LLAMA);
    NORM_OF_VIEWS: "npu_fused_rmsnorm", SemanticsKey::RmsNorm(RmsNormKey::LLAMA);
    NORM_OF_WRONG: "npu_fused_rmsnorm", SemanticsKey::RmsNorm(RmsNormKey::LLAMA);
    NORM_OF_WRONG_SLOPE: "npu_fused_rmsnorm", SemanticsKey::RmsNorm(RmsNormKey::LLAMA);
    NORM_OF_LEFT_OUT: "npu_fused_rmsnorm", SemanticsKey::RmsNorm(RmsNormKey::LLAMA);
    NORM_OF_13: "npu_fused_rmsnorm", SemanticsKey::RmsNorm(RmsNormKey::LLAMA);
    NORM_EMPTY: "npu_fused_rmsnorm", SemanticsKey::RmsNorm(RmsNormKey::LLAMA);
    GEMMA_NORM: "npu_fused_rmsnorm", SemanticsKey::RmsNorm(RmsNormKey::GEMMA);
    GATED: "npu_fused_swiglu", SemanticsKey::Glu(GluKey::SWIGLU);
    CAPPED: "npu_fused_softcap", SemanticsKey::Softcap(SoftcapKey {});
    LAYER_NORM: "npu_fused_layernorm", SemanticsKey::LayerNorm(LayerNormKey::GPT2);
}

const EPS: f64 = 1e-5;

fn random<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    let device = Device::flex().autodiff();
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), &device)
}

fn normed(x: Tensor<2>) -> Tensor<2> {
    let mean_square = x.clone().square().mean_dim(1);
    x / mean_square.add_scalar(EPS).sqrt()
}

fn norm(site: &'static Site, x: Tensor<2>, weight: &Tensor<1>) -> Tensor<2> {
    let body = |x| normed(x) * weight.clone().unsqueeze::<2>();
    rms_norm(
        At::new(site),
        x,
        &|| Some(weight.clone()),
        EPS,
        None,
        &mut once(body),
    )
}

fn prefers(name: &str) -> Policy {
    format!("all,prefer:{name}").parse().expect("a policy")
}

/// Returns the name of the implementation that a site chooses.
fn chosen(site: &'static Site, policy: &str, float: FloatType, mode: Mode) -> &'static str {
    let _policy = policy::scope(policy.parse().expect("a policy"));
    match site.decide(Query::new(&Device::flex(), TensorType::Float(float), mode)) {
        Decision::Fused(implementation) => implementation.name,
        Decision::Reference(reason) => reason.name(),
    }
}

/// Checks that a site ran this implementation and no other, and that the first call was verified.
fn ran(site: &Site, implementation: &str, checked: u64) {
    let rows = report().rows.into_iter();
    let paths: Vec<_> = (rows.filter(|row| row.site == site.name()))
        .filter_map(|row| row.call.map(|call| call.path()))
        .collect();
    assert!(!paths.is_empty(), "no call was counted");
    let path = format!("fused {implementation}");
    assert!(paths.iter().all(|ran| *ran == path), "{paths:?}");
    let rows = live::report().rows;
    let row = rows.iter().find(|row| row.site == site.name());
    let row = row.expect("a check");
    assert_eq!((row.checked, row.skipped), (checked, 0), "{row:?}");
    assert!(row.kernel_error < 1.0, "{row:?}");
}

fn message<T>(run: impl FnOnce() -> T) -> String {
    let panic = catch_unwind(AssertUnwindSafe(run)).err();
    let panic = panic.expect("it panics").downcast::<String>();
    *panic.expect("a message")
}

fn same<const D: usize>(what: &str, got: Tensor<D>, expected: Tensor<D>) {
    assert_eq!(got.dims(), expected.dims(), "{what}");
    let size: f32 = expected.clone().abs().mean().into_scalar();
    let worst: f32 = (got - expected).abs().max().into_scalar();
    assert!(size > 0.0 && worst <= 1e-5, "{what}: {worst}");
}

#[test]
fn each_binding_is_an_implementation_with_a_name() {
    let Some(registered) = registered() else {
        return;
    };
    let of = |version: &str| -> Vec<_> {
        let name = format!("right-kernels@{version}");
        let all = registered.iter();
        all.filter(|one| one.implementation == name)
            .map(|one| (one.operation, one.gradient))
            .collect()
    };
    assert_eq!(of("1"), [("rms_norm", Gradient::Kernel)]);
    let expected = [
        ("rms_norm", Gradient::Reference),
        ("glu", Gradient::Reference),
        ("softcap", Gradient::Kernel),
        ("layer_norm", Gradient::Reference),
    ];
    assert_eq!(of("2"), expected);
    for (id, version, op) in [
        ("right-kernels@1", 1, "rms_norm"),
        ("right-kernels:rms_norm@2", 2, "rms_norm"),
        ("right-kernels:rms_norm", 2, "rms_norm"),
        ("right-kernels:glu", 2, "glu"),
        ("right-kernels:softcap@2", 2, "softcap"),
        ("wrong-kernels", 1, "rms_norm"),
    ] {
        let spec = kernel(id).unwrap_or_else(|| panic!("no {id}"));
        assert_eq!(
            (spec.version, spec.op, spec.implementations.len()),
            (version, op, 1),
            "{id}"
        );
        assert_eq!(spec.origin(), format!("{} {version}", spec.krate), "{id}");
    }
    for id in ["right-kernels", "right-kernels:glu@1"] {
        assert!(kernel(id).is_none(), "{id}");
    }
    let linked = kernel("npu_fused_rmsnorm").expect("the linked kernel");
    let names: Vec<_> = linked.implementations.iter().map(|one| one.name).collect();
    assert_eq!(names[0], "cpu-simd");
    let packaged = names.iter().filter(|name| name.contains('@')).count();
    assert_eq!(packaged, 5, "{names:?}");
    assert_eq!(replaced().count(), 0);
}

#[test]
fn nothing_is_registered_after_the_kernels_were_asked_for() {
    let Some(_) = registered() else { return };
    assert!(kernel("npu_fused_rmsnorm").is_some());
    let Some(late) = made::package("late-kernels", 1, &[made::norm(true)], &[]) else {
        return;
    };
    let error = kernels_runtime::packages::register(&late).expect_err("an error");
    assert!(matches!(error, Error::TooLate { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("late-kernels v1 ("), "{text}");
    assert!(
        text.contains("call `packages::register` first, at the start of `main`"),
        "{text}"
    );
}

#[test]
fn policies_and_mappings_choose() {
    let Some(_) = registered() else { return };
    let norm = |policy: &str| chosen(&NORM, policy, FloatType::F32, Mode::Training);
    assert_eq!(norm("all"), "cpu-simd");
    assert_eq!(norm("all,prefer:right-kernels@1"), "right-kernels@1");
    assert_eq!(norm("all,prefer:right-kernels@2"), "right-kernels@2");
    assert_eq!(norm("all,prefer:right-kernels@1,deterministic"), "cpu-simd");
    assert_eq!(
        norm("all,map:PackagedLayer@cpu=right-kernels@1"),
        "right-kernels@1"
    );
    assert_eq!(
        norm("all,map:PackagedLayer@cpu=right-kernels:rms_norm"),
        "right-kernels@2"
    );
    assert_eq!(
        norm("all,map:PackagedLayer@cpu=right-kernels:glu"),
        "semantics"
    );
    // Other semantics and dtypes than those of the binding.
    let preferred = "all,prefer:right-kernels@1";
    assert_eq!(
        chosen(&GEMMA_NORM, preferred, FloatType::F32, Mode::Inference),
        "cpu-simd"
    );
    assert_eq!(
        chosen(&NORM, preferred, FloatType::Bf16, Mode::Inference),
        "cpu-simd"
    );
    let policy = prefers("right-kernels@1");
    assert_eq!(policy.to_string().parse(), Ok(policy));
    let error = "prefer:right-kernels"
        .parse::<Policy>()
        .expect_err("an error")
        .to_string();
    assert!(error.contains("right-kernels@1"), "{error}");

    let _policy = policy::scope(prefers("right-kernels@1"));
    let plan = plan(&Device::flex().autodiff()).expect("a plan");
    let row = plan
        .sites
        .iter()
        .find(|row| row.site == NORM.name())
        .expect("a row");
    assert_eq!(row.implementation, Some("right-kernels@1"));
    assert!(plan.to_string().contains("right-kernels@1"), "{plan}");
}

/// Both versions, whose gradients are those of a backward function and of the reference, on views and with frozen
/// operands.
#[test]
fn results_and_gradients_are_those_of_the_linked_kernel() {
    let Some(_) = registered() else { return };
    let _first = live::scope(Sampling::first());
    let (wide, weight, dy) = (
        random([9, 6]).require_grad(),
        random([5]).require_grad(),
        random([6, 5]),
    );
    let run = |name: &str, weight: Tensor<1>| {
        let _policy = policy::scope(prefers(name));
        let x = wide.clone().swap_dims(0, 1).narrow(1, 2, 5);
        let y = norm(&NORM_OF_VIEWS, x, &weight);
        let grads = (y.clone() * dy.clone()).sum().backward();
        (
            y.inner(),
            wide.grad(&grads).expect("a gradient"),
            weight.grad(&grads),
        )
    };
    let expected = run("cpu-simd", weight.clone());
    for name in ["right-kernels@1", "right-kernels@2"] {
        let found = run(name, weight.clone());
        same("y", found.0, expected.0.clone());
        same("d_x", found.1, expected.1.clone());
        let [d_weight, expected] = [found.2, expected.2.clone()].map(|of| of.expect("a gradient"));
        same("d_weight", d_weight, expected);
        let frozen = run(name, weight.clone().set_require_grad(false));
        same(
            "d_x beside a frozen weight",
            frozen.1,
            run("cpu-simd", weight.clone()).1,
        );
        assert!(frozen.2.is_none());
    }
}

#[test]
fn right_functions_pass_live_verification_and_are_reported() {
    let Some(_) = registered() else { return };
    let _first = live::scope(Sampling::first());
    {
        let _policy = policy::scope(prefers("right-kernels@1"));
        let (x, weight) = (random([7, 24]).require_grad(), random([24]).require_grad());
        norm(&NORM_THAT_RAN, x, &weight).sum().backward();
        ran(&NORM_THAT_RAN, "right-kernels@1", 1);
    }
    let _policy = policy::scope(prefers("right-kernels@2"));
    let (gate, up) = (
        random([5, 16]).require_grad(),
        random([5, 16]).require_grad(),
    );
    let y = glu(At::new(&GATED), gate.clone(), up, None, None, &mut |(
        gate,
        up,
    )| {
        silu(gate) * up
    });
    assert!(gate.grad(&y.sum().backward()).is_some());
    ran(&GATED, "right-kernels@2", 1);

    let x = (random([6, 8]) * 3.0).require_grad();
    let body = |x: Tensor<2>| (x / 4.0).tanh() * 4.0;
    let y = softcap(At::new(&CAPPED), x.clone(), 4.0, &mut once(body));
    assert!(x.grad(&y.sum().backward()).is_some());
    ran(&CAPPED, "right-kernels@2", 1);

    let (x, weight, bias) = (random([6, 20]).require_grad(), random([20]), random([20]));
    let body = |x: Tensor<2>| {
        let x = x.clone() - x.mean_dim(1);
        normed(x) * weight.clone().unsqueeze::<2>() + bias.clone().unsqueeze::<2>()
    };
    let parameters = NormParameters::new(&weight).bias(&bias);
    let y = layer_norm(
        At::new(&LAYER_NORM),
        x.clone(),
        parameters,
        EPS,
        &mut once(body),
    );
    assert!(x.grad(&y.sum().backward()).is_some());
    ran(&LAYER_NORM, "right-kernels@2", 1);
}

#[test]
fn wrong_functions_fail_at_their_first_call() {
    let Some(_) = registered() else { return };
    let _first = live::scope(Sampling::first());
    for (site, name, what) in [
        (&NORM_OF_WRONG, "wrong-kernels@1", "y"),
        (&NORM_OF_WRONG_SLOPE, "wrong-slopes@1", "d_weight"),
        // The memory was filled with NaN.
        (&NORM_OF_LEFT_OUT, "lazy-kernels@1", "NaN"),
    ] {
        let _policy = policy::scope(prefers(name));
        let (x, weight) = (random([7, 24]).require_grad(), random([24]).require_grad());
        let said = message(|| norm(site, x, &weight));
        assert!(said.contains("the kernel is the odd one out"), "{said}");
        assert!(
            said.contains(&format!("npu_fused_rmsnorm ({name})")),
            "{said}"
        );
        assert!(said.contains(what), "{said}");
    }
}

#[test]
fn a_function_that_fails_is_named_with_its_message() {
    let Some(_) = registered() else { return };
    let _policy = policy::scope(prefers("right-kernels@1"));
    let said = message(|| norm(&NORM_OF_13, random([2, 13]), &random([13])));
    assert!(said.starts_with("rms_norm of right-kernels v1 ("), "{said}");
    assert!(said.ends_with("rows of 13 are not supported"), "{said}");
}

#[test]
fn functions_are_not_called_for_nothing() {
    let Some(_) = registered() else { return };
    let _policy = policy::scope(prefers("right-kernels@1"));
    let weight = random([4]).require_grad();
    let x = Tensor::<2>::zeros([0, 4], &Device::flex().autodiff()).require_grad();
    let y = norm(&NORM_EMPTY, x.clone(), &weight);
    assert_eq!(y.dims(), [0, 4]);
    let grads = y.sum().backward();
    let d_weight = weight.grad(&grads).expect("a gradient").into_data();
    assert_eq!(d_weight.iter::<f32>().collect::<Vec<_>>(), [0.0; 4]);
    assert_eq!(x.grad(&grads).expect("a gradient").dims(), [0, 4]);
}
