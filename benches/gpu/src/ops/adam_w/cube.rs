//! AdamW.

#[path = "../../../../../kernels-runtime/src/ops/adam_w/cube/kernels.rs"]
mod kernels;

use crate::passes::{Passes, Role};
use kernels::NumbersLaunch;

const ALL: usize = 4096 * 4096;

/// Launches a step in place, and one of tensors that something else holds.
pub fn all(passes: &mut Passes) {
    one(passes, "adam_w in place", true);
    one(passes, "adam_w of shared tensors", false);
}

fn one(passes: &mut Passes, name: &str, in_place: bool) {
    let mut pass = passes.pass(name);
    let (size, element) = (pass.size(), pass.element());
    let role = match in_place {
        true => Role::Changed,
        false => Role::Operand,
    };
    let state = [(); 3].map(|()| pass.buffer(ALL, role));
    let gradient = pass.buffer(ALL, Role::Operand);
    let [p, m, v] = match in_place {
        true => [0, 1, 2].map(|position| state[position].in_place_of(position)),
        false => [(); 3].map(|()| pass.buffer(ALL, Role::Result).arg()),
    };
    pass.launch(name, 256, |client, count, dim| {
        let numbers = NumbersLaunch::new(ALL / size, 0.9, 0.1, 0.999, 0.001, 1.0, 1e-3, 1.0, 1e-8);
        // SAFETY: nothing runs.
        unsafe {
            kernels::step::launch_unchecked(
                client,
                count,
                dim,
                size,
                state[0].arg(),
                state[1].arg(),
                state[2].arg(),
                gradient.arg(),
                p,
                m,
                v,
                numbers,
                element,
            );
        }
    });
    pass.end();
}
