//! Operators with a parameter besides their tensors: a factor, a mode, an exponent, bounds or a condition; and the
//! gradient of SiLU.

use std::sync::Arc;

use cann_sys::meta::*;

use super::{Gives, map, one, two, zip};
use crate::abi::checks::{FLOATS, NUMBERS, USUAL, broadcast};
use crate::abi::operators;
use crate::error::{Outcome, ensure};
use crate::executor::phase_one;
use crate::number::by_number;
use crate::ops::arithmetic::{Arithmetic, Float, clamp};

/// Defines `self ± alpha · other`, of a tensor or a scalar.
macro_rules! with_alpha {
    ($($one:ident, $two:ident, $plural_one:ident, $plural:ident: $dtypes:expr, $function:ident;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $one(
            input: *const aclTensor,
            rhs: *const aclTensor,
            alpha: *const aclScalar,
            output: *mut aclTensor,
            workspace_size: *mut u64,
            executor: *mut *mut aclOpExecutor,
        ) -> aclnnStatus {
            phase_one(stringify!($two), workspace_size, executor, |operands| {
                let tensor = two(operands, [input, rhs], output, $dtypes, Gives::Same)?;
                let alpha = operands.scalar_for("alpha", alpha, &tensor)?;
                Ok(by_number!(tensor.dtype, T => {
                    let alpha: T = alpha.to();
                    zip(move |left: T, right: T| left.$function(Arithmetic::mul(alpha, right)))
                }))
            })
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $plural_one(
            input: *const aclTensor,
            rhs: *const aclScalar,
            alpha: *const aclScalar,
            output: *mut aclTensor,
            workspace_size: *mut u64,
            executor: *mut *mut aclOpExecutor,
        ) -> aclnnStatus {
            phase_one(stringify!($plural), workspace_size, executor, |operands| {
                let tensor = one(operands, input, output, $dtypes, Gives::Same)?;
                let rhs = operands.scalar_for("other", rhs, &tensor)?;
                let alpha = operands.scalar_for("alpha", alpha, &tensor)?;
                Ok(by_number!(tensor.dtype, T => {
                    let right = Arithmetic::mul(alpha.to::<T>(), rhs.to::<T>());
                    map(move |left: T| left.$function(right))
                }))
            })
        }
    )*
    operators! { elementwise: $($one, $two; $plural_one, $plural;)* }};
}

with_alpha! {
    aclnnAddGetWorkspaceSize, aclnnAdd, aclnnAddsGetWorkspaceSize, aclnnAdds: USUAL, add;
    aclnnSubGetWorkspaceSize, aclnnSub, aclnnSubsGetWorkspaceSize, aclnnSubs: NUMBERS, sub;
}

/// Returns the dtype of a quotient by its mode: 0 is not rounded, 1 rounds towards zero, 2 rounds down.
fn quotient_gives(mode: i32) -> Outcome<Gives> {
    ensure!(
        (0..=2).contains(&mode),
        ACLNN_ERR_PARAM_INVALID,
        "mode is {mode}; 0 does not round, 1 rounds towards zero, 2 down"
    );
    Ok(if mode == 0 { Gives::Float } else { Gives::Same })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnDivModGetWorkspaceSize(
    input: *const aclTensor,
    rhs: *const aclTensor,
    mode: i32,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnDivMod", workspace_size, executor, |operands| {
        let x = two(
            operands,
            [input, rhs],
            output,
            NUMBERS,
            quotient_gives(mode)?,
        )?;
        Ok(match mode {
            1 => arithmetic!(x, div_trunc),
            2 => arithmetic!(x, div_floor),
            _ => by_float!(x.dtype, T => zip(<T as Float>::div)),
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnDivModsGetWorkspaceSize(
    input: *const aclTensor,
    rhs: *const aclScalar,
    mode: i32,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnDivMods", workspace_size, executor, |operands| {
        let x = one(operands, input, output, NUMBERS, quotient_gives(mode)?)?;
        let rhs = operands.scalar_for("other", rhs, &x)?;
        Ok(match mode {
            1 => arithmetic!(x, div_trunc, rhs),
            2 => arithmetic!(x, div_floor, rhs),
            _ => by_float!(x.dtype, T => {
                let right: T = rhs.to();
                map(move |left: T| left / right)
            }),
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnPowTensorScalarGetWorkspaceSize(
    input: *const aclTensor,
    exponent: *const aclScalar,
    output: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one(
        "aclnnPowTensorScalar",
        workspace_size,
        executor,
        |operands| {
            let x = one(operands, input, output, NUMBERS, Gives::Same)?;
            let exponent = operands.scalar_for("exponent", exponent, &x)?;
            Ok(arithmetic!(x, power, exponent))
        },
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnPowScalarTensorGetWorkspaceSize(
    input: *const aclScalar,
    exponent: *const aclTensor,
    output: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one(
        "aclnnPowScalarTensor",
        workspace_size,
        executor,
        |operands| {
            let x = one(operands, exponent, output, NUMBERS, Gives::Same)?;
            let base = operands.scalar_for("self", input, &x)?;
            Ok(by_number!(x.dtype, T => {
                let base: T = base.to();
                map(move |exponent: T| base.power(exponent))
            }))
        },
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnClampGetWorkspaceSize(
    input: *const aclTensor,
    low: *const aclScalar,
    high: *const aclScalar,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnClamp", workspace_size, executor, |operands| {
        let x = one(operands, input, output, NUMBERS, Gives::Same)?;
        ensure!(
            !(low.is_null() && high.is_null()),
            ACLNN_ERR_PARAM_NULLPTR,
            "clipValueMin and clipValueMax are both NULL"
        );
        let bound = |name, scalar: *const aclScalar| match scalar.is_null() {
            true => Ok(None),
            false => operands.scalar_for(name, scalar, &x).map(Some),
        };
        let (low, high) = (bound("clipValueMin", low)?, bound("clipValueMax", high)?);
        Ok(by_number!(x.dtype, T => {
            let (low, high) = (low.map(|low| low.to::<T>()), high.map(|high| high.to::<T>()));
            map(move |x: T| clamp(x, low, high))
        }))
    })
}

operators! { elementwise:
    aclnnDivModGetWorkspaceSize, aclnnDivMod;
    aclnnDivModsGetWorkspaceSize, aclnnDivMods;
    aclnnPowTensorScalarGetWorkspaceSize, aclnnPowTensorScalar;
    aclnnPowScalarTensorGetWorkspaceSize, aclnnPowScalarTensor;
    aclnnClampGetWorkspaceSize, aclnnClamp;
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnSWhereGetWorkspaceSize(
    condition: *const aclTensor,
    input: *const aclTensor,
    rhs: *const aclTensor,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnSWhere", workspace_size, executor, |operands| {
        let condition = operands.view("condition", condition, &[ACL_BOOL])?;
        let input = operands.view("self", input, USUAL)?;
        let rhs = operands.view("other", rhs, &[input.dtype])?;
        let shape = broadcast(&condition.shape, &broadcast(&input.shape, &rhs.shape)?)?;
        operands.result("out", output, input.dtype, &shape)?;
        Ok(by_number!(input.dtype, T => Arc::new(|memory, operands| {
            let [condition, input, rhs, out] = operands else { unreachable!("taken above") };
            let condition = condition.expanded(&out.shape).values::<i64>(memory)?;
            let input = input.expanded(&out.shape).values::<T>(memory)?;
            let rhs = rhs.expanded(&out.shape).values::<T>(memory)?;
            let both = condition.into_iter().zip(input.into_iter().zip(rhs));
            let values: Vec<T> = both
                .map(|(condition, (yes, no))| if condition != 0 { yes } else { no })
                .collect();
            out.store_values(memory, &values)
        })))
    })
}

operators! { index: aclnnSWhereGetWorkspaceSize, aclnnSWhere; }

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnGeluV2GetWorkspaceSize(
    input: *const aclTensor,
    approximation: i64,
    output: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnGeluV2", workspace_size, executor, |operands| {
        one(operands, input, output, FLOATS, Gives::Same)?;
        ensure!(
            (0..=1).contains(&approximation),
            ACLNN_ERR_PARAM_INVALID,
            "approximate is {approximation}; 0 is none, 1 is tanh"
        );
        Ok(map(if approximation == 1 {
            <f32 as Float>::gelu_tanh
        } else {
            Float::gelu
        }))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnSiluBackwardGetWorkspaceSize(
    d_output: *const aclTensor,
    input: *const aclTensor,
    d_input: *mut aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnSiluBackward", workspace_size, executor, |operands| {
        two(operands, [d_output, input], d_input, FLOATS, Gives::Same)?;
        Ok(zip(<f32 as Float>::silu_backward))
    })
}

operators! { activation:
    aclnnGeluV2GetWorkspaceSize, aclnnGeluV2;
    aclnnSiluBackwardGetWorkspaceSize, aclnnSiluBackward;
}
