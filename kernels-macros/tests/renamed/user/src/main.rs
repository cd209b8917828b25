type Number = f64;

#[kernels::fused_kernel("npu_fused_swiglu")]
fn product(gate: Number, up: Number) -> Number {
    gate * up
}

fn main() {
    assert_eq!(product(2.0, 3.0), 6.0);
}
