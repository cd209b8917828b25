use burn::module::Module;
use burn::nn::Linear;
use burn::nn::LinearConfig;
use burn::tensor::Tensor;
use burn::tensor::{Device, activation::silu};
use burn_kernels::fused_kernel;

#[derive(Module, Debug)]
struct Mlp {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
}

impl Mlp {
    #[fused_kernel("npu_fused_swiglu")]
    pub fn run(&self, hidden: Tensor<2>) -> Tensor<2> {
        let gate = silu(self.gate_proj.forward(hidden.clone()));
        self.down_proj.forward(gate * self.up_proj.forward(hidden))
    }
}

pub fn main() {
    let device = Device::flex();
    let linear = || LinearConfig::new(4, 4).init(&device);
    let mlp = Mlp {
        gate_proj: linear(),
        up_proj: linear(),
        down_proj: linear(),
    };
    let x = Tensor::<2>::ones([2, 4], &device);
    let (a, b) = (mlp.run(x.clone()), mlp.run_reference(x));
    assert!((a - b).abs().max().into_scalar::<f32>() < 1e-6);
}
