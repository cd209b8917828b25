//! The check of a gated MLP, a sparse block or an attention layer, whose body also contains layers.
//!
//! The kernel is checked separately, where it runs between the layers. The layers compute only in their own dtype. The
//! body is therefore compared with the composition of the same layers and the kernel's reference.

use super::case::{describe, describe_sample};
use super::check::{not_finite, unless_it_panics};
use super::checks::{self, Due};
use super::class::Class;
use super::mismatch::Mismatch;
use super::noise::changes;
use super::probe::{append_larger_erased, larger, root_mean_square_erased};
use super::run::{Computed, Reached, Split, Upstream, leaf, run_keeping};
use super::sampling::{self, Active, Width};
use super::tolerance::{Miss, Three, Who};
use crate::context;
use crate::dispatch::{At, Site};
use crate::kernel::Tensors;
use crate::kernel::any_rank::flat;
use crate::kernel::erased::AnyTensors;
use crate::mode::Mode;
use crate::registry::{FloatType, Implementation};
use burn::backend::{DispatchTensor, TensorMetadata};
use burn::tensor::{DType, Tensor};

/// The right to check a call, and the part of it to compare.
pub(crate) struct CompositeDue {
    pub(crate) width: Width,
    due: Due,
}

/// Returns a value if the call has to be checked. It must be called once per call. `variant` differs between layers that
/// a body may compute in different ways, such as those with and without groups of heads.
pub(crate) fn composite_is_due<const D: usize>(
    at: &At,
    mode: Mode,
    x: &Tensor<D>,
    variant: u64,
) -> Option<CompositeDue> {
    due(at, mode, x.dtype(), &x.dims(), variant)
}

fn due(at: &At, mode: Mode, dtype: DType, shape: &[usize], variant: u64) -> Option<CompositeDue> {
    let on = sampling::active();
    if matches!(on, Active::Off) {
        return None;
    }
    let class = Class::of_one(mode == Mode::Training, variant, "x", dtype, shape);
    let class = class.and(at.instance_number());
    if class.is_empty() {
        return None;
    }
    let site = at.site();
    let due = site
        .checks()
        .due(site.spec(), checks::Part::Composite, on, class.hash())?;
    Some(CompositeDue {
        width: on.width(),
        due,
    })
}

/// A call of a gated MLP, a sparse block or an attention layer.
pub(crate) struct Composite {
    pub(crate) due: CompositeDue,
    pub(crate) x: DispatchTensor,
    /// The part that is compared.
    pub(crate) part: Compared,
}

/// The part of a call that is compared.
pub(crate) enum Compared {
    /// Some rows, or the whole call.
    Of(Width),
    /// This input in place of the call's. The body may not take it.
    Sample(Box<DispatchTensor>),
}

/// Compares a body with the composition that its attribute states. Both [call](super::detached::call) the closures of the
/// user's code for copies of what these capture. `gates` returns the root mean square of the
/// activation's input for an input of the layer, if it is known.
#[track_caller]
pub(crate) fn composite<const D: usize, Y: Tensors + Clone + 'static>(
    site: &'static Site,
    implementation: &'static Implementation,
    call: Composite,
    gates: Option<&dyn Fn(Tensor<D>) -> f64>,
    composition: impl Fn(Tensor<D>) -> Y,
    body: impl FnOnce(Tensor<D>) -> Y,
) {
    // What follows is compiled once, for inputs of any rank.
    let gates = gates.map(|gates| |x| gates(Tensor::from_dispatch(x)));
    let composition = |x| -> AnyTensors { Box::new(composition(Tensor::from_dispatch(x))) };
    let body = |x| -> AnyTensors { Box::new(body(Tensor::from_dispatch(x))) };
    compare(
        site,
        implementation,
        call,
        gates.as_ref().map(|gates| gates as &Gates<'_>),
        &composition,
        Box::new(body),
    );
}

type Gates<'a> = dyn Fn(DispatchTensor) -> f64 + 'a;

type Body<'a> = Box<dyn FnOnce(DispatchTensor) -> AnyTensors + 'a>;

#[track_caller]
#[cold]
fn compare(
    site: &'static Site,
    implementation: &'static Implementation,
    call: Composite,
    gates: Option<&Gates<'_>>,
    composition: &dyn Fn(DispatchTensor) -> AnyTensors,
    body: Body<'_>,
) {
    let _timed = site.checks().timed();
    let _uncounted = context::uncounted();
    let Some(dtype) = FloatType::from_dtype(call.x.dtype()) else {
        return call.due.due.done();
    };
    let told = describe(&call.x);
    let due = call.due.due;
    let is_sample = !matches!(call.part, Compared::Of(Width::Whole));
    let both = unless_it_panics(site, is_sample, || {
        let (x, split) = call.compared(gates);
        let upstream = match Mode::of(&x) {
            Mode::Training => Upstream::Fixed(dtype, split),
            Mode::Inference => Upstream::None,
        };
        let (mut expected, captured) = on_leaf(&x, upstream, composition);
        let is_finite = |y: &f64| y.is_finite();
        let mut results = expected.results.iter().flat_map(|y| &y.elements);
        if !results.all(is_finite) {
            return None;
        }
        let (mut got, of_body) = on_leaf(&x, upstream, body);
        let both = captured.as_ref().zip(of_body.as_ref());
        let missing = both.and_then(|(captured, of_body)| captured.missing_in(of_body));
        if let Some((captured, of_body)) = both {
            expected.gradients.extend(captured.captured_in(captured));
            got.gradients.extend(captured.captured_in(of_body));
        }
        let judge = |changes: Option<&Computed>| judge(&expected, &got, dtype, split, changes);
        let judged = judge(None).or_else(|_| {
            let noisy = || {
                let (mut noisy, again) = on_leaf(&x, upstream, composition);
                let again = captured.as_ref().zip(again.as_ref());
                let again = again.map(|(captured, again)| captured.captured_in(again));
                noisy.gradients.extend(again.into_iter().flatten());
                noisy.gradients.resize(expected.gradients.len(), None);
                noisy
            };
            judge(Some(&changes(Who::Body, dtype, &expected, noisy)))
        });
        let judged = judged.and_then(|error| match missing {
            Some(name) => Err(Miss::NoGradient {
                result: format!("d_{name}"),
            }),
            None => Ok(error),
        });
        Some((judged, describe_sample(&x, split)))
    });
    match both {
        None => site.checks().skip(),
        Some(None) => return not_finite(site, due),
        Some(Some((Ok(error), _))) => site.checks().body_passed(error),
        Some(Some((Err(miss), compared))) => Mismatch {
            site,
            implementation,
            operands: told,
            compared: is_sample.then_some(compared),
            kernel: None,
            body: Some(Err(miss)),
        }
        .raise(),
    }
    due.done();
}

/// Runs a computation on a copy of its input that is a leaf of its own.
fn on_leaf(
    x: &DispatchTensor,
    upstream: Upstream,
    compute: impl FnOnce(DispatchTensor) -> AnyTensors,
) -> (Computed, Option<Reached>) {
    let leaf = leaf(x);
    let compute = || compute(leaf.clone());
    run_keeping(&leaf, None, upstream, Box::new(compute))
}

impl Composite {
    /// Returns the input to compare: some of its rows, and, if the gates are so small that any activation is close to
    /// linear, an enlarged copy of the first slice.
    fn compared(self, gates: Option<&Gates<'_>>) -> (DispatchTensor, Option<Split>) {
        let detached = |x| flat(&x).detach().into_dispatch();
        let rows = match self.part {
            Compared::Of(Width::Rows(rows)) => rows,
            Compared::Of(Width::Whole) => return (detached(self.x), None),
            Compared::Sample(x) => return (detached(*x), None),
        };
        let x = detached(rows.of_erased(self.x));
        let shape = x.shape();
        let run = shape[0];
        let larger = gates
            .filter(|_| shape.as_slice().len() > 1 && shape.num_elements() > 0)
            .and_then(|gates| larger(gates(x.clone()), root_mean_square_erased(&x)));
        match larger {
            Some(factor) => {
                let all = run + 1;
                (append_larger_erased(&x, factor), Some(Split { run, all }))
            }
            None => (x, None),
        }
    }
}

fn judge(
    expected: &Computed,
    got: &Computed,
    dtype: FloatType,
    split: Option<Split>,
    changes: Option<&Computed>,
) -> Result<f64, Miss> {
    let three = |exact, got, noise| Three {
        exact,
        plain: exact,
        got,
        dtype,
        terms: 0.0,
        noise,
        split,
    };
    let results = expected.results.iter().zip(&got.results).enumerate();
    let results = results.map(|(index, (exact, got))| {
        let noise = changes.map(|changes| &changes.results[index]);
        three(exact, got, noise).body()
    });
    let gradients = expected.gradients.iter().zip(&got.gradients).enumerate();
    let gradients = gradients.filter_map(|(index, (exact, got))| match (exact, got) {
        (Some(exact), Some(got)) => {
            let noise = changes.and_then(|changes| changes.gradients[index].as_ref());
            Some(three(exact, got, noise).body())
        }
        (Some(exact), None) if exact.elements.iter().any(|&element| element != 0.0) => {
            Some(Err(Miss::NoGradient {
                result: exact.name.clone(),
            }))
        }
        _ => None,
    });
    results
        .chain(gradients)
        .try_fold(0.0_f64, |worst, part| Ok(worst.max(part?)))
}
