use burn::module::Module;
use burn::nn::{Dropout, Linear};
use burn::tensor::{Tensor, activation::silu};
use burn_kernels::fused_kernel;

#[derive(Module, Debug)]
struct Mlp {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
    dropout: Dropout,
}

impl Mlp {
    #[fused_kernel("npu_fused_swiglu")]
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let Self { gate_proj, up_proj, down_proj, dropout: drop } = self;
        let gate = silu(gate_proj.forward(x.clone()));
        drop.forward(down_proj.forward(gate * up_proj.forward(x)))
    }
}

fn main() {}
