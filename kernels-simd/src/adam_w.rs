//! A step of AdamW: one in-place pass over four tensors.

use crate::lanes::vectorize;
use crate::{CHUNK, Element, PARALLEL, Real, SliceMut, View, share, with_type};

/// The numbers of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// `η`.
    pub learning_rate: f64,
    /// `β₁`.
    pub beta_1: f64,
    /// `β₂`.
    pub beta_2: f64,
    /// The number that is added to the root of the second moment.
    pub epsilon: f64,
    /// `λ`.
    pub weight_decay: f64,
    /// `1 − β₁ᵗ` and `1 − β₂ᵗ`.
    pub corrections: [f64; 2],
}

/// Makes a step in the memory of a parameter and its two moments. The gradient is contiguous.
///
/// # Panics
/// Panics if sizes or types differ.
pub fn step(
    settings: Settings,
    parameter: SliceMut<'_>,
    [moment_1, moment_2]: [SliceMut<'_>; 2],
    gradient: &View<'_>,
) {
    with_type!(parameter.dtype(), T => {
        let places = Places::<T> {
            parameter: parameter.into_slice(),
            moment_1: moment_1.into_slice(),
            moment_2: moment_2.into_slice(),
            gradient: gradient.contiguous(),
        };
        step_in(&Numbers::new(settings), places);
    });
}

/// The number of elements that a thread takes at a time of a weight with few of them. It takes four microseconds or more for
/// them, so that two threads are faster than one from two such chunks on.
const FEW: usize = 8 * 1024;

/// The elements that a step changes and the gradient, or a chunk of them.
struct Places<'a, T> {
    parameter: &'a mut [T],
    moment_1: &'a mut [T],
    moment_2: &'a mut [T],
    gradient: &'a [T],
}

/// The numbers of a step in the form that every element needs.
struct Numbers<A> {
    beta_1: A,
    /// `1 − β₁`.
    rest_1: A,
    beta_2: A,
    /// `1 − β₂`.
    rest_2: A,
    /// `1 − η·λ`.
    kept: A,
    /// `η / (1 − β₁ᵗ)`.
    rate: A,
    /// `1 / √(1 − β₂ᵗ)`.
    root: A,
    epsilon: A,
}

impl<A: Real> Numbers<A> {
    fn new(settings: Settings) -> Self {
        let Settings {
            learning_rate,
            beta_1,
            beta_2,
            epsilon,
            weight_decay,
            corrections: [correction_1, correction_2],
        } = settings;
        Self {
            beta_1: A::of(beta_1),
            rest_1: A::of(1.0 - beta_1),
            beta_2: A::of(beta_2),
            rest_2: A::of(1.0 - beta_2),
            kept: A::of(1.0 - learning_rate * weight_decay),
            rate: A::of(learning_rate / correction_1),
            root: A::of(1.0 / correction_2.sqrt()),
            epsilon: A::of(epsilon),
        }
    }
}

/// Computes a step element by element, so results don't depend on how the elements are split.
///
/// # Panics
/// Panics if the tensors have different sizes: some elements would stay unchanged.
fn step_in<T: Element>(numbers: &Numbers<T::Acc>, places: Places<'_, T>) {
    let others = [
        places.moment_1.len(),
        places.moment_2.len(),
        places.gradient.len(),
    ];
    assert_eq!(
        [places.parameter.len(); 3],
        others,
        "sizes of a step of AdamW"
    );
    let work = |places| vectorize(Work { numbers, places });
    let len = places.parameter.len();
    if len < 2 * FEW {
        return work(places);
    }
    let chunk = if len < PARALLEL { FEW } else { CHUNK };
    let Places {
        parameter,
        moment_1,
        moment_2,
        gradient,
    } = places;
    let moments = moment_1.chunks_mut(chunk).zip(moment_2.chunks_mut(chunk));
    let parts = parameter
        .chunks_mut(chunk)
        .zip(moments)
        .zip(gradient.chunks(chunk))
        .map(|((parameter, (moment_1, moment_2)), gradient)| Places {
            parameter,
            moment_1,
            moment_2,
            gradient,
        });
    share::each_of_many(parts.collect(), work);
}

struct Work<'a, T: Element> {
    numbers: &'a Numbers<T::Acc>,
    places: Places<'a, T>,
}

impl<T: Element> pulp::WithSimd for Work<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let Self { numbers: n, places } = self;
        let moments = places.moment_1.iter_mut().zip(places.moment_2);
        let all = places
            .parameter
            .iter_mut()
            .zip(moments)
            .zip(places.gradient);
        for ((parameter, (moment_1, moment_2)), gradient) in all {
            let g = gradient.load();
            let m = n.beta_1 * moment_1.load() + n.rest_1 * g;
            let v = n.beta_2 * moment_2.load() + n.rest_2 * (g * g);
            let update = n.rate * m / (v.sqrt() * n.root + n.epsilon);
            *parameter = T::round(parameter.load() * n.kept - update);
            *moment_1 = T::round(m);
            *moment_2 = T::round(v);
        }
    }
}
