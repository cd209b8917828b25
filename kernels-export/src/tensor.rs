//! Tensors that come in.

use crate::call::{Error, refused};
use crate::made::Made;
use kernels_abi::DlTensor;
use kernels_simd::{DType, SliceMut, View};
use smallvec::SmallVec;
use std::ffi::c_void;

/// The type of the elements of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A float that kernels compute with.
    Float(DType),
    /// i64.
    I64,
    /// i32.
    I32,
    /// A byte, 0 or 1.
    Bool,
}

impl Type {
    fn of(tensor: &DlTensor) -> Result<Self, Error> {
        Ok(match (tensor.code, tensor.bits, tensor.lanes) {
            (2, 32, 1) => Self::Float(DType::F32),
            (2, 16, 1) => Self::Float(DType::F16),
            (4, 16, 1) => Self::Float(DType::Bf16),
            (0, 64, 1) => Self::I64,
            (0, 32, 1) => Self::I32,
            (6, 8, 1) => Self::Bool,
            (code, bits, lanes) => {
                return refused(format!(
                    "elements of DLPack's code {code} with {bits} bits and {lanes} lanes are not supported: f32, bf16, f16, i64, i32 and bool are"
                ));
            }
        })
    }

    fn size(self) -> usize {
        match self {
            Self::Float(dtype) => dtype.size(),
            Self::I64 => 8,
            Self::I32 => 4,
            Self::Bool => 1,
        }
    }
}

/// An operand whose memory the caller lends for the call.
#[derive(Clone, Debug)]
pub struct Tensor {
    first: *mut u8,
    /// The number of bytes from the first element to the end of the last.
    bytes: usize,
    dtype: Type,
    sizes: SmallVec<[usize; 6]>,
    strides: SmallVec<[isize; 6]>,
}

impl Tensor {
    /// Reads the description of a tensor.
    ///
    /// # Safety
    /// The tensor must be as described, and its memory must live for the call, during which nothing writes to it but this
    /// library.
    pub(crate) unsafe fn new(given: &DlTensor) -> Result<Self, Error> {
        if given.device[0] != 1 {
            return refused(format!(
                "the tensor must be on the CPU, and not on a device of DLPack's kind {}",
                given.device[0]
            ));
        }
        let dtype = Type::of(given)?;
        let axes = match usize::try_from(given.ndim) {
            Ok(0) => 0,
            Ok(axes) if axes <= 64 && !given.shape.is_null() => axes,
            _ => return refused(format!("a tensor of {} axes is not supported", given.ndim)),
        };
        let read = |numbers: *const i64| -> &[i64] {
            match axes {
                0 => &[],
                // SAFETY: the caller describes as many axes, and the pointer is not null.
                _ => unsafe { std::slice::from_raw_parts(numbers, axes) },
            }
        };
        let shape = read(given.shape);
        let mut sizes = SmallVec::new();
        for size in shape {
            match usize::try_from(*size) {
                Ok(size) => sizes.push(size),
                Err(_) => return refused(format!("a tensor of shape {shape:?} is not supported")),
            }
        }
        let strides: SmallVec<[isize; 6]> = match given.strides.is_null() {
            true => contiguous(&sizes),
            false => read(given.strides)
                .iter()
                .map(|stride| *stride as isize)
                .collect(),
        };
        let bytes = extent(&sizes, &strides)
            .and_then(|elements| elements.checked_mul(dtype.size()))
            .filter(|bytes| isize::try_from(*bytes).is_ok());
        let Some(bytes) = bytes else {
            return refused(format!(
                "a tensor of shape {shape:?} with strides {strides:?} is not supported: they must be positive"
            ));
        };
        let first = given
            .data
            .cast::<u8>()
            .wrapping_add(given.byte_offset as usize);
        if bytes > 0 && (first.is_null() || !first.addr().is_multiple_of(dtype.size())) {
            return refused("the memory of a tensor must be aligned to its elements".into());
        }
        Ok(Self {
            first,
            bytes,
            dtype,
            sizes,
            strides,
        })
    }

    /// Returns the type of the elements.
    pub fn dtype(&self) -> Type {
        self.dtype
    }

    /// Returns the sizes of the axes.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    fn memory(&self) -> &[u8] {
        match self.bytes {
            0 => &[],
            // SAFETY: the caller of `new` lends the memory from the first to the last element.
            bytes => unsafe { std::slice::from_raw_parts(self.first, bytes) },
        }
    }

    /// Returns the elements, which must be floats.
    pub(crate) fn view(&self) -> Result<View<'_>, Error> {
        let Type::Float(dtype) = self.dtype else {
            return refused(format!(
                "the elements must be floats, and not {:?}",
                self.dtype
            ));
        };
        let memory = self.memory();
        Ok(View::new(memory, dtype, &self.sizes, &self.strides, 0))
    }

    fn is_contiguous(&self) -> bool {
        let plain = contiguous(&self.sizes);
        self.sizes.contains(&0)
            || (self.sizes.iter().zip(&self.strides).zip(&plain))
                .all(|((size, stride), plain)| *size == 1 || stride == plain)
    }

    /// Returns contiguous integers.
    pub(crate) fn integers(&self) -> Result<Vec<i64>, Error> {
        self.must_be_contiguous()?;
        let memory = self.memory();
        match self.dtype {
            Type::I64 => Ok(memory
                .as_chunks()
                .0
                .iter()
                .map(|bytes| i64::from_ne_bytes(*bytes))
                .collect()),
            Type::I32 => {
                let numbers = memory.as_chunks().0.iter();
                Ok(numbers
                    .map(|bytes| i64::from(i32::from_ne_bytes(*bytes)))
                    .collect())
            }
            other => refused(format!("the elements must be integers, and not {other:?}")),
        }
    }

    /// Returns the last axis at each place of the others, in order, of a tensor of bools with contiguous rows.
    pub(crate) fn rows_of_bools(&self) -> Result<Vec<&[u8]>, Error> {
        let (Some((width, outer)), Some((stride, strides))) =
            (self.sizes.split_last(), self.strides.split_last())
        else {
            return refused("a tensor without axes has no rows".into());
        };
        if self.dtype != Type::Bool || (*stride != 1 && *width > 1) {
            return refused("the elements must be bools, and those of a row neighbours".into());
        }
        if self.sizes.contains(&0) {
            let count = outer
                .iter()
                .try_fold(1, |all: usize, size| all.checked_mul(*size));
            let mut rows = Vec::new();
            return match count.filter(|count| rows.try_reserve_exact(*count).is_ok()) {
                Some(count) => {
                    rows.resize(count, &[][..]);
                    Ok(rows)
                }
                None => refused(format!(
                    "a tensor of shape {:?} has more rows than fit into memory",
                    self.sizes()
                )),
            };
        }
        let mut starts = vec![0];
        for (size, stride) in outer.iter().zip(strides) {
            starts = (starts.iter())
                .flat_map(|start| (0..*size).map(move |at| start + at * *stride as usize))
                .collect();
        }
        let memory = self.memory();
        Ok(starts
            .into_iter()
            .map(|start| &memory[start..][..*width])
            .collect())
    }

    /// Checks that the elements are neighbours in row-major order.
    pub(crate) fn must_be_contiguous(&self) -> Result<(), Error> {
        match self.is_contiguous() {
            true => Ok(()),
            false => refused("the tensor must be contiguous".into()),
        }
    }

    /// Returns whether two tensors have elements between the first and the last of the other one.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        let [(start, end), (others, others_end)] = [self, other].map(|tensor| {
            let start = tensor.first.addr();
            (start, start.saturating_add(tensor.bytes))
        });
        self.bytes > 0 && other.bytes > 0 && start < others_end && others < end
    }

    /// Checks that a result can be copied to the memory of this tensor.
    pub(crate) fn must_take(&self, made: &Made) -> Result<(), Error> {
        self.must_be_contiguous()?;
        let dtype = Type::Float(made.dtype());
        match dtype == self.dtype && *self.sizes == *made.sizes() {
            true => Ok(()),
            false => refused(format!(
                "a result of shape {:?} in {dtype:?} does not go to a tensor of shape {:?} in {:?}",
                made.sizes(),
                &*self.sizes,
                self.dtype
            )),
        }
    }

    /// Copies a result to the memory of this tensor.
    pub(crate) fn fill(&mut self, made: &Made) -> Result<(), Error> {
        self.must_take(made)?;
        let bytes = made.bytes();
        // SAFETY: the memory of a contiguous tensor has as many bytes as its shape has elements. Nothing else refers to it
        // during the call, and results lie elsewhere.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.first, bytes.len()) };
        Ok(())
    }
}

/// Returns the floats of tensors that a call changes in place, which must be contiguous and lie apart from each other and
/// from the others.
pub(crate) fn in_place<'a, const N: usize>(
    tensors: [&'a mut Tensor; N],
    others: &[&Tensor],
) -> Result<[SliceMut<'a>; N], Error> {
    for (i, tensor) in tensors.iter().enumerate() {
        tensor.must_be_contiguous()?;
        let mut all = tensors[..i]
            .iter()
            .map(|other| &**other)
            .chain(others.iter().copied());
        if all.any(|other| tensor.meets(other)) {
            return refused("tensors that are changed in place must not overlap".into());
        }
        if !matches!(
            tensor.dtype,
            Type::Float(DType::F32 | DType::Bf16 | DType::F16)
        ) {
            return refused(format!(
                "the elements must be floats, and not {:?}",
                tensor.dtype
            ));
        }
    }
    Ok(tensors.map(|tensor| {
        let count = tensor.bytes / tensor.dtype.size();
        let first = match count {
            0 => std::ptr::without_provenance_mut(8),
            _ => tensor.first,
        };
        // SAFETY: the caller of `new` lends the memory of all elements, which is aligned and contiguous. No other
        // operand of the call overlaps it. All bits are numbers.
        unsafe {
            match tensor.dtype {
                Type::Float(DType::Bf16) => SliceMut::of(slice::<half::bf16>(first, count)),
                Type::Float(DType::F16) => SliceMut::of(slice::<half::f16>(first, count)),
                _ => SliceMut::of(slice::<f32>(first, count)),
            }
        }
    }))
}

/// # Safety
/// The requirements are those of [`std::slice::from_raw_parts_mut`].
unsafe fn slice<'a, T>(first: *mut u8, count: usize) -> &'a mut [T] {
    // SAFETY: the caller's.
    unsafe { std::slice::from_raw_parts_mut(first.cast(), count) }
}

/// Returns the strides of a contiguous tensor.
pub(crate) fn contiguous(sizes: &[usize]) -> SmallVec<[isize; 6]> {
    let mut strides: SmallVec<[isize; 6]> = sizes.iter().map(|_| 1).collect();
    for axis in (1..sizes.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(sizes[axis].max(1) as isize);
    }
    strides
}

/// Returns the number of elements from the first to the last, or `None` if a stride is negative or memory can't hold them.
fn extent(sizes: &[usize], strides: &[isize]) -> Option<usize> {
    if sizes.contains(&0) {
        return Some(0);
    }
    let steps = sizes.iter().zip(strides);
    let mut last = steps.map(|(size, stride)| match size {
        1 => Some(0),
        _ => usize::try_from(*stride).ok()?.checked_mul(size - 1),
    });
    last.try_fold(1_usize, |sum, part| sum.checked_add(part?))
}

/// Reads a tensor behind a pointer, which is null for an absent one.
///
/// # Safety
/// The requirements are those of [`Tensor::new`].
pub(crate) unsafe fn behind(pointer: *const c_void) -> Result<Option<Tensor>, Error> {
    // SAFETY: the caller's.
    match unsafe { pointer.cast::<DlTensor>().as_ref() } {
        // SAFETY: the caller's.
        Some(tensor) => unsafe { Tensor::new(tensor) }.map(Some),
        None => Ok(None),
    }
}
