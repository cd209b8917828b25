//! Tests that one seed gives one model: parameters are initialised in the order in which a body uses them, with and
//! without kernels and verification.
//!
//! Every layer here uses its parameters in another order than its kernel would.

#[path = "one_seed/attention.rs"]
mod attention;
#[path = "one_seed/experts.rs"]
mod experts;
#[path = "one_seed/linear.rs"]
mod linear;
#[path = "one_seed/mlps.rs"]
mod mlps;
#[path = "one_seed/norms.rs"]
mod norms;
#[path = "one_seed/prepared.rs"]
mod prepared;
#[path = "one_seed/train.rs"]
mod train;
