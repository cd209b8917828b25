//! Grouped products.

#[path = "../../../../../../kernels-runtime/src/ops/moe/grouped_matmul/cube/kernels.rs"]
mod kernels;

use crate::passes::{Pass, Passes, Role};
use cubecl::prelude::BufferArg;
use kernels::{FactorsLaunch, Last, Moved, SizesLaunch, UNITS};

const ROWS: usize = 4096 * 8;
const EXPERTS: usize = 128;
const INPUTS: usize = 2048;
const FEATURES: usize = 1536;
const GROUPS: usize = 2 * (EXPERTS + 2) + 1;

/// Launches the plan, the product with both orders of the weights, and the gradient of the weights.
pub fn all(passes: &mut Passes) {
    plan(passes.pass("grouped_matmul plan"));
    for (name, last) in [("linear", Last::Inputs), ("matmul", Last::Features)] {
        product(passes.pass(&format!("grouped_matmul {name}")), last);
    }
    outer(passes.pass("grouped_matmul weights"));
}

fn plan(mut pass: Pass<'_>) {
    let counts = pass.buffer(EXPERTS, Role::Operand);
    let groups = pass.buffer(GROUPS, Role::Result);
    let name = pass.name();
    pass.launch(&name, UNITS, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::plan::launch_unchecked(
                client,
                count,
                dim,
                counts.arg(),
                groups.arg(),
                EXPERTS,
                ROWS,
            );
        }
    });
    pass.end();
}

fn product(mut pass: Pass<'_>, last: Last) {
    let size = pass.size();
    let x = pass.buffer(ROWS * INPUTS, Role::Operand);
    let weights = pass.buffer(EXPERTS * INPUTS * FEATURES, Role::Operand);
    let groups = pass.buffer(GROUPS, Role::Operand);
    let y = pass.buffer(ROWS * FEATURES, Role::Result);
    let sizes = SizesLaunch::new(
        EXPERTS,
        INPUTS,
        FEATURES,
        INPUTS,
        0,
        FEATURES,
        0,
        1,
        f32::NAN,
    );
    let name = pass.name();
    pass.launch(&name, UNITS, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::product::launch_unchecked(
                client,
                count,
                dim,
                size,
                x.arg(),
                None::<BufferArg>.into(),
                weights.arg(),
                None::<BufferArg>.into(),
                groups.arg(),
                y.arg(),
                sizes,
                last,
                false,
            );
        }
    });
    pass.end();
}

fn outer(mut pass: Pass<'_>) {
    let size = pass.size();
    let left = pass.buffer(ROWS * FEATURES, Role::Operand);
    let right = pass.buffer(ROWS * INPUTS, Role::Operand);
    let groups = pass.buffer(GROUPS, Role::Operand);
    let result = pass.buffer(EXPERTS * INPUTS * FEATURES, Role::Result);
    let sizes = FactorsLaunch::new(
        EXPERTS,
        FEATURES,
        INPUTS,
        FEATURES,
        0,
        INPUTS,
        0,
        1,
        f32::NAN,
    );
    let moved = Moved {
        left: false,
        right: false,
    };
    let name = pass.name();
    pass.launch(&name, UNITS, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::outer::launch_unchecked(
                client,
                count,
                dim,
                size,
                left.arg(),
                right.arg(),
                None::<BufferArg>.into(),
                groups.arg(),
                result.arg(),
                sizes,
                moved,
            );
        }
    });
    pass.end();
}
