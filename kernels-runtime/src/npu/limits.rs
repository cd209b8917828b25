//! The limits of CANN's operators, checked before a call is sent. Only the types and shapes of the tensors are known
//! there, not their memory layout. If CANN takes only contiguous tensors, others are copied on the device.

use super::{Refused, Seen};
use crate::reason::Reason;
use crate::registry::FloatType;
use crate::remote::with_platform;
use burn::backend::{DispatchTensor, TensorMetadata};
use burn_cann::{DType, Platform, Spec};
use smallvec::SmallVec;

/// Returns the result of `decide` for tensors of these types and shapes, on the device of the first one.
///
/// This check is made at every call, also for cached decisions. It compares a few integers and reads the table of
/// remote devices once. For up to four tensors of up to five dimensions, it allocates nothing. Nor do the decisions of
/// operations if they take the call, except for experts and grouped products, whose weights are put into lists. Burn
/// copies the address of the server when it returns a tensor's device. A refusal allocates its message.
pub(crate) fn ask<T>(
    tensors: &[&DispatchTensor],
    decide: impl FnOnce(&Platform, Specs) -> Result<T, Refused>,
) -> Result<(), Reason> {
    let specs = tensors.iter().map(|tensor| spec(tensor));
    let specs = specs.collect::<Result<SmallVec<[_; 4]>, _>>()?;
    let specs = Specs(specs.into_iter());
    let decided = with_platform(tensors[0], |platform| decide(platform, specs));
    match decided.ok_or(Reason::CannotLoad)? {
        Ok(_) => Ok(()),
        Err(refused) => {
            tracing::debug!("refused by CANN's operators: {refused}");
            Err(refused.reason)
        }
    }
}

/// The tensors of a call, in order.
pub(crate) struct Specs(smallvec::IntoIter<[Spec; 4]>);

impl Specs {
    /// Takes the next tensor.
    pub(crate) fn one(&mut self) -> Seen<Spec> {
        self.next().expect("as many operands as the key has")
    }

    /// Takes the next tensor if the key has it.
    pub(crate) fn one_if(&mut self, there: bool) -> Option<Seen<Spec>> {
        there.then(|| self.one())
    }
}

impl Iterator for Specs {
    type Item = Seen<Spec>;

    fn next(&mut self) -> Option<Seen<Spec>> {
        self.0.next().map(Seen)
    }
}

fn spec(tensor: &DispatchTensor) -> Result<Spec, Reason> {
    contiguous(
        dtype(tensor.dtype()).ok_or(Reason::Dtype)?,
        tensor.shape().as_slice(),
    )
}

fn contiguous(dtype: DType, shape: &[usize]) -> Result<Spec, Reason> {
    Spec::contiguous(dtype, shape).map_err(|_| Reason::Shape)
}

/// Returns CANN's dtype for one of Burn's.
pub(crate) fn dtype(dtype: burn::tensor::DType) -> Option<DType> {
    use burn::tensor::DType as Burn;
    Some(match dtype {
        Burn::F64 => DType::F64,
        Burn::F32 => DType::F32,
        Burn::F16 => DType::F16,
        Burn::BF16 => DType::BF16,
        Burn::I64 => DType::I64,
        Burn::I32 => DType::I32,
        _ => return None,
    })
}

/// Returns CANN's dtype for a type of kernels.
pub(crate) fn of_float(float: FloatType) -> DType {
    dtype(float.dtype()).expect("CANN has all types of kernels")
}

/// Returns the spec of integers of this shape, for experts' indices.
pub(crate) fn indices(shape: &[usize]) -> Result<Spec, Refused> {
    Ok(Spec::contiguous(DType::I32, shape)?)
}
