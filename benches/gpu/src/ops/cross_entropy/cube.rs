//! The cross-entropy.

#[path = "../../../../../kernels-runtime/src/ops/cross_entropy/cube/kernels.rs"]
pub(in crate::ops) mod kernels;

use crate::passes::{Pass, Passes, Role, units};
use crate::semantics::LogitCap;
use kernels::{NumbersLaunch, Terms};

const TOKENS: usize = 4096;
const CLASSES: usize = 32_768;
const ALL: usize = TOKENS * CLASSES;

/// Launches both passes of a mean, plain and with every term.
pub fn all(passes: &mut Passes) {
    let plain = Terms {
        cap: LogitCap::None,
        is_smooth: false,
        has_z_loss: false,
    };
    let full = Terms {
        cap: LogitCap::Tanh,
        is_smooth: true,
        has_z_loss: true,
    };
    for (name, terms) in [("", plain), (" with all terms", full)] {
        forward(passes.pass(&format!("cross_entropy forward{name}")), terms);
        backward(passes.pass(&format!("cross_entropy backward{name}")), terms);
    }
}

fn numbers(size: usize) -> NumbersLaunch {
    NumbersLaunch::new(TOKENS, CLASSES / size, 0.1, 30.0, 1e-4, f32::NAN)
}

fn forward(mut pass: Pass<'_>, terms: Terms) {
    let size = pass.size();
    let logits = pass.buffer(ALL, Role::Operand);
    let classes = pass.numbers(TOKENS, Role::Operand);
    let losses = pass.numbers(TOKENS, Role::Between);
    let [lse, loss] = [TOKENS, 1].map(|elements| pass.numbers(elements, Role::Result));
    let (units, element) = (units(CLASSES / size), pass.element());
    let name = pass.name();
    pass.launch(&name, units, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::forward::launch_unchecked(
                client,
                count,
                dim,
                size,
                logits.arg(),
                classes.arg(),
                losses.arg(),
                lse.arg(),
                numbers(size),
                terms,
                units,
                element,
            );
        }
    });
    pass.launch_of_numbers("cross_entropy mean", 256, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::reduce::launch_unchecked(
                client,
                count,
                dim,
                losses.arg(),
                classes.arg(),
                loss.arg(),
                TOKENS,
                true,
                256,
            );
        }
    });
    pass.end();
}

fn backward(mut pass: Pass<'_>, terms: Terms) {
    let size = pass.size();
    let (logits, element) = (pass.buffer(ALL, Role::Operand), pass.element());
    let [dy, classes, lse] =
        [1, TOKENS, TOKENS].map(|elements| pass.numbers(elements, Role::Operand));
    let factor = pass.numbers(1, Role::Between);
    let d_logits = pass.buffer(ALL, Role::Result);
    pass.launch_of_numbers("cross_entropy share", 256, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::share::launch_unchecked(
                client,
                count,
                dim,
                dy.arg(),
                classes.arg(),
                factor.arg(),
                TOKENS,
                256,
            );
        }
    });
    let name = pass.name();
    pass.launch(&name, 256, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::backward::launch_unchecked(
                client,
                count,
                dim,
                size,
                factor.arg(),
                logits.arg(),
                classes.arg(),
                lse.arg(),
                d_logits.arg(),
                numbers(size),
                terms,
                false,
                element,
            );
        }
    });
    pass.end();
}
