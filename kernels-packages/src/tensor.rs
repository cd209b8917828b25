//! Tensors that a call borrows.

use crate::error::Error;
use half::{bf16, f16};
use kernels_abi::DlTensor;
use smallvec::SmallVec;
use std::ffi::c_void;
use std::marker::PhantomData;

/// The most axes of a tensor.
const MOST_AXES: usize = 64;

/// The type of the elements of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// f32.
    F32,
    /// f64.
    F64,
    /// bf16.
    Bf16,
    /// f16.
    F16,
    /// i32.
    I32,
    /// i64.
    I64,
    /// u8.
    U8,
    /// A byte, 0 or 1.
    Bool,
}

impl DType {
    /// Returns the code of DLPack and the bits of an element.
    fn code(self) -> (u8, u8) {
        match self {
            Self::F32 => (2, 32),
            Self::F64 => (2, 64),
            Self::Bf16 => (4, 16),
            Self::F16 => (2, 16),
            Self::I32 => (0, 32),
            Self::I64 => (0, 64),
            Self::U8 => (1, 8),
            Self::Bool => (6, 8),
        }
    }

    /// Returns the bytes of an element.
    pub fn size(self) -> usize {
        usize::from(self.code().1) / 8
    }
}

/// A type of elements.
pub trait Element: sealed::Sealed + Copy {
    /// The type as a value.
    const DTYPE: DType;
}

/// A type whose elements may have any bits, so that a function can write them.
pub trait Writable: Element {}

mod sealed {
    pub trait Sealed {}
}

macro_rules! elements {
    ($($Type:ty => $dtype:ident),+) => {
        $(impl sealed::Sealed for $Type {}
        impl Element for $Type {
            const DTYPE: DType = DType::$dtype;
        })+
    };
}
elements!(f32 => F32, f64 => F64, bf16 => Bf16, f16 => F16, i32 => I32, i64 => I64, u8 => U8, bool => Bool);

macro_rules! writable {
    ($($Type:ty),+) => { $(impl Writable for $Type {})+ };
}
writable!(f32, f64, bf16, f16, i32, i64, u8);

/// The device of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Device {
    /// The memory of the host.
    Cpu,
    /// An NPU, which is a device of an extension in DLPack.
    Npu(i32),
}

impl Device {
    /// Returns the kind and the number in DLPack.
    pub(crate) fn code(self) -> [i32; 2] {
        match self {
            Self::Cpu => [1, 0],
            Self::Npu(number) => [12, number],
        }
    }
}

/// A tensor for the arguments of a call.
///
/// It borrows its memory: while it lives, nothing else writes to the elements, and if it came from a slice that can
/// be written, nothing else reads them.
#[derive(Debug)]
pub struct Tensor<'a> {
    data: *mut c_void,
    dtype: DType,
    device: Device,
    shape: SmallVec<[i64; 6]>,
    strides: SmallVec<[i64; 6]>,
    memory: PhantomData<&'a ()>,
}

impl<'a> Tensor<'a> {
    /// Borrows contiguous elements of the shape, which a function may read.
    ///
    /// # Errors
    /// Returns an error if the shape has more or fewer elements than the slice.
    pub fn new<E: Element>(elements: &'a [E], shape: &[usize]) -> Result<Self, Error> {
        let strides = contiguous(shape, elements.len())?;
        Ok(Self::over(elements.as_ptr().cast_mut(), shape, strides))
    }

    /// Borrows contiguous elements of the shape, which a function may read and write.
    ///
    /// # Errors
    /// Returns an error if the shape has more or fewer elements than the slice.
    pub fn new_mut<E: Writable>(elements: &'a mut [E], shape: &[usize]) -> Result<Self, Error> {
        let strides = contiguous(shape, elements.len())?;
        Ok(Self::over(elements.as_mut_ptr(), shape, strides))
    }

    /// Borrows elements at strides, in elements, which a function may read. The first is the first of the slice.
    ///
    /// # Errors
    /// Returns an error if there are not as many strides as axes, or if an element lies outside of the slice.
    pub fn strided<E: Element>(
        elements: &'a [E],
        shape: &[usize],
        strides: &[usize],
    ) -> Result<Self, Error> {
        let lies_inside = extent(shape, strides).is_some_and(|extent| extent <= elements.len());
        if shape.len() != strides.len() || !lies_inside || shape.len() > MOST_AXES {
            return Err(Error::Setting(format!(
                "a tensor of shape {shape:?} with strides {strides:?} does not lie in {} elements",
                elements.len()
            )));
        }
        // Both are at most the number of elements in memory, or the axis has one element or none.
        let strides = strides
            .iter()
            .map(|stride| i64::try_from(*stride).unwrap_or(0))
            .collect();
        Ok(Self::over(elements.as_ptr().cast_mut(), shape, strides))
    }

    fn over<E: Element>(first: *mut E, shape: &[usize], strides: SmallVec<[i64; 6]>) -> Self {
        Self {
            data: first.cast(),
            dtype: E::DTYPE,
            device: Device::Cpu,
            // An empty tensor may have an axis that no memory has.
            shape: shape
                .iter()
                .map(|size| i64::try_from(*size).unwrap_or(i64::MAX))
                .collect(),
            strides,
            memory: PhantomData,
        }
    }

    /// Describes memory that is not a slice, such as that of an NPU. Strides are in elements.
    ///
    /// # Safety
    /// For `'a`, the memory must be that of the tensor on its device, and not be used by others while a call reads or
    /// writes it.
    ///
    /// # Panics
    /// Panics if there are not as many strides as axes, or if there are more than 64.
    pub unsafe fn from_raw(
        data: *mut c_void,
        dtype: DType,
        device: Device,
        shape: &[i64],
        strides: &[i64],
    ) -> Self {
        assert!(
            shape.len() == strides.len() && shape.len() <= MOST_AXES,
            "a tensor of shape {shape:?} with strides {strides:?} is not supported"
        );
        Self {
            data,
            dtype,
            device,
            shape: shape.into(),
            strides: strides.into(),
            memory: PhantomData,
        }
    }

    /// Returns the type of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the sizes of the axes.
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// Returns the description, which points into this tensor.
    pub(crate) fn described(&self) -> DlTensor {
        let (code, bits) = self.dtype.code();
        DlTensor {
            data: self.data,
            device: self.device.code(),
            ndim: self.shape.len() as i32,
            code,
            bits,
            lanes: 1,
            shape: self.shape.as_ptr().cast_mut(),
            strides: self.strides.as_ptr().cast_mut(),
            byte_offset: 0,
        }
    }
}

/// Returns the strides of contiguous elements.
fn contiguous(shape: &[usize], elements: usize) -> Result<SmallVec<[i64; 6]>, Error> {
    let count = shape
        .iter()
        .try_fold(1_usize, |count, size| count.checked_mul(*size));
    let is_empty = shape.contains(&0) && elements == 0;
    if (count != Some(elements) && !is_empty) || shape.len() > MOST_AXES {
        return Err(Error::Setting(format!(
            "{elements} elements are not a tensor of shape {shape:?}"
        )));
    }
    let mut strides: SmallVec<[i64; 6]> = SmallVec::from_elem(1, shape.len());
    let mut stride = 1_i64;
    for (axis, size) in shape.iter().enumerate().rev() {
        strides[axis] = stride;
        stride = stride.saturating_mul(i64::try_from((*size).max(1)).unwrap_or(i64::MAX));
    }
    Ok(strides)
}

/// Returns the number of elements from the first to behind the last.
fn extent(shape: &[usize], strides: &[usize]) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    let mut last = 0_usize;
    for (size, stride) in shape.iter().zip(strides) {
        last = last.checked_add((size - 1).checked_mul(*stride)?)?;
    }
    last.checked_add(1)
}
