//! Elementwise arithmetic, comparison, logic and functions.
//!
//! There is a table per signature, with each operator's name, its dtypes and its function of values. Two tensors are
//! broadcast, and the result has their dtype unless the table names another.

use std::sync::Arc;

use cann_sys::meta::*;

use crate::abi::checks::{REALS, broadcast};
use crate::error::Outcome;
use crate::executor::{Operands, Work};
use crate::number::Number;
use crate::tensor::Tensor;

/// Floats, i32 and i64.
const WIDE: &[aclDataType] = &[
    ACL_FLOAT,
    ACL_FLOAT16,
    ACL_BF16,
    ACL_DOUBLE,
    ACL_INT64,
    ACL_INT32,
];
/// The dtypes that have a remainder towards zero.
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

/// The dtype of the result.
enum Gives {
    /// The dtype of the operands.
    Same,
    Bool,
    /// f32 for integers, else the dtype of the operands.
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

/// Computes `$work` with the type in which floats of a dtype are computed. Integers have none.
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

// Declared after the macros, which they use.
mod binary;
mod parametrised;
mod scalar;
mod unary;

pub use self::binary::*;
pub use self::parametrised::*;
pub use self::scalar::*;
pub use self::unary::*;
