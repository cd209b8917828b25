//! Arithmetic, comparison, logic and functions by element.
//!
//! A table per signature: the operator, the dtypes that it takes, and what it does to values. Operands of
//! two tensors are broadcast; the result has their dtype unless the table says another.

use std::sync::Arc;

use cann_sys::meta::*;

use crate::abi::checks::{BITS, FLOATS, INTEGERS, NUMBERS, REALS, USUAL, broadcast};
use crate::abi::operators;
use crate::error::{Outcome, ensure};
use crate::executor::{Operands, Work, phase_one};
use crate::number::{Number, by_number};
use crate::ops::arithmetic::{Arithmetic, Float, clamp};
use crate::tensor::Tensor;

/// i8, i32, i64 and floats.
const SIGNED: &[aclDataType] = &[
    ACL_FLOAT,
    ACL_FLOAT16,
    ACL_BF16,
    ACL_DOUBLE,
    ACL_INT64,
    ACL_INT32,
    ACL_INT8,
];
/// Floats, i32 and i64.
const WIDE: &[aclDataType] = &[
    ACL_FLOAT,
    ACL_FLOAT16,
    ACL_BF16,
    ACL_DOUBLE,
    ACL_INT64,
    ACL_INT32,
];
/// What has a remainder towards zero.
const FMOD: &[aclDataType] = &[
    ACL_FLOAT,
    ACL_FLOAT16,
    ACL_BF16,
    ACL_DOUBLE,
    ACL_INT64,
    ACL_INT32,
    ACL_INT8,
    ACL_UINT8,
];
/// What has a sign.
const SIGN: &[aclDataType] = &[
    ACL_FLOAT,
    ACL_FLOAT16,
    ACL_BF16,
    ACL_DOUBLE,
    ACL_INT64,
    ACL_INT32,
    ACL_BOOL,
];
/// What has a greater than zero.
const RELU: &[aclDataType] = &[
    ACL_FLOAT,
    ACL_FLOAT16,
    ACL_BF16,
    ACL_INT64,
    ACL_INT32,
    ACL_INT8,
    ACL_UINT8,
];

/// What angles are given in.
const ANGLES: &[aclDataType] = &[ACL_FLOAT, ACL_FLOAT16, ACL_DOUBLE];

/// The result's dtype.
enum Gives {
    /// The operands'.
    Same,
    Bool,
    /// f32 of integers, else the operands'.
    Float,
}

impl Gives {
    fn dtype(&self, operand: &Tensor) -> aclDataType {
        match self {
            Self::Same => operand.dtype,
            Self::Bool => ACL_BOOL,
            Self::Float if REALS.contains(&operand.dtype) => operand.dtype,
            Self::Float => ACL_FLOAT,
        }
    }
}

fn map<T: Number, U: Number>(apply: impl Fn(T) -> U + Send + Sync + 'static) -> Work {
    Arc::new(move |memory, operands| {
        let [x, out] = operands else {
            unreachable!("taken by one()")
        };
        let values: Vec<U> = x.values(memory)?.into_iter().map(&apply).collect();
        out.store_values(memory, &values)
    })
}

fn zip<T: Number, U: Number>(apply: impl Fn(T, T) -> U + Send + Sync + 'static) -> Work {
    Arc::new(move |memory, operands| {
        let [left, right, out] = operands else {
            unreachable!("taken by two()")
        };
        let left = left.expanded(&out.shape).values(memory)?;
        let right = right.expanded(&out.shape).values(memory)?;
        let pairs = left.into_iter().zip(right);
        let values: Vec<U> = pairs.map(|(left, right)| apply(left, right)).collect();
        out.store_values(memory, &values)
    })
}

/// Takes an input and its result.
fn one(
    operands: &mut Operands,
    input: *const aclTensor,
    output: *const aclTensor,
    dtypes: &[aclDataType],
    gives: Gives,
) -> Outcome<Tensor> {
    let input = operands.view("self", input, dtypes)?;
    operands.result("out", output, gives.dtype(&input), &input.shape)?;
    Ok(input)
}

/// Takes two inputs of one dtype and their result.
fn two(
    operands: &mut Operands,
    [left, right]: [*const aclTensor; 2],
    output: *const aclTensor,
    dtypes: &[aclDataType],
    gives: Gives,
) -> Outcome<Tensor> {
    let left = operands.view("self", left, dtypes)?;
    let right = operands.view("other", right, &[left.dtype])?;
    let shape = broadcast(&left.shape, &right.shape)?;
    operands.result("out", output, gives.dtype(&left), &shape)?;
    Ok(left)
}

macro_rules! of_two {
    ($($one:ident, $two:ident: $dtypes:expr, $gives:ident => |$tensor:ident| $work:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $one(
            input: *const aclTensor,
            rhs: *const aclTensor,
            output: *mut aclTensor,
            workspace_size: *mut u64,
            executor: *mut *mut aclOpExecutor,
        ) -> aclnnStatus {
            phase_one(stringify!($two), workspace_size, executor, |operands| {
                let $tensor = two(operands, [input, rhs], output, $dtypes, Gives::$gives)?;
                Ok($work)
            })
        }
    )*
    operators! { elementwise: $($one, $two;)* }};
}

/// As [`of_two`] with a scalar on the right.
macro_rules! of_scalar {
    ($($one:ident, $two:ident: $dtypes:expr, $gives:ident
        => |$tensor:ident, $rhs:ident| $work:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $one(
            input: *const aclTensor,
            rhs: *const aclScalar,
            output: *mut aclTensor,
            workspace_size: *mut u64,
            executor: *mut *mut aclOpExecutor,
        ) -> aclnnStatus {
            phase_one(stringify!($two), workspace_size, executor, |operands| {
                let $tensor = one(operands, input, output, $dtypes, Gives::$gives)?;
                let $rhs = operands.scalar_for("other", rhs, &$tensor)?;
                Ok($work)
            })
        }
    )*
    operators! { elementwise: $($one, $two;)* }};
}

macro_rules! of_one {
    ($module:ident, $constness:tt: $($one:ident, $two:ident: $dtypes:expr, $gives:ident
        => |$tensor:ident| $work:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $one(
            input: *const aclTensor,
            output: *$constness aclTensor,
            workspace_size: *mut u64,
            executor: *mut *mut aclOpExecutor,
        ) -> aclnnStatus {
            phase_one(stringify!($two), workspace_size, executor, |operands| {
                let $tensor = one(operands, input, output, $dtypes, Gives::$gives)?;
                Ok($work)
            })
        }
    )*
    operators! { $module: $($one, $two;)* }};
}

/// `$work` for the type that floats of a dtype are computed in, of which there is no integer.
macro_rules! by_float {
    ($dtype:expr, $number:ident => $work:expr) => {
        if $dtype == ACL_DOUBLE {
            type $number = f64;
            $work
        } else {
            type $number = f32;
            $work
        }
    };
}

/// Of two truths; bytes other than 0 are true.
fn truth(apply: fn(bool, bool) -> bool) -> Work {
    zip(move |left: f64, right: f64| i64::from(apply(left.is_true(), right.is_true())))
}

/// Bits of integers, of truth values their lowest.
fn bits(apply: fn(i64, i64) -> i64) -> Work {
    zip(apply)
}

macro_rules! compared {
    ($tensor:ident, $operator:tt) => {
        by_number!($tensor.dtype, T => zip(|left: T, right: T| i64::from(left $operator right)))
    };
    ($tensor:ident, $operator:tt $rhs:ident) => {
        by_number!($tensor.dtype, T => {
            let right: T = $rhs.to();
            map(move |left: T| i64::from(left $operator right))
        })
    };
}

macro_rules! arithmetic {
    ($tensor:ident, $function:ident) => {
        by_number!($tensor.dtype, T => zip(<T as Arithmetic>::$function))
    };
    ($tensor:ident, $function:ident, $rhs:ident) => {
        by_number!($tensor.dtype, T => {
            let right: T = $rhs.to();
            map(move |left: T| Arithmetic::$function(left, right))
        })
    };
}

of_two! {
    aclnnMulGetWorkspaceSize, aclnnMul: USUAL, Same => |x| arithmetic!(x, mul);
    aclnnDivGetWorkspaceSize, aclnnDiv: NUMBERS, Float
        => |x| by_float!(x.dtype, T => zip(<T as Float>::div));
    aclnnMaximumGetWorkspaceSize, aclnnMaximum: USUAL, Same => |x| arithmetic!(x, maximum);
    aclnnMinimumGetWorkspaceSize, aclnnMinimum: USUAL, Same => |x| arithmetic!(x, minimum);
    aclnnPowTensorTensorGetWorkspaceSize, aclnnPowTensorTensor: NUMBERS, Same
        => |x| arithmetic!(x, power);
    aclnnRemainderTensorTensorGetWorkspaceSize, aclnnRemainderTensorTensor: WIDE, Same
        => |x| arithmetic!(x, remainder);
    aclnnFmodTensorGetWorkspaceSize, aclnnFmodTensor: FMOD, Same => |x| arithmetic!(x, fmod);
    aclnnAtan2GetWorkspaceSize, aclnnAtan2: ANGLES, Same
        => |x| by_float!(x.dtype, T => zip(<T as Float>::atan2));
    aclnnBitwiseAndTensorGetWorkspaceSize, aclnnBitwiseAndTensor: BITS, Same
        => |_x| bits(|left, right| left & right);
    aclnnBitwiseOrTensorGetWorkspaceSize, aclnnBitwiseOrTensor: BITS, Same
        => |_x| bits(|left, right| left | right);
    aclnnBitwiseXorTensorGetWorkspaceSize, aclnnBitwiseXorTensor: BITS, Same
        => |_x| bits(|left, right| left ^ right);
    // Beyond the width nothing is left, or the sign; negative counts, which CANN leaves undefined, too.
    aclnnLeftShiftGetWorkspaceSize, aclnnLeftShift: INTEGERS, Same
        => |_x| bits(|left, right| if (0..64).contains(&right) { left << right } else { 0 });
    aclnnRightShiftGetWorkspaceSize, aclnnRightShift: INTEGERS, Same
        => |_x| bits(|left, right| left >> if right < 0 { 63 } else { right.min(63) });
    aclnnLogicalAndGetWorkspaceSize, aclnnLogicalAnd: USUAL, Bool => |_x| truth(|a, b| a && b);
    aclnnLogicalOrGetWorkspaceSize, aclnnLogicalOr: USUAL, Bool => |_x| truth(|a, b| a || b);
    aclnnLogicalXorGetWorkspaceSize, aclnnLogicalXor: USUAL, Bool => |_x| truth(|a, b| a != b);
    aclnnEqTensorGetWorkspaceSize, aclnnEqTensor: USUAL, Bool => |x| compared!(x, ==);
    aclnnNeTensorGetWorkspaceSize, aclnnNeTensor: USUAL, Bool => |x| compared!(x, !=);
    aclnnGtTensorGetWorkspaceSize, aclnnGtTensor: USUAL, Bool => |x| compared!(x, >);
    aclnnGeTensorGetWorkspaceSize, aclnnGeTensor: USUAL, Bool => |x| compared!(x, >=);
    aclnnLtTensorGetWorkspaceSize, aclnnLtTensor: USUAL, Bool => |x| compared!(x, <);
    aclnnLeTensorGetWorkspaceSize, aclnnLeTensor: USUAL, Bool => |x| compared!(x, <=);
}

of_scalar! {
    aclnnMulsGetWorkspaceSize, aclnnMuls: USUAL, Same => |x, s| arithmetic!(x, mul, s);
    aclnnDivsGetWorkspaceSize, aclnnDivs: NUMBERS, Float => |x, s| by_float!(x.dtype, T => {
        let right: T = s.to();
        map(move |left: T| left / right)
    });
    aclnnRemainderTensorScalarGetWorkspaceSize, aclnnRemainderTensorScalar: WIDE, Same
        => |x, s| arithmetic!(x, remainder, s);
    aclnnFmodScalarGetWorkspaceSize, aclnnFmodScalar: FMOD, Same => |x, s| arithmetic!(x, fmod, s);
    aclnnBitwiseAndScalarGetWorkspaceSize, aclnnBitwiseAndScalar: BITS, Same => |_x, s| {
        let right: i64 = s.to();
        map(move |left: i64| left & right)
    };
    aclnnBitwiseOrScalarGetWorkspaceSize, aclnnBitwiseOrScalar: BITS, Same => |_x, s| {
        let right: i64 = s.to();
        map(move |left: i64| left | right)
    };
    aclnnBitwiseXorScalarGetWorkspaceSize, aclnnBitwiseXorScalar: BITS, Same => |_x, s| {
        let right: i64 = s.to();
        map(move |left: i64| left ^ right)
    };
    aclnnEqScalarGetWorkspaceSize, aclnnEqScalar: USUAL, Bool => |x, s| compared!(x, == s);
    aclnnNeScalarGetWorkspaceSize, aclnnNeScalar: USUAL, Bool => |x, s| compared!(x, != s);
    aclnnGtScalarGetWorkspaceSize, aclnnGtScalar: USUAL, Bool => |x, s| compared!(x, > s);
    aclnnGeScalarGetWorkspaceSize, aclnnGeScalar: USUAL, Bool => |x, s| compared!(x, >= s);
    aclnnLtScalarGetWorkspaceSize, aclnnLtScalar: USUAL, Bool => |x, s| compared!(x, < s);
    aclnnLeScalarGetWorkspaceSize, aclnnLeScalar: USUAL, Bool => |x, s| compared!(x, <= s);
    aclnnClampMinGetWorkspaceSize, aclnnClampMin: NUMBERS, Same
        => |x, s| by_number!(x.dtype, T => {
            let low: T = s.to();
            map(move |x: T| clamp(x, Some(low), None))
        });
    aclnnClampMaxGetWorkspaceSize, aclnnClampMax: NUMBERS, Same
        => |x, s| by_number!(x.dtype, T => {
            let high: T = s.to();
            map(move |x: T| clamp(x, None, Some(high)))
        });
}

macro_rules! function {
    ($tensor:ident, $function:ident) => {
        by_float!($tensor.dtype, T => map(<T as Float>::$function))
    };
}

of_one! { elementwise, mut:
    aclnnNegGetWorkspaceSize, aclnnNeg: SIGNED, Same
        => |x| by_number!(x.dtype, T => map(<T as Arithmetic>::neg));
    aclnnAbsGetWorkspaceSize, aclnnAbs: USUAL, Same
        => |x| by_number!(x.dtype, T => map(<T as Arithmetic>::abs));
    aclnnSignGetWorkspaceSize, aclnnSign: SIGN, Same
        => |x| by_number!(x.dtype, T => map(<T as Arithmetic>::sign));
    aclnnRoundGetWorkspaceSize, aclnnRound: WIDE, Same
        => |x| by_number!(x.dtype, T => map(<T as Arithmetic>::round));
    aclnnIsFiniteGetWorkspaceSize, aclnnIsFinite: USUAL, Bool
        => |x| by_number!(x.dtype, T => map(|x: T| i64::from(Arithmetic::finite(x))));
    aclnnLogicalNotGetWorkspaceSize, aclnnLogicalNot: USUAL, Bool
        => |_x| map(|x: f64| i64::from(!x.is_true()));
    aclnnBitwiseNotGetWorkspaceSize, aclnnBitwiseNot: BITS, Same => |x| {
        let truth = x.dtype == ACL_BOOL;
        map(move |x: i64| if truth { x ^ 1 } else { !x })
    };
    aclnnExpGetWorkspaceSize, aclnnExp: REALS, Same => |x| function!(x, exp);
    aclnnLogGetWorkspaceSize, aclnnLog: REALS, Same => |x| function!(x, ln);
    aclnnLog1pGetWorkspaceSize, aclnnLog1p: FLOATS, Same => |x| function!(x, log1p);
    aclnnExpm1GetWorkspaceSize, aclnnExpm1: FLOATS, Same => |x| function!(x, expm1);
    aclnnSqrtGetWorkspaceSize, aclnnSqrt: REALS, Same => |x| function!(x, sqrt);
    aclnnRsqrtGetWorkspaceSize, aclnnRsqrt: REALS, Same => |x| function!(x, rsqrt);
    aclnnReciprocalGetWorkspaceSize, aclnnReciprocal: REALS, Same => |x| function!(x, reciprocal);
    aclnnSinGetWorkspaceSize, aclnnSin: REALS, Same => |x| function!(x, sin);
    aclnnCosGetWorkspaceSize, aclnnCos: REALS, Same => |x| function!(x, cos);
    aclnnTanGetWorkspaceSize, aclnnTan: REALS, Same => |x| function!(x, tan);
    aclnnSinhGetWorkspaceSize, aclnnSinh: REALS, Same => |x| function!(x, sinh);
    aclnnCoshGetWorkspaceSize, aclnnCosh: REALS, Same => |x| function!(x, cosh);
    aclnnAsinGetWorkspaceSize, aclnnAsin: REALS, Same => |x| function!(x, asin);
    aclnnAcosGetWorkspaceSize, aclnnAcos: REALS, Same => |x| function!(x, acos);
    aclnnAtanGetWorkspaceSize, aclnnAtan: REALS, Same => |x| function!(x, atan);
    aclnnAsinhGetWorkspaceSize, aclnnAsinh: REALS, Same => |x| function!(x, asinh);
    aclnnAcoshGetWorkspaceSize, aclnnAcosh: REALS, Same => |x| function!(x, acosh);
    aclnnAtanhGetWorkspaceSize, aclnnAtanh: REALS, Same => |x| function!(x, atanh);
    aclnnErfGetWorkspaceSize, aclnnErf: REALS, Same => |x| function!(x, erf);
    aclnnFloorGetWorkspaceSize, aclnnFloor: REALS, Same => |x| function!(x, floor);
    aclnnCeilGetWorkspaceSize, aclnnCeil: REALS, Same => |x| function!(x, ceil);
    aclnnTruncGetWorkspaceSize, aclnnTrunc: FLOATS, Same => |x| function!(x, trunc);
}

of_one! { activation, mut:
    aclnnTanhGetWorkspaceSize, aclnnTanh: REALS, Same => |x| function!(x, tanh);
    aclnnSigmoidGetWorkspaceSize, aclnnSigmoid: REALS, Same => |x| function!(x, sigmoid);
    aclnnSiluGetWorkspaceSize, aclnnSilu: FLOATS, Same => |x| function!(x, silu);
    // CANN's first Gelu is the approximation.
    aclnnGeluGetWorkspaceSize, aclnnGelu: FLOATS, Same => |x| function!(x, gelu_tanh);
}

of_one! { activation, const:
    aclnnReluGetWorkspaceSize, aclnnRelu: RELU, Same
        => |x| by_number!(x.dtype, T => map(<T as Arithmetic>::relu));
}

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

/// `self ± alpha · other`, of a tensor or a scalar.
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

/// A quotient with a mode: 0 as it is, 1 towards zero, 2 towards minus infinity.
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
