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
    top_k: usize,
    n_group: usize,
    e_score_correction_bias: Linear,
}

#[fused_kernel("npu_fused_moe", part = block, grouping = max)]
#[derive(Module, Debug)]
struct WithoutGroups {
    gate: Linear,
    experts: Experts,
    top_k: usize,
    n_group: usize,
}

fn main() {}
