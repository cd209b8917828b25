use burn::nn::Linear;
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_attention")]
struct Attention {
    q_proj: Linear,
    k_proj: Linear,
    v_proj: Linear,
    o_proj: Linear,
}

#[fused_kernel("npu_fused_attention", window = sliding)]
struct Windowed {
    dropout: f64,
}

fn main() {}
