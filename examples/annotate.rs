//! Shows the three forms of the attribute on a small model, and prints the report of their sites.
//!
//! Run it with `cargo run --release --example annotate`. To compare, set `BURN_KERNELS=none` or
//! `BURN_KERNELS=all,-npu_fused_rope` in the environment.

use burn::module::{Module, Param};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Distribution, Tensor};
use burn_kernels::fused_kernel;

// On a struct, the attribute writes `forward` and `forward_reference`. Mappings use the layer's name.
#[fused_kernel("npu_fused_swiglu", layer = "LlamaMLP")]
#[derive(Module, Debug)]
struct Mlp {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
}

#[derive(Module, Debug)]
struct Norm {
    weight: Param<Tensor<1>>,
    variance_epsilon: f64,
}

// On an impl block, your own body is the reference that the kernel is verified against.
#[fused_kernel("npu_fused_rmsnorm", rounding = gemma)]
impl Norm {
    fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let mean_square = x.clone().square().mean_dim(D - 1);
        x / (mean_square + self.variance_epsilon).sqrt() * self.weight.val().unsqueeze()
    }
}

// On a function, the parameters are the operands. The kernel runs only for calls that fulfil the condition.
#[fused_kernel("npu_fused_rope", style = half, when = q.dims()[2] == cos.dims()[0])]
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

fn main() -> Result<(), Box<dyn std::error::Error>> {
    burn_kernels::init()?;
    let device = Device::flex().autodiff();
    let linear = |inputs, outputs| {
        let config = LinearConfig::new(inputs, outputs).with_bias(false);
        config.init(&device)
    };
    let mlp = Mlp {
        gate_proj: linear(64, 192),
        up_proj: linear(64, 192),
        down_proj: linear(192, 64),
    };
    let norm = Norm {
        weight: Param::from_tensor(Tensor::ones([64], &device)),
        variance_epsilon: 1e-6,
    };

    let random = |shape| Tensor::<4>::random(shape, Distribution::Normal(0.0, 1.0), &device);
    let x = random([1, 1, 16, 64]);
    let y = mlp.forward(norm.forward(x));
    let angles = Tensor::<2>::random([16, 64], Distribution::Uniform(0.0, 3.0), &device);
    let (q, k) = rotate(
        random([1, 4, 16, 64]),
        random([1, 2, 16, 64]),
        angles.clone().cos(),
        angles.sin(),
    );
    let grads = (y.sum() + q.sum() + k.sum()).backward();
    let gradient = norm.weight.val().grad(&grads).ok_or("no gradient")?;

    println!("gradient of the norm's weight: {:?}\n", gradient.dims());
    println!("{}", burn_kernels::report::report());
    Ok(())
}
