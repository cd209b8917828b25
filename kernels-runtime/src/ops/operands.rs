//! The parts that the operands of all operations share.
//!
//! Each operation has a type `Operands<T>`, whose `T` is a tensor of a backend, of Burn's dispatch, or
//! the autodiff node of one. It only exists checked: `Operands::new` compares shapes, settings and key,
//! and is the one way to make it. Direct calls, annotated sites and the handlers of served operations
//! all go through it, and kernels take nothing else. [`Mismatch`] is what it says otherwise: a panic
//! with its sentence in the process, an error over the wire.
//!
//! Kernels take one dtype, which sites don't know before they decide. So dtypes are compared where a
//! kernel starts, by `checked(operands.dtype())`, and by the handlers.

use burn::backend::{Shape, TensorMetadata};
use burn::tensor::{DType, IntDType, Tensor};
use std::fmt;

/// Why operands don't go together: one sentence that names the operation and the operand.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Mismatch(String);

impl fmt::Debug for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Mismatch {
    /// The same with the name of the operation before it.
    #[cold]
    pub(crate) fn of(self, op: &str) -> Self {
        Self::new(format_args!("{op}: {self}"))
    }

    #[cold]
    pub(crate) fn new(sentence: impl fmt::Display) -> Self {
        Self(sentence.to_string())
    }
}

/// Returns a [`Mismatch`] with the sentence unless the condition holds.
macro_rules! require {
    ($condition:expr, $($sentence:tt)+) => {
        // Not `!`, which says something else of a NaN.
        if $condition {
        } else {
            return Err($crate::ops::Mismatch::new(format_args!($($sentence)+)));
        }
    };
}
pub(crate) use require;

/// Returns operands that go together, or panics with the sentence.
#[track_caller]
pub(crate) fn checked<T>(operands: Result<T, Mismatch>) -> T {
    // Not `expect`, which would put words of its own before the sentence.
    operands.unwrap_or_else(|mismatch| panic!("{mismatch}"))
}

/// A tensor as checks see it.
pub trait Described {
    /// The sizes of the axes.
    fn shape(&self) -> Shape;
    /// The type of the elements.
    fn dtype(&self) -> DType;
}

impl<T: TensorMetadata> Described for T {
    fn shape(&self) -> Shape {
        TensorMetadata::shape(self)
    }

    fn dtype(&self) -> DType {
        TensorMetadata::dtype(self)
    }
}

/// The description of a tensor whose operation does not run here, such as that of a reference.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    shape: Shape,
    dtype: DType,
}

impl Described for Facts {
    fn shape(&self) -> Shape {
        self.shape.clone()
    }

    fn dtype(&self) -> DType {
        self.dtype
    }
}

impl<const D: usize, K: burn::tensor::kind::Basic> From<&Tensor<D, K>> for Facts {
    fn from(tensor: &Tensor<D, K>) -> Self {
        Self {
            shape: tensor.shape(),
            dtype: tensor.dtype(),
        }
    }
}

/// Requires one floating-point type of all tensors, which come with their names. Returns it.
pub(crate) fn one_dtype<'t, T: Described + 't>(
    op: &str,
    tensors: impl IntoIterator<Item = (&'static str, &'t T)>,
) -> Result<DType, Mismatch> {
    let mut found: Option<(&str, DType)> = None;
    for (name, tensor) in tensors {
        let dtype = tensor.dtype();
        let (first, expected) = *found.get_or_insert((name, dtype));
        require!(
            dtype == expected,
            "{op}: {name} is {dtype:?}, but {first} is {expected:?}; a kernel takes one dtype"
        );
    }
    let (name, dtype) = found.expect("an operation has tensors");
    float(op, name, dtype)
}

/// Requires a floating-point type that kernels take. Returns it.
pub(crate) fn float(op: &str, name: &str, dtype: DType) -> Result<DType, Mismatch> {
    require!(
        crate::registry::FloatType::from_dtype(dtype).is_some(),
        "{op}: {name} is {dtype:?}; kernels take F64, F32, F16 and BF16"
    );
    Ok(dtype)
}

/// Requires a type of integers.
pub(crate) fn integers(op: &str, name: &str, dtype: DType) -> Result<(), Mismatch> {
    require!(
        dtype.is_int() || dtype.is_uint(),
        "{op}: {name} are {dtype:?}, but must be integers"
    );
    Ok(())
}

/// Requires a type of integers to hold a number, the largest that a result may have.
pub(crate) fn holds(op: &str, name: &str, dtype: IntDType, largest: usize) -> Result<(), Mismatch> {
    let bits = match dtype {
        IntDType::I8 => 7,
        IntDType::U8 => 8,
        IntDType::I16 => 15,
        IntDType::U16 => 16,
        IntDType::I32 => 31,
        IntDType::U32 => 32,
        IntDType::I64 | IntDType::U64 => 63,
    };
    require!(
        largest >> bits == 0,
        "{op}: {name} may be as large as {largest}, which {dtype:?} does not hold; set a wider type of \
         integers for the device"
    );
    Ok(())
}

/// Requires a tensor, such as a gradient, to be like another one.
pub(crate) fn like(
    op: &str,
    (name, tensor): (&str, &impl Described),
    (other, shape, dtype): (&str, &Shape, DType),
) -> Result<(), Mismatch> {
    require!(
        tensor.shape() == *shape && tensor.dtype() == dtype,
        "{op}: {name} is {:?} of {:?}, but must be like {other}, {:?} of {dtype:?}",
        tensor.shape().as_slice(),
        tensor.dtype(),
        shape.as_slice()
    );
    Ok(())
}

/// The sizes of a tensor that has `D` axes.
pub(crate) fn dims<const D: usize>(
    op: &str,
    name: &str,
    tensor: &impl Described,
) -> Result<[usize; D], Mismatch> {
    let shape = tensor.shape();
    let elements = |product: usize, size: &usize| product.checked_mul(*size);
    require!(
        shape.iter().try_fold(1, elements).is_some(),
        "{op}: {name} is {:?}, which is more elements than can be counted",
        shape.as_slice()
    );
    <[usize; D]>::try_from(shape.as_slice()).map_err(|_| {
        Mismatch::new(format_args!(
            "{op}: {name} is {:?}, which has {} axes and not {D}",
            shape.as_slice(),
            shape.num_dims()
        ))
    })
}

/// The number of experts and the sizes of one's tensor, of one stacked tensor or one for each expert.
/// No tensors are those of no expert.
pub(crate) fn stack<const STACKED: usize, const SINGLE: usize, T: Described>(
    what: &str,
    tensors: &[T],
) -> Result<(usize, [usize; SINGLE]), Mismatch> {
    let Some(first) = tensors.first() else {
        return Ok((0, [0; SINGLE]));
    };
    if tensors.len() == 1 && first.shape().num_dims() == STACKED {
        let sizes: [usize; STACKED] = dims(what, "the weights", first)?;
        return Ok((sizes[0], std::array::from_fn(|axis| sizes[axis + 1])));
    }
    let sizes: [usize; SINGLE] = dims(what, "the weight of an expert", first)?;
    for (expert, tensor) in tensors.iter().enumerate() {
        require!(
            tensor.shape() == first.shape(),
            "{what}: the weights of expert {expert} are {:?}, those of expert 0 {:?}",
            tensor.shape().as_slice(),
            first.shape().as_slice()
        );
    }
    Ok((tensors.len(), sizes))
}

/// Collects as many items as an operation has tensors.
pub(crate) fn array<T, const N: usize>(items: impl IntoIterator<Item = T>) -> [T; N] {
    let mut items = items.into_iter();
    std::array::from_fn(|_| items.next().expect("as many tensors as were counted"))
}
