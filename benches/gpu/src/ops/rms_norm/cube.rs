//! RMSNorm, and the sum and its norm.

#[path = "../../../../../kernels-runtime/src/ops/rms_norm/cube/kernels.rs"]
pub(in crate::ops) mod kernels;

use crate::passes::{Buffer, Parts, Pass, Passes, Role, held, units};
use crate::semantics::Gating;
use cubecl::prelude::BufferArg;
use kernels::RowLaunch;

const ROWS: usize = 4096;
const WIDTH: usize = 4096;
const ALL: usize = ROWS * WIDTH;
/// The width of rows that don't fit into registers.
const WIDE: usize = 16_384;
const EPS: f32 = 1e-6;

/// Launches every pass with every gate.
pub fn all(passes: &mut Passes) {
    for (gating, name) in [
        (Gating::None, ""),
        (Gating::AfterNorm, " gated after"),
        (Gating::BeforeNorm, " gated before"),
    ] {
        forward(passes.pass(&format!("rms_norm forward{name}")), gating);
        forward_of_sum(passes.pass(&format!("add_rms_norm forward{name}")), gating);
        backward(passes.pass(&format!("rms_norm backward{name}")), gating);
    }
    for width in [1024, 4096, 8192] {
        backward_of_part(passes, width);
    }
}

fn row(vectors: usize) -> RowLaunch {
    RowLaunch::new(ROWS, 1, vectors, 0.0)
}

fn gate(pass: &mut Pass<'_>, gating: Gating) -> Option<Buffer> {
    (gating != Gating::None).then(|| pass.buffer(ALL, Role::Operand))
}

fn arg(buffer: &Option<Buffer>) -> Option<BufferArg> {
    buffer.as_ref().map(Buffer::arg)
}

fn forward(mut pass: Pass<'_>, gating: Gating) {
    let size = pass.size();
    let [x, weight] = [ALL, WIDTH].map(|elements| pass.buffer(elements, Role::Operand));
    let gate = gate(&mut pass, gating);
    let y = pass.buffer(ALL, Role::Result);
    let rstd = pass.numbers(ROWS, Role::Result);
    let (units, element, is_stepped) = (units(WIDTH / size), pass.element(), pass.is_half());
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
                Some(weight.arg()).into(),
                arg(&gate).into(),
                y.arg(),
                rstd.arg(),
                row(WIDTH / size),
                EPS,
                gating,
                is_stepped,
                units,
                element,
            );
        }
    });
    pass.end();
}

fn forward_of_sum(mut pass: Pass<'_>, gating: Gating) {
    let size = pass.size();
    let [x, residual, weight] =
        [ALL, ALL, WIDTH].map(|elements| pass.buffer(elements, Role::Operand));
    let gate = gate(&mut pass, gating);
    let [sum, y] = [(); 2].map(|()| pass.buffer(ALL, Role::Result));
    let rstd = pass.numbers(ROWS, Role::Result);
    let (units, element, is_stepped) = (units(WIDTH / size), pass.element(), pass.is_half());
    let name = pass.name();
    pass.launch(&name, units, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::forward_of_sum::launch_unchecked(
                client,
                count,
                dim,
                size,
                x.arg(),
                residual.arg(),
                Some(weight.arg()).into(),
                arg(&gate).into(),
                sum.arg(),
                y.arg(),
                rstd.arg(),
                row(WIDTH / size),
                EPS,
                gating,
                is_stepped,
                units,
                element,
            );
        }
    });
    pass.end();
}

fn backward(mut pass: Pass<'_>, gating: Gating) {
    let size = pass.size();
    let width = if gating == Gating::None { WIDE } else { WIDTH };
    let all = ROWS * width;
    let [dy, x, weight] = [all, all, width].map(|elements| pass.buffer(elements, Role::Operand));
    let rstd = pass.numbers(ROWS, Role::Operand);
    let gate = gate(&mut pass, gating);
    let dx = pass.buffer(all, Role::Result);
    let d_gate = gate.as_ref().map(|_| pass.buffer(all, Role::Result));
    let (units, element) = (units(width / size), pass.element());
    let name = pass.name();
    pass.launch(&name, units, |client, count, dim| match (&gate, &d_gate) {
        // SAFETY: nothing runs.
        (Some(gate), Some(d_gate)) => unsafe {
            kernels::gated_backward::launch_unchecked(
                client,
                count,
                dim,
                size,
                dy.arg(),
                x.arg(),
                Some(weight.arg()).into(),
                gate.arg(),
                rstd.arg(),
                dx.arg(),
                d_gate.arg(),
                row(width / size),
                gating,
                units,
                element,
            );
        },
        // SAFETY: nothing runs.
        _ => unsafe {
            kernels::backward::launch_unchecked(
                client,
                count,
                dim,
                size,
                dy.arg(),
                x.arg(),
                Some(weight.arg()).into(),
                rstd.arg(),
                dx.arg(),
                row(width / size),
                units,
                element,
            );
        },
    });
    let parts = Parts::of(ROWS);
    let sums = pass.numbers(parts.count * width, Role::Between);
    pass.launch(&format!("{name} weight"), 256, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::weight_gradient::launch_unchecked(
                client,
                count,
                dim,
                size,
                dy.arg(),
                x.arg(),
                arg(&gate).into(),
                rstd.arg(),
                sums.arg(),
                ROWS,
                parts.rows,
                1,
                width / size,
                gating,
                element,
            );
        }
    });
    pass.sum_rows(&sums, parts.count, width);
    pass.end();
}

/// Launches the pass of rows that fit into registers.
fn backward_of_part(passes: &mut Passes, width: usize) {
    let mut pass = passes.pass(&format!("rms_norm backward of parts, {width} wide"));
    let (size, all) = (pass.size(), ROWS * width);
    let vectors = width / size;
    let units = units(vectors);
    let Some(each) = held(vectors, units) else {
        return;
    };
    let [dy, x, weight] = [all, all, width].map(|elements| pass.buffer(elements, Role::Operand));
    let rstd = pass.numbers(ROWS, Role::Operand);
    let dx = pass.buffer(all, Role::Result);
    let parts = Parts::for_cubes(ROWS, units);
    let sums = pass.numbers(parts.count * width, Role::Between);
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
                rstd.arg(),
                dx.arg(),
                sums.arg(),
                row(vectors),
                parts.rows,
                each,
                units,
                element,
            );
        }
    });
    pass.sum_rows(&sums, parts.count, width);
    pass.end();
}
