//! The names that definitions of operators use.

pub(crate) use std::sync::Arc;

pub(crate) use cann_sys::meta::*;

pub(crate) use crate::abi::checks::*;
pub(crate) use crate::abi::operator::{To, operator, with_place};
pub(crate) use crate::abi::present::Present;
pub(crate) use crate::abi::promotion::{check_castable, promoted, promoted_by};
pub(crate) use crate::error::{Failure, Outcome, ensure, fail};
pub(crate) use crate::executor::{Operands, Work, taken};
pub(crate) use crate::memory::Memory;
pub(crate) use crate::number::{Number, by_number};
pub(crate) use crate::scalar::Scalar;
pub(crate) use crate::state;
pub(crate) use crate::tensor::{self, Tensor, contiguous, name_of};
