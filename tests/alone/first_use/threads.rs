//! Threads that train one model.

use super::{Mlp, Norm, random};
use crate::counting::alone;
use burn::module::Module;
use burn::nn::{Linear, LinearConfig, RmsNormConfig};
use burn::tensor::activation::silu;
use burn::tensor::{Device, FloatDType, Tensor};
use burn_kernels::{fused_kernel, nn};
use std::sync::{Arc, mpsc};
use std::time::Duration;

#[fused_kernel("npu_fused_attention", part = layer)]
#[derive(Module, Debug)]
struct Attention {
    q_proj: Linear,
    k_proj: Linear,
    v_proj: Linear,
    o_proj: Linear,
    num_heads: usize,
    num_kv_heads: usize,
}

trait Layer {
    fn forward(&self, x: Tensor<3>) -> Tensor<3>;
}

/// A gated MLP whose body stays where it is written.
#[derive(Module, Debug)]
struct InTrait {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
}

#[fused_kernel("npu_fused_swiglu")]
impl Layer for InTrait {
    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let gate = silu(self.gate_proj.forward(x.clone()));
        self.down_proj.forward(gate * self.up_proj.forward(x))
    }
}

/// One layer of each kind, whose parameters threads share.
struct Shared {
    attention: Attention,
    mlp: Mlp,
    in_trait: InTrait,
    own_norm: Norm,
    norm: nn::RmsNorm,
    one: nn::Linear,
    two: nn::Linear,
}

impl Shared {
    fn new(device: &Device) -> Self {
        let linear = |outputs| LinearConfig::new(64, outputs).with_bias(false).init(device);
        let Mlp {
            gate_proj,
            up_proj,
            down_proj,
        } = Mlp::new(device, FloatDType::F32);
        Self {
            attention: Attention {
                q_proj: linear(64),
                k_proj: linear(32),
                v_proj: linear(32),
                o_proj: linear(64),
                num_heads: 4,
                num_kv_heads: 2,
            },
            mlp: Mlp::new(device, FloatDType::F32),
            in_trait: InTrait {
                gate_proj,
                up_proj,
                down_proj,
            },
            own_norm: Norm::new(device, FloatDType::F32),
            norm: RmsNormConfig::new(64).init(device).into(),
            one: linear(64).into(),
            two: LinearConfig::new(64, 64).init(device).into(),
        }
    }
}

/// Burn merges the graphs of threads that share a leaf, and may then let two of them wait for each other. It does so only
/// if something else went backward through the leaf before, which a check must not do.
#[test]
fn threads_that_train_one_model_never_wait_for_each_other() {
    type Forward = fn(&Shared, Tensor<3>) -> Tensor<3>;
    let kinds: [(&str, usize, Forward); 6] = [
        ("a sum of linear layers", 64, |m, x| {
            m.two.forward(x.clone()) + m.one.forward(x)
        }),
        ("attention", 64, |m, x| {
            m.attention.forward(m.attention.forward(x))
        }),
        ("a gated MLP", 32, |m, x| m.mlp.forward(m.mlp.forward(x))),
        ("a method of a trait", 32, |m, x| {
            m.in_trait.forward(x.clone()) + m.in_trait.forward(x)
        }),
        ("norms", 64, |m, x| {
            m.norm.forward(x.clone()) + m.own_norm.forward(x)
        }),
        ("all of them", 64, |m, x| {
            let y = m.attention.forward(m.norm.forward(x.clone())) + x;
            let y = m.two.forward(m.own_norm.forward(y.clone())) + m.one.forward(y);
            let [left, right] = [0, 32].map(|at| y.clone().narrow(2, at, 32));
            m.mlp.forward(left) + m.in_trait.forward(right)
        }),
    ];
    let (_alone, device) = (alone(), Device::flex().autodiff());
    for (name, width, forward) in kinds {
        let shared = Arc::new(Shared::new(&device));
        let loss = {
            let device = device.clone();
            move || {
                forward(&shared, random([2, 7, width], &device))
                    .square()
                    .mean()
            }
        };
        // The checks of the first calls are here.
        drop(loss().backward());
        let (done, all) = mpsc::channel();
        for thread in 0..4 {
            let (loss, done) = (loss.clone(), done.clone());
            std::thread::spawn(move || {
                for _ in 0..100 {
                    let loss = loss();
                    // One thread only watches the loss.
                    if thread > 0 {
                        drop(loss.backward());
                    }
                }
                done.send(()).expect("the test waits");
            });
        }
        for _ in 0..4 {
            let waited = all.recv_timeout(Duration::from_secs(60));
            assert!(waited.is_ok(), "{name}: the threads wait for each other");
        }
    }
}
