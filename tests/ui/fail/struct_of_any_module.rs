use burn::module::Module;
use burn_kernels::fused_kernel;

// `Module` has no `forward`.
#[fused_kernel("npu_fused_swiglu")]
#[derive(Module, Debug)]
struct Mlp<L: Module> {
    gate_proj: L,
    up_proj: L,
    down_proj: L,
}

fn main() {}
