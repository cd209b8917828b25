use burn::module::Module;
use burn::nn::{Dropout, Gelu, Linear};
use burn_kernels::fused_kernel;

// Both may have a part in `forward`, whatever their names.
#[fused_kernel("npu_fused_swiglu")]
#[derive(Module, Debug)]
struct Mlp {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
    residual_dropout: Dropout,
    activation_fn: Gelu,
    layer_index: usize,
}

// What `ignore` names is a field, and no operand.
#[fused_kernel("npu_fused_swiglu", ignore(residul, up_proj))]
#[derive(Module, Debug)]
struct Ignoring {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
    residual: Dropout,
}

fn main() {}
