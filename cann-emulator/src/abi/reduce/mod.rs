//! Reductions over axes, running sums, and softmax.
//!
//! The values of each element of the result form a run: the reduced axes are moved behind the others, which needs no
//! copy.

mod along;

pub use self::along::*;

use std::sync::Arc;

use cann_sys::meta::*;

use crate::abi::checks::{FLOATS, INDICES, NUMBERS, REALS, USUAL, axis, check_size};
use crate::abi::operators;
use crate::error::{Outcome, ensure};
use crate::executor::{Operands, Work, phase_one};
use crate::memory::Memory;
use crate::number::{Number, by_number};
use crate::ops::arithmetic::Arithmetic;
use crate::ops::reduce as maths;
use crate::tensor::Tensor;

/// The reduced axes and the shape of the result.
struct Reduced {
    /// The axes that stay, then the reduced ones.
    order: Vec<usize>,
    kept: usize,
    /// The shape of the result.
    shape: Vec<usize>,
}

/// Returns the division of the axes. Empty `axes` stand for all axes.
fn reduced(tensor: &Tensor, axes: &[i64], keep: bool) -> Outcome<Reduced> {
    let mut gone = vec![axes.is_empty(); tensor.rank()];
    for at in axes {
        let at = axis(tensor, *at)?;
        if tensor.rank() > 0 {
            ensure!(
                !gone[at],
                ACLNN_ERR_PARAM_INVALID,
                "axis {at} is named twice"
            );
            gone[at] = true;
        }
    }
    let all = || 0..tensor.rank();
    let stays: Vec<usize> = all().filter(|at| !gone[*at]).collect();
    let shape = all().filter(|at| keep || !gone[*at]);
    Ok(Reduced {
        kept: stays.len(),
        order: stays
            .into_iter()
            .chain(all().filter(|at| gone[*at]))
            .collect(),
        shape: shape
            .map(|at| if gone[at] { 1 } else { tensor.shape[at] })
            .collect(),
    })
}

impl Reduced {
    /// Returns the runs of `tensor`'s converted values, one for each element of the result.
    fn runs<T: Number, U>(
        &self,
        memory: &Memory,
        tensor: &Tensor,
        reduce: impl Fn(&[T]) -> U,
    ) -> Outcome<Vec<U>> {
        let tensor = tensor.permuted(&self.order);
        let values = tensor.values::<T>(memory)?;
        let length: usize = tensor.shape[self.kept..].iter().product();
        if length == 0 {
            let count = tensor.shape[..self.kept].iter().product();
            return Ok((0..count).map(|_| reduce(&[])).collect());
        }
        Ok(values.chunks_exact(length).map(reduce).collect())
    }

    /// Returns the work that reduces each run to one value.
    fn work<T: Number, U: Number>(
        self,
        reduce: impl Fn(&[T]) -> U + Send + Sync + 'static,
    ) -> Work {
        Arc::new(move |memory, operands| {
            let values = self.runs(memory, &operands[0], &reduce)?;
            operands[1].store_values(memory, &values)
        })
    }
}

/// Takes an input, its axes, and the result.
fn take(
    operands: &mut Operands,
    (input, dtypes): (*const aclTensor, &[aclDataType]),
    (axes, keep): (&[i64], bool),
    output: *const aclTensor,
    dtype: Option<aclDataType>,
) -> Outcome<(Tensor, Reduced)> {
    let input = operands.view("self", input, dtypes)?;
    let reduced = reduced(&input, axes, keep)?;
    operands.result("out", output, dtype.unwrap_or(input.dtype), &reduced.shape)?;
    Ok((input, reduced))
}

/// Checks that no maximum or minimum is of an empty run.
fn check_some(input: &Tensor, reduced: &Reduced) -> Outcome<()> {
    let length: usize = reduced.order[reduced.kept..]
        .iter()
        .map(|at| input.shape[*at])
        .product();
    let count: usize = reduced.shape.iter().product();
    ensure!(
        length > 0 || count == 0,
        ACLNN_ERR_PARAM_INVALID,
        "there is no greatest or least of nothing: self has the shape {:?}",
        input.shape
    );
    Ok(())
}

/// Defines reductions over axes, with a dtype to which they convert first.
macro_rules! converted {
    ($($one:ident, $two:ident: $dtypes:expr => |$values:ident: $number:ident| $work:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $one(
            input: *const aclTensor,
            axes: *const aclIntArray,
            keep: bool,
            to_dtype: aclDataType,
            output: *mut aclTensor,
            workspace_size: *mut u64,
            executor: *mut *mut aclOpExecutor,
        ) -> aclnnStatus {
            phase_one(stringify!($two), workspace_size, executor, |operands| {
                let axes = operands.ints("dim", axes)?;
                let (_, reduced) =
                    take(operands, (input, USUAL), (&axes, keep), output, Some(to_dtype))?;
                ensure!(
                    $dtypes.contains(&to_dtype),
                    ACLNN_ERR_PARAM_INVALID,
                    "{} has no results of {}",
                    stringify!($two),
                    crate::tensor::name_of(to_dtype)
                );
                Ok(by_number!(to_dtype, $number => reduced.work(|$values: &[$number]| $work)))
            })
        }
    )*
    operators! { reduce: $($one, $two;)* }};
}

converted! {
    aclnnReduceSumGetWorkspaceSize, aclnnReduceSum: NUMBERS => |values: T| maths::total(values);
    aclnnMeanGetWorkspaceSize, aclnnMean: REALS
        => |values: T| mean(values);
}

trait Mean: Sized {
    fn over(self, count: usize) -> Self;
}

impl Mean for f32 {
    fn over(self, count: usize) -> Self {
        self / count as f32
    }
}

impl Mean for f64 {
    fn over(self, count: usize) -> Self {
        self / count as f64
    }
}

impl Mean for i64 {
    fn over(self, _count: usize) -> Self {
        unreachable!("integers are refused before")
    }
}

fn mean<T: Number + Arithmetic + Mean>(values: &[T]) -> T {
    maths::total(values).over(values.len())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnProdGetWorkspaceSize(
    input: *const aclTensor,
    to_dtype: aclDataType,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnProd", workspace_size, executor, |operands| {
        let (_, reduced) = take(
            operands,
            (input, USUAL),
            (&[], false),
            output,
            Some(to_dtype),
        )?;
        Ok(by_number!(to_dtype, T => reduced.work(maths::product::<T>)))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnProdDimGetWorkspaceSize(
    input: *const aclTensor,
    axis: i64,
    keep: bool,
    to_dtype: aclDataType,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnProdDim", workspace_size, executor, |operands| {
        let (_, reduced) = take(
            operands,
            (input, USUAL),
            (&[axis], keep),
            output,
            Some(to_dtype),
        )?;
        Ok(by_number!(to_dtype, T => reduced.work(maths::product::<T>)))
    })
}

/// Defines reductions over axes to the same dtype or to booleans.
macro_rules! plain {
    ($($one:ident, $two:ident: $gives:expr => |$input:ident, $reduced:ident| $work:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $one(
            input: *const aclTensor,
            axes: *const aclIntArray,
            keep: bool,
            output: *mut aclTensor,
            workspace_size: *mut u64,
            executor: *mut *mut aclOpExecutor,
        ) -> aclnnStatus {
            phase_one(stringify!($two), workspace_size, executor, |operands| {
                let axes = operands.ints("dim", axes)?;
                let ($input, $reduced) =
                    take(operands, (input, USUAL), (&axes, keep), output, $gives)?;
                $work
            })
        }
    )*
    operators! { reduce: $($one, $two;)* }};
}

plain! {
    aclnnAmaxGetWorkspaceSize, aclnnAmax: None => |x, reduced| {
        check_some(&x, &reduced)?;
        Ok(by_number!(x.dtype, T => reduced.work(|values: &[T]| values[maths::extreme(values, true)])))
    };
    aclnnAminGetWorkspaceSize, aclnnAmin: None => |x, reduced| {
        check_some(&x, &reduced)?;
        Ok(by_number!(x.dtype, T => reduced.work(|values: &[T]| values[maths::extreme(values, false)])))
    };
    aclnnAnyGetWorkspaceSize, aclnnAny: Some(ACL_BOOL) => |_x, reduced| {
        Ok(reduced.work(|values: &[f64]| i64::from(values.iter().any(|value| value.is_true()))))
    };
    aclnnAllGetWorkspaceSize, aclnnAll: Some(ACL_BOOL) => |_x, reduced| {
        Ok(reduced.work(|values: &[f64]| i64::from(values.iter().all(|value| value.is_true()))))
    };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnVarGetWorkspaceSize(
    input: *const aclTensor,
    axes: *const aclIntArray,
    unbiased: bool,
    keep: bool,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnVar", workspace_size, executor, |operands| {
        let axes = operands.ints("dim", axes)?;
        let (_, reduced) = take(operands, (input, FLOATS), (&axes, keep), output, None)?;
        Ok(reduced.work(move |values: &[f32]| maths::variance(values, unbiased)))
    })
}

/// Defines the maximum or minimum along an axis, with its index.
macro_rules! with_places {
    ($($one:ident, $two:ident: $greatest:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $one(
            input: *const aclTensor,
            axis: i64,
            keep: bool,
            output: *mut aclTensor,
            indices: *mut aclTensor,
            workspace_size: *mut u64,
            executor: *mut *mut aclOpExecutor,
        ) -> aclnnStatus {
            phase_one(stringify!($two), workspace_size, executor, |operands| {
                let (input, reduced) = take(operands, (input, USUAL), (&[axis], keep), output, None)?;
                check_some(&input, &reduced)?;
                let indices = operands.target("indices", indices, INDICES)?;
                check_size("indices", &indices, &reduced.shape)?;
                Ok(by_number!(input.dtype, T => Arc::new(move |memory, operands| {
                    let [input, output, indices] = operands else { unreachable!("taken above") };
                    let found = reduced.runs(memory, input, |values: &[T]| {
                        let place = maths::extreme(values, $greatest);
                        (values[place], place as i64)
                    })?;
                    let (values, places): (Vec<T>, Vec<i64>) = found.into_iter().unzip();
                    output.store_values(memory, &values)?;
                    indices.store_values(memory, &places)
                })))
            })
        }
    )*
    operators! { reduce: $($one, $two;)* }};
}

with_places! {
    aclnnMaxDimGetWorkspaceSize, aclnnMaxDim: true;
    aclnnMinDimGetWorkspaceSize, aclnnMinDim: false;
}

/// Defines the index of the maximum or minimum along an axis.
macro_rules! places {
    ($($one:ident, $two:ident: $greatest:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $one(
            input: *const aclTensor,
            axis: i64,
            keep: bool,
            output: *mut aclTensor,
            workspace_size: *mut u64,
            executor: *mut *mut aclOpExecutor,
        ) -> aclnnStatus {
            phase_one(stringify!($two), workspace_size, executor, |operands| {
                let (input, reduced) =
                    take(operands, (input, NUMBERS), (&[axis], keep), output, Some(ACL_INT64))?;
                check_some(&input, &reduced)?;
                Ok(by_number!(input.dtype, T => reduced.work(|values: &[T]| {
                    maths::extreme(values, $greatest) as i64
                })))
            })
        }
    )*
    operators! { reduce: $($one, $two;)* }};
}

places! {
    aclnnArgMaxGetWorkspaceSize, aclnnArgMax: true;
    aclnnArgMinGetWorkspaceSize, aclnnArgMin: false;
}

operators! { reduce:
    aclnnProdGetWorkspaceSize, aclnnProd;
    aclnnProdDimGetWorkspaceSize, aclnnProdDim;
    aclnnVarGetWorkspaceSize, aclnnVar;
}
