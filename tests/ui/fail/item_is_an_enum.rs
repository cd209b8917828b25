use burn_kernels::fused_kernel;

#[fused_kernel("npu_fused_rmsnorm")]
enum Norm {
    Layer,
    Rms,
}

fn main() {}
