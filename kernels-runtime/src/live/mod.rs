//! Live verification: annotated sites checked where they run, on the tensors of the run.
//!
//! A checked call of a site that runs fused compares, forward and, where autodiff is enabled, every
//! gradient for a fixed pseudo-random upstream gradient,
//!
//! 1. the kernel with the operation's own reference, computed in f64 from the same inputs;
//! 2. the user's body, which the kernel stands in for, with the same.
//!
//! So it finds a kernel that is wrong on this machine, and a body that computes something else than
//! its attribute says, such as GELU under `activation = silu`: the attribute can't read bodies. A
//! mismatch panics, in every build; the message names the odd one out and how to switch the kernel
//! off.
//!
//! # How much is compared
//!
//! [`Sampling`] says which calls are checked: [`set`] or [`scope`], else the environment variable
//! `BURN_KERNELS_VERIFY`, else the first call of each site and the first with autodiff, in debug and
//! release builds alike. [`report`] says what was checked, and how long it took.
//!
//! By default a check takes as little of a call as the operation's contract allows: about four rows
//! of a norm, a gated unit, a gated MLP or a step of AdamW, spread from the first to the last; the
//! first and the last head of a rotary embedding; two tokens of experts with the experts they go to;
//! some tokens of a router or a sparse block. Kernels of other crates are compared whole unless they
//! say what their rows are ([`Operands::sample`]). Gradients are those of the rows alone. `whole` in
//! `BURN_KERNELS_VERIFY` compares whole calls, and no rows of its own.
//!
//! Behind the rows of the run stand a few of the check's own, because a run may hide a mistake: an
//! epsilon does nothing beside large rows, near zero every activation is a straight line, and a
//! limit is seldom reached. On half types, a norm's body that gives exactly the numbers of the other
//! rounding order than its key says is told too.
//!
//! # What a body must not do
//!
//! The body runs once more than the program asks for, after the kernel, on copies of the tensors
//! that are cut off from the program's graph; so it should do nothing but compute. Nothing is drawn
//! from Burn's random generator, and the program's own call has initialised the parameters before:
//! a seed gives the same with verification and without. Annotated sites inside the body take their
//! references and are not counted. A body with random results (dropout) can't be compared: leave
//! the site out, `BURN_KERNELS_VERIFY=first,-my_model::Mlp::forward`. A body that takes no other
//! sizes than the call's panics on a few rows: the check is skipped, and the log and the [`report`]
//! say so. (With `panic = "abort"` the program ends there: leave the site out, or write `whole`.)
//!
//! A call is not checked if one of its operands holds an infinity or a NaN: there is nothing to
//! compare. What neither the run nor the check's own rows show can't be found: at position 0 every
//! style of rotary embedding computes the same, and weights of ones show no rounding order.

mod body;
mod case;
mod check;
mod checks;
mod composite;
mod mismatch;
mod order;
pub(crate) mod probe;
mod run;
mod sampling;
mod tally;
mod tolerance;

pub use sampling::{GRAMMAR, Sampling, SamplingError, SamplingGuard, current, scope, set};
pub use tally::{LiveReport, LiveRow, report, reset};

pub(crate) use check::Captured;
pub use check::{VerifyError, verify};
pub(crate) use checks::Checks;
pub(crate) use composite::{Composite, composite, composite_is_due};
pub(crate) use probe::root_mean_square;
pub(crate) use sampling::Width;

use crate::dispatch::{At, Decision};
use crate::kernel::{Operands, Tensors, Visitor};
use crate::ops::derived;
use burn::module::Param;
use burn::tensor::Tensor;
use checks::Part;
use sampling::Active;

/// Runs a call as dispatch decided: the body, or an implementation, which is checked if it is its turn.
///
/// `captured` are the operands that `body` does not take from its argument, but from where it was
/// written: the weight of a norm, the tables of a rotary embedding.
#[track_caller]
pub(crate) fn decided<O: Operands>(
    at: &At,
    decision: Decision,
    mut operands: O,
    captured: Captured,
    body: impl FnOnce(O) -> O::Output,
) -> O::Output {
    let Decision::Fused(implementation) = decision else {
        return body(operands);
    };
    let site = at.site();
    match sampling::active() {
        Active::Off => derived::launch(operands, implementation),
        on if site.checks().due(site.spec(), Part::Kernel, on, || {
            has_autodiff(&mut operands)
        }) =>
        {
            // Boxed, so that what follows is compiled once a type of operands and not once a site.
            let body = Box::new(body);
            check::checked(site, implementation, operands, captured, on.width(), body)
        }
        _ => derived::launch(operands, implementation),
    }
}

/// Whether a tensor has autodiff enabled. It is asked at every call until both kinds have been: it
/// copies and replaces nothing.
fn has_autodiff(operands: &mut impl Tensors) -> bool {
    struct Autodiff(bool);
    impl Visitor for Autodiff {
        fn tensor<const D: usize>(&mut self, _: &'static str, tensor: &mut Tensor<D>) {
            self.0 |= tensor.is_autodiff();
        }

        fn param<const D: usize>(&mut self, _: &'static str, param: &mut Param<Tensor<D>>) {
            self.0 |= param.val().is_autodiff();
        }
    }
    let mut found = Autodiff(false);
    operands.visit(&mut found);
    found.0
}
