use crate::common::{assert_same, assert_site, device, linear};
use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::{Distribution, Tensor};
use burn_kernels::fused_kernel;

// Gemma 3n.
#[fused_kernel("npu_fused_swiglu", activation = gelu_tanh, topk = gaussian)]
#[derive(Module, Debug)]
struct Mlp {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
    activation_sparsity: f64,
}

pub fn main() {
    let mlp = |activation_sparsity| Mlp {
        gate_proj: linear(8, 32),
        up_proj: linear(8, 32),
        down_proj: linear(32, 8),
        activation_sparsity,
    };
    let x = Tensor::<3>::random([1, 4, 8], Distribution::Default, &device());
    for sparsity in [0.0, 0.95] {
        let mlp = mlp(sparsity);
        assert_same(mlp.forward(x.clone()), mlp.forward_reference(x.clone()));
    }
    assert_site(
        "struct_sparse_mlp::Mlp::forward",
        "glu(activation=gelu_tanh, topk=gaussian)",
    );
}
