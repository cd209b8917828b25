//! Tests the memory that a linear layer with an adapter takes.

use crate::counting::{alone, peak};
use burn::module::{Lora, Module};
use burn::nn::LinearConfig;
use burn::tensor::{Device, Tensor};
use burn_kernels::nn::Linear;

const INPUTS: usize = 2048;
const OUTPUTS: usize = 1536;
const WEIGHT: usize = INPUTS * OUTPUTS * size_of::<f32>();

/// Neither pass makes a tensor of the size of the weight, which Burn's own layer does.
#[test]
fn an_adapter_has_no_weight_of_its_own() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let theirs = LinearConfig::new(INPUTS, OUTPUTS).init(&device);
    let theirs = theirs.apply_lora(Lora::new(8, 16.0));
    let ours = Linear::from(theirs.clone());
    let x = Tensor::<2>::ones([16, INPUTS], &device).require_grad();
    let train = |forward: &dyn Fn(Tensor<2>) -> Tensor<2>| {
        drop(forward(x.clone()).sum().backward());
    };
    let with_kernel = || train(&|x| ours.forward(x));
    // A first call is compared with its reference, which takes memory of its own.
    with_kernel();
    let taken = peak(with_kernel);
    assert!(taken < WEIGHT / 4, "{taken} of {WEIGHT} bytes");
    let taken = peak(|| train(&|x| theirs.forward(x)));
    assert!(taken > WEIGHT, "{taken} of {WEIGHT} bytes");
}
