//! Noise in place of roundings. It shows how far the roundings of a computation reach.
//!
//! The terms of a sum may cancel, and a rounding of a term is then large beside the sum: the gradient of equal scores of
//! attention is zero, and that of rounded ones is not. How large the terms are is known where they are computed.
//! Therefore a reference marks its intermediate results by [`rounded`]. [Live verification](crate::live) runs it once
//! more with small random numbers in these places, and takes what they change for what roundings may change. A product
//! with noise changes the gradient that comes back through it in the same way.

use super::any_rank::{flat, from_data};
use crate::scope_guard::guard;
use burn::backend::{DispatchTensor, TensorMetadata};
use burn::tensor::{Tensor, TensorData};
use std::cell::Cell;

#[derive(Clone, Copy, Debug)]
struct Noise {
    /// The largest change of a number, as a fraction of it.
    size: f64,
    /// The largest change of a number besides, for numbers that are rounded to a multiple of the smallest one.
    smallest: f64,
    /// The state of the generator.
    state: u64,
}

thread_local! {
    static NOISE: Cell<Option<Noise>> = const { Cell::new(None) };
}

guard! {
    /// Ends the noise on this thread when dropped.
    pub(crate) NoiseGuard(Option<Noise>), |outer| NOISE.set(outer)
}

/// Puts noise in the place of roundings on this thread, until the guard is dropped. A seed gives the same noise.
#[must_use = "there is noise only while the guard lives"]
pub(crate) fn noise(size: f64, smallest: f64, seed: u64) -> NoiseGuard {
    NoiseGuard::over(NOISE.replace(Some(Noise {
        size,
        smallest,
        state: seed,
    })))
}

/// Returns the size of the noise on this thread, if there is any.
pub(crate) fn noise_size() -> Option<f64> {
    NOISE.get().map(|noise| noise.size)
}

/// Marks an intermediate result of a reference: another computation of the same may round it otherwise, for example to
/// a half type. Returns the tensor as it is, except that live verification adds small noise to see where roundings
/// lead.
///
/// Mark the terms of sums that may cancel, and the means and sums that rows are divided by or that are subtracted from
/// them. The operands and the results need no mark.
///
/// ```
/// # extern crate kernels_runtime as burn_kernels;
/// # use burn::tensor::Tensor;
/// use burn_kernels::kernel::rounded;
///
/// fn centred<const D: usize>(x: Tensor<D>) -> Tensor<D> {
///     x.clone() - rounded(x.mean_dim(D - 1))
/// }
/// ```
pub fn rounded<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    if noise_size().is_none() {
        return tensor;
    }
    Tensor::from_dispatch(rounded_erased(tensor.into_dispatch()))
}

/// Does what [`rounded`] does with a tensor of any rank.
pub(crate) fn rounded_erased(tensor: DispatchTensor) -> DispatchTensor {
    let Some(noise) = NOISE.get() else {
        return tensor;
    };
    let factors = drawn(&tensor, |random| 1.0 + noise.size * random);
    let smallest = drawn(&tensor, |random| noise.smallest * random);
    // A number has other noise than its gradient: `x / rounded(x)` must not be constant.
    let own = flat(&tensor).detach() * drawn(&tensor, |random| noise.size * random);
    (flat(&tensor) * factors + own + smallest).into_dispatch()
}

/// Marks a tensor as [`rounded`] does, if it is a sum of `terms` that are larger than the sum.
pub(crate) fn rounded_sum<const D: usize>(tensor: Tensor<D>, terms: Tensor<D>) -> Tensor<D> {
    let Some(noise) = NOISE.get() else {
        return tensor;
    };
    let terms = terms.into_dispatch();
    let changes = flat(&terms) * drawn(&terms, |random| noise.size * random);
    rounded(tensor) + Tensor::from_dispatch(changes.into_dispatch())
}

/// Marks scores whose exponentials along the last axis are divided by their sum. `largest` is their maximum. Noise
/// raises those that are so close to it that roundings may exchange the two.
pub(crate) fn rounded_scores<const D: usize>(scores: Tensor<D>, largest: &Tensor<D>) -> Tensor<D> {
    let Some(size) = noise_size() else {
        return scores;
    };
    let below = largest.clone().detach() - scores.clone().detach();
    let hidden = scores.clone().detach().equal_elem(f64::NEG_INFINITY);
    let scores = scores.mask_fill(hidden.clone(), 0.0);
    let most = scores.clone().detach().abs().max_dim(D - 1) * size;
    let most = most.expand(below.shape());
    let far = below.clone().greater(most.clone());
    let hidden = hidden.expand(below.shape());
    let scores = rounded(scores) + below.mask_where(far, most);
    scores.mask_fill(hidden, f64::NEG_INFINITY)
}

/// Returns the exponentials of scores along the last axis, divided by their sum.
pub(crate) fn softmax<const D: usize>(scores: Tensor<D>) -> Tensor<D> {
    if noise_size().is_none() {
        return burn::tensor::activation::softmax(scores, D - 1);
    }
    let largest = scores.clone().detach().max_dim(D - 1);
    let powers = rounded((rounded_scores(scores, &largest) - largest).exp());
    powers.clone() / rounded(powers.sum_dim(D - 1))
}

/// Returns numbers made of the next random ones between -1 and 1, in the shape and dtype of `like`.
fn drawn(like: &DispatchTensor, number: impl Fn(f64) -> f64) -> Tensor<1> {
    let mut noise = NOISE
        .get()
        .expect("noise is drawn only where there is some");
    let shape = like.shape();
    let numbers = (0..shape.num_elements()).map(|_| number(noise.next()));
    let data = TensorData::new(numbers.collect::<Vec<f64>>(), shape);
    NOISE.set(Some(noise));
    let device = flat(like).device().inner();
    flat(&from_data(data, &device, like.dtype()))
}

impl Noise {
    /// Returns a random number between -1 and 1, by Knuth's generator.
    fn next(&mut self) -> f64 {
        let next = self.state.wrapping_mul(6_364_136_223_846_793_005);
        self.state = next.wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use super::*;
    use burn::tensor::{DType, Device};

    fn numbers<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
        tensor.into_data().iter::<f64>().collect()
    }

    /// Returns `x − mean(x)` and its gradient for the upstream gradient `[1, 1]`: both are zeros for equal elements.
    fn centred() -> [Vec<f64>; 2] {
        let device = Device::flex().autodiff();
        let x = Tensor::<1>::from_data(TensorData::new(vec![3.0, 3.0], [2]), (&device, DType::F64));
        let x = x.require_grad();
        let y = x.clone() - rounded(x.clone().mean_dim(0));
        let gradient = x.grad(&y.clone().sum().backward()).expect("a leaf");
        [numbers(y), numbers(gradient)]
    }

    #[test]
    fn noise_shows_terms_that_cancel() {
        assert_eq!(centred(), [[0.0, 0.0], [0.0, 0.0]]);
        let noisy = || {
            let _noise = noise(1e-3, 0.0, 7);
            centred()
        };
        for of in noisy() {
            assert!(of.iter().all(|y| *y != 0.0 && y.abs() < 4e-3), "{of:?}");
        }
        assert_eq!(noisy(), noisy());
        assert_eq!(noise_size(), None);
    }

    #[test]
    fn the_gradient_of_a_number_divided_by_itself_has_noise() {
        let x = Tensor::<1>::from_data(
            TensorData::new(vec![3.0], [1]),
            (&Device::flex(), DType::F64),
        );
        let x = x.autodiff().require_grad();
        let _noise = noise(1e-3, 0.0, 7);
        let y = x.clone() / rounded(x.clone());
        let gradient = numbers(x.grad(&y.backward()).expect("a leaf"));
        assert!(
            gradient[0] != 0.0 && gradient[0].abs() < 2e-3,
            "{gradient:?}"
        );
    }

    #[test]
    fn only_scores_near_the_largest_are_raised_to_it() {
        let device = Device::flex();
        let scores = vec![1000.0, 999.95, 900.0, f64::NEG_INFINITY];
        let scores = || {
            let scores = TensorData::new(scores.clone(), [1, 4]);
            Tensor::<2>::from_data(scores, (&device, DType::F64))
        };
        let largest = scores().max_dim(1);
        let as_they_are = rounded_scores(scores(), &largest);
        assert_eq!(numbers(as_they_are), numbers(scores()));
        let _noise = noise(1e-4, 0.0, 1);
        let raised = numbers(rounded_scores(scores(), &largest));
        let differences = [raised[0] - 1000.0, raised[1] - 1000.0, raised[2] - 900.1];
        assert!(differences.iter().all(|d| d.abs() < 0.2), "{raised:?}");
        assert_eq!(raised[3], f64::NEG_INFINITY);
    }
}
