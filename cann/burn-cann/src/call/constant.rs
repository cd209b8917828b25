//! Parameters of a call that are values on the host and need a handle of CANN.
//!
//! A constant lives with the executor of its call and is part of the executor's key.

use cann_sys::types::{aclBoolArray, aclIntArray, aclScalar};

use super::cache::Attribute;
use crate::cann::Cann;
use crate::descriptor::{BoolArrayDescriptor, IntArrayDescriptor, ScalarDescriptor};
use crate::error::Result;

/// A number or boolean on the host.
///
/// CANN gets it as f64, i64 or bool. With a tensor of floats, CANN rounds it to the tensor's dtype or computes with it
/// in f32. With a tensor of integers it must be an integer, because CANN's result would be floats otherwise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scalar {
    /// A floating-point number.
    Float(f64),
    /// An integer.
    Int(i64),
    /// A boolean.
    Bool(bool),
}

macro_rules! from {
    ($($type:ty => $variant:ident),+) => {
        $(impl From<$type> for Scalar {
            fn from(value: $type) -> Self {
                Self::$variant(value.into())
            }
        })+
    };
}

from!(f64 => Float, f32 => Float, i64 => Int, i32 => Int, bool => Bool);

/// A parameter with a handle.
#[derive(Debug, Clone)]
pub(crate) enum Constant {
    Scalar(Scalar),
    /// A dimension that CANN takes as a scalar of i32.
    Dimension(i32),
    Ints(Vec<i64>),
    Bools(Vec<bool>),
}

impl Constant {
    /// Makes a constant of sizes, dimensions or counts.
    pub(crate) fn sizes(sizes: &[usize]) -> Self {
        // A size of a layout fits.
        Self::Ints(
            sizes
                .iter()
                .map(|&size| size.cast_signed() as i64)
                .collect(),
        )
    }

    /// Adds the attributes that distinguish a call with this constant from others.
    pub(super) fn describe(&self, attributes: &mut Vec<Attribute>) {
        let mut add = |attribute: Attribute| attributes.push(attribute);
        match self {
            Self::Scalar(value) => {
                let (kind, value) = match *value {
                    Scalar::Float(value) => (0i64, Attribute::from(value)),
                    Scalar::Int(value) => (1, value.into()),
                    Scalar::Bool(value) => (2, value.into()),
                };
                add(kind.into());
                add(value);
            }
            Self::Dimension(value) => add(i64::from(*value).into()),
            Self::Ints(values) => {
                add((values.len() as i64).into());
                values.iter().for_each(|&value| add(value.into()));
            }
            Self::Bools(values) => {
                add((values.len() as i64).into());
                values.iter().for_each(|&value| add(value.into()));
            }
        }
    }
}

/// The handles of a call's constants.
#[derive(Debug)]
pub(crate) struct ConstantHandles(Vec<Handle>);

#[derive(Debug)]
enum Handle {
    Scalar(ScalarDescriptor),
    Ints(IntArrayDescriptor),
    Bools(BoolArrayDescriptor),
}

impl ConstantHandles {
    pub(super) fn new(cann: &Cann, constants: &[Constant]) -> Result<Self> {
        let handle = |constant: &Constant| {
            Ok(match constant {
                Constant::Scalar(Scalar::Float(value)) => {
                    Handle::Scalar(ScalarDescriptor::new(cann, *value)?)
                }
                Constant::Scalar(Scalar::Int(value)) => {
                    Handle::Scalar(ScalarDescriptor::new(cann, *value)?)
                }
                Constant::Scalar(Scalar::Bool(value)) => {
                    Handle::Scalar(ScalarDescriptor::from_bool(cann, *value)?)
                }
                Constant::Dimension(value) => Handle::Scalar(ScalarDescriptor::new(cann, *value)?),
                Constant::Ints(values) => Handle::Ints(IntArrayDescriptor::new(cann, values)?),
                Constant::Bools(values) => Handle::Bools(BoolArrayDescriptor::new(cann, values)?),
            })
        };
        Ok(Self(constants.iter().map(handle).collect::<Result<_>>()?))
    }

    /// Returns the scalar at `place` among the constants.
    pub(crate) fn scalar(&self, place: usize) -> *mut aclScalar {
        match &self.0[place] {
            Handle::Scalar(scalar) => scalar.as_raw(),
            other => unreachable!("constant {place} is {other:?}"),
        }
    }

    /// Returns the integers at `place` among the constants.
    pub(crate) fn ints(&self, place: usize) -> *mut aclIntArray {
        match &self.0[place] {
            Handle::Ints(ints) => ints.as_raw(),
            other => unreachable!("constant {place} is {other:?}"),
        }
    }

    /// Returns the booleans at `place` among the constants.
    pub(crate) fn bools(&self, place: usize) -> *mut aclBoolArray {
        match &self.0[place] {
            Handle::Bools(bools) => bools.as_raw(),
            other => unreachable!("constant {place} is {other:?}"),
        }
    }
}
