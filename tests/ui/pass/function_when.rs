use crate::common::{assert_paths, assert_same, device};
use burn::tensor::activation::silu;
use burn::tensor::{Distribution, Tensor};
use burn_kernels::fused_kernel;

// A parameter that only the condition reads, and an operand that it looks at.
#[fused_kernel("npu_fused_swiglu", when = fast && gate.dims().iter().product::<usize>() > 4)]
fn gated<const D: usize>(gate: Tensor<D>, up: Tensor<D>, fast: bool) -> Tensor<D> {
    let _ = fast;
    silu(gate) * up
}

// The condition may hold the commas of generics, and closures.
#[fused_kernel("npu_fused_rmsnorm", when = holds::<u8, { 1 + 1 }>(|a, b| a == b), weight = w)]
fn norm(x: Tensor<2>, w: Tensor<1>, eps: f64) -> Tensor<2> {
    let mean = x.clone().square().mean_dim(1);
    x / (mean + eps).sqrt() * w.unsqueeze()
}

fn holds<T: From<u8>, const N: usize>(test: impl Fn(T, T) -> bool) -> bool {
    test(T::from(1), T::from(1)) && N == 2
}

pub fn main() {
    let x = Tensor::<2>::random([4, 4], Distribution::Default, &device());
    for fast in [true, false] {
        let y = gated(x.clone(), x.clone(), fast);
        assert_same(y, gated_reference(x.clone(), x.clone(), fast));
    }
    gated(x.clone().narrow(0, 0, 1), x.clone().narrow(0, 0, 1), true);
    let condition = "reference: the site's condition is false";
    assert_paths("function_when::gated", &["fused", condition]);

    let w = Tensor::<1>::ones([4], &device());
    assert_same(norm(x.clone(), w.clone(), 1e-6), norm_reference(x, w, 1e-6));
    assert_paths("function_when::norm", &["fused"]);
}
