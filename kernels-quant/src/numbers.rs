//! Floats of 4 and 8 bits.

/// The numbers of 4 bits E2M1: a sign, two bits of exponent and one of fraction (OCP Microscaling Formats 1.0, 5.3.3).
pub const E2M1: [f32; 16] = [
    0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0,
];

/// Returns the number of 8 bits E4M3: a sign, 4 bits of exponent and 3 of fraction. It has no infinities; 0x7f and 0xff
/// are NaN (OCP 8-bit Floating Point 1.0, and `float8_e4m3fn` of torch).
pub fn e4m3(byte: u8) -> f32 {
    E4M3[usize::from(byte)]
}

static E4M3: [f32; 256] = {
    let mut numbers = [0.0; 256];
    let mut byte = 0;
    while byte < 256 {
        numbers[byte] = e4m3_of(byte as u32);
        byte += 1;
    }
    numbers
};

const fn e4m3_of(byte: u32) -> f32 {
    let (exponent, fraction) = (byte >> 3 & 0xf, byte & 7);
    let size = match (exponent, fraction) {
        (15, 7) => f32::NAN,
        // Units of 2⁻⁹.
        (0, _) => fraction as f32 * 0.001_953_125,
        // The exponent's bias is 7, and that of f32 is 127.
        _ => f32::from_bits((exponent + 120) << 23 | fraction << 20),
    };
    if byte >> 7 == 1 { -size } else { size }
}

/// Returns 2^(byte − 127), the number of 8 bits E8M0. Of 255, which is NaN there, it returns infinity: the f32 with this
/// exponent, as `torch.ldexp` does.
pub fn e8m0(byte: u8) -> f32 {
    match byte {
        // A subnormal number.
        0 => f32::from_bits(0x0040_0000),
        _ => f32::from_bits(u32::from(byte) << 23),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with the formula of the specification, in f64.
    #[test]
    fn numbers_of_8_bits_are_those_of_the_formula() {
        for byte in 0..=u8::MAX {
            let (exponent, fraction) = (i32::from(byte >> 3 & 0xf), f64::from(byte & 7));
            let size = match exponent {
                0 => fraction / 8.0 * 2.0_f64.powi(-6),
                _ => (1.0 + fraction / 8.0) * 2.0_f64.powi(exponent - 7),
            };
            let expected = if byte >> 7 == 1 { -size } else { size };
            match byte & 0x7f {
                0x7f => assert!(e4m3(byte).is_nan()),
                _ => assert_eq!(
                    f64::from(e4m3(byte)).to_bits(),
                    expected.to_bits(),
                    "{byte}"
                ),
            }
            if byte < 255 {
                assert_eq!(f64::from(e8m0(byte)), 2.0_f64.powi(i32::from(byte) - 127));
            }
        }
        assert_eq!(e4m3(0x7e), 448.0);
        assert_eq!(e8m0(255), f32::INFINITY);
    }
}
