//! The kernels around the products of a linear cross-entropy, for a chunk of tokens.

#[allow(
    dead_code,
    reason = "a factor for each token is no other kernel's shape"
)]
#[path = "../../../../../kernels-runtime/src/ops/linear_cross_entropy/cube/kernels.rs"]
mod kernels;

use crate::ops::cross_entropy::cube::kernels::{NumbersLaunch, Terms};
use crate::passes::{Parts, Pass, Passes, Role, units};
use crate::semantics::LogitCap;
use kernels::Factors;

const TOKENS: usize = 1024;
const WIDTH: usize = 2048;
const CLASSES: usize = 32_768;
const ALL: usize = TOKENS * CLASSES;

/// Launches the kernels of both directions, plain and with every term and a bias.
pub fn all(passes: &mut Passes) {
    for (name, has_all) in [("", false), (" with all terms", true)] {
        let forward = format!("linear_cross_entropy losses{name}");
        losses(passes.pass(&forward), has_all, Factors::None);
        let gradients = format!("linear_cross_entropy losses and slopes{name}");
        losses(passes.pass(&gradients), has_all, Factors::Shared);
    }
    of_weight(passes.pass("linear_cross_entropy counted rows"));
    of_bias(passes.pass("linear_cross_entropy bias"));
}

fn losses(mut pass: Pass<'_>, has_all: bool, of: Factors) {
    let size = pass.size();
    let changed = match of {
        Factors::None => Role::Operand,
        Factors::Shared | Factors::Each => Role::Changed,
    };
    let logits = pass.numbers(ALL, changed);
    let classes = pass.numbers(TOKENS, Role::Operand);
    let bias = has_all.then(|| pass.buffer(CLASSES, Role::Operand));
    let factor = (of != Factors::None).then(|| pass.numbers(1, Role::Operand));
    let losses = pass.numbers(TOKENS, Role::Result);
    let terms = Terms {
        cap: match has_all {
            true => LogitCap::Tanh,
            false => LogitCap::None,
        },
        is_smooth: has_all,
        has_z_loss: has_all,
    };
    let (units, element) = (units(CLASSES / size), pass.element());
    let name = pass.name();
    pass.launch(&name, units, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::losses::launch_unchecked(
                client,
                count,
                dim,
                size,
                logits.arg(),
                bias.map(|bias| bias.arg()).into(),
                classes.arg(),
                factor.map(|factor| factor.arg()).into(),
                losses.arg(),
                NumbersLaunch::new(TOKENS, CLASSES / size, 0.1, 30.0, 1e-4, f32::NAN),
                0,
                terms,
                of,
                units,
                element,
            );
        }
    });
    pass.end();
}

fn of_weight(mut pass: Pass<'_>) {
    let size = pass.size();
    let hidden = pass.buffer(TOKENS * WIDTH, Role::Operand);
    let classes = pass.numbers(TOKENS, Role::Operand);
    let counted = pass.numbers(TOKENS * WIDTH, Role::Result);
    let (name, element) = (pass.name(), pass.element());
    pass.launch(&name, 256, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::counted::launch_unchecked(
                client,
                count,
                dim,
                size,
                hidden.arg(),
                classes.arg(),
                counted.arg(),
                0,
                TOKENS,
                WIDTH / size,
                element,
            );
        }
    });
    pass.end();
}

fn of_bias(mut pass: Pass<'_>) {
    let (size, parts) = (pass.size(), Parts::of(TOKENS));
    let slopes = pass.numbers(ALL, Role::Operand);
    let sums = pass.numbers(parts.count * CLASSES, Role::Between);
    let name = pass.name();
    pass.launch(&name, 256, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::sum_parts::launch_unchecked(
                client,
                count,
                dim,
                size,
                slopes.arg(),
                sums.arg(),
                TOKENS,
                parts.rows,
                CLASSES / size,
            );
        }
    });
    pass.sum_rows(&sums, parts.count, CLASSES);
    let more = pass.numbers(CLASSES, Role::Between);
    let sum = pass.numbers(CLASSES, Role::Changed);
    pass.launch("linear_cross_entropy add", 256, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::add::launch_unchecked(
                client,
                count,
                dim,
                size,
                sum.arg(),
                more.arg(),
                CLASSES / size,
            );
        }
    });
    pass.end();
}
