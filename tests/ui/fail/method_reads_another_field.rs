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

// The kernel would leave the dropout out.
#[fused_kernel("npu_fused_swiglu")]
impl Mlp {
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let gate = silu(self.gate_proj.forward(x.clone()));
        let y = self.down_proj.forward(gate * self.up_proj.forward(x));
        self.dropout.forward(y)
    }
}

fn main() {}
