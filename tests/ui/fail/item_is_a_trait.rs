use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_rmsnorm")]
trait Layer {
    fn forward(&self) {}
}

fn main() {}
