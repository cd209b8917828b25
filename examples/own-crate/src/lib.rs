//! A small sequence classifier with annotated layers, shared by three of the programs.

use burn::module::{Module, Param};
use burn::nn::LinearConfig;
use burn::tensor::{Device, Distribution, Int, Tensor};
use burn_kernels::fused_kernel;
use burn_kernels::nn::Linear;

#[cfg(feature = "learner")]
pub mod trainee;

/// The width of the model.
pub const WIDTH: usize = 256;
/// The number of classes.
pub const CLASSES: usize = 4;

#[fused_kernel("npu_fused_rmsnorm")]
#[derive(Module, Debug)]
pub struct Norm {
    weight: Param<Tensor<1>>,
    eps: f64,
}

#[fused_kernel("npu_fused_swiglu")]
#[derive(Module, Debug)]
pub struct Mlp {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
}

/// Rotates each pair of features by the angle of its position, so that the mean over the sequence depends on positions.
#[fused_kernel("npu_fused_rope")]
fn rotate(q: Tensor<4>, k: Tensor<4>, cos: Tensor<2>, sin: Tensor<2>) -> (Tensor<4>, Tensor<4>) {
    let half = q.dims()[3] / 2;
    let turn = |x: Tensor<4>| {
        let (x1, x2) = (
            x.clone().narrow(3, 0, half),
            x.clone().narrow(3, half, half),
        );
        let turned = Tensor::cat(vec![-x2, x1], 3);
        x * cos.clone().unsqueeze() + turned * sin.clone().unsqueeze()
    };
    (turn(q), turn(k))
}

/// A model of one residual block and a head.
#[derive(Module, Debug)]
pub struct Classifier {
    norm: Norm,
    mlp: Mlp,
    head: Linear,
}

impl Classifier {
    pub fn new(device: &Device) -> Self {
        let linear = |inputs, outputs| {
            LinearConfig::new(inputs, outputs)
                .with_bias(false)
                .init(device)
                .into()
        };
        Self {
            norm: Norm {
                weight: Param::from_tensor(Tensor::ones([WIDTH], device)),
                eps: 1e-6,
            },
            mlp: Mlp {
                gate_proj: linear(WIDTH, 3 * WIDTH),
                up_proj: linear(WIDTH, 3 * WIDTH),
                down_proj: linear(3 * WIDTH, WIDTH),
            },
            head: linear(WIDTH, CLASSES),
        }
    }

    /// Returns logits `[batch, classes]` of sequences `[batch, sequence, width]`.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<2> {
        let [batch, sequence, width] = x.dims();
        let (cos, sin) = angles(sequence, &x.device());
        let (x, _) = rotate(x.clone().unsqueeze_dim(1), x.unsqueeze_dim(1), cos, sin);
        let x = x.reshape([batch, sequence, width]);
        let x = x.clone() + self.mlp.forward(self.norm.forward(x));
        self.head.forward(x.mean_dim(1).reshape([batch, width]))
    }
}

/// Returns the cosines and sines of rotary embeddings with the base 10,000, `[sequence, width]` each.
fn angles(sequence: usize, device: &Device) -> (Tensor<2>, Tensor<2>) {
    let positions = Tensor::<1, Int>::arange(0..sequence as i64, device).float();
    let pairs = Tensor::<1, Int>::arange(0..WIDTH as i64 / 2, device).float();
    let rates = (pairs * (-2.0 * 10_000f64.ln() / WIDTH as f64)).exp();
    let angles = positions.unsqueeze_dim::<2>(1) * rates.unsqueeze_dim(0);
    let angles = Tensor::cat(vec![angles.clone(), angles], 1);
    (angles.clone().cos(), angles.sin())
}

/// Returns sequences of noise `[size, sequence, width]`, with a class marked in the features that rotate slowest, and
/// the classes `[size]`.
pub fn batch(size: usize, sequence: usize, device: &Device) -> (Tensor<3>, Tensor<1, Int>) {
    let noise = Tensor::<3>::random(
        [size, sequence, WIDTH],
        Distribution::Normal(0.0, 1.0),
        device,
    );
    let classes = Tensor::<1, Int>::arange(0..size as i64, device).remainder_scalar(CLASSES as i64);
    let marks: Tensor<2> = classes.clone().one_hot::<2>(CLASSES).float();
    let marks = marks.pad((WIDTH / 2 - CLASSES, WIDTH / 2, 0, 0), 0.0);
    (noise + marks.unsqueeze_dim(1) * 2.0, classes)
}
