use burn::module::Module;
use burn::nn::Linear;
use burn::nn::LinearConfig;
use burn::tensor::Device;
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

#[derive(Module, Debug)]
#[fused_kernel("npu_fused_swiglu", gate = wg, up = wu, down = wd)]
pub(crate) struct Mlp {
    wg: Linear,
    wu: Linear,
    wd: Linear,
}

pub fn main() {
    let device = Device::flex();
    let mlp = Mlp {
        wg: LinearConfig::new(4, 6).init(&device),
        wu: LinearConfig::new(4, 6).init(&device),
        wd: LinearConfig::new(6, 4).init(&device),
    };
    let x = Tensor::<3>::ones([1, 2, 4], &device);
    let (a, b) = (mlp.forward(x.clone()), mlp.forward_reference(x));
    assert!((a - b).abs().max().into_scalar::<f32>() < 1e-6);
}
