use crate::common::{assert_paths, assert_same, assert_site, device};
use burn::module::{Module, Param};
use burn::tensor::activation::silu;
use burn::tensor::{Distribution, Tensor};
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_causal_conv1d")]
#[derive(Module, Debug)]
struct ShortConvolution {
    weight: Param<Tensor<2>>,
}

// From the inputs of the call before, without an activation.
#[fused_kernel("npu_fused_causal_conv1d", activation = none, shift = bias, state = given)]
fn step(
    x: Tensor<3>,
    conv_state: Tensor<3>,
    weight: &Param<Tensor<2>>,
    bias: Tensor<1>,
) -> (Tensor<3>, Tensor<3>) {
    let [_, tokens, channels] = x.dims();
    let all = Tensor::cat(vec![conv_state, x], 1);
    let tap = |tap: usize| {
        let weight = weight.val().narrow(1, tap, 1).reshape([1, 1, channels]);
        all.clone().narrow(1, tap, tokens) * weight
    };
    let y = tap(0) + tap(1) + tap(2) + bias.unsqueeze();
    (y, all.narrow(1, tokens, 2))
}

pub fn main() {
    let random = |shape: [usize; 3]| -> Tensor<3> {
        Tensor::random(shape, Distribution::Uniform(-1.0, 1.0), &device())
    };
    let weight = Tensor::random([6, 3], Distribution::Uniform(-1.0, 1.0), &device());
    let layer = ShortConvolution {
        weight: Param::from_tensor(weight),
    };
    let (x, state) = (random([2, 5, 6]), random([2, 2, 6]));
    let y = layer.forward(x.clone());
    assert_same(y.clone(), layer.forward_reference(x.clone()));
    let zeros = Tensor::zeros([2, 2, 6], &device());
    let (sum, _) = step(
        x.clone(),
        zeros,
        &layer.weight,
        Tensor::zeros([6], &device()),
    );
    assert_same(y, silu(sum));
    let (_, last) = step(
        x.clone(),
        state,
        &layer.weight,
        Tensor::ones([6], &device()),
    );
    assert_same(last, x.narrow(1, 3, 2));
    assert_site(
        "causal_conv1d::ShortConvolution::forward",
        "causal_conv1d(activation=silu)",
    );
    let key = "causal_conv1d(activation=none, shift=bias, state=given)";
    assert_site("causal_conv1d::step", key);
    assert_paths("causal_conv1d::step", &["fused"]);
}
