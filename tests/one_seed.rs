//! One seed gives one model: parameters are initialised in the order in which a body uses them,
//! whether kernels run, and are verified, or not.
//!
//! Every layer here uses its parameters in another order than its kernel would by itself.

#[path = "one_seed/experts.rs"]
mod experts;
#[path = "one_seed/mlps.rs"]
mod mlps;
#[path = "one_seed/train.rs"]
mod train;
