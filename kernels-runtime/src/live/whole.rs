//! A gated MLP or a sparse block, whose body holds other layers too.
//!
//! Its kernel is checked where it runs, between the layers. They compute in their own dtype alone,
//! so the body is compared with the composition of the same layers and the kernel's reference.

use super::mismatch::Mismatch;
use super::run::{Computed, Upstream, cut, run};
use super::sampling::{self, Active};
use super::tally::Part;
use super::tolerance::{Miss, Three};
use crate::active;
use crate::kernel::Tensors;
use crate::registry::{FloatType, Implementation, Site};
use burn::tensor::Tensor;

/// Whether it is the turn of this call of a whole body. Asked once a call.
pub(crate) fn whole_is_due<const D: usize>(site: &Site, x: &Tensor<D>) -> bool {
    match sampling::active() {
        Active::Off => false,
        on => site.checks().due(site, Part::Whole, on, || x.is_autodiff()),
    }
}

/// Compares a body with the composition that its attribute says.
#[track_caller]
pub(crate) fn whole<const D: usize, Y: Tensors>(
    site: &'static Site,
    implementation: &'static Implementation,
    x: Tensor<D>,
    composition: impl FnOnce(Tensor<D>) -> Y,
    body: impl FnOnce(Tensor<D>) -> Y,
) {
    // Boxed, so that the comparison is compiled once a rank and not once a site.
    compare(
        site,
        implementation,
        x,
        Box::new(composition),
        Box::new(body),
    );
}

type Body<'a, const D: usize, Y> = Box<dyn FnOnce(Tensor<D>) -> Y + 'a>;

#[track_caller]
#[cold]
fn compare<const D: usize, Y: Tensors>(
    site: &'static Site,
    implementation: &'static Implementation,
    x: Tensor<D>,
    composition: Body<'_, D, Y>,
    body: Body<'_, D, Y>,
) {
    let _uncounted = active::uncounted();
    let Some(dtype) = FloatType::from_dtype(x.dtype()) else {
        return;
    };
    let upstream = match x.is_autodiff() {
        true => Upstream::Fixed(dtype),
        false => Upstream::None,
    };
    let expected = run(cut(&x), None, upstream, composition);
    let is_finite = |y: &f64| y.is_finite();
    if !expected
        .results
        .iter()
        .all(|y| y.elements.iter().all(is_finite))
    {
        return;
    }
    let got = run(cut(&x), None, upstream, body);
    match judge(&expected, &got, dtype) {
        Ok(error) => site.checks().body_passed(error),
        Err(miss) => panic!(
            "{}",
            Mismatch {
                site,
                implementation,
                operands: format!("x {}{:?}", x.dtype().name(), x.dims()),
                kernel: None,
                body: Err(miss),
            }
        ),
    }
}

fn judge(expected: &Computed, got: &Computed, dtype: FloatType) -> Result<f64, Miss> {
    let three = |exact, got| Three {
        exact,
        plain: exact,
        got,
        dtype,
    };
    let results = expected.results.iter().zip(&got.results);
    let results = results.map(|(exact, got)| three(exact, got).body());
    let gradients = expected.gradients.iter().zip(&got.gradients);
    let gradients = gradients.filter_map(|(exact, got)| match (exact, got) {
        (Some(exact), Some(got)) => Some(three(exact, got).body()),
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
