//! Variances, standard deviations, norms, and logarithms of sums of exponentials.

use super::{Gives, take};
use crate::abi::prelude::*;
use crate::ops::reduce as maths;

operator! { reduce: aclnnVarGetWorkspaceSize, aclnnVar(
    input, axes, unbiased, keep, output
) |operands|
    let axes = operands.ints("dim", axes)?;
    let gives = Gives::Same;
    let (x, reduced) = take(operands, (input, FLOATS), (&axes, keep), output, gives)?;
    Ok(reduced.work(x.dtype, move |values: &[f32]| {
        maths::variance(values, i64::from(unbiased))
    }))
}

/// Defines functions of the variance whose divisor is less by a correction.
macro_rules! corrected {
    ($($one:ident, $two:ident: $of:expr;)*) => {$(
        operator! { reduce: $one, $two(input, axes, correction, keep, output) |operands|
            let axes = operands.ints("dim", axes)?;
            let gives = Gives::Same;
            let (x, reduced) = take(operands, (input, FLOATS), (&axes, keep), output, gives)?;
            let of: fn(f32) -> f32 = $of;
            Ok(reduced.work(x.dtype, move |values: &[f32]| {
                of(maths::variance(values, correction))
            }))
        }
    )*};
}

corrected! {
    aclnnVarCorrectionGetWorkspaceSize, aclnnVarCorrection: |variance| variance;
    aclnnStdGetWorkspaceSize, aclnnStd: f32::sqrt;
}

operator! { reduce: aclnnLinalgVectorNormGetWorkspaceSize, aclnnLinalgVectorNorm(
    input, order, axes, keep, to_dtype, output
) |operands|
    let order: f32 = operands.scalar("ord", order)?.to();
    let axes = operands.ints("dims", axes)?;
    ensure!(FLOATS.contains(&to_dtype);
        "dtype is {}; f32, f16 and bf16 are taken", crate::tensor::name_of(to_dtype));
    let gives = Gives::One(to_dtype);
    let (x, reduced) = take(operands, (input, FLOATS), (&axes, keep), output, gives)?;
    let length: usize = reduced.order[reduced.kept..].iter().map(|at| x.shape[*at]).product();
    ensure!(length > 0 || order >= 0.0 && order.is_finite();
        "the norm of order {order} of an empty tensor is undefined");
    Ok(reduced.work(to_dtype, move |values: &[f32]| maths::norm(values, order)))
}

operator! { reduce: aclnnLogSumExpGetWorkspaceSize, aclnnLogSumExp(
    input, axes, keep, output
) |operands|
    let axes = operands.ints("dim", axes)?;
    let gives = Gives::Same;
    let (x, reduced) = take(operands, (input, FLOATS), (&axes, keep), output, gives)?;
    Ok(reduced.work(x.dtype, maths::log_sum_exp::<f32>))
}
