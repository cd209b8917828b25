//! The norm and rotation of queries and keys.

#[path = "../../../../../kernels-runtime/src/ops/qk_norm_rope/cube/kernels.rs"]
mod kernels;

use crate::ops::rope::cube::kernels::{Order, Places};
use crate::passes::{Parts, Pass, Passes, Role, units};
use kernels::SizesLaunch;

const TOKENS: usize = 4096;
const HEADS: usize = 32;
const WIDTH: usize = 128;
const ALL: usize = TOKENS * HEADS * WIDTH;
const EPS: f32 = 1e-6;

/// Launches both passes with the norm of each head and with that of all heads of a token.
pub fn all(passes: &mut Passes) {
    for (name, of_row) in [("heads", 1), ("rows", HEADS)] {
        forward(passes.pass(&format!("qk_norm_rope forward {name}")), of_row);
        backward(
            passes.pass(&format!("qk_norm_rope backward {name}")),
            of_row,
        );
    }
}

fn sizes(of_row: usize, size: usize) -> SizesLaunch {
    let rows = TOKENS * HEADS / of_row;
    let (pairs, token) = (WIDTH / 2 / size, WIDTH / size);
    SizesLaunch::new(rows, of_row, HEADS, TOKENS, pairs, 0, token, 0, 0)
}

fn order(is_backward: bool) -> Order {
    Order {
        read: Places::Halves,
        write: Places::Halves,
        table: Places::Halves,
        is_backward,
        tokens_last: true,
    }
}

fn forward(mut pass: Pass<'_>, of_row: usize) {
    let size = pass.size();
    let [x, weight, cos, sin] = [ALL, of_row * WIDTH, TOKENS * WIDTH, TOKENS * WIDTH]
        .map(|elements| pass.buffer(elements, Role::Operand));
    let y = pass.buffer(ALL, Role::Result);
    let units = units(of_row * WIDTH / 2 / size);
    let name = pass.name();
    pass.launch(&name, units, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::forward::launch_unchecked(
                client,
                count,
                dim,
                size,
                x.arg(),
                weight.arg(),
                cos.arg(),
                sin.arg(),
                y.arg(),
                sizes(of_row, size),
                EPS,
                0.0,
                order(false),
                units,
            );
        }
    });
    pass.end();
}

fn backward(mut pass: Pass<'_>, of_row: usize) {
    let size = pass.size();
    let elements = [ALL, ALL, of_row * WIDTH, TOKENS * WIDTH, TOKENS * WIDTH];
    let [dy, x, weight, cos, sin] = elements.map(|elements| pass.buffer(elements, Role::Operand));
    let dx = pass.buffer(ALL, Role::Result);
    let rows = TOKENS * HEADS / of_row;
    let rstd = pass.buffer(rows, Role::Between);
    let items = units(of_row * WIDTH / 2 / size);
    let name = pass.name();
    pass.launch(&name, items, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::backward::launch_unchecked(
                client,
                count,
                dim,
                size,
                dy.arg(),
                x.arg(),
                weight.arg(),
                cos.arg(),
                sin.arg(),
                dx.arg(),
                rstd.arg(),
                sizes(of_row, size),
                EPS,
                0.0,
                order(true),
                items,
            );
        }
    });
    let parts = Parts::of(rows);
    let sums = pass.buffer(parts.count * of_row * WIDTH, Role::Between);
    pass.launch(&format!("{name} weight"), items, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::weight_gradient::launch_unchecked(
                client,
                count,
                dim,
                size,
                dy.arg(),
                x.arg(),
                cos.arg(),
                sin.arg(),
                rstd.arg(),
                sums.arg(),
                sizes(of_row, size),
                parts.rows,
                order(true),
            );
        }
    });
    pass.sum_rows(&sums, parts.count, of_row * WIDTH);
    pass.end();
}
