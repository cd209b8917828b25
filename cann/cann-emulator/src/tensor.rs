//! Tensors: views of device memory, and their values on the host.

use cann_sys::meta::*;

use crate::error::{Outcome, ensure, fail};
use crate::memory::Memory;

/// The arguments of `aclCreateTensor`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tensor {
    pub(crate) dtype: aclDataType,
    pub(crate) shape: Vec<usize>,
    pub(crate) strides: Vec<i64>,
    /// The number of elements from `address` to the first.
    pub(crate) offset: i64,
    pub(crate) format: aclFormat,
    pub(crate) storage: Vec<i64>,
    pub(crate) address: usize,
}

/// The values that are written to a tensor.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a, T> {
    /// Those of the elements, in the order of the shape.
    Each(&'a [T]),
    /// One for all elements.
    One(T),
}

/// The most elements of a view that has more of them than memory, because some share it. A host could not hold what a
/// device would compute one by one.
pub(crate) const MOST_SHARED: usize = 1 << 28;

/// Returns the size of an element in bytes, for the dtypes that the emulator computes with or copies.
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

/// Returns a dtype's name for messages.
pub(crate) fn name_of(dtype: aclDataType) -> &'static str {
    match dtype {
        ACL_FLOAT => "f32",
        ACL_FLOAT16 => "f16",
        ACL_BF16 => "bf16",
        ACL_DOUBLE => "f64",
        ACL_INT8 => "i8",
        ACL_INT16 => "i16",
        ACL_UINT8 => "u8",
        ACL_UINT16 => "u16",
        ACL_UINT32 => "u32",
        ACL_UINT64 => "u64",
        ACL_INT32 => "i32",
        ACL_INT64 => "i64",
        ACL_BOOL => "bool",
        _ => "another dtype",
    }
}

/// Returns the strides of a contiguous tensor.
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

    /// Returns `true` if its last two axes are swapped: the layout of a transposed matrix.
    pub(crate) fn is_transposed(&self) -> bool {
        let rank = self.rank();
        rank >= 2
            && self.strides[rank - 2] == 1
            && self.strides[rank - 1] == self.shape[rank - 2] as i64
    }

    /// Returns the view repeated along axes that it lacks or has with length 1, by strides of zero.
    pub(crate) fn expanded(&self, shape: &[usize]) -> Self {
        let missing = shape.len() - self.rank();
        let strides = shape.iter().enumerate().map(|(axis, length)| {
            let own = axis.checked_sub(missing);
            own.filter(|own| self.shape[*own] == *length)
                .map_or(0, |own| self.strides[own])
        });
        Self {
            strides: strides.collect(),
            shape: shape.to_vec(),
            ..self.clone()
        }
    }

    /// Returns the view with its axes in another order.
    pub(crate) fn permuted(&self, order: &[usize]) -> Self {
        Self {
            shape: order.iter().map(|axis| self.shape[*axis]).collect(),
            strides: order.iter().map(|axis| self.strides[*axis]).collect(),
            ..self.clone()
        }
    }

    /// Returns `true` if some of its elements share memory, so that it can't be written.
    pub(crate) fn overlaps(&self) -> bool {
        let mut axes: Vec<_> = self.shape.iter().zip(&self.strides).collect();
        axes.retain(|(length, _)| **length != 1);
        axes.sort_by_key(|(_, stride)| stride.unsigned_abs());
        let mut reach = 0;
        self.count() > 0
            && axes.into_iter().any(|(length, stride)| {
                let apart = stride.unsigned_abs() > reach;
                reach += (*length as u64 - 1) * stride.unsigned_abs();
                !apart
            })
    }

    /// Returns the smallest equal set of axes: without those of length 1, and with neighbours joined if their elements
    /// have one stride.
    fn merged_axes(&self) -> Vec<(usize, i64)> {
        let mut axes: Vec<(usize, i64)> = Vec::with_capacity(self.rank());
        for (length, stride) in self.shape.iter().zip(&self.strides) {
            match axes.last_mut() {
                _ if *length == 1 => {}
                Some(outer) if outer.1 == *length as i64 * stride => {
                    *outer = (outer.0 * length, *stride)
                }
                _ => axes.push((*length, *stride)),
            }
        }
        axes
    }

    /// Visits the elements in the order of the shape, in runs: the position of the first element, their number, and
    /// the stride between them.
    fn runs(&self, mut visit: impl FnMut(i64, usize, i64)) {
        if self.count() == 0 {
            return;
        }
        let mut axes = self.merged_axes();
        let (length, stride) = axes.pop().unwrap_or((1, 1));
        let mut index = vec![0; axes.len()];
        let mut place = self.offset;
        loop {
            visit(place, length, stride);
            let mut axis = axes.len();
            loop {
                if axis == 0 {
                    return;
                }
                axis -= 1;
                index[axis] += 1;
                place += axes[axis].1;
                if index[axis] < axes[axis].0 {
                    break;
                }
                place -= axes[axis].1 * index[axis] as i64;
                index[axis] = 0;
            }
        }
    }

    /// Returns the number of bytes from `address` to the end of the last element. Fails if an element is before
    /// `address`.
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
            _ => fail!("a view that begins before its storage"),
        }
    }

    /// Checks that the device has the memory of the view, aligned as operators need it.
    pub(crate) fn check_memory(&self, memory: &Memory) -> Outcome<()> {
        let extent = self.extent()?;
        if extent == 0 {
            return Ok(());
        }
        ensure!(self.address.is_multiple_of(32);
            "the data at {:#x} is not aligned to 32 bytes; use the offset of the descriptor",
            self.address);
        memory.bytes(self.address, extent).map(drop)
    }

    /// Returns the values, converted by `convert` from the element's bytes.
    pub(crate) fn read<T: Copy, const N: usize>(
        &self,
        memory: &Memory,
        convert: impl Fn([u8; N]) -> T,
    ) -> Outcome<Vec<T>> {
        let (elements, _) = memory.bytes(self.address, self.extent()?)?.as_chunks::<N>();
        let count = self.count();
        ensure!(count <= elements.len().max(MOST_SHARED);
            "{:?} has {count} elements in the memory of {}; the emulator repeats up to \
             {MOST_SHARED}", self.shape, elements.len());
        let mut values = Vec::with_capacity(count);
        self.runs(|place, length, step| {
            let start = place as usize;
            match step {
                0 => values.extend(std::iter::repeat_n(convert(elements[start]), length)),
                1 => values.extend(
                    elements[start..][..length]
                        .iter()
                        .map(|bytes| convert(*bytes)),
                ),
                _ => {
                    let places = (0..length).map(|at| (place + at as i64 * step) as usize);
                    values.extend(places.map(|at| convert(elements[at])));
                }
            }
        });
        Ok(values)
    }

    /// Writes values, converted by `convert` to the element's bytes.
    pub(crate) fn write<T: Copy, const N: usize>(
        &self,
        memory: &mut Memory,
        values: Source<'_, T>,
        convert: impl Fn(T) -> [u8; N],
    ) -> Outcome<()> {
        let bytes = memory.bytes_mut(self.address, self.extent()?)?;
        let (elements, _) = bytes.as_chunks_mut::<N>();
        let mut written = 0;
        self.runs(|place, length, step| {
            let places = (0..length).map(|at| (place + at as i64 * step) as usize);
            match values {
                Source::One(value) if step == 1 => {
                    elements[place as usize..][..length].fill(convert(value));
                }
                Source::One(value) => places.for_each(|at| elements[at] = convert(value)),
                Source::Each(values) => {
                    let values = &values[written..][..length];
                    // Neighbours are written without a check for each.
                    if step == 1 {
                        let run = elements[place as usize..][..length].iter_mut();
                        run.zip(values).for_each(|(to, from)| *to = convert(*from));
                    } else {
                        places
                            .zip(values)
                            .for_each(|(at, value)| elements[at] = convert(*value));
                    }
                }
            }
            written += length;
        });
        Ok(())
    }

    /// Returns the values as f32, which holds half types exactly.
    pub(crate) fn floats(&self, memory: &Memory) -> Outcome<Vec<f32>> {
        match self.dtype {
            ACL_FLOAT | ACL_FLOAT16 | ACL_BF16 => self.values(memory),
            other => fail!("{} is not a float type here", name_of(other)),
        }
    }

    /// Returns the values as i64.
    pub(crate) fn integers(&self, memory: &Memory) -> Outcome<Vec<i64>> {
        match self.dtype {
            ACL_INT32 | ACL_INT64 | ACL_BOOL | ACL_UINT8 => self.values(memory),
            other => fail!("{} is not an integer type here", name_of(other)),
        }
    }

    /// Stores the values, each rounded once, to nearest with ties to even.
    pub(crate) fn store(&self, memory: &mut Memory, values: &[f32]) -> Outcome<()> {
        match self.dtype {
            ACL_FLOAT | ACL_FLOAT16 | ACL_BF16 => self.store_values(memory, values),
            other => fail!("{} is not a float type here", name_of(other)),
        }
    }

    pub(crate) fn store_integers(&self, memory: &mut Memory, values: &[i64]) -> Outcome<()> {
        match self.dtype {
            ACL_INT32 | ACL_INT64 => self.store_values(memory, values),
            other => fail!("{} is not an integer type here", name_of(other)),
        }
    }
}

/// Returns the value rounded to a dtype and back, for operators that round in between.
pub(crate) fn rounded(dtype: aclDataType, value: f32) -> f32 {
    match dtype {
        ACL_FLOAT16 => half::f16::from_f32(value).to_f32(),
        ACL_BF16 => half::bf16::from_f32(value).to_f32(),
        _ => value,
    }
}
