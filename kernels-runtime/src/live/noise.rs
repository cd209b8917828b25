//! Changes that roundings may make in the results of a reference.

use super::run::{Computed, Values};
use super::tolerance::{Who, noise_of};
use crate::kernel::erased::ErasedTensors;
use crate::kernel::{Visitor, noise, rounded_erased};
use crate::registry::FloatType;
use burn::backend::DispatchTensor;

/// The number of runs with noise. In one of them, the noise of a result's terms may be small by chance.
const RUNS: u64 = 3;

/// Returns the largest change of each element of `exact` in some runs with noise: NaN or infinity if an element was not
/// finite in one of them.
pub(super) fn changes(
    who: Who,
    dtype: FloatType,
    exact: &Computed,
    run: impl Fn() -> Computed,
) -> Computed {
    let [size, smallest] = noise_of(who, dtype);
    let runs: Vec<Computed> = (0..RUNS)
        .map(|seed| {
            let _noise = noise(size, smallest, seed);
            run()
        })
        .collect();
    let of_results = |index: usize, exact: &Values| {
        let noisy = runs.iter().map(|run| &run.results[index]);
        largest_changes(exact, noisy)
    };
    let of_gradients = |index: usize, exact: &Option<Values>| {
        let noisy = runs.iter().filter_map(|run| run.gradients[index].as_ref());
        Some(largest_changes(exact.as_ref()?, noisy))
    };
    let results = exact.results.iter().enumerate();
    let gradients = exact.gradients.iter().enumerate();
    Computed {
        results: results.map(|(index, y)| of_results(index, y)).collect(),
        gradients: gradients.map(|(index, d)| of_gradients(index, d)).collect(),
    }
}

fn largest_changes<'a>(exact: &Values, noisy: impl Iterator<Item = &'a Values>) -> Values {
    let mut changes = exact.clone();
    changes.elements.fill(0.0);
    for noisy in noisy {
        let both = exact.elements.iter().zip(&noisy.elements);
        for (most, (exact, noisy)) in changes.elements.iter_mut().zip(both) {
            let change = (noisy - exact).abs();
            // A change that is not finite stays.
            if most.is_finite() && (change > *most || change.is_nan()) {
                *most = change;
            }
        }
    }
    changes
}

/// Marks every tensor as rounded.
pub(super) fn mark_rounded(tensors: &mut dyn ErasedTensors) {
    struct Rounded;
    impl Visitor for Rounded {
        fn visit(&mut self, _: &'static str, tensor: &mut DispatchTensor) {
            *tensor = rounded_erased(tensor.clone());
        }
    }
    tensors.visit(&mut Rounded);
}
