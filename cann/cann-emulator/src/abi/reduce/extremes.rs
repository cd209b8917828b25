//! Greatest and least values, their places, and whether any or all values are true.

use super::{Gives, Reduced, take};
use crate::abi::prelude::*;
use crate::ops::reduce as maths;

/// Checks that no maximum or minimum is of an empty run.
fn check_some(input: &Tensor, reduced: &Reduced) -> Outcome<()> {
    let length: usize = reduced.order[reduced.kept..]
        .iter()
        .map(|at| input.shape[*at])
        .product();
    let count: usize = reduced.shape.iter().product();
    ensure!(length > 0 || count == 0;
        "the greatest or least element of an empty tensor is undefined: self has the shape {:?}", input.shape);
    Ok(())
}

/// Defines reductions over axes to the same dtype or to booleans.
macro_rules! plain {
    ($($one:ident, $two:ident: $gives:expr => |$input:ident, $reduced:ident| $work:expr;)*) => {$(
        operator! { reduce: $one, $two(input, axes, keep, output) |operands|
            let axes = operands.ints("dim", axes)?;
            let ($input, $reduced) =
                take(operands, (input, USUAL), (&axes, keep), output, $gives)?;
            $work
        }
    )*};
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
        operator! { reduce: $one, $two(input, output) |operands|
            let (x, reduced) =
                take(operands, (input, USUAL), (&[], false), output, Gives::Same)?;
            check_some(&x, &reduced)?;
            Ok(by_number!(x.dtype, T => reduced.work(x.dtype, |values: &[T]| {
                values[maths::extreme(values, $greatest)]
            })))
        }
    )*};
}

of_all! {
    aclnnMaxGetWorkspaceSize, aclnnMax: true;
    aclnnMinGetWorkspaceSize, aclnnMin: false;
}

/// Defines the maximum or minimum along an axis, with its index.
macro_rules! with_places {
    ($($one:ident, $two:ident: $greatest:expr;)*) => {$(
        operator! { reduce: $one, $two(input, axis, keep, output, indices) |operands|
            let (input, reduced) = take(operands, (input, USUAL), (&[axis], keep), output, Gives::Same)?;
            check_some(&input, &reduced)?;
            let indices = operands.target("indices", indices, INDICES)?;
            check_size("indices", &indices, &reduced.shape)?;
            Ok(by_number!(input.dtype, T => Arc::new(move |memory, operands| {
                let [input, output, indices] = taken(operands);
                let found = reduced.runs(memory, input, |values: &[T]| {
                    let place = maths::extreme(values, $greatest);
                    (values[place], place as i64)
                })?;
                let (values, places): (Vec<T>, Vec<i64>) = found.into_iter().unzip();
                output.store_values(memory, &values)?;
                indices.store_values(memory, &places)
            })))
        }
    )*};
}

with_places! {
    aclnnMaxDimGetWorkspaceSize, aclnnMaxDim: true;
    aclnnMinDimGetWorkspaceSize, aclnnMinDim: false;
}

/// Defines the index of the maximum or minimum along an axis.
macro_rules! places {
    ($($one:ident, $two:ident: $greatest:expr;)*) => {$(
        operator! { reduce: $one, $two(input, axis, keep, output) |operands|
            let gives = Gives::Any(INDICES);
            let (input, reduced) =
                take(operands, (input, NUMBERS), (&[axis], keep), output, gives)?;
            check_some(&input, &reduced)?;
            Ok(by_number!(input.dtype, T => reduced.work(ACL_INT64, |values: &[T]| {
                maths::extreme(values, $greatest) as i64
            })))
        }
    )*};
}

places! {
    aclnnArgMaxGetWorkspaceSize, aclnnArgMax: true;
    aclnnArgMinGetWorkspaceSize, aclnnArgMin: false;
}
