use burn::nn::Linear;
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_attention", part = layer)]
struct Packed {
    qkv_proj: Linear,
    o_proj: Linear,
    num_heads: usize,
}

#[fused_kernel("npu_fused_attention", part = layer)]
struct WithoutHeads {
    q_proj: Linear,
    k_proj: Linear,
    v_proj: Linear,
    o_proj: Linear,
    dropout: f64,
}

#[fused_kernel("npu_fused_attention", part = layer, bias = additive, layout = bnsd)]
struct Biased {
    q_proj: Linear,
    k_proj: Linear,
    v_proj: Linear,
    o_proj: Linear,
    num_heads: usize,
}

#[fused_kernel("npu_fused_attention", part = layer)]
fn attention(x: Tensor<3>) -> Tensor<3> {
    x
}

fn main() {}
