use burn::module::Param;
use burn::tensor::Tensor;
use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_rmsnorm")]
#[derive(Debug)]
struct Norm(Param<Tensor<1>>, f64);

fn main() {}
