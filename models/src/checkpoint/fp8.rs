//! Weights of 8 bits with a factor for each block of 128 rows and columns: the format of the published DeepSeek-V3.
//!
//! `….weight` holds floats with 4 bits of exponent and 3 of fraction, and `….weight_scale_inv` the factors.

use super::decode::Wanted;

/// The number of rows and columns with a common factor.
pub(crate) const BLOCK: usize = 128;

/// The end of the name of the factors.
pub(super) const SCALES: &str = "_scale_inv";

/// Returns the shape of the factors of a matrix.
pub(super) fn scales_of([rows, columns]: [usize; 2]) -> [usize; 2] {
    [rows.div_ceil(BLOCK), columns.div_ceil(BLOCK)]
}

/// Converts rows of a matrix, from the row `first` on, to `values`, in the same order.
///
/// # Panics
///
/// Panics if the numbers of bytes and factors do not match. The caller has checked them.
pub(super) fn decode_into<T: Wanted>(
    bytes: &[u8],
    scales: &[f32],
    first: usize,
    columns: usize,
    values: &mut [T],
) {
    assert_eq!(bytes.len(), values.len());
    let scales_of_row = columns.div_ceil(BLOCK);
    for (at, (value, &byte)) in values.iter_mut().zip(bytes).enumerate() {
        let (row, column) = (first + at / columns, at % columns);
        let scale = scales[row / BLOCK * scales_of_row + column / BLOCK];
        *value = T::nearest(number(byte) * f64::from(scale));
    }
}

/// Returns a number with a sign, 4 bits of exponent and 3 of fraction. There is no infinity.
fn number(byte: u8) -> f64 {
    let (exponent, fraction) = (i32::from(byte >> 3 & 0xf), f64::from(byte & 7));
    let size = match (exponent, byte & 7) {
        (15, 7) => f64::NAN,
        (0, _) => fraction / 8.0 * 2.0_f64.powi(-6),
        _ => (1.0 + fraction / 8.0) * 2.0_f64.powi(exponent - 7),
    };
    if byte >> 7 == 1 { -size } else { size }
}
