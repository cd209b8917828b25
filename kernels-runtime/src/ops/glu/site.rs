use super::live::Gated;
use crate::__private::first_use;
use crate::dispatch::{At, Decision};
use crate::live::{self, Captured, detached};
use crate::mode::Mode;
use crate::ops;
use crate::ops::glu::{self, Inputs, Operands, Settings};
use crate::semantics::GluKey;
use burn::tensor::Tensor;

/// Runs the gated linear unit of a site with separate projections.
#[track_caller]
pub fn glu<const D: usize>(
    at: At,
    gate: Tensor<D>,
    up: Tensor<D>,
    limit: Option<f64>,
    sparsity: Option<f64>,
    reference: &mut dyn FnMut((Tensor<D>, Tensor<D>)) -> Tensor<D>,
) -> Tensor<D> {
    let _span = at.enter();
    let mut reference = |inputs| match inputs {
        Inputs::Separate { gate, up } => reference((gate, up)),
        Inputs::Packed(_) => unreachable!("two tensors went in"),
    };
    let inputs = Inputs::Separate { gate, up };
    either(&at, inputs, Settings { limit, sparsity }, &mut reference)
}

/// Runs the gated linear unit of a site with a packed projection, `[.., 2n]` to `[.., n]`.
#[track_caller]
pub fn glu_packed<const D: usize>(
    at: At,
    gate_up: Tensor<D>,
    limit: Option<f64>,
    reference: &mut dyn FnMut(Tensor<D>) -> Tensor<D>,
) -> Tensor<D> {
    let _span = at.enter();
    let settings = Settings {
        limit,
        sparsity: None,
    };
    let mut reference = |inputs| match inputs {
        Inputs::Packed(gate_up) => reference(gate_up),
        Inputs::Separate { .. } => unreachable!("one tensor went in"),
    };
    either(&at, Inputs::Packed(gate_up), settings, &mut reference)
}

#[track_caller]
fn either<const D: usize>(
    at: &At,
    inputs: Inputs<D>,
    settings: Settings,
    reference: &mut dyn FnMut(Inputs<D>) -> Tensor<D>,
) -> Tensor<D> {
    let key = at.key();
    let operands = Operands::of(inputs, settings, key);
    let route = at.decide(operands.all());
    let captured = Captured::These(&[]);
    live::decided(at, route, Gated::from(operands), captured, |gated| {
        reference(gated.inputs)
    })
}

/// Runs the gated MLP of a site. The reference is the user's whole `forward`.
///
/// The choice between the reference and the kernel depends on `x` and is made before the projections,
/// so no path runs them twice. If the projections then return tensors that no kernel takes, the plain
/// composition runs.
#[track_caller]
pub fn glu_mlp<const D: usize>(
    at: At,
    x: Tensor<D>,
    project: &dyn Fn(Tensor<D>) -> (Tensor<D>, Tensor<D>),
    down: &dyn Fn(Tensor<D>) -> Tensor<D>,
    limit: Option<f64>,
    sparsity: Option<f64>,
    reference: &mut dyn FnMut(Tensor<D>) -> Tensor<D>,
) -> Tensor<D> {
    let _span = at.enter();
    let project = |x| {
        let (gate, up) = project(x);
        Inputs::Separate { gate, up }
    };
    let settings = Settings { limit, sparsity };
    mlp(&at, x, &project, down, settings, reference)
}

/// Works like [`glu_mlp`], with a packed projection.
#[track_caller]
pub fn glu_packed_mlp<const D: usize>(
    at: At,
    x: Tensor<D>,
    project: &dyn Fn(Tensor<D>) -> Tensor<D>,
    down: &dyn Fn(Tensor<D>) -> Tensor<D>,
    limit: Option<f64>,
    reference: &mut dyn FnMut(Tensor<D>) -> Tensor<D>,
) -> Tensor<D> {
    let _span = at.enter();
    let project = |x| Inputs::Packed(project(x));
    let settings = Settings {
        limit,
        sparsity: None,
    };
    mlp(&at, x, &project, down, settings, reference)
}

/// Runs `reference` if no kernel takes tensors like `x`, and counts that. Otherwise runs the kernel between
/// the projections, whose results are decided on again, and counted.
#[track_caller]
fn mlp<const D: usize>(
    at: &At,
    x: Tensor<D>,
    project: &dyn Fn(Tensor<D>) -> Inputs<D>,
    down: &dyn Fn(Tensor<D>) -> Tensor<D>,
    settings: Settings,
    reference: &mut dyn FnMut(Tensor<D>) -> Tensor<D>,
) -> Tensor<D> {
    let x = x.into_dispatch();
    let Decision::Fused(implementation) = at.peek([&x]) else {
        at.decide([&x]);
        return reference(Tensor::from_dispatch(x));
    };
    let (mode, x) = (Mode::of(&x), Tensor::from_dispatch(x));
    if at.runs_body_first() {
        first_use::run(reference, x.clone().detach());
    }
    let key = at.key();
    let plain = |inputs| ops::glu::reference(inputs, settings, key);
    // A closure would hide the user's line from a panic.
    let Some(due) = live::composite_is_due(at, mode, &x, 0) else {
        return down(either(at, project(x), settings, &mut { plain }));
    };
    let inputs = project(x.clone());
    let width = match projects_rows(&x, &inputs) {
        true => due.width,
        false => live::Width::Whole,
    };
    let y = down(either(at, inputs, settings, &mut { plain }));
    let gates = |x| match detached::call(|| project(x)) {
        Inputs::Separate { gate, .. } | Inputs::Packed(gate) => live::root_mean_square(&gate),
    };
    let composition = |x| {
        let hidden = plain(detached::call(|| project(x)));
        detached::call(|| down(hidden))
    };
    let part = live::Compared::Of(width);
    let x = x.into_dispatch();
    let call = live::Composite { due, x, part };
    let site = at.site();
    live::composite(site, implementation, call, Some(&gates), composition, |x| {
        detached::call(|| reference(x))
    });
    y
}

/// Returns whether the projections act on the last axis, judged by the shapes that they return. The input of
/// a convolution, for example, can't be reduced to some of its rows.
fn projects_rows<const D: usize>(x: &Tensor<D>, inputs: &Inputs<D>) -> bool {
    let (Inputs::Separate { gate, .. } | Inputs::Packed(gate)) = inputs;
    let (x, gate) = (x.dims(), gate.dims());
    x[..D - 1] == gate[..D - 1] && x[D - 1] != gate[D - 1]
}

/// Runs [`glu::reference`] with separate projections.
#[track_caller]
pub fn glu_reference<const D: usize>(
    gate: Tensor<D>,
    up: Tensor<D>,
    limit: Option<f64>,
    sparsity: Option<f64>,
    key: GluKey,
) -> Tensor<D> {
    let inputs = Inputs::Separate { gate, up };
    glu::reference(inputs, Settings { limit, sparsity }, key)
}

/// Runs [`glu::reference`] with a packed projection.
#[track_caller]
pub fn glu_packed_reference<const D: usize>(
    gate_up: Tensor<D>,
    limit: Option<f64>,
    key: GluKey,
) -> Tensor<D> {
    let settings = Settings {
        limit,
        sparsity: None,
    };
    glu::reference(Inputs::Packed(gate_up), settings, key)
}
