//! Variances, standard deviations, norms, and logarithms of sums of exponentials.

use cann_sys::meta::*;

use super::{Gives, take};
use crate::abi::checks::FLOATS;
use crate::abi::operators;
use crate::error::ensure;
use crate::executor::phase_one;
use crate::ops::reduce as maths;

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
        let gives = Gives::Same;
        let (x, reduced) = take(operands, (input, FLOATS), (&axes, keep), output, gives)?;
        Ok(reduced.work(x.dtype, move |values: &[f32]| {
            maths::variance(values, i64::from(unbiased))
        }))
    })
}

/// Defines functions of the variance whose divisor is less by a correction.
macro_rules! corrected {
    ($($one:ident, $two:ident: $of:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $one(
            input: *const aclTensor,
            axes: *const aclIntArray,
            correction: i64,
            keep: bool,
            output: *mut aclTensor,
            workspace_size: *mut u64,
            executor: *mut *mut aclOpExecutor,
        ) -> aclnnStatus {
            phase_one(stringify!($two), workspace_size, executor, |operands| {
                let axes = operands.ints("dim", axes)?;
                let gives = Gives::Same;
                let (x, reduced) = take(operands, (input, FLOATS), (&axes, keep), output, gives)?;
                let of: fn(f32) -> f32 = $of;
                Ok(reduced.work(x.dtype, move |values: &[f32]| {
                    of(maths::variance(values, correction))
                }))
            })
        }
    )*
    operators! { reduce: $($one, $two;)* }};
}

corrected! {
    aclnnVarCorrectionGetWorkspaceSize, aclnnVarCorrection: |variance| variance;
    aclnnStdGetWorkspaceSize, aclnnStd: f32::sqrt;
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnLinalgVectorNormGetWorkspaceSize(
    input: *const aclTensor,
    order: *const aclScalar,
    axes: *const aclIntArray,
    keep: bool,
    to_dtype: aclDataType,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    let name = "aclnnLinalgVectorNorm";
    phase_one(name, workspace_size, executor, |operands| {
        let order: f32 = operands.scalar("ord", order)?.to();
        let axes = operands.ints("dims", axes)?;
        ensure!(
            FLOATS.contains(&to_dtype),
            ACLNN_ERR_PARAM_INVALID,
            "dtype is {}; f32, f16 and bf16 are taken",
            crate::tensor::name_of(to_dtype)
        );
        let gives = Gives::One(to_dtype);
        let (x, reduced) = take(operands, (input, FLOATS), (&axes, keep), output, gives)?;
        let length: usize = reduced.order[reduced.kept..]
            .iter()
            .map(|at| x.shape[*at])
            .product();
        ensure!(
            length > 0 || order >= 0.0 && order.is_finite(),
            ACLNN_ERR_PARAM_INVALID,
            "there is no norm of order {order} of nothing"
        );
        Ok(reduced.work(to_dtype, move |values: &[f32]| maths::norm(values, order)))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnLogSumExpGetWorkspaceSize(
    input: *const aclTensor,
    axes: *const aclIntArray,
    keep: bool,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnLogSumExp", workspace_size, executor, |operands| {
        let axes = operands.ints("dim", axes)?;
        let gives = Gives::Same;
        let (x, reduced) = take(operands, (input, FLOATS), (&axes, keep), output, gives)?;
        Ok(reduced.work(x.dtype, maths::log_sum_exp::<f32>))
    })
}

operators! { reduce:
    aclnnLogSumExpGetWorkspaceSize, aclnnLogSumExp;
    aclnnVarGetWorkspaceSize, aclnnVar;
    aclnnLinalgVectorNormGetWorkspaceSize, aclnnLinalgVectorNorm;
}
