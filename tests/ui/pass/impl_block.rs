use burn::module::{Module, Param};
use burn::tensor::Device;
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

#[derive(Module, Debug)]
struct Norm<const N: usize> {
    weight: Param<Tensor<1>>,
    tiny: f64,
}

#[fused_kernel("npu_fused_rmsnorm", eps = tiny)]
impl<const N: usize> Norm<N> {
    fn new(device: &Device) -> Self {
        Self {
            weight: Param::from_tensor(Tensor::ones([N], device)),
            tiny: 1e-6,
        }
    }

    /// The user's own body is the reference.
    #[must_use]
    fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let mean_square = x.clone().square().mean_dim(D - 1);
        x / (mean_square + self.tiny).sqrt() * self.weight.val().unsqueeze()
    }
}

pub fn main() {
    let device = Device::flex();
    let norm = Norm::<4>::new(&device);
    let x = Tensor::<2>::from_floats([[1.0, -2.0, 3.0, -4.0]], &device);
    let (a, b) = (norm.forward(x.clone()), norm.forward_reference(x));
    assert!((a - b).abs().max().into_scalar::<f32>() < 1e-6);
}
