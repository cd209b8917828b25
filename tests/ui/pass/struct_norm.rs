use burn::module::{Module, Param};
use burn::tensor::Device;
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

/// A norm.
#[fused_kernel("npu_fused_rmsnorm", offset = 1, rounding = gemma)]
#[derive(Module, Debug)]
pub struct Norm {
    gamma: Param<Tensor<1>>,
    variance_epsilon: f32,
}

pub fn main() {
    let device = Device::flex();
    let norm = Norm {
        gamma: Param::from_tensor(Tensor::zeros([4], &device)),
        variance_epsilon: 0.0,
    };
    let x = Tensor::<2>::full([3, 4], 2.0, &device);
    for y in [norm.forward(x.clone()), norm.forward_reference(x)] {
        assert_eq!(y.into_data().try_to_vec::<f32>().unwrap(), [1.0; 12]);
    }
}
