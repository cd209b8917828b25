use burn::module::Module;
use burn::nn::LayerNorm;
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_layernorm")]
#[derive(Module, Debug)]
struct Norm {
    inner: LayerNorm,
}

fn main() {}
