//! Wrong bodies of gated MLPs, norms and rotations, which their first call refuses, and right ones, which pass.

use super::{Mlp, Norm, NormOfGemma, gemma, llama, random};
use crate::counting::alone;
use burn::module::{Module, Param};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::activation::{gelu, silu};
use burn::tensor::{Device, FloatDType, Tensor};
use burn_kernels::{fused_kernel, live};
use std::panic::{AssertUnwindSafe, catch_unwind};

mlp!(MlpSwapped, |gate, up| gate * silu(up));
mlp!(MlpSwappedHalf, |gate, up| gate * silu(up));
mlp!(MlpOfGelu, |gate, up| bent(gate) * up);

/// A gated MLP whose body does not train its last projection.
#[derive(Module, Debug)]
struct MlpFrozen {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
}

#[fused_kernel("npu_fused_swiglu")]
impl MlpFrozen {
    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let hidden = silu(self.gate_proj.forward(x.clone())) * self.up_proj.forward(x);
        hidden.matmul(
            self.down_proj
                .weight
                .val()
                .detach()
                .set_require_grad(false)
                .unsqueeze(),
        )
    }
}

/// A gated MLP whose body trains its last projection twice as fast: its results and the gradient of its input are right.
#[derive(Module, Debug)]
struct MlpHasty {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
}

#[fused_kernel("npu_fused_swiglu")]
impl MlpHasty {
    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let hidden = silu(self.gate_proj.forward(x.clone())) * self.up_proj.forward(x);
        let weight = self.down_proj.weight.val();
        let fixed = weight.clone().detach();
        hidden.matmul((weight * 2.0 - fixed).unsqueeze())
    }
}

/// Calls `gelu`. A body that calls it directly does not compile.
fn bent(gate: Tensor<3>) -> Tensor<3> {
    gelu(gate)
}

#[fused_kernel("npu_fused_swiglu")]
fn unit_swapped(gate: Tensor<3>, up: Tensor<3>) -> Tensor<3> {
    gate * silu(up)
}

norm!(NormOtherEps(), |x, weight, eps| llama(
    x,
    weight,
    eps * 10.0
));
norm!(NormOfOffset(), |x, weight, eps| llama(x, weight + 1.0, eps));
norm!(NormRoundedLate(), |x, weight, eps| gemma(x, weight, eps));
norm!(NormRoundedEarly(, rounding = gemma), |x, weight, eps| llama(x, weight, eps));

/// Rotates neighbours, while the attribute says halves.
#[fused_kernel("npu_fused_rope", style = half)]
fn rotate_neighbours(
    q: Tensor<4>,
    k: Tensor<4>,
    cos: Tensor<3>,
    sin: Tensor<3>,
) -> (Tensor<4>, Tensor<4>) {
    let turn = |x: Tensor<4>| {
        let [b, h, s, d] = x.dims();
        let pairs = x.clone().reshape([b, h, s, d / 2, 2]);
        let (x1, x2) = (pairs.clone().narrow(4, 0, 1), pairs.clone().narrow(4, 1, 1));
        let turned = Tensor::cat(vec![-x2, x1], 4).reshape([b, h, s, d]);
        x * cos.clone().unsqueeze_dim(1) + turned * sin.clone().unsqueeze_dim(1)
    };
    (turn(q), turn(k))
}

/// Returns the message of the first use.
fn said<T>(call: impl FnOnce() -> T) -> String {
    live::reset();
    let panic = catch_unwind(AssertUnwindSafe(call)).err();
    let panic = panic.expect("the first use is refused");
    let said = *panic.downcast::<String>().expect("a message");
    assert!(said.contains("odd one out") && said.contains("BURN_KERNELS_VERIFY=first,-"));
    assert!(said.contains("rows from the first to the last"), "{said}");
    said
}

#[test]
fn mistakes_of_new_users_are_found() {
    let _alone = alone();
    let (f32, bf16, f16) = (FloatDType::F32, FloatDType::BF16, FloatDType::F16);
    for device in [Device::flex(), Device::flex().autodiff()] {
        device.seed(20);
        // The inputs are as small as in an untrained model: SiLU is nearly a straight line there.
        let x = |dtype| random([2, 9, 32], &device).cast(dtype) * 0.02;
        let swapped = said(|| MlpSwapped::new(&device, f32).forward(x(f32)));
        assert!(swapped.contains("MlpSwapped::forward failed: the annotated body"));
        said(|| MlpSwappedHalf::new(&device, bf16).forward(x(bf16)));
        if device.is_autodiff() {
            let Mlp {
                gate_proj,
                up_proj,
                down_proj,
            } = Mlp::new(&device, f32);
            let frozen = MlpFrozen {
                gate_proj,
                up_proj,
                down_proj,
            };
            let frozen = said(|| frozen.forward(x(f32)));
            assert!(frozen.contains("d_weight [80, 32] is missing"), "{frozen}");
            for dtype in [f32, bf16, f16] {
                let Mlp {
                    gate_proj,
                    up_proj,
                    down_proj,
                } = Mlp::new(&device, dtype);
                let hasty = MlpHasty {
                    gate_proj,
                    up_proj,
                    down_proj,
                };
                let hasty = said(|| hasty.forward(x(dtype)));
                assert!(hasty.contains("d_weight [80, 32]"), "{hasty}");
            }
        }
        // In bf16, a GELU of smaller inputs is within the rounding of SiLU.
        said(|| MlpOfGelu::new(&device, bf16).forward(x(bf16) * 4.0));
        for dtype in [f32, bf16, f16] {
            let operand = || random([3, 5, 24], &device).cast(dtype) * 0.01;
            said(|| unit_swapped(operand(), operand()));
        }

        let x = |dtype| random([3, 7, 64], &device).cast(dtype);
        for dtype in [f32, bf16, f16] {
            let other = said(|| NormOtherEps::new(&device, dtype).forward(x(dtype)));
            assert!(other.contains("are those of eps = 1e-5,"), "{other}");
            said(|| NormOfOffset::new(&device, dtype).forward(x(dtype)));
        }
        for dtype in [bf16, f16] {
            let late = said(|| NormRoundedLate::new(&device, dtype).forward(x(dtype)));
            assert!(late.contains("in the order of `gemma`"), "{late}");
            let early = said(|| NormRoundedEarly::new(&device, dtype).forward(x(dtype)));
            assert!(early.contains("in the order of `llama`"), "{early}");
        }

        let angles = random([1, 6, 8], &device) * 3.0;
        let angles = Tensor::cat(vec![angles.clone(), angles], 2);
        let rotated = said(|| {
            let (q, k) = (
                random([2, 4, 6, 16], &device),
                random([2, 2, 6, 16], &device),
            );
            rotate_neighbours(q, k, angles.clone().cos(), angles.clone().sin())
        });
        assert!(rotated.contains("rope(style=half)"), "{rotated}");
    }
    right_bodies_pass();
}

fn right_bodies_pass() {
    for device in [Device::flex(), Device::flex().autodiff()] {
        for dtype in [FloatDType::F32, FloatDType::BF16, FloatDType::F16] {
            for size in [1.0, 0.02] {
                live::reset();
                let x = |shape| random(shape, &device).cast(dtype) * size;
                Mlp::new(&device, dtype).forward(x([2, 9, 32]));
                Norm::new(&device, dtype).forward(x([3, 7, 64]));
                NormOfGemma::new(&device, dtype).forward(x([3, 7, 64]));
                let checked = live::report().rows;
                assert_eq!(checked.len(), 3, "{}", live::report());
                for row in checked {
                    assert_eq!((row.checked, row.skipped), (1, 0), "{row:?}");
                }
            }
        }
    }
}
