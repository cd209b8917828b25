//! Live verification: checks of annotated sites where they run, on the tensors of the run.
//!
//! A checked call of a site that runs fused makes two comparisons. Each compares the results and, if autodiff is
//! enabled, every gradient for a fixed pseudo-random upstream gradient:
//!
//! 1. the kernel with the operation's own reference, computed in f64 from the same inputs;
//! 2. the user's body, which the kernel replaces, with the same reference.
//!
//! The check finds a kernel that is wrong on this machine. It also finds a body that computes something different from
//! its attribute, such as GELU under `activation = silu`, because the attribute can't read bodies. A mismatch panics in
//! every build. The message names the one that is wrong and shows how to switch the kernel off.
//!
//! # Extent of a check
//!
//! [`Sampling`] selects the calls that are checked. It is set by [`set`] or [`scope`], otherwise by the environment
//! variable `BURN_KERNELS_VERIFY`. The default is the first call of each class of a site's calls, in debug and release
//! builds alike. Calls are of one class if they have the same mode (with or without autodiff), the same operands, dtypes
//! and ranks, and if the same of their sizes are 1 or equal to each other. A site remembers 32 classes, and calls of
//! others are not checked. Calls of threads that come first together are all checked. Each instance of a generic item has
//! classes of its own, because its body may compute something else. [`report`] returns the checks that were made and their
//! time.
//!
//! A site whose check failed stays failed: each later call panics with the same message, until [`reset`].
//!
//! By default, a check compares as little of a call as the operation's contract allows:
//!
//! * about four rows of a norm, a gated unit, a gated MLP or a step of AdamW, spread from the first to the last;
//! * the first and the last head of a rotary embedding;
//! * the first positions of causal attention, of two sequences and, with a window, some more than it has; the last
//!   positions of all sequences if they are padded on the left; two queries of attention without a mask. Other attention
//!   with lengths, or with a window but no causal mask, is compared as a whole. Of a layer, the body is compared on the
//!   first positions, with lengths as a whole;
//! * some tokens of a cross-entropy. A mean or a sum of them is compared alone. Of output weights, also some classes are
//!   taken, with those that are targets;
//! * about four rows of a linear layer, and some outputs of a large weight that is not trained;
//! * two tokens of experts, with the experts that they are routed to;
//! * some tokens of a router or a sparse block.
//!
//! Kernels of other crates are compared as a whole unless they define their rows ([`Operands::sample`]). Gradients are
//! those of the compared rows only. With `whole` in `BURN_KERNELS_VERIFY`, whole calls are compared, without added
//! rows.
//!
//! A few rows of the check's own numbers follow the rows of the run, because a run may hide a mistake: an epsilon has
//! no effect on large rows, every activation is nearly linear around zero, and a limit is seldom reached. On half
//! types, the check also reports a norm's body whose numbers are exactly those of the other rounding order than its key
//! states.
//!
//! # Requirements on the body
//!
//! The body runs once more than the program asks for. It runs after the kernel, on copies of the tensors that are
//! detached from the program's graph. Also the parameters that it captures are replaced by such copies, if they belong to
//! a `Module` or are tensors of their own. The gradients of other bodies that capture tracked tensors are not compared.
//! It should therefore have no side effects. The check draws no numbers from Burn's
//! random generator, and the program's own call has initialised the parameters before. A seed therefore gives the same
//! results with and without verification. Annotated sites inside the body take their references and are not counted. A
//! body with random results (dropout) can't be compared. Exclude its site:
//! `BURN_KERNELS_VERIFY=first,-my_model::Mlp::forward`. A body that accepts only the sizes of the call panics on a few
//! rows. The check is then skipped, and the log and the [`report`] show this. (With `panic = "abort"`, the program ends
//! there. Exclude the site or use `whole`.)
//!
//! A call is not checked if one of its operands contains an infinity or a NaN, because there is nothing to compare. This is
//! logged, and the next call of its class is checked instead, up to the eighth. Nor is a call without elements. A check
//! can't find a mistake that shows neither in the run nor in the check's own rows. At position 0, for example,
//! every style of rotary embedding computes the same, and weights of ones show no rounding order.

mod body;
mod case;
mod check;
mod checks;
mod class;
mod composite;
pub(crate) mod detached;
mod epsilon;
mod mismatch;
mod noise;
mod order;
pub(crate) mod probe;
mod run;
mod sampling;
mod tally;
mod tolerance;
mod tuning;

pub use sampling::{GRAMMAR, Sampling, SamplingError, SamplingGuard, current, scope, set};
pub use tally::{LiveReport, LiveRow, report, reset};

pub(crate) use check::Captured;
pub use check::{VerifyError, verify};
pub(crate) use checks::Checks;
pub(crate) use composite::{Compared, Composite, composite, composite_is_due};
pub(crate) use probe::root_mean_square;
pub(crate) use sampling::Width;

use crate::dispatch::{At, Decision, Route};
use crate::kernel::Operands;
use crate::kernel::erased::{AnyOperands, AnyTensors, known};
use crate::ops::derived;
use crate::registry::Implementation;
use crate::tune;
use check::Body;
use checks::{Due, Part};
use class::Class;
use sampling::Active;

/// Runs a call as dispatch decided: the body, or an implementation, which is checked if the sampling selects the call, and
/// otherwise measured if the policy tunes.
///
/// `captured` are the operands that `body` captures instead of taking them from its argument, such as the weight of a
/// norm or the tables of a rotary embedding.
#[track_caller]
pub(crate) fn decided<O: Operands>(
    at: &At,
    route: impl Into<Route>,
    mut operands: O,
    captured: Captured,
    body: impl FnOnce(O) -> O::Output,
) -> O::Output {
    let route = route.into();
    let Decision::Fused(implementation) = route.decision() else {
        return body(operands);
    };
    let on = sampling::active();
    if matches!(on, Active::Off) && route.open().is_none() {
        return derived::launch(operands, implementation);
    }
    let class = Class::of(&mut operands, route.is_training())
        .and(at.instance_number())
        .and(std::ptr::from_ref(implementation).addr() as u64);
    match Observed::of(at, route, implementation, captured, on, &class) {
        Some(call) => observed(call, operands, body),
        None => derived::launch(operands, implementation),
    }
}

/// Runs a call that is checked or measured. What follows is compiled once, for operands of any type.
#[track_caller]
#[cold]
fn observed<O: Operands>(
    call: Observed,
    operands: O,
    body: impl FnOnce(O) -> O::Output,
) -> O::Output {
    let body = |operands: AnyOperands| -> AnyTensors { Box::new(body(known(operands))) };
    known(call.run(Box::new(operands), Box::new(body)))
}

/// A call that is checked or measured.
enum Observed {
    Checked(check::Call),
    Measured {
        class: &'static tune::Class,
        implementation: &'static Implementation,
        captured: Captured,
    },
}

impl Observed {
    /// Returns `None` if the call only runs. Panics if a check of the site failed.
    #[track_caller]
    fn of(
        at: &At,
        route: Route,
        implementation: &'static Implementation,
        captured: Captured,
        on: Active,
        class: &Class,
    ) -> Option<Self> {
        if class.is_empty() {
            return None;
        }
        let site = at.site();
        let due = site
            .checks()
            .due(site.spec(), Part::Kernel, on, class.hash());
        if !due.is_some_and(Due::is_nth) {
            site.checks().refuse(site.spec(), on);
        }
        match due {
            Some(due) => Some(Self::Checked(check::Call {
                site,
                implementation,
                captured,
                width: on.width(),
                due,
            })),
            None => route.open().map(|class| Self::Measured {
                class,
                implementation,
                captured,
            }),
        }
    }

    #[track_caller]
    fn run(self, operands: AnyOperands, body: Body<'_>) -> AnyTensors {
        match self {
            Self::Checked(call) => call.checked(operands, body),
            Self::Measured {
                class,
                implementation,
                captured,
            } => tuning::measured(class, implementation, operands, captured, body),
        }
    }
}
