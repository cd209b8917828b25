//! Elementwise arithmetic, comparison, logic and functions.
//!
//! There is a table per signature, with each operator's name, its dtypes and its function of values. Two tensors are
//! broadcast and promoted to one dtype, and the table names the dtype of the result, which is converted to the output's.

use crate::abi::prelude::*;
use crate::threads;

/// Floats, i32 and i64.
const WIDE: &[aclDataType] = &[F32, F16, BF16, F64, I64, I32];
/// The floats and all integers.
const COUNTS: &[aclDataType] = &[F32, F16, BF16, F64, I64, I32, I16, I8, U8, U16, U32, U64];
/// The usual dtypes and u16.
const UP_TO_U16: &[aclDataType] = &[F32, F16, BF16, F64, I64, I32, I16, I8, U8, BOOL, U16];
/// The dtypes that have a remainder towards zero.
const FMOD: &[aclDataType] = &[F32, F16, BF16, F64, I64, I32, I8, U8];

/// The dtype of the result, and which dtypes the output may have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gives {
    /// The dtype of the operands. They and the output have one.
    Equal,
    /// The dtype in which the operands meet, converted to the output's.
    Same,
    /// Booleans, converted to the output's dtype.
    Bool,
    /// The float in which the operands meet, f32 for integers, converted to the output's dtype.
    Float,
    /// As [`Gives::Float`], but an output to which the operands' own dtype is converted is enough: a quotient of
    /// integers may be cut to an integer.
    Quotient,
    /// As [`Gives::Float`], for an output of any float.
    Real,
    /// As [`Gives::Float`], but i64 is computed in f64, as CANN does.
    Root,
    /// The float of the operand, the output's for integers, for an output of any float.
    RealOut,
    /// As [`Gives::Real`] without f64.
    Single,
}

/// The dtypes of a call.
#[derive(Clone, Copy)]
struct Dtypes {
    /// The dtype to which the operands are converted.
    of: aclDataType,
    /// The dtype of the result, before it is converted to the output's.
    gives: aclDataType,
}

impl Gives {
    /// Returns the dtypes of a call whose operands meet in `of`, if the output may have its dtype.
    fn dtypes(self, name: &str, of: aclDataType, output: &Tensor) -> Outcome<Dtypes> {
        if self == Self::Quotient {
            check_castable(name, of, output.dtype)?;
        }
        let of = match self {
            Self::Equal | Self::Same | Self::Bool => of,
            Self::RealOut if !is_float(of) => output.dtype,
            Self::Root if of == ACL_INT64 => ACL_DOUBLE,
            _ if !is_float(of) => ACL_FLOAT,
            _ => of,
        };
        let gives = if self == Self::Bool { ACL_BOOL } else { of };
        match self {
            Self::Equal => check_dtype(name, output, &[of])?,
            Self::Real | Self::RealOut => check_dtype(name, output, REALS)?,
            Self::Single => check_dtype(name, output, FLOATS)?,
            Self::Same | Self::Bool | Self::Float | Self::Root => {
                check_castable(name, gives, output.dtype)?;
            }
            Self::Quotient => {}
        }
        Ok(Dtypes { of, gives })
    }
}

impl To {
    /// Takes the output, of a result with the shape `shape`.
    fn output(
        self,
        operands: &mut Operands,
        (input, of): (&Tensor, aclDataType),
        shape: &[usize],
        gives: Gives,
    ) -> Outcome<Dtypes> {
        let (name, output) = match self {
            Self::Output(output) => ("out", operands.target("out", output, ALL)?),
            Self::Itself => ("selfRef", input.clone()),
        };
        let dtypes = gives.dtypes(name, of, &output)?;
        check_size(name, &output, shape)?;
        Ok(dtypes)
    }
}

fn map<T: Number, U: Number>(
    dtypes: Dtypes,
    apply: impl Fn(T) -> U + Send + Sync + 'static,
) -> Work {
    Arc::new(move |memory, operands| {
        let [x, rest @ ..] = operands else {
            unreachable!("taken by one()")
        };
        let values = x.values_as(memory, dtypes.of)?;
        let values: Vec<U> = threads::map(&values, &apply);
        let out = rest.first().unwrap_or(x);
        out.store_values_of(memory, &values, dtypes.gives)
    })
}

fn zip<T: Number, U: Number>(
    dtypes: Dtypes,
    apply: impl Fn(T, T) -> U + Send + Sync + 'static,
) -> Work {
    Arc::new(move |memory, operands| {
        let [left, right, rest @ ..] = operands else {
            unreachable!("taken by two()")
        };
        let out = rest.first().unwrap_or(left);
        let left = left.expanded(&out.shape).values_as(memory, dtypes.of)?;
        let right = right.expanded(&out.shape).values_as(memory, dtypes.of)?;
        let values: Vec<U> = threads::zip(&left, &right, &apply);
        out.store_values_of(memory, &values, dtypes.gives)
    })
}

/// Takes an input and its result.
fn one(
    operands: &mut Operands,
    input: *const aclTensor,
    to: To,
    dtypes: &[aclDataType],
    gives: Gives,
) -> Outcome<Dtypes> {
    let input = to.input(operands, input, dtypes)?;
    to.output(operands, (&input, input.dtype), &input.shape, gives)
}

/// Takes an input, a scalar that meets it, and the result.
fn with_scalar(
    operands: &mut Operands,
    (input, scalar): (*const aclTensor, *const aclScalar),
    to: To,
    dtypes: &[aclDataType],
    gives: Gives,
) -> Outcome<(Dtypes, Scalar)> {
    let input = to.input(operands, input, dtypes)?;
    let scalar = operands.scalar("other", scalar)?;
    let of = promoted_by(input.dtype, &scalar);
    let dtypes = to.output(operands, (&input, of), &input.shape, gives)?;
    Ok((dtypes, scalar))
}

/// Takes two inputs and their result.
fn two(
    operands: &mut Operands,
    [left, right]: [*const aclTensor; 2],
    to: To,
    dtypes: &[aclDataType],
    gives: Gives,
) -> Outcome<Dtypes> {
    let left = to.input(operands, left, dtypes)?;
    let right = match gives {
        Gives::Equal => operands.view("other", right, &[left.dtype])?,
        _ => operands.view("other", right, dtypes)?,
    };
    let shape = broadcast(&left.shape, &right.shape)?;
    let of = promoted(left.dtype, right.dtype)?;
    to.output(operands, (&left, of), &shape, gives)
}

/// Takes a factor of a result, which its dtype must be able to hold.
fn factor(
    operands: &Operands,
    name: &str,
    scalar: *const aclScalar,
    dtypes: Dtypes,
) -> Outcome<Scalar> {
    let scalar = operands.scalar(name, scalar)?;
    ensure!(!scalar.is_float() || is_float(dtypes.of);
        "{name} is {}, to which results of {} are not converted",
        name_of(scalar.dtype), name_of(dtypes.of));
    Ok(scalar)
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

// The bits of u64 are in an i64, which would compare them as negative numbers.
macro_rules! compared {
    ($dtypes:ident, $operator:tt) => {
        if $dtypes.of == ACL_UINT64 {
            zip($dtypes, |left: i64, right: i64| {
                i64::from(left.cast_unsigned() $operator right.cast_unsigned())
            })
        } else {
            by_number!($dtypes.of, T => zip($dtypes, |left: T, right: T| i64::from(left $operator right)))
        }
    };
    ($dtypes:ident, $operator:tt $rhs:ident) => {
        if $dtypes.of == ACL_UINT64 {
            let right = $rhs.to::<i64>().cast_unsigned();
            map($dtypes, move |left: i64| i64::from(left.cast_unsigned() $operator right))
        } else {
            by_number!($dtypes.of, T => {
                let right = $rhs.to::<T>().held_as($dtypes.of);
                map($dtypes, move |left: T| i64::from(left $operator right))
            })
        }
    };
}

macro_rules! arithmetic {
    ($dtypes:ident, $function:ident) => {
        by_number!($dtypes.of, T => zip($dtypes, <T as Arithmetic>::$function))
    };
    ($dtypes:ident, $function:ident, $rhs:ident) => {
        by_number!($dtypes.of, T => {
            let right: T = $rhs.to();
            map($dtypes, move |left: T| Arithmetic::$function(left, right))
        })
    };
}

// Declared after the macros, which they use.
mod activation;
mod alpha;
mod binary;
mod blend;
mod close;
mod gradient;
mod nan;
mod power;
mod quotient;
mod scalar;
mod unary;

pub use self::activation::*;
pub use self::alpha::*;
pub use self::binary::*;
pub use self::blend::*;
pub use self::close::*;
pub use self::gradient::*;
pub use self::nan::*;
pub use self::power::*;
pub use self::quotient::*;
pub use self::scalar::*;
pub use self::unary::*;
