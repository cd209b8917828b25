//! Conversion of a tensor's bytes to the dtype of a parameter, in one pass.

use burn::tensor::{Element, bf16, f16};
use kernels_quant::gguf::Block;
use safetensors::Dtype;

use super::storage::Storage;

/// The number of blocks that are converted at once.
const AT_ONCE: usize = 16;

/// Converts `bytes`, values that are stored so, and rounds to nearest.
///
/// # Panics
///
/// Panics if the type is not [supported](Storage::is_supported) or the number of bytes does not match. The caller has
/// checked both.
pub(super) fn decode_into<T: Wanted>(bytes: &[u8], storage: Storage, values: &mut [T]) {
    match storage {
        Storage::Plain(Dtype::F16) => convert::<f16, T, 2>(bytes, values),
        Storage::Plain(Dtype::BF16) => convert::<bf16, T, 2>(bytes, values),
        Storage::Plain(Dtype::F32) => convert::<f32, T, 4>(bytes, values),
        Storage::Plain(Dtype::F64) => convert::<f64, T, 8>(bytes, values),
        Storage::Blocks(block) => dequantise(bytes, block, values),
        other => unreachable!("{other} was refused before"),
    }
}

fn dequantise<T: Wanted>(bytes: &[u8], block: Block, values: &mut [T]) {
    // A few blocks at a time, which stay in the cache.
    let mut numbers = vec![0.0; AT_ONCE * block.elements()];
    let pieces = values.chunks_mut(numbers.len());
    let mut bytes = bytes.chunks(AT_ONCE * block.bytes());
    for piece in pieces {
        let numbers = &mut numbers[..piece.len()];
        block.decode(bytes.next().unwrap_or(&[]), numbers);
        for (place, &mut number) in piece.iter_mut().zip(numbers) {
            *place = T::nearest(number.into());
        }
    }
    assert!(bytes.next().is_none(), "more blocks than places");
}

/// A dtype that parameters may have.
pub(crate) trait Wanted: Element {
    /// Returns the nearest value; for half types, that of the nearest f32, as torch rounds.
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

fn convert<S: Stored<N>, T: Wanted, const N: usize>(bytes: &[u8], values: &mut [T]) {
    let (elements, rest) = bytes.as_chunks::<N>();
    assert!(rest.is_empty() && elements.len() == values.len());
    for (value, &element) in values.iter_mut().zip(elements) {
        *value = T::nearest(S::read(element).wide());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|x| x.to_le_bytes()).collect()
    }

    /// The value is slightly above the middle between two bf16 numbers. A conversion that first drops low bits would
    /// see a tie and round down to even.
    #[test]
    fn rounds_once_from_f32_to_bf16() {
        let x = f32::from_bits(0x3f80_8001);
        let mut value = [bf16::ZERO];
        decode_into(&bytes(&[x]), Storage::Plain(Dtype::F32), &mut value);
        assert_eq!(value[0].to_bits(), 0x3f81);
    }
}
