//! Tensors: views over device memory, and their values on the host.

use cann_sys::meta::*;

use crate::error::{Outcome, ensure, fail};
use crate::memory::Memory;

/// What `aclCreateTensor` was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tensor {
    pub(crate) dtype: aclDataType,
    pub(crate) shape: Vec<usize>,
    pub(crate) strides: Vec<i64>,
    /// Elements from `address` to the first.
    pub(crate) offset: i64,
    pub(crate) format: aclFormat,
    pub(crate) storage: Vec<i64>,
    pub(crate) address: usize,
}

/// Bytes of an element, for the dtypes that the emulator computes with or copies.
pub(crate) fn size_of(dtype: aclDataType) -> Option<usize> {
    match dtype {
        ACL_INT8 | ACL_UINT8 | ACL_BOOL | ACL_HIFLOAT8 | ACL_FLOAT8_E5M2 | ACL_FLOAT8_E4M3FN
        | ACL_FLOAT8_E8M0 => Some(1),
        ACL_FLOAT16 | ACL_BF16 | ACL_INT16 | ACL_UINT16 => Some(2),
        ACL_FLOAT | ACL_INT32 | ACL_UINT32 | ACL_COMPLEX32 => Some(4),
        ACL_DOUBLE | ACL_INT64 | ACL_UINT64 | ACL_COMPLEX64 => Some(8),
        ACL_COMPLEX128 => Some(16),
        _ => None,
    }
}

/// A dtype's name, for messages.
pub(crate) fn name_of(dtype: aclDataType) -> &'static str {
    match dtype {
        ACL_FLOAT => "f32",
        ACL_FLOAT16 => "f16",
        ACL_BF16 => "bf16",
        ACL_DOUBLE => "f64",
        ACL_INT8 => "i8",
        ACL_INT32 => "i32",
        ACL_INT64 => "i64",
        ACL_BOOL => "bool",
        _ => "another dtype",
    }
}

/// Strides of a contiguous tensor.
pub(crate) fn contiguous(shape: &[usize]) -> Vec<i64> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis] as i64;
    }
    strides
}

impl Tensor {
    pub(crate) fn rank(&self) -> usize {
        self.shape.len()
    }

    pub(crate) fn count(&self) -> usize {
        self.shape.iter().product()
    }

    pub(crate) fn is_contiguous(&self) -> bool {
        let expected = contiguous(&self.shape);
        // The stride of an axis of length one is never used.
        self.count() == 0
            || self
                .shape
                .iter()
                .zip(self.strides.iter().zip(&expected))
                .all(|(length, (stride, expected))| *length == 1 || stride == expected)
    }

    /// Whether its last two axes are swapped: the layout of a transposed matrix.
    pub(crate) fn is_transposed(&self) -> bool {
        let rank = self.rank();
        rank >= 2
            && self.strides[rank - 2] == 1
            && self.strides[rank - 1] == self.shape[rank - 2] as i64
    }

    /// Offsets of all elements from `address`, in the order of the shape.
    fn offsets(&self) -> Vec<i64> {
        let mut offsets = Vec::with_capacity(self.count());
        let mut index = vec![0; self.rank()];
        for _ in 0..self.count() {
            let steps = index
                .iter()
                .zip(&self.strides)
                .map(|(at, stride)| *at as i64 * stride);
            offsets.push(self.offset + steps.sum::<i64>());
            for axis in (0..index.len()).rev() {
                index[axis] += 1;
                if index[axis] < self.shape[axis] {
                    break;
                }
                index[axis] = 0;
            }
        }
        offsets
    }

    /// The bytes from `address` to the end of the last element; an error if any lie before `address`.
    fn extent(&self) -> Outcome<usize> {
        if self.count() == 0 {
            return Ok(0);
        }
        let (mut low, mut high) = (self.offset, self.offset);
        for (length, stride) in self.shape.iter().zip(&self.strides) {
            let last = (*length as i64 - 1) * stride;
            (low, high) = (low + last.min(0), high + last.max(0));
        }
        let size = size_of(self.dtype).unwrap_or(0);
        match usize::try_from(high + 1) {
            Ok(elements) if low >= 0 => Ok(elements * size),
            _ => fail!(
                ACLNN_ERR_PARAM_INVALID,
                "a view that begins before its storage"
            ),
        }
    }

    /// Whether the device has the memory of the view, aligned as operators need it.
    pub(crate) fn check_memory(&self, memory: &Memory) -> Outcome<()> {
        let extent = self.extent()?;
        if extent == 0 {
            return Ok(());
        }
        ensure!(
            self.address.is_multiple_of(32),
            ACLNN_ERR_PARAM_INVALID,
            "the data at {:#x} is not aligned to 32 bytes; use the offset of the descriptor",
            self.address
        );
        memory.bytes(self.address, extent).map(drop)
    }

    /// The values, converted by `convert` from the element's bytes.
    fn read<T>(&self, memory: &Memory, convert: impl Fn(&[u8]) -> T) -> Outcome<Vec<T>> {
        let bytes = memory.bytes(self.address, self.extent()?)?;
        let size = size_of(self.dtype).unwrap_or(1);
        let offsets = self.offsets().into_iter();
        Ok(offsets
            .map(|offset| convert(&bytes[offset as usize * size..][..size]))
            .collect())
    }

    /// The values as f32. Half types are exact in it.
    pub(crate) fn floats(&self, memory: &Memory) -> Outcome<Vec<f32>> {
        match self.dtype {
            ACL_FLOAT => self.read(memory, |bytes| {
                f32::from_bits(u32::from_ne_bytes(array(bytes)))
            }),
            ACL_FLOAT16 => self.read(memory, |bytes| {
                half::f16::from_ne_bytes(array(bytes)).to_f32()
            }),
            ACL_BF16 => self.read(memory, |bytes| {
                half::bf16::from_ne_bytes(array(bytes)).to_f32()
            }),
            other => fail!(
                ACLNN_ERR_PARAM_INVALID,
                "{} is not a float type here",
                name_of(other)
            ),
        }
    }

    /// The values as i64.
    pub(crate) fn integers(&self, memory: &Memory) -> Outcome<Vec<i64>> {
        match self.dtype {
            ACL_INT32 => self.read(memory, |bytes| i64::from(i32::from_ne_bytes(array(bytes)))),
            ACL_INT64 => self.read(memory, |bytes| i64::from_ne_bytes(array(bytes))),
            ACL_BOOL | ACL_UINT8 => self.read(memory, |bytes| i64::from(bytes[0])),
            other => fail!(
                ACLNN_ERR_PARAM_INVALID,
                "{} is not an integer type here",
                name_of(other)
            ),
        }
    }

    fn write<T: Copy, const N: usize>(
        &self,
        memory: &mut Memory,
        values: &[T],
        convert: impl Fn(T) -> [u8; N],
    ) -> Outcome<()> {
        let bytes = memory.bytes_mut(self.address, self.extent()?)?;
        for (offset, value) in self.offsets().into_iter().zip(values) {
            bytes[offset as usize * N..][..N].copy_from_slice(&convert(*value));
        }
        Ok(())
    }

    /// Stores the values, each rounded once, to nearest and ties to even.
    pub(crate) fn store(&self, memory: &mut Memory, values: &[f32]) -> Outcome<()> {
        match self.dtype {
            ACL_FLOAT => self.write(memory, values, f32::to_ne_bytes),
            ACL_FLOAT16 => self.write(memory, values, |value| {
                half::f16::from_f32(value).to_ne_bytes()
            }),
            ACL_BF16 => self.write(memory, values, |value| {
                half::bf16::from_f32(value).to_ne_bytes()
            }),
            other => fail!(
                ACLNN_ERR_PARAM_INVALID,
                "{} is not a float type here",
                name_of(other)
            ),
        }
    }

    pub(crate) fn store_integers(&self, memory: &mut Memory, values: &[i64]) -> Outcome<()> {
        match self.dtype {
            ACL_INT32 => self.write(memory, values, |value| (value as i32).to_ne_bytes()),
            ACL_INT64 => self.write(memory, values, i64::to_ne_bytes),
            other => fail!(
                ACLNN_ERR_PARAM_INVALID,
                "{} is not an integer type here",
                name_of(other)
            ),
        }
    }
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(bytes);
    array
}

/// The value rounded to a dtype and back, where an operator rounds on the way.
pub(crate) fn rounded(dtype: aclDataType, value: f32) -> f32 {
    match dtype {
        ACL_FLOAT16 => half::f16::from_f32(value).to_f32(),
        ACL_BF16 => half::bf16::from_f32(value).to_f32(),
        _ => value,
    }
}
