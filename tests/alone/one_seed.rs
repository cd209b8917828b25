//! Tests that one seed gives one model: parameters are initialised in the order in which a body uses them, with and
//! without kernels and verification.
//!
//! Every layer here uses its parameters in another order than its kernel would.

mod attention;
mod experts;
mod linear;
mod mlps;
mod norms;
mod prepared;
mod train;
