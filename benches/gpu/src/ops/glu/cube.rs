//! Gated linear units.

#[path = "../../../../../kernels-runtime/src/ops/glu/cube/activation.rs"]
mod activation;
#[path = "../../../../../kernels-runtime/src/ops/glu/cube/kernels.rs"]
mod kernels;

use crate::passes::{Pass, Passes, Role};
use crate::semantics::{Activation, Clamp, Projections};
use kernels::NumbersLaunch;

const ROWS: usize = 4096;
const WIDTH: usize = 11_008;
const ALL: usize = ROWS * WIDTH;
const UNITS: usize = 256;

/// Launches both passes with every activation, and with every layout of the projections.
pub fn all(passes: &mut Passes) {
    for (activation, name) in [
        (Activation::Silu, "silu"),
        (Activation::Gelu, "gelu"),
        (Activation::GeluTanh, "gelu_tanh"),
        (Activation::QuickGelu, "quick_gelu"),
        (Activation::Relu, "relu"),
        (Activation::Relu2, "relu2"),
        (Activation::Sigmoid, "sigmoid"),
        (Activation::Identity, "identity"),
    ] {
        separate(passes, name, activation, Clamp::None);
    }
    separate(
        passes,
        "quick_gelu clamped",
        Activation::QuickGelu,
        Clamp::Limit,
    );
    packed(passes, "silu chunked", Projections::Chunked);
    packed(passes, "silu interleaved", Projections::Interleaved);
}

fn numbers(size: usize) -> NumbersLaunch {
    NumbersLaunch::new(WIDTH / size, ALL / size, 7.0, 0.0)
}

fn separate(passes: &mut Passes, name: &str, activation: Activation, clamp: Clamp) {
    let mut pass = passes.pass(&format!("glu forward {name}"));
    let size = pass.size();
    let [gate, up] = [(); 2].map(|()| pass.buffer(ALL, Role::Operand));
    let y = pass.buffer(ALL, Role::Result);
    let (title, element) = (pass.name(), pass.element());
    pass.launch(&title, UNITS, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::forward::launch_unchecked(
                client,
                count,
                dim,
                size,
                gate.arg(),
                Some(up.arg()).into(),
                y.arg(),
                numbers(size),
                Projections::Separate,
                activation,
                clamp,
                element,
            );
        }
    });
    pass.end();
    let mut pass = passes.pass(&format!("glu backward {name}"));
    let [dy, gate, up] = [(); 3].map(|()| pass.buffer(ALL, Role::Operand));
    let [d_gate, d_up] = [(); 2].map(|()| pass.buffer(ALL, Role::Result));
    let (title, element) = (pass.name(), pass.element());
    pass.launch(&title, UNITS, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::backward::launch_unchecked(
                client,
                count,
                dim,
                size,
                dy.arg(),
                gate.arg(),
                up.arg(),
                d_gate.arg(),
                d_up.arg(),
                numbers(size),
                activation,
                clamp,
                element,
            );
        }
    });
    pass.end();
}

fn packed(passes: &mut Passes, name: &str, projections: Projections) {
    let (activation, clamp) = (Activation::Silu, Clamp::None);
    let mut pass: Pass<'_> = passes.pass(&format!("glu forward {name}"));
    let size = pass.size();
    let gate_up = pass.buffer(2 * ALL, Role::Operand);
    let y = pass.buffer(ALL, Role::Result);
    let (title, element) = (pass.name(), pass.element());
    pass.launch(&title, UNITS, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::forward::launch_unchecked(
                client,
                count,
                dim,
                size,
                gate_up.arg(),
                None.into(),
                y.arg(),
                numbers(size),
                projections,
                activation,
                clamp,
                element,
            );
        }
    });
    pass.end();
    let mut pass = passes.pass(&format!("glu backward {name}"));
    let dy = pass.buffer(ALL, Role::Operand);
    let gate_up = pass.buffer(2 * ALL, Role::Operand);
    let d_gate_up = pass.buffer(2 * ALL, Role::Result);
    let (title, element) = (pass.name(), pass.element());
    pass.launch(&title, UNITS, |client, count, dim| {
        // SAFETY: nothing runs.
        unsafe {
            kernels::packed_backward::launch_unchecked(
                client,
                count,
                dim,
                size,
                dy.arg(),
                gate_up.arg(),
                d_gate_up.arg(),
                numbers(size),
                projections,
                activation,
                clamp,
                element,
            );
        }
    });
    pass.end();
}
