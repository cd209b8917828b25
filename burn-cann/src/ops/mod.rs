//! CANN's operators, typed: fused ones in a module each, the base operators by family.
//!
//! Each operator has a `check`, a pure function of the [`Platform`](crate::Platform) and the operands'
//! [`Spec`](crate::Spec)s that says what the outputs are or why CANN would refuse: a dispatcher asks it
//! before it chooses. `prepare` checks, allocates the outputs and runs phase one; the function of the
//! operator's name launches as well.
//!
//! Limits are those that CANN documents for Atlas A2 and A3. Where the documents of its versions differ,
//! the stricter holds. Where they say nothing, the check is the stricter one too, and says so.
//!
//! Base operators take views of any strides, of at most eight dimensions, and give contiguous tensors. CANN
//! promotes operands of different types; here they must have one type, so that no promotion happens by
//! accident. Results without elements are given without a call.

mod aclnn;
pub mod adam;
pub mod attention;
mod check;
pub mod compare;
pub mod create;
pub mod elementwise;
pub mod grouped_matmul;
pub mod index;
pub mod layer_norm;
pub mod loss;
pub mod matmul;
pub mod moe;
pub mod random;
pub mod rearrange;
pub mod reduce;
mod refusal;
pub mod rms_norm;
pub mod rotary;
pub mod shape;
pub mod softmax;
pub mod sort;
pub mod swi_glu;
mod table;
mod types;
pub mod unary;

pub use refusal::{Kind, Refusal};
pub use shape::contiguous;

/// The result of a check.
pub type Checked<T> = std::result::Result<T, Refusal>;
