//! AdamW on Flex: one in-place pass over the four tensors.

use super::{AdamWBackend, Settings, State, Tensors};
use crate::cpu::{BASE, CHUNK, Element, PARALLEL, Real, dispatch_dtype, share};
use crate::ops::operands::checked;
use crate::registry::{Gradient, Implementation, Launch};
use crate::semantics::SemanticsKey;
use burn::backend::Flex;
use burn::backend::flex::FlexTensor;

/// The number of elements that a thread takes at a time of a weight with few of them. It takes four microseconds or more for
/// them, so that two threads are faster than one from two such chunks on.
const FEW: usize = 8 * 1024;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    gradient: Gradient::None,
    launch: Launch::AdamW(super::launch),
    accepts: |key| matches!(key, SemanticsKey::AdamW(_)),
    ..BASE
};

impl AdamWBackend for Flex {
    fn adam_w(operands: Tensors<Self>) -> (FlexTensor, FlexTensor, FlexTensor) {
        let (dtype, settings) = (checked(operands.dtype()), operands.settings());
        let (state, gradient) = operands.into_parts();
        let State {
            mut parameter,
            mut moment_1,
            mut moment_2,
        } = state.map(contiguous);
        let gradient = contiguous(gradient);
        dispatch_dtype!(dtype, T => {
            let places = Places {
                parameter: places::<T>(&mut parameter),
                moment_1: places(&mut moment_1),
                moment_2: places(&mut moment_2),
                gradient: values(&gradient),
            };
            step(&Numbers::new(settings), places);
        });
        (parameter, moment_1, moment_2)
    }
}

/// Returns the tensor, or a copy if it is not contiguous, such as a transposed gradient.
fn contiguous(tensor: FlexTensor) -> FlexTensor {
    match tensor.layout().contiguous_offsets() {
        Some(_) => tensor,
        None => tensor.to_contiguous(),
    }
}

/// Returns the elements for writing. Copies them first if the storage is shared.
fn places<T: Element>(tensor: &mut FlexTensor) -> &mut [T] {
    let (start, end) = tensor
        .layout()
        .contiguous_offsets()
        .expect("it is contiguous");
    if start == end {
        // An empty tensor may start behind the end of its storage.
        return &mut [];
    }
    &mut tensor.storage_mut()[start..end]
}

/// Returns the elements for reading.
fn values<T: Element>(tensor: &FlexTensor) -> &[T] {
    let (start, end) = tensor
        .layout()
        .contiguous_offsets()
        .expect("it is contiguous");
    // An empty tensor may start behind the end of its storage, as in `places`.
    match start == end {
        true => &[],
        false => &tensor.storage()[start..end],
    }
}

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
            ..
        } = settings;
        let (correction_1, correction_2) = settings.corrections();
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
fn step<T: Element>(numbers: &Numbers<T::Acc>, places: Places<'_, T>) {
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
    let arch = pulp::Arch::new();
    let work = |places| arch.dispatch(Work { numbers, places });
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

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::TensorData;

    #[test]
    fn an_empty_tensor_may_start_behind_the_end_of_its_storage() {
        let all = FlexTensor::from_data(TensorData::ones::<f32, _>([2, 3]));
        let mut empty = all.narrow(0, 2, 0).narrow(1, 3, 0);
        assert_eq!(empty.layout().contiguous_offsets(), Some((9, 9)));
        assert!(values::<f32>(&empty).is_empty());
        assert!(places::<f32>(&mut empty).is_empty());
    }
}
