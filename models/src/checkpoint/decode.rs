//! A tensor's bytes to the dtype and orientation of a parameter, in one pass.

use burn::tensor::{Element, FloatDType, TensorData, bf16, f16};
use safetensors::Dtype;

/// Whether weights may be stored in this type.
pub(super) fn is_supported(stored: Dtype) -> bool {
    matches!(stored, Dtype::F16 | Dtype::BF16 | Dtype::F32 | Dtype::F64)
}

/// Converts `bytes`, a tensor of type `stored` and the given shape, to `wanted`, rounding to
/// nearest; with `transposed`, a matrix of the swapped shape comes back.
///
/// # Panics
///
/// If `stored` is not [supported](is_supported), if `wanted` is `Flex32`, or if the number of bytes
/// does not fit: the caller has checked all three.
pub(super) fn decode(
    bytes: &[u8],
    stored: Dtype,
    wanted: FloatDType,
    shape: &[usize],
    transposed: bool,
) -> TensorData {
    match stored {
        Dtype::F16 => decode_from::<f16, 2>(bytes, wanted, shape, transposed),
        Dtype::BF16 => decode_from::<bf16, 2>(bytes, wanted, shape, transposed),
        Dtype::F32 => decode_from::<f32, 4>(bytes, wanted, shape, transposed),
        Dtype::F64 => decode_from::<f64, 8>(bytes, wanted, shape, transposed),
        other => unreachable!("{other} was refused before"),
    }
}

fn decode_from<S: Stored<N>, const N: usize>(
    bytes: &[u8],
    wanted: FloatDType,
    shape: &[usize],
    transposed: bool,
) -> TensorData {
    match wanted {
        FloatDType::F16 => convert(
            bytes,
            |x: S| f16::from_f32(x.wide() as f32),
            shape,
            transposed,
        ),
        FloatDType::BF16 => convert(
            bytes,
            |x: S| bf16::from_f32(x.wide() as f32),
            shape,
            transposed,
        ),
        FloatDType::F32 => convert(bytes, |x: S| x.wide() as f32, shape, transposed),
        FloatDType::F64 => convert(bytes, |x: S| x.wide(), shape, transposed),
        FloatDType::Flex32 => unreachable!("flex32 was refused before"),
    }
}

/// A type as it lies in a file, in `N` bytes.
trait Stored<const N: usize>: Copy {
    fn read(bytes: [u8; N]) -> Self;
    /// The value, exactly.
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

/// Side of the square tiles in which a matrix is transposed: reads and writes of one tile stay in
/// cache.
const TILE: usize = 32;

fn convert<S: Stored<N>, T: Element, const N: usize>(
    bytes: &[u8],
    round: impl Fn(S) -> T,
    shape: &[usize],
    transposed: bool,
) -> TensorData {
    let (elements, rest) = bytes.as_chunks::<N>();
    assert!(rest.is_empty() && elements.len() == shape.iter().product::<usize>());
    let value = |at: usize| round(S::read(elements[at]));
    let &[rows, columns] = shape else {
        return TensorData::new(elements.iter().map(|&e| round(S::read(e))).collect(), shape);
    };
    if !transposed {
        return TensorData::new(elements.iter().map(|&e| round(S::read(e))).collect(), shape);
    }
    let mut values = vec![T::from_elem(0.0); elements.len()];
    for row_tile in (0..rows).step_by(TILE) {
        for column_tile in (0..columns).step_by(TILE) {
            for column in column_tile..columns.min(column_tile + TILE) {
                for row in row_tile..rows.min(row_tile + TILE) {
                    values[column * rows + row] = value(row * columns + column);
                }
            }
        }
    }
    TensorData::new(values, [columns, rows])
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
        let data = decode(
            &bytes(&values),
            Dtype::F32,
            FloatDType::F64,
            &[rows, columns],
            true,
        );
        let result = data.as_slice::<f64>().unwrap();
        for row in 0..rows {
            for column in 0..columns {
                assert_eq!(
                    result[column * rows + row],
                    f64::from(values[row * columns + column])
                );
            }
        }
    }

    /// A hair above the middle between two bf16 numbers: going through a conversion that drops low
    /// bits would see a tie and round down to even.
    #[test]
    fn rounds_once_from_f32_to_bf16() {
        let x = f32::from_bits(0x3f80_8001);
        let data = decode(&bytes(&[x]), Dtype::F32, FloatDType::BF16, &[1], false);
        assert_eq!(data.as_slice::<bf16>().unwrap()[0].to_bits(), 0x3f81);
    }
}
