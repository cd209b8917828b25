//! The kernels that only experts have.

#[path = "../../../../../../kernels-runtime/src/ops/moe/experts/cube/kernels.rs"]
mod kernels;

use crate::passes::{Pass, Passes, Role, units};
use cubecl::prelude::BufferArg;
use kernels::{AddedLaunch, SizesLaunch};

const TOKENS: usize = 4096;
const CHOICES: usize = 8;
const SLOTS: usize = TOKENS * CHOICES;
const EXPERTS: usize = 128;
const HIDDEN: usize = 2048;
const WIDTH: usize = 768;

/// Launches the gradient of the routing weights, and those of biases.
pub fn all(passes: &mut Passes) {
    weigh(passes.pass("moe experts weigh"));
    add_bias(passes.pass("moe experts bias of routing"));
    sums(passes.pass("moe experts d_bias"));
}

fn weigh(mut pass: Pass<'_>) {
    let size = pass.size();
    let [unit, d_unit] = [(); 2].map(|()| pass.buffer(SLOTS * WIDTH, Role::Changed));
    let map = pass.numbers(SLOTS, Role::Operand);
    let routing = pass.buffer(SLOTS, Role::Operand);
    let d_routing = pass.buffer(SLOTS, Role::Result);
    let (name, element) = (pass.name(), pass.element());
    let vectors = WIDTH / size;
    let units = units(vectors);
    pass.launch(&name, units, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::weigh::launch_unchecked(
                client,
                count,
                dim,
                size,
                unit.arg(),
                d_unit.arg(),
                map.arg(),
                routing.arg(),
                d_routing.arg(),
                SizesLaunch::new(SLOTS, CHOICES, vectors, f32::NAN),
                units,
                [element; 3],
            );
        }
    });
    pass.end();
}

fn add_bias(mut pass: Pass<'_>) {
    let size = pass.size();
    let bias = pass.buffer(EXPERTS * HIDDEN, Role::Operand);
    let dy = pass.buffer(TOKENS * HIDDEN, Role::Operand);
    let [indices, map, without] = [(); 3].map(|()| pass.numbers(SLOTS, Role::Operand));
    let d_routing = pass.buffer(SLOTS, Role::Result);
    let (name, element) = (pass.name(), pass.element());
    let vectors = HIDDEN / size;
    let units = units(vectors);
    pass.launch(&name, units, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::add_bias::launch_unchecked(
                client,
                count,
                dim,
                size,
                bias.arg(),
                dy.arg(),
                indices.arg(),
                map.arg(),
                without.arg(),
                d_routing.arg(),
                SizesLaunch::new(SLOTS, CHOICES, vectors, f32::NAN),
                units,
                [element; 2],
            );
        }
    });
    pass.end();
}

fn sums(mut pass: Pass<'_>) {
    let size = pass.size();
    let rows = pass.buffer(SLOTS * 2 * WIDTH, Role::Operand);
    let groups = pass.numbers(2 * (EXPERTS + 2) + 1, Role::Operand);
    let sums = pass.buffer(EXPERTS * 2 * WIDTH, Role::Result);
    let (name, element) = (pass.name(), pass.element());
    let vectors = 2 * WIDTH / size;
    pass.launch(&name, 256, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::sum_of_experts::launch_unchecked(
                client,
                count,
                dim,
                size,
                rows.arg(),
                None::<BufferArg>.into(),
                None::<BufferArg>.into(),
                groups.arg(),
                sums.arg(),
                AddedLaunch::new(vectors, vectors, 0, 1),
                [element; 2],
            );
        }
    });
    pass.end();
}
