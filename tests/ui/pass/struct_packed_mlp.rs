use crate::common::{assert_near, assert_same, assert_site, device};
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

/// Any type with the layer's `forward` is a projection.
#[derive(Debug)]
struct Pass;

impl Pass {
    fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        x
    }
}

// Phi 3 and GLM-4.
#[fused_kernel("npu_fused_swiglu", projections = chunked)]
#[derive(Debug)]
struct Halves {
    gate_up_proj: Pass,
    down_proj: Pass,
}

// gpt-oss.
#[fused_kernel(
    "npu_fused_swiglu",
    projections = interleaved,
    activation = quick_gelu,
    clamp = limit,
    up_offset = 1,
    layer = "GptOssExperts"
)]
#[derive(Debug)]
struct Pairs {
    gate_up_proj: Pass,
    down_proj: Pass,
    swiglu_limit: f32,
}

pub fn main() {
    let x = Tensor::<2>::from_floats([[1.5, -9.0, 2.0, 9.0]], &device());
    let halves = Halves {
        gate_up_proj: Pass,
        down_proj: Pass,
    };
    let y = halves.forward(x.clone());
    // silu(1.5) · 2 and silu(-9) · 9
    assert_near(y.clone(), &[2.452_723, -0.009_995]);
    assert_same(y, halves.forward_reference(x.clone()));

    let pairs = Pairs {
        gate_up_proj: Pass,
        down_proj: Pass,
        swiglu_limit: 7.0,
    };
    let y = pairs.forward(x.clone());
    // quick_gelu(1.5) · (1 - 7) and quick_gelu(2) · (1 + 7)
    assert_near(y.clone(), &[-8.349_973, 15.485_269]);
    assert_same(y, pairs.forward_reference(x));
    assert_site(
        "struct_packed_mlp::Pairs::forward",
        "glu(activation=quick_gelu, projections=interleaved, clamp=limit, up_offset=1)",
    );
}
