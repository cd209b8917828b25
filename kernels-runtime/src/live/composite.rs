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
use super::probe::{append_larger, larger, root_mean_square};
use super::run::{Computed, Split, Upstream, cut, run, run_keeping};
use super::sampling::{self, Active, Width};
use super::tolerance::{Miss, Three, Who};
use crate::active;
use crate::dispatch::{At, Site};
use crate::kernel::Tensors;
use crate::mode::Mode;
use crate::registry::{FloatType, Implementation};
use burn::tensor::Tensor;

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
    let on = sampling::active();
    if matches!(on, Active::Off) {
        return None;
    }
    let mut class = Class::new(mode == Mode::Training).and(variant);
    class.operand("x", x);
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
pub(crate) struct Composite<const D: usize> {
    pub(crate) due: CompositeDue,
    pub(crate) x: Tensor<D>,
    /// The part that is compared.
    pub(crate) part: Compared<D>,
}

/// The part of a call that is compared.
pub(crate) enum Compared<const D: usize> {
    /// Some rows, or the whole call.
    Of(Width),
    /// This input in place of the call's. The body may not take it.
    Sample(Box<Tensor<D>>),
}

/// Compares a body with the composition that its attribute states. Both [call](super::detached::call) the closures of the
/// user's code for copies of what these capture. `gates` returns the root mean square of the
/// activation's input for an input of the layer, if it is known.
#[track_caller]
pub(crate) fn composite<const D: usize, Y: Tensors>(
    site: &'static Site,
    implementation: &'static Implementation,
    call: Composite<D>,
    gates: Option<&dyn Fn(Tensor<D>) -> f64>,
    composition: impl Fn(Tensor<D>) -> Y,
    body: impl FnOnce(Tensor<D>) -> Y,
) {
    // The closures are boxed, so that the comparison is compiled once per rank and not once per site.
    compare(
        site,
        implementation,
        call,
        gates,
        &composition,
        Box::new(body),
    );
}

type Body<'a, const D: usize, Y> = Box<dyn FnOnce(Tensor<D>) -> Y + 'a>;

#[track_caller]
#[cold]
fn compare<const D: usize, Y: Tensors>(
    site: &'static Site,
    implementation: &'static Implementation,
    call: Composite<D>,
    gates: Option<&dyn Fn(Tensor<D>) -> f64>,
    composition: &dyn Fn(Tensor<D>) -> Y,
    body: Body<'_, D, Y>,
) {
    let _timed = site.checks().timed();
    let _uncounted = active::uncounted();
    let Some(dtype) = FloatType::from_dtype(call.x.dtype()) else {
        return call.due.due.done();
    };
    let told = describe(&call.x);
    let due = call.due.due;
    let is_sample = !matches!(call.part, Compared::Of(Width::Whole));
    let both = unless_it_panics(site, is_sample, || {
        let (x, split) = call.compared(gates);
        let upstream = match x.is_autodiff() {
            true => Upstream::Fixed(dtype, split),
            false => Upstream::None,
        };
        let (expected, due_gradients) = run_keeping(cut(&x), None, upstream, composition);
        let is_finite = |y: &f64| y.is_finite();
        let mut results = expected.results.iter().flat_map(|y| &y.elements);
        if !results.all(is_finite) {
            return None;
        }
        let (got, gradients) = run_keeping(cut(&x), None, upstream, body);
        let missing = due_gradients.zip(gradients);
        let missing = missing.and_then(|(due, got)| due.missing_in(&got));
        let judge = |changes: Option<&Computed>| judge(&expected, &got, dtype, split, changes);
        let judged = judge(None).or_else(|_| {
            let noisy = || run(cut(&x), None, upstream, composition);
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

impl<const D: usize> Composite<D> {
    /// Returns the input to compare: some of its rows, and, if the gates are so small that any activation is close to
    /// linear, an enlarged copy of the first slice.
    fn compared(self, gates: Option<&dyn Fn(Tensor<D>) -> f64>) -> (Tensor<D>, Option<Split>) {
        let rows = match self.part {
            Compared::Of(Width::Rows(rows)) => rows,
            Compared::Of(Width::Whole) => return (self.x.detach(), None),
            Compared::Sample(x) => return (x.detach(), None),
        };
        let x = rows.of(&self.x).detach();
        let run = x.dims()[0];
        let larger = gates
            .filter(|_| D > 1 && x.shape().num_elements() > 0)
            .and_then(|gates| larger(gates(x.clone()), root_mean_square(&x)));
        match larger {
            Some(factor) => {
                let all = run + 1;
                (append_larger(x, factor), Some(Split { run, all }))
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
