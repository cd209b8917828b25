//! LayerNorm.

#[path = "../../../../../kernels-runtime/src/ops/layer_norm/cube/kernels.rs"]
mod kernels;

use crate::passes::{Buffer, Parts, Pass, Passes, Role, held, units};

const ROWS: usize = 4096;
const WIDTH: usize = 4096;
const ALL: usize = ROWS * WIDTH;
/// The width of rows that don't fit into registers.
const WIDE: usize = 16_384;

/// Launches both passes, the first with a bias and without.
pub fn all(passes: &mut Passes) {
    forward(passes.pass("layer_norm forward"), true);
    forward(passes.pass("layer_norm forward without bias"), false);
    backward(passes.pass("layer_norm backward"));
    for width in [1024, 4096, 8192] {
        backward_of_part(passes, width);
    }
}

fn forward(mut pass: Pass<'_>, has_bias: bool) {
    let size = pass.size();
    let [x, weight] = [ALL, WIDTH].map(|elements| pass.buffer(elements, Role::Operand));
    let bias = has_bias.then(|| pass.buffer(WIDTH, Role::Operand));
    let y = pass.buffer(ALL, Role::Result);
    let [mean, rstd] = [(); 2].map(|()| pass.numbers(ROWS, Role::Result));
    let (units, element) = (units(WIDTH / size), pass.element());
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
                bias.as_ref().map(Buffer::arg).into(),
                y.arg(),
                mean.arg(),
                rstd.arg(),
                ROWS,
                WIDTH / size,
                1e-5,
                units,
                element,
            );
        }
    });
    pass.end();
}

fn backward(mut pass: Pass<'_>) {
    let size = pass.size();
    let [dy, x, weight] =
        [ROWS * WIDE, ROWS * WIDE, WIDE].map(|elements| pass.buffer(elements, Role::Operand));
    let [mean, rstd] = [(); 2].map(|()| pass.numbers(ROWS, Role::Operand));
    let dx = pass.buffer(ROWS * WIDE, Role::Result);
    let (units, element) = (units(WIDE / size), pass.element());
    let name = pass.name();
    pass.launch(&name, units, |client, count, dim| {
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
                mean.arg(),
                rstd.arg(),
                dx.arg(),
                ROWS,
                WIDE / size,
                units,
                element,
            );
        }
    });
    let parts = Parts::of(ROWS);
    let [of_weight, of_bias] = [(); 2].map(|()| pass.numbers(parts.count * WIDE, Role::Between));
    pass.launch(&format!("{name} parameters"), 256, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::parameter_gradients::launch_unchecked(
                client,
                count,
                dim,
                size,
                dy.arg(),
                x.arg(),
                mean.arg(),
                rstd.arg(),
                of_weight.arg(),
                of_bias.arg(),
                ROWS,
                parts.rows,
                WIDE / size,
                element,
            );
        }
    });
    pass.sum_rows(&of_weight, parts.count, WIDE);
    pass.sum_rows(&of_bias, parts.count, WIDE);
    pass.end();
}

/// Launches the pass of rows that fit into registers.
fn backward_of_part(passes: &mut Passes, width: usize) {
    let mut pass = passes.pass(&format!("layer_norm backward of parts, {width} wide"));
    let (size, all) = (pass.size(), ROWS * width);
    let vectors = width / size;
    let units = units(vectors);
    let Some(each) = held(vectors, units) else {
        return;
    };
    let [dy, x, weight] = [all, all, width].map(|elements| pass.buffer(elements, Role::Operand));
    let [mean, rstd] = [(); 2].map(|()| pass.numbers(ROWS, Role::Operand));
    let dx = pass.buffer(all, Role::Result);
    let parts = Parts::for_cubes(ROWS, units);
    let sums = pass.numbers(2 * parts.count * width, Role::Between);
    let (element, name) = (pass.element(), pass.name());
    pass.launch(&name, units, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::backward_of_part::launch_unchecked(
                client,
                count,
                dim,
                size,
                dy.arg(),
                x.arg(),
                weight.arg(),
                mean.arg(),
                rstd.arg(),
                dx.arg(),
                sums.arg(),
                ROWS,
                parts.rows,
                vectors,
                each,
                units,
                element,
            );
        }
    });
    // Each launch reads half of the sums.
    let half = pass.numbers(parts.count * width, Role::Between);
    pass.sum_rows(&half, parts.count, width);
    pass.sum_rows(&half, parts.count, width);
    pass.end();
}
