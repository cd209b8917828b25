//! LayerNorm and a gated unit, in f32 and in bf16.

use super::{alone, package};
use crate::npu::noise;
use burn::module::{Module, Param};
use burn::tensor::activation::silu;
use burn::tensor::{DType, Device, Tensor, TensorData};
use burn_kernels::fused_kernel;
use kernels_runtime::dispatch::DeviceKind;
use kernels_runtime::live::{self, Sampling};
use kernels_runtime::packages::register;
use kernels_runtime::policy::{self, Policy};
use kernels_runtime::report;
use kernels_runtime::semantics::{GluKey, LayerNormKey, Projections, SemanticsKey};
use kernels_serving::npu;
use serde_json::{Value, json};

#[fused_kernel("npu_fused_layernorm")]
#[derive(Module, Debug)]
struct Norm {
    weight: Param<Tensor<1>>,
    bias: Param<Tensor<1>>,
    eps: f64,
}

#[fused_kernel("npu_fused_swiglu", projections = chunked, gate_up = h)]
fn swiglu(h: Tensor<2>) -> Tensor<2> {
    let half = h.dims()[1] / 2;
    silu(h.clone().narrow(1, 0, half)) * h.narrow(1, half, half)
}

fn tensors(names: &[&str]) -> Vec<Value> {
    names.iter().map(|name| json!({ "tensor": name })).collect()
}

fn bindings() -> [Value; 2] {
    let handles = || vec![json!({ "workspace": true }), json!({ "stream": true })];
    let statistics = || vec![json!({ "saved": "mean" }), json!({ "saved": "rstd" })];
    let norm = tensors(&["x", "weight", "bias"]);
    let eps_and_y = vec![json!({ "number": "eps" }), json!({ "result": "y" })];
    let gradients = |names: &[&str]| {
        let of = names.iter().map(|name| json!({ "gradient_of": name }));
        let all: Vec<Value> = [json!({ "gradient": "y" })].into_iter().chain(of).collect();
        all
    };
    let packed = GluKey {
        projections: Projections::Chunked,
        ..GluKey::SWIGLU
    };
    let binding = |symbol: &str, key: SemanticsKey, forward: Value, backward: Value| {
        json!({
            "symbol": symbol,
            "semantics": serde_json::to_value(key).unwrap(),
            "dtypes": ["f32", "bf16"],
            "arguments": forward,
            "workspace": { "bytes": 1 << 18 },
            "backward": {
                "symbol": format!("{symbol}_backward"),
                "arguments": backward,
                "workspace": { "bytes": 1 << 18 },
            },
        })
    };
    [
        binding(
            "layer_norm",
            LayerNormKey::GPT2.into(),
            json!([&norm[..], &eps_and_y, &statistics(), &handles()].concat()),
            json!(
                [
                    &norm[..],
                    &statistics(),
                    &gradients(&["x", "weight", "bias"]),
                    &handles()
                ]
                .concat()
            ),
        ),
        binding(
            "swiglu",
            packed.into(),
            json!(
                [
                    &tensors(&["first"])[..],
                    &[json!({ "result": "y" })],
                    &handles()
                ]
                .concat()
            ),
            json!([&tensors(&["first"])[..], &gradients(&["first"]), &handles()].concat()),
        ),
    ]
}

fn tensor<const D: usize>(shape: [usize; D], seed: u64, on: (&Device, DType)) -> Tensor<D> {
    let numbers = noise(shape.iter().product(), seed).into_iter();
    // Numbers of bf16, so that each type computes with the same.
    let numbers = numbers.map(|number| f32::from_bits((number as f32).to_bits() & 0xffff_0000));
    let data = TensorData::new(numbers.collect::<Vec<f32>>(), shape);
    Tensor::from_data(data.convert_dtype(on.1), (on.0, on.1))
}

/// Returns the result of a unit over a norm, and every gradient.
fn computed(policy: &str, device: &Device, dtype: DType) -> Vec<Vec<f32>> {
    let _policy = policy::scope(policy.parse::<Policy>().unwrap());
    let on = (device, dtype);
    let norm = Norm {
        weight: Param::from_tensor(tensor([16], 2, on)),
        bias: Param::from_tensor(tensor([16], 3, on)),
        eps: 1e-5,
    };
    let x = tensor([5, 16], 1, on).require_grad();
    let y = swiglu(norm.forward(x.clone()));
    let gradients = (y.clone() * tensor([5, 8], 4, on)).sum().backward();
    let values = |data: TensorData| {
        let data = data.convert_dtype(DType::F32);
        data.try_into_vec::<f32>().unwrap()
    };
    [
        values(y.into_data()),
        values(x.grad(&gradients).unwrap().into_data()),
        values(norm.weight.val().grad(&gradients).unwrap().into_data()),
        values(norm.bias.val().grad(&gradients).unwrap().into_data()),
    ]
    .into()
}

#[test]
fn layer_norms_and_gated_units_run_on_npus() {
    alone(|| {
        let Some(loaded) = package("npu-others", &[], &bindings()) else {
            return;
        };
        assert_eq!(register(&loaded).unwrap().len(), 2);
        let device = npu::device(0).unwrap().autodiff();
        let host = Device::flex().autodiff();
        let exact = computed("none", &host, DType::F32);
        let policy = "all,prefer:npu-others@1";
        // In bf16 the norm's result, its gradient and the gradients themselves are rounded, by up to 2^-9 each.
        for (dtype, budget) in [(DType::F32, 1e-5), (DType::BF16, 1.0 / 64.0)] {
            let _first = live::scope(Sampling::first());
            live::reset();
            report::reset();
            let found = computed(policy, &device, dtype);
            for (found, exact) in found.iter().zip(&exact) {
                let largest = exact
                    .iter()
                    .fold(0.0_f32, |most, number| most.max(number.abs()));
                assert_eq!(found.len(), exact.len());
                for (found, exact) in found.iter().zip(exact) {
                    let near = (found - exact).abs() <= budget * largest;
                    assert!(near, "{dtype:?}: {found} beside {exact}");
                }
            }
            let rows = report::report().rows.into_iter();
            let rows = rows.filter(|row| row.site.contains("packages::others"));
            let calls = rows.filter_map(|row| row.call);
            let on_npu = calls.filter(|call| call.device == DeviceKind::Npu);
            let paths: Vec<String> = on_npu.map(|call| call.path()).collect();
            assert_eq!(paths, ["fused npu-others@1"; 2]);
            let rows = live::report().rows.into_iter();
            let mut rows = rows.filter(|row| row.site.contains("packages::others"));
            assert!(rows.all(|row| row.checked > 0 && row.skipped == 0));
        }
        assert_eq!(burn_cann::backend::fallbacks(), []);
    });
}
