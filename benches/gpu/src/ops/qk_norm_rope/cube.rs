//! The norm and rotation of queries and keys.

#[path = "../../../../../kernels-runtime/src/ops/qk_norm_rope/cube/kernels.rs"]
mod kernels;

use crate::ops::rope::cube::kernels::{Order, Places};
use crate::passes::{Parts, Pass, Passes, Role, units};
use kernels::{Rounded, SizesLaunch};

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
    let (size, elements) = (pass.size(), [pass.element(); 2]);
    // OLMo 2 normalises rows, and Qwen 3 heads.
    let rounded = match (pass.is_half(), of_row) {
        (false, _) => Rounded::Never,
        (true, 1) => Rounded::Steps,
        (true, _) => Rounded::Result,
    };
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
                rounded,
                units,
                elements,
            );
        }
    });
    pass.end();
}

fn backward(mut pass: Pass<'_>, of_row: usize) {
    let (size, elements) = (pass.size(), [pass.element(); 2]);
    let counts = [ALL, ALL, of_row * WIDTH, TOKENS * WIDTH, TOKENS * WIDTH];
    let [dy, x, weight, cos, sin] = counts.map(|elements| pass.buffer(elements, Role::Operand));
    let dx = pass.buffer(ALL, Role::Result);
    let rows = TOKENS * HEADS / of_row;
    let rstd = pass.numbers(rows, Role::Between);
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
                elements,
            );
        }
    });
    let parts = Parts::of(rows);
    let sums = pass.numbers(parts.count * of_row * WIDTH, Role::Between);
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
                elements,
            );
        }
    });
    pass.sum_rows(&sums, parts.count, of_row * WIDTH);
    pass.end();
}
