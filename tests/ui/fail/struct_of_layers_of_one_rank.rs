use burn::module::Module;
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

trait Layer {
    fn forward(&self, x: Tensor<3>) -> Tensor<3>;
}

// The generated `forward` takes tensors of every rank.
#[fused_kernel("npu_fused_swiglu")]
#[derive(Module, Debug)]
struct Mlp<L: Module + Layer> {
    gate_proj: L,
    up_proj: L,
    down_proj: L,
}

fn main() {}
