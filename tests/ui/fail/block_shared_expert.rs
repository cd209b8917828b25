use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::{Int, Tensor};
use burn_kernels::fused_kernel;

#[derive(Module, Debug)]
struct Experts {
    inner: Linear,
}

impl Experts {
    fn forward(&self, x: Tensor<2>, _: Tensor<2, Int>, _: Tensor<2>) -> Tensor<2> {
        self.inner.forward(x)
    }
}

#[fused_kernel("npu_fused_moe", part = block)]
#[derive(Module, Debug)]
struct Ignored {
    gate: Linear,
    experts: Experts,
    shared_expert: Linear,
    shared_expert_gate: Linear,
    top_k: usize,
}

#[fused_kernel("npu_fused_moe", part = block, shared = gated)]
#[derive(Module, Debug)]
struct WithoutGate {
    gate: Linear,
    experts: Experts,
    shared_expert: Linear,
    top_k: usize,
}

fn main() {}
