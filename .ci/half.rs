//! Conversions to bf16 that LLVM calls on processors without an instruction for them, and that libgcc has from version 13 on.

/// Rounds to the nearest bf16, ties to even. By the System V ABI, a bf16 is returned as the low half of an `xmm` register, as
/// an f32 of these bits is.
#[unsafe(no_mangle)]
pub extern "C" fn __truncsfbf2(value: f32) -> f32 {
    let bits = value.to_bits();
    let rounded = match value.is_nan() {
        true => (bits >> 16) | 0x40,
        false => (bits + 0x7fff + (bits >> 16 & 1)) >> 16,
    };
    f32::from_bits(rounded)
}
