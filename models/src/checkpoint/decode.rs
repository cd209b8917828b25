//! Conversion of a tensor's bytes to the dtype and orientation of a parameter, in one pass.

use burn::tensor::{Element, bf16, f16};
use safetensors::Dtype;

/// Returns `true` if weights may be stored in this type.
pub(super) fn is_supported(stored: Dtype) -> bool {
    matches!(stored, Dtype::F16 | Dtype::BF16 | Dtype::F32 | Dtype::F64)
}

/// Converts `bytes`, values of type `stored`, and rounds to nearest.
///
/// # Panics
///
/// Panics if `stored` is not [supported](is_supported) or the number of bytes does not match. The caller has checked
/// both.
pub(super) fn decode_into<T: Wanted>(bytes: &[u8], stored: Dtype, values: &mut [T]) {
    match stored {
        Dtype::F16 => convert::<f16, T, 2>(bytes, values),
        Dtype::BF16 => convert::<bf16, T, 2>(bytes, values),
        Dtype::F32 => convert::<f32, T, 4>(bytes, values),
        Dtype::F64 => convert::<f64, T, 8>(bytes, values),
        other => unreachable!("{other} was refused before"),
    }
}

/// Converts `bytes`, a matrix of type `stored`, to its transpose.
///
/// # Panics
///
/// Panics as [`decode_into`] does.
pub(super) fn decode_transposed<T: Wanted>(
    bytes: &[u8],
    stored: Dtype,
    shape: [usize; 2],
) -> Vec<T> {
    match stored {
        Dtype::F16 => transpose::<f16, T, 2>(bytes, shape),
        Dtype::BF16 => transpose::<bf16, T, 2>(bytes, shape),
        Dtype::F32 => transpose::<f32, T, 4>(bytes, shape),
        Dtype::F64 => transpose::<f64, T, 8>(bytes, shape),
        other => unreachable!("{other} was refused before"),
    }
}

/// A dtype that parameters may have.
pub(super) trait Wanted: Element {
    /// Returns the nearest value.
    fn nearest(wide: f64) -> Self;
}

impl Wanted for f16 {
    fn nearest(wide: f64) -> Self {
        Self::from_f32(wide as f32)
    }
}

impl Wanted for bf16 {
    fn nearest(wide: f64) -> Self {
        Self::from_f32(wide as f32)
    }
}

impl Wanted for f32 {
    fn nearest(wide: f64) -> Self {
        wide as f32
    }
}

impl Wanted for f64 {
    fn nearest(wide: f64) -> Self {
        wide
    }
}

/// A type stored in `N` bytes of a file.
trait Stored<const N: usize>: Copy {
    fn read(bytes: [u8; N]) -> Self;
    /// Returns the value, exactly.
    fn wide(self) -> f64;
}

impl Stored<2> for f16 {
    fn read(bytes: [u8; 2]) -> Self {
        Self::from_le_bytes(bytes)
    }
    fn wide(self) -> f64 {
        self.to_f64()
    }
}

impl Stored<2> for bf16 {
    fn read(bytes: [u8; 2]) -> Self {
        Self::from_le_bytes(bytes)
    }
    fn wide(self) -> f64 {
        self.to_f64()
    }
}

impl Stored<4> for f32 {
    fn read(bytes: [u8; 4]) -> Self {
        Self::from_le_bytes(bytes)
    }
    fn wide(self) -> f64 {
        f64::from(self)
    }
}

impl Stored<8> for f64 {
    fn read(bytes: [u8; 8]) -> Self {
        Self::from_le_bytes(bytes)
    }
    fn wide(self) -> f64 {
        self
    }
}

/// The side of the square tiles in which a matrix is transposed. Reads and writes of one tile stay in the cache.
const TILE: usize = 32;

fn convert<S: Stored<N>, T: Wanted, const N: usize>(bytes: &[u8], values: &mut [T]) {
    let (elements, rest) = bytes.as_chunks::<N>();
    assert!(rest.is_empty() && elements.len() == values.len());
    for (value, &element) in values.iter_mut().zip(elements) {
        *value = T::nearest(S::read(element).wide());
    }
}

fn transpose<S: Stored<N>, T: Wanted, const N: usize>(
    bytes: &[u8],
    [rows, columns]: [usize; 2],
) -> Vec<T> {
    let (elements, rest) = bytes.as_chunks::<N>();
    assert!(rest.is_empty() && elements.len() == rows * columns);
    let mut values = vec![T::from_elem(0.0); elements.len()];
    for row_tile in (0..rows).step_by(TILE) {
        for column_tile in (0..columns).step_by(TILE) {
            for column in column_tile..columns.min(column_tile + TILE) {
                for row in row_tile..rows.min(row_tile + TILE) {
                    let wide = S::read(elements[row * columns + column]).wide();
                    values[column * rows + row] = T::nearest(wide);
                }
            }
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|x| x.to_le_bytes()).collect()
    }

    #[test]
    fn transposes_matrices_larger_than_a_tile() {
        let (rows, columns) = (TILE + 3, 2 * TILE + 1);
        let values: Vec<f32> = (0..rows * columns).map(|x| x as f32).collect();
        let result = decode_transposed::<f64>(&bytes(&values), Dtype::F32, [rows, columns]);
        for row in 0..rows {
            for column in 0..columns {
                assert_eq!(
                    result[column * rows + row],
                    f64::from(values[row * columns + column])
                );
            }
        }
    }

    /// The value is slightly above the middle between two bf16 numbers. A conversion that first drops low bits would
    /// see a tie and round down to even.
    #[test]
    fn rounds_once_from_f32_to_bf16() {
        let x = f32::from_bits(0x3f80_8001);
        let mut value = [bf16::ZERO];
        decode_into(&bytes(&[x]), Dtype::F32, &mut value);
        assert_eq!(value[0].to_bits(), 0x3f81);
    }
}
