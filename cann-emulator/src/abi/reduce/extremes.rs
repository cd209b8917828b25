//! Greatest and least values, their places, and whether any or all values are true.

use std::sync::Arc;

use cann_sys::meta::*;

use super::{Gives, Reduced, take};
use crate::abi::checks::{INDICES, NUMBERS, USUAL, check_size};
use crate::abi::operators;
use crate::error::{Outcome, ensure};
use crate::executor::phase_one;
use crate::number::{Number, by_number};
use crate::ops::reduce as maths;
use crate::tensor::Tensor;

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
    aclnnAmaxGetWorkspaceSize, aclnnAmax: Gives::Same => |x, reduced| {
        check_some(&x, &reduced)?;
        Ok(by_number!(x.dtype, T => reduced.work(x.dtype, |values: &[T]| values[maths::extreme(values, true)])))
    };
    aclnnAminGetWorkspaceSize, aclnnAmin: Gives::Same => |x, reduced| {
        check_some(&x, &reduced)?;
        Ok(by_number!(x.dtype, T => reduced.work(x.dtype, |values: &[T]| values[maths::extreme(values, false)])))
    };
    aclnnAnyGetWorkspaceSize, aclnnAny: Gives::Converted(ACL_BOOL) => |_x, reduced| {
        Ok(reduced.work(ACL_BOOL, |values: &[f64]| i64::from(values.iter().any(|value| value.is_true()))))
    };
    aclnnAllGetWorkspaceSize, aclnnAll: Gives::Converted(ACL_BOOL) => |_x, reduced| {
        Ok(reduced.work(ACL_BOOL, |values: &[f64]| i64::from(values.iter().all(|value| value.is_true()))))
    };
}

/// Defines the maximum or minimum of all elements.
macro_rules! of_all {
    ($($one:ident, $two:ident: $greatest:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $one(
            input: *const aclTensor,
            output: *mut aclTensor,
            workspace_size: *mut u64,
            executor: *mut *mut aclOpExecutor,
        ) -> aclnnStatus {
            phase_one(stringify!($two), workspace_size, executor, |operands| {
                let (x, reduced) =
                    take(operands, (input, USUAL), (&[], false), output, Gives::Same)?;
                check_some(&x, &reduced)?;
                Ok(by_number!(x.dtype, T => reduced.work(x.dtype, |values: &[T]| {
                    values[maths::extreme(values, $greatest)]
                })))
            })
        }
    )*
    operators! { reduce: $($one, $two;)* }};
}

of_all! {
    aclnnMaxGetWorkspaceSize, aclnnMax: true;
    aclnnMinGetWorkspaceSize, aclnnMin: false;
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
                let (input, reduced) = take(operands, (input, USUAL), (&[axis], keep), output, Gives::Same)?;
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
                let gives = Gives::Any(INDICES);
                let (input, reduced) =
                    take(operands, (input, NUMBERS), (&[axis], keep), output, gives)?;
                check_some(&input, &reduced)?;
                Ok(by_number!(input.dtype, T => reduced.work(ACL_INT64, |values: &[T]| {
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
