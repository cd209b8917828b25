//! Checks that the operands of all operations share.
//!
//! Each operation has a type `Operands<T>`, whose `T` is a tensor of a backend, a tensor of Burn's dispatch, or
//! the autodiff node of one. Its only constructor, `Operands::new`, checks shapes, settings and key, so a value
//! of the type is always checked. Direct calls, annotated sites and the handlers of served operations all use
//! it, and kernels take nothing else. If a check fails, `new` returns a [`Mismatch`]: in the process its
//! sentence becomes a panic, over the wire an error.
//!
//! All tensors of a kernel have one dtype, which sites don't know before they choose an implementation. Dtypes are
//! therefore compared where a kernel starts, by `checked(operands.dtype())`, and by the handlers.

use crate::device::DeviceKind;
use crate::dispatch::Entered;
use burn::backend::{Shape, TensorMetadata};
use burn::tensor::{DType, IntDType, Tensor};
use std::fmt;

/// The error of operands that don't go together: one sentence that names the operation and the operand.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Mismatch(String);

impl fmt::Debug for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Mismatch {
    /// Puts the name of the operation before the sentence.
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
        // `else` instead of `!`: negated comparisons are easily misread where a NaN is possible.
        if $condition {
        } else {
            return Err($crate::ops::Mismatch::new(format_args!($($sentence)+)));
        }
    };
}
pub(crate) use require;

/// Returns operands that go together. Panics with the sentence otherwise, and with the call of a site that it is in.
#[track_caller]
pub(crate) fn checked<T>(operands: Result<T, Mismatch>) -> T {
    // Not `expect`, which would put its own words before the sentence, nor a closure, which has no caller.
    match operands {
        Ok(operands) => operands,
        Err(mismatch) => refuse(mismatch),
    }
}

/// Panics with a problem, and with the site and the place of the call that this thread is in.
#[cold]
#[track_caller]
pub(crate) fn refuse(problem: impl fmt::Display) -> ! {
    match Entered::innermost() {
        Some(call) => panic!("{problem}\n{call}"),
        None => panic!("{problem}"),
    }
}

/// The properties of a tensor that checks read.
pub trait Described {
    /// Returns the sizes of the axes.
    fn shape(&self) -> Shape;
    /// Returns the type of the elements.
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

/// The shape and dtype of a tensor whose operation does not run here, such as that of a reference.
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

/// Checks that all tensors, given with their names, have the same floating-point type, and returns it.
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

/// Checks that kernels take this floating-point type, and returns it.
pub(crate) fn float(op: &str, name: &str, dtype: DType) -> Result<DType, Mismatch> {
    require!(
        crate::registry::FloatType::from_dtype(dtype).is_some(),
        "{op}: {name} is {dtype:?}; kernels take F64, F32, F16 and BF16"
    );
    Ok(dtype)
}

/// Checks that the dtype is a type of integers.
pub(crate) fn integers(op: &str, name: &str, dtype: DType) -> Result<(), Mismatch> {
    require!(
        dtype.is_int() || dtype.is_uint(),
        "{op}: {name} are {dtype:?}, but must be integers"
    );
    Ok(())
}

/// Checks that the device of integers computes with their type: CANN takes i32 and i64.
pub(crate) fn integers_on(
    op: &str,
    name: &str,
    dtype: DType,
    device: impl FnOnce() -> DeviceKind,
) -> Result<(), Mismatch> {
    require!(
        matches!(dtype, DType::I32 | DType::I64) || device() != DeviceKind::Npu,
        "{op}: {name} are {dtype:?}, but an NPU takes I32 and I64; use one of these types"
    );
    Ok(())
}

/// Checks that an integer type can hold `largest`, the largest value that a result may have.
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

/// Checks that the epsilon of a norm is a number in the type that kernels compute in, f32.
pub(crate) fn epsilon(op: &str, eps: f64) -> Result<(), Mismatch> {
    require!(
        (eps as f32).is_finite(),
        "{op}: epsilon is {eps}, but must be a finite number in f32"
    );
    Ok(())
}

/// Checks that a tensor, such as a gradient, has the shape and dtype of another one.
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

/// Returns the sizes of a tensor, which must have `D` axes.
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

/// Returns the number of experts and the sizes of the tensor of one expert. The weights are either one stacked tensor
/// or one tensor for each expert. Without tensors there are no experts, and the sizes are 0.
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

/// Collects exactly as many items as an operation has tensors.
pub(crate) fn array<T, const N: usize>(items: impl IntoIterator<Item = T>) -> [T; N] {
    let mut items = items.into_iter();
    std::array::from_fn(|_| items.next().expect("as many tensors as were counted"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_npu_takes_two_types_of_integers() {
        let of = |dtype, kind| integers_on("experts", "the indices", dtype, || kind);
        for dtype in [DType::I32, DType::I64] {
            of(dtype, DeviceKind::Npu).unwrap();
        }
        of(DType::U8, DeviceKind::Cpu).unwrap();
        let why = of(DType::U8, DeviceKind::Npu).unwrap_err().to_string();
        assert!(why.starts_with("experts: the indices are U8, but an NPU takes I32 and I64"));
    }
}
