//! The check of a gated MLP, a sparse block or an attention layer, whose body also contains layers.
//!
//! The kernel is checked separately, where it runs between the layers. The layers compute only in their own dtype. The
//! body is therefore compared with the composition of the same layers and the kernel's reference.

use super::case::{describe, describe_sample};
use super::check::unless_it_panics;
use super::checks;
use super::mismatch::Mismatch;
use super::noise::changes;
use super::probe::{append_larger, larger, root_mean_square};
use super::run::{Computed, Split, Upstream, cut, run};
use super::sampling::{self, Active, Width};
use super::tolerance::{Miss, Three, Who};
use crate::active;
use crate::dispatch::Site;
use crate::kernel::Tensors;
use crate::registry::{FloatType, Implementation};
use burn::tensor::Tensor;

/// Returns the part of this call to compare, if the call has to be checked. It must be called once per call.
pub(crate) fn composite_is_due<const D: usize>(site: &Site, x: &Tensor<D>) -> Option<Width> {
    match sampling::active() {
        Active::Off => None,
        on => {
            let due = site
                .checks()
                .due(site.spec(), checks::Part::Composite, on, || x.is_autodiff());
            due.then(|| on.width())
        }
    }
}

/// A call of a gated MLP, a sparse block or an attention layer.
pub(crate) struct Composite<const D: usize> {
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

/// Compares a body with the composition that its attribute states. `gates` returns the root mean square of the
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
        return;
    };
    let told = describe(&call.x);
    let is_sample = !matches!(call.part, Compared::Of(Width::Whole));
    let both = unless_it_panics(site, is_sample, || {
        let (x, split) = call.compared(gates);
        let upstream = match x.is_autodiff() {
            true => Upstream::Fixed(dtype, split),
            false => Upstream::None,
        };
        let expected = run(cut(&x), None, upstream, composition);
        let is_finite = |y: &f64| y.is_finite();
        let mut results = expected.results.iter().flat_map(|y| &y.elements);
        if !results.all(is_finite) {
            return None;
        }
        let got = run(cut(&x), None, upstream, body);
        let judge = |changes: Option<&Computed>| judge(&expected, &got, dtype, split, changes);
        let judged = judge(None).or_else(|_| {
            let noisy = || run(cut(&x), None, upstream, composition);
            judge(Some(&changes(Who::Body, dtype, &expected, noisy)))
        });
        Some((judged, describe_sample(&x, split)))
    });
    match both {
        None | Some(None) => site.checks().skip(),
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
