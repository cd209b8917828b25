//! CANN's operators, typed: one module per fused operator, and the base operators by family.
//!
//! Each operator has a `check`, a pure function of the [`Platform`](crate::Platform) and the operands'
//! [`Spec`](crate::Spec)s. It returns the specs of the outputs, or a [`Refusal`] with the reason why CANN would not
//! take the operands. A dispatcher asks it before it chooses. `prepare` checks, allocates the outputs and runs phase
//! one. The function with the operator's name also launches the call.
//!
//! Limits are those that CANN documents for Atlas A2 and A3; other processors are refused. Where the documents of
//! CANN's versions differ, the stricter limit holds. Where they are silent, the check is strict too, and its
//! documentation says so.
//!
//! Base operators take views of any strides with at most eight dimensions, and return contiguous tensors. CANN
//! promotes operands of different dtypes; here they must have one dtype, so that no promotion happens by accident. A
//! result without elements is returned without a call.
//!
//! Families of operators with one signature (`elementwise`, `compare`, `unary`) are tables, from which their
//! enumeration, checks and functions are made. Every other call is written as the signature of CANN's function.

mod aclnn;
pub mod adam;
pub mod attention;
mod check;
pub mod compare;
pub mod create;
pub mod cross_entropy;
pub mod elementwise;
pub mod ge_glu;
pub mod grouped_matmul;
pub mod index;
pub mod layer_norm;
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

/// The result of a check: the specs of the outputs, or the refusal.
pub type Checked<T> = std::result::Result<T, Refusal>;
