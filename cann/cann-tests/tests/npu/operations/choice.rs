//! Tests which implementation of gated units runs on an NPU, in training and in inference, what policies choose, and the
//! operators that plans and reports name.

use crate::npu::common::Scenario;
use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Distribution, FloatDType, Tensor};
use burn_cann::backend;
use burn_kernels::fused_kernel;
use kernels_runtime::dispatch::{Mode, plan_for};
use kernels_runtime::policy::{self, Policy};
use kernels_runtime::report;

#[fused_kernel("npu_fused_swiglu")]
#[derive(Module, Debug)]
struct Mlp {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
}

const SITE: &str = "choice::Mlp::forward";
const PACKING: &str = "composed aclnn-swiglu (aclnnCat, aclnnSwiGlu)";
const APART: &str = "composed aclnn-silu-mul (aclnnSilu, aclnnMul)";

/// Returns the paths of the site in a report of one call.
fn paths() -> Vec<String> {
    let rows = report::report().rows.into_iter();
    let ours = rows.filter(|row| row.site.ends_with(SITE) && row.calls > 0);
    let calls = ours.filter_map(|row| row.call).map(|call| call.path());
    calls.collect()
}

/// Returns the path that a plan gives the site.
fn planned(device: &Device, mode: Mode) -> String {
    let plan = plan_for(device, burn::tensor::DType::F32, mode).unwrap();
    let row = plan.sites.iter().find(|row| row.site.ends_with(SITE));
    row.expect("the site is linked").path()
}

#[test]
fn training_packs_and_inference_does_not_unless_told_to() {
    Scenario::new().run(|cann| {
        backend::install(cann.clone());
        let device = kernels_serving::npu::device(0).unwrap();
        for (words, training, inference) in [
            ("all", PACKING, APART),
            ("all,prefer:aclnn-silu-mul", APART, APART),
            ("all,prefer:aclnn-swiglu", PACKING, PACKING),
        ] {
            let _scope = policy::scope(words.parse::<Policy>().unwrap());
            for (device, mode, path) in [
                (device.clone().autodiff(), Mode::Training, training),
                (device.clone(), Mode::Inference, inference),
            ] {
                let layer = |inputs, outputs| {
                    LinearConfig::new(inputs, outputs)
                        .with_bias(false)
                        .init(&device)
                };
                let mlp = Mlp {
                    gate_proj: layer(8, 12),
                    up_proj: layer(8, 12),
                    down_proj: layer(12, 8),
                };
                let shape = [2, 3, 8];
                let x = Tensor::<3>::random(shape, Distribution::Uniform(-1.0, 1.0), &device);
                report::reset();
                let y = mlp.forward(x.clone());
                assert_eq!(paths(), [path], "{words}, {mode}");
                assert_eq!(planned(&device, mode), path, "{words}, {mode}");
                let expected = mlp.forward_reference(x.clone());
                assert_close(&y, &expected);
                if mode == Mode::Training {
                    let gradient = |forward: &dyn Fn(Tensor<3>) -> Tensor<3>| {
                        let x = x.clone().detach().require_grad();
                        let loss = (forward(x.clone()) * y.clone().detach()).sum();
                        let grads = loss.backward();
                        let weight = mlp.gate_proj.weight.grad(&grads).unwrap();
                        (
                            Tensor::from_inner(x.grad(&grads).unwrap()),
                            Tensor::from_inner(weight),
                        )
                    };
                    let (dx, dw) = gradient(&|x| mlp.forward(x));
                    let (exact_dx, exact_dw) = gradient(&|x| mlp.forward_reference(x));
                    assert_close(&dx, &exact_dx);
                    assert_close(&dw, &exact_dw);
                }
            }
        }
        kernels_serving::npu::close();
        backend::close();
    });
}

/// Compares two results in f32, which round in other places.
#[track_caller]
fn assert_close<const D: usize>(found: &Tensor<D>, expected: &Tensor<D>) {
    let values = |tensor: &Tensor<D>| -> Vec<f64> {
        let wide = tensor.clone().cast(FloatDType::F32);
        wide.into_data().iter::<f64>().collect()
    };
    let (found, expected) = (values(found), values(expected));
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        let error = (found - expected).abs();
        assert!(
            error <= 1e-5 * (1.0 + expected.abs()),
            "{found} is not {expected}"
        );
    }
}
