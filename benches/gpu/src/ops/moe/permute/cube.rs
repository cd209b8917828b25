//! Moving tokens to rows and back.

#[path = "../../../../../../kernels-runtime/src/ops/moe/permute/cube/kernels.rs"]
mod kernels;

use crate::passes::{Pass, Passes, Role, units};
use kernels::NumbersLaunch;

const TOKENS: usize = 4096;
const CHOICES: usize = 8;
const SLOTS: usize = TOKENS * CHOICES;
const WIDTH: usize = 2048;

/// Launches the move to rows, the weighted sum, and the gradient of its probabilities.
pub fn all(passes: &mut Passes) {
    spread(passes.pass("moe spread"));
    sum(passes.pass("moe weighted sum"));
    product(passes.pass("moe gradient of probabilities"));
}

fn numbers(size: usize, rows: usize) -> NumbersLaunch {
    let vectors = WIDTH / size;
    NumbersLaunch::new(vectors, rows * vectors, CHOICES, SLOTS, f32::NAN)
}

fn spread(mut pass: Pass<'_>) {
    let size = pass.size();
    let tokens = pass.buffer(TOKENS * WIDTH, Role::Operand);
    let slots = pass.numbers(SLOTS, Role::Operand);
    let probs = pass.buffer(SLOTS, Role::Operand);
    let rows = pass.buffer(SLOTS * WIDTH, Role::Result);
    let (name, element) = (pass.name(), pass.element());
    pass.launch(&name, 256, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::spread::launch_unchecked(
                client,
                count,
                dim,
                size,
                tokens.arg(),
                slots.arg(),
                Some(probs.arg()).into(),
                rows.arg(),
                numbers(size, SLOTS),
                [element; 2],
            );
        }
    });
    pass.end();
}

fn sum(mut pass: Pass<'_>) {
    let size = pass.size();
    let rows = pass.buffer(SLOTS * WIDTH, Role::Operand);
    let map = pass.numbers(SLOTS, Role::Operand);
    let probs = pass.buffer(SLOTS, Role::Operand);
    let y = pass.buffer(TOKENS * WIDTH, Role::Result);
    let (name, element) = (pass.name(), pass.element());
    pass.launch(&name, 256, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::sum::launch_unchecked(
                client,
                count,
                dim,
                size,
                rows.arg(),
                map.arg(),
                Some(probs.arg()).into(),
                y.arg(),
                numbers(size, TOKENS),
                [element; 3],
            );
        }
    });
    pass.end();
}

fn product(mut pass: Pass<'_>) {
    let size = pass.size();
    let dy = pass.buffer(TOKENS * WIDTH, Role::Operand);
    let rows = pass.buffer(SLOTS * WIDTH, Role::Operand);
    let map = pass.numbers(SLOTS, Role::Operand);
    let products = pass.buffer(SLOTS, Role::Result);
    let (name, element) = (pass.name(), pass.element());
    let units = units(WIDTH / size);
    pass.launch(&name, units, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::product::launch_unchecked(
                client,
                count,
                dim,
                size,
                dy.arg(),
                rows.arg(),
                map.arg(),
                products.arg(),
                SLOTS,
                numbers(size, 0),
                units,
                [element; 2],
            );
        }
    });
    pass.end();
}
