//! LayerNorm.

#[path = "../../../../../kernels-runtime/src/ops/layer_norm/cube/kernels.rs"]
mod kernels;

use crate::passes::{Buffer, Parts, Pass, Passes, Role, units};

const ROWS: usize = 4096;
const WIDTH: usize = 4096;
const ALL: usize = ROWS * WIDTH;

/// Launches both passes, the first with a bias and without.
pub fn all(passes: &mut Passes) {
    forward(passes.pass("layer_norm forward"), true);
    forward(passes.pass("layer_norm forward without bias"), false);
    backward(passes.pass("layer_norm backward"));
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
    let [dy, x, weight] = [ALL, ALL, WIDTH].map(|elements| pass.buffer(elements, Role::Operand));
    let [mean, rstd] = [(); 2].map(|()| pass.numbers(ROWS, Role::Operand));
    let dx = pass.buffer(ALL, Role::Result);
    let (units, element) = (units(WIDTH / size), pass.element());
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
                WIDTH / size,
                units,
                element,
            );
        }
    });
    let parts = Parts::of(ROWS);
    let [of_weight, of_bias] = [(); 2].map(|()| pass.numbers(parts.count * WIDTH, Role::Between));
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
                WIDTH / size,
                element,
            );
        }
    });
    pass.sum_rows(&of_weight, parts.count, WIDTH);
    pass.sum_rows(&of_bias, parts.count, WIDTH);
    pass.end();
}
