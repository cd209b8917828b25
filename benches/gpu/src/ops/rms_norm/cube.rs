//! RMSNorm, and the sum and its norm.

#[path = "../../../../../kernels-runtime/src/ops/rms_norm/cube/kernels.rs"]
pub(in crate::ops) mod kernels;

use crate::passes::{Buffer, Parts, Pass, Passes, Role, units};
use crate::semantics::Gating;
use cubecl::prelude::BufferArg;
use kernels::RowLaunch;

const ROWS: usize = 4096;
const WIDTH: usize = 4096;
const ALL: usize = ROWS * WIDTH;
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
}

fn row(size: usize) -> RowLaunch {
    RowLaunch::new(ROWS, 1, WIDTH / size, 0.0)
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
    let [y, rstd] = [ALL, ROWS].map(|elements| pass.buffer(elements, Role::Result));
    let units = units(WIDTH / size);
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
                row(size),
                EPS,
                gating,
                units,
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
    let [sum, y, rstd] = [ALL, ALL, ROWS].map(|elements| pass.buffer(elements, Role::Result));
    let units = units(WIDTH / size);
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
                row(size),
                EPS,
                gating,
                units,
            );
        }
    });
    pass.end();
}

fn backward(mut pass: Pass<'_>, gating: Gating) {
    let size = pass.size();
    let [dy, x, weight, rstd] =
        [ALL, ALL, WIDTH, ROWS].map(|elements| pass.buffer(elements, Role::Operand));
    let gate = gate(&mut pass, gating);
    let dx = pass.buffer(ALL, Role::Result);
    let d_gate = gate.as_ref().map(|_| pass.buffer(ALL, Role::Result));
    let units = units(WIDTH / size);
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
                row(size),
                gating,
                units,
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
                row(size),
                units,
            );
        },
    });
    let parts = Parts::of(ROWS);
    let sums = pass.buffer(parts.count * WIDTH, Role::Between);
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
                WIDTH / size,
                gating,
            );
        }
    });
    pass.sum_rows(&sums, parts.count, WIDTH);
    pass.end();
}
