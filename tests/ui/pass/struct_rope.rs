use burn::module::Module;
use burn::tensor::{Device, Tensor};
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_rope", method = rotate)]
#[derive(Module, Debug)]
struct Rotary {
    cos: Tensor<2>,
    sin: Tensor<2>,
}

pub fn main() {
    let device = Device::flex();
    let rotary = Rotary {
        cos: Tensor::ones([3, 4], &device),
        sin: Tensor::zeros([3, 4], &device),
    };
    let q = Tensor::<4>::ones([1, 2, 3, 4], &device);
    let k = Tensor::<4>::ones([1, 1, 3, 4], &device);
    let (q, k) = rotary.rotate(q, k);
    assert_eq!(q.dims(), [1, 2, 3, 4]);
    assert_eq!(k.into_data().try_to_vec::<f32>().unwrap(), [1.0; 12]);
}
