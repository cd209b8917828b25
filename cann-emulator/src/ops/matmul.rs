//! Matrix products in f32.

/// The columns of a block. Four rows of its sums fit the first-level cache.
const COLUMNS: usize = 256;
/// The number of inputs that are summed in order before their sum joins the others. So errors grow with the number of
/// blocks, not of inputs.
const DEPTH: usize = 128;

/// Rounds to HF32, f32 with 11 bits behind the point: to nearest, with ties to even.
pub(crate) fn to_hf32(value: f32) -> f32 {
    /// The bits of f32 that HF32 lacks.
    const LOST: u32 = 12;
    if !value.is_finite() {
        return value;
    }
    let bits = value.to_bits();
    let even = bits >> LOST & 1;
    f32::from_bits((bits + (1 << (LOST - 1)) - 1 + even) >> LOST << LOST)
}

/// Rounds to f16.
pub(crate) fn to_half(value: f32) -> f32 {
    half::f16::from_f32(value).to_f32()
}

/// Multiplies a matrix of `rows × depth` by one of `depth × columns`, both row by row.
pub(crate) fn product(x: &[f32], w: &[f32], rows: usize, depth: usize, columns: usize) -> Vec<f32> {
    let mut y = vec![0.0; rows * columns];
    for from in (0..columns).step_by(COLUMNS) {
        let width = COLUMNS.min(columns - from);
        for top in (0..depth).step_by(DEPTH) {
            let inputs = top..depth.min(top + DEPTH);
            let mut row = 0;
            while row < rows {
                let count = if rows - row >= 4 { 4 } else { 1 };
                let mut sums = [[0.0; COLUMNS]; 4];
                for at in inputs.clone() {
                    let w = &w[at * columns + from..][..width];
                    for (own, sums) in sums.iter_mut().enumerate().take(count) {
                        let x = x[(row + own) * depth + at];
                        for (sum, w) in sums[..width].iter_mut().zip(w) {
                            *sum += x * w;
                        }
                    }
                }
                for (own, sums) in sums.iter().enumerate().take(count) {
                    let y = &mut y[(row + own) * columns + from..][..width];
                    for (y, sum) in y.iter_mut().zip(sums) {
                        *y += sum;
                    }
                }
                row += count;
            }
        }
    }
    y
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hf32_has_eleven_bits_behind_the_point() {
        let ulp = 2.0_f32.powi(-11);
        assert_eq!(to_hf32(1.0 + ulp), 1.0 + ulp);
        assert_eq!(to_hf32(1.0 + ulp / 2.0), 1.0, "a tie to even");
        assert_eq!(to_hf32(1.0 + 1.5 * ulp), 1.0 + 2.0 * ulp, "a tie to even");
        assert_eq!(to_hf32(-(1.0 + 0.6 * ulp)), -(1.0 + ulp));
        assert_eq!(to_hf32(f32::MAX), f32::INFINITY);
        assert!(to_hf32(f32::NAN).is_nan());
    }
}
