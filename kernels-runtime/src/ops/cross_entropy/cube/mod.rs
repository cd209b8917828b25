//! The cross-entropy on GPUs: one cube for the loss of each token, which reads its logits once, with a running
//! maximum and sum. The gradient reads them once more.
//!
//! | pass | kernels | logits read and written |
//! |---|---|---|
//! | forward | [`kernels::forward`], then [`kernels::reduce`] for a mean or a sum | 1 |
//! | backward | [`kernels::share`] for a mean, then [`kernels::backward`] | 2 |
//!
//! **Mistakes.** Nothing reads the targets on the host, because that would wait for the device. A target that is neither a
//! class nor the ignored index is no index on the device either: the loss of its token is NaN, and so is the gradient of its
//! logits.

pub(in crate::ops) mod classes;
pub(in crate::ops) mod kernels;

use super::{Backward, CrossEntropyBackend, CrossEntropyKernel, Settings, Tensors};
use crate::gpu::launch::{
    contiguous, cubes, cubes_of, dim, element_of, filled, uninitialised, uninitialised_as, units,
    vector_size, zeros, zeros_as,
};
use crate::gpu::{BASE, Deferred, like};
use crate::ops::operands::checked;
use crate::registry::{Implementation, Launch};
use crate::semantics::{CrossEntropyKey, LogitCap, LossReduction, SemanticsKey};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Cube, Shape, TensorMetadata};
use burn_cubecl::cubecl::prelude::CubeCount;
use burn_cubecl::tensor::CubeTensor;
use kernels::{NumbersLaunch, Terms};

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    launch: Launch::CrossEntropy(super::launch),
    accepts: |key| matches!(key, SemanticsKey::CrossEntropy(_)),
    ..BASE
};

impl CrossEntropyBackend for Cube {
    fn cross_entropy(operands: Tensors<Self>) -> FloatTensor<Self> {
        Self::cross_entropy_forward(operands).0
    }
}

impl CrossEntropyKernel for Cube {
    fn cross_entropy_forward(operands: Tensors<Self>) -> (FloatTensor<Self>, FloatTensor<Self>) {
        checked(operands.dtype());
        let mut deferred = Deferred::new("burn-kernels/cross_entropy", operands.logits());
        let results = [operands.result(), operands.lse()];
        let call = Call::new(operands).map(|tensor| deferred.operand(tensor));
        let mut results = deferred.results(results, move |tensors| {
            forward(call.clone().map(|operand| tensors.tensor(operand)))
        });
        let mut next = || results.next().expect("there are two results");
        (next(), next())
    }

    fn cross_entropy_backward(
        backward: Backward<FloatTensor<Self>, IntTensor<Self>>,
    ) -> FloatTensor<Self> {
        let (operands, dy, lse) = backward.into_parts();
        let [tokens, _] = operands.sizes();
        assert_eq!(lse.shape().num_elements(), tokens, "lse of each token");
        let mut deferred = Deferred::new("burn-kernels/cross_entropy_backward", operands.logits());
        let result = like(operands.logits());
        let call = Call::new(operands).map(|tensor| deferred.operand(tensor));
        let [dy, lse] = [dy, lse].map(|tensor| deferred.operand(tensor));
        let mut results = deferred.results([result], move |tensors| {
            let call = call.clone().map(|operand| tensors.tensor(operand));
            let [dy, lse] = [&dy, &lse].map(|operand| tensors.tensor(operand.clone()));
            vec![gradient(call, dy, lse)]
        });
        results.next().expect("there is one result")
    }
}

/// A call. The classes are in i32, with numbers below zero for tokens without one.
#[derive(Clone)]
struct Call<T> {
    logits: T,
    classes: T,
    settings: Settings,
    key: CrossEntropyKey,
}

impl Call<FloatTensor<Cube>> {
    fn new(operands: Tensors<Cube>) -> Self {
        let [_, count] = operands.sizes();
        let (settings, targets) = (operands.settings(), operands.targets().clone());
        Self {
            logits: operands.logits().clone(),
            classes: classes::of_targets(targets, count, settings.ignore_index),
            settings,
            key: operands.key(),
        }
    }
}

impl<T> Call<T> {
    fn map<U>(self, mut each: impl FnMut(T) -> U) -> Call<U> {
        Call {
            logits: each(self.logits),
            classes: each(self.classes),
            settings: self.settings,
            key: self.key,
        }
    }

    fn terms(&self) -> Terms {
        Terms::of(self.settings)
    }
}

impl Call<CubeTensor> {
    /// Returns the number of tokens, and of vectors of each, with the size of a vector.
    fn sizes(&self) -> (usize, usize, usize) {
        let [tokens, classes] = self.logits.shape().dims();
        let size = vector_size(&[classes]);
        (tokens, classes / size, size)
    }

    /// Returns the numbers of the kernels.
    fn numbers(&self) -> NumbersLaunch {
        let (tokens, vectors, _) = self.sizes();
        numbers(tokens, vectors, self.settings)
    }
}

impl Terms {
    /// Returns the variant of a loss with these numbers.
    pub(in crate::ops) fn of(settings: Settings) -> Self {
        Self {
            cap: match settings.cap {
                Some(_) => LogitCap::Tanh,
                None => LogitCap::None,
            },
            is_smooth: settings.label_smoothing != 0.0,
            has_z_loss: settings.z_loss != 0.0,
        }
    }
}

/// Returns the numbers of the kernels, for tokens of as many vectors of logits.
pub(in crate::ops) fn numbers(tokens: usize, vectors: usize, settings: Settings) -> NumbersLaunch {
    let Settings {
        label_smoothing,
        cap,
        z_loss,
        ..
    } = settings;
    let cap = cap.unwrap_or(1.0);
    NumbersLaunch::new(
        tokens,
        vectors,
        label_smoothing as f32,
        cap as f32,
        z_loss as f32,
        f32::NAN,
    )
}

/// Returns the loss and `lse`.
fn forward(call: Call<CubeTensor>) -> Vec<CubeTensor> {
    let call = call.map(contiguous);
    let (logits, (tokens, vectors, size)) = (&call.logits, call.sizes());
    let [losses, lse] = [(); 2].map(|()| uninitialised(logits, Shape::new([tokens])));
    if tokens == 0 {
        return vec![reduced(losses, call.classes, call.key.reduction), lse];
    }
    // Without classes there is nothing to read, but an argument has to have elements.
    let read = match vectors {
        0 => zeros_as(logits, Shape::new([size]), logits.dtype),
        _ => logits.clone(),
    };
    let units = units(vectors);
    // SAFETY: the logits have `vectors` vectors for each token, the others one number. A class is below the number of
    // elements of these vectors, as `of_targets` makes them. A cube touches the numbers of its token alone, and cubes
    // beyond the tokens end at once.
    unsafe {
        kernels::forward::launch_unchecked(
            &logits.client,
            cubes(logits, tokens),
            dim(units),
            size,
            read.into_buffer_arg(),
            call.classes.clone().into_buffer_arg(),
            losses.clone().into_buffer_arg(),
            lse.clone().into_buffer_arg(),
            call.numbers(),
            call.terms(),
            units,
            element_of(logits),
        );
    }
    let reduction = call.key.reduction;
    vec![reduced(losses, call.classes, reduction), lse]
}

/// Returns the loss, given that of each token and the classes.
pub(in crate::ops) fn reduced(
    losses: CubeTensor,
    classes: CubeTensor,
    reduction: LossReduction,
) -> CubeTensor {
    let [tokens] = losses.shape().dims();
    let one = Shape::new([1]);
    match (reduction, tokens) {
        (LossReduction::None, _) => return losses,
        (LossReduction::Mean, 0) => return filled(&losses, one, f32::NAN),
        (LossReduction::Sum, 0) => return zeros(&losses, one),
        (LossReduction::Mean | LossReduction::Sum, _) => {}
    }
    let (result, units) = (uninitialised(&losses, one), units(tokens));
    // SAFETY: there is a loss and a class for each token, and one result.
    unsafe {
        kernels::reduce::launch_unchecked(
            &losses.client.clone(),
            CubeCount::new_single(),
            dim(units),
            losses.into_buffer_arg(),
            classes.into_buffer_arg(),
            result.clone().into_buffer_arg(),
            tokens,
            reduction == LossReduction::Mean,
            units,
        );
    }
    result
}

/// Returns the gradient of the logits.
fn gradient(call: Call<CubeTensor>, dy: CubeTensor, lse: CubeTensor) -> CubeTensor {
    let (call, [dy, lse]) = (call.map(contiguous), [dy, lse].map(contiguous));
    let (logits, (tokens, vectors, size)) = (&call.logits, call.sizes());
    let d_logits = uninitialised_as(logits, logits.shape(), logits.dtype);
    let all = tokens * vectors;
    if all == 0 {
        return d_logits;
    }
    let factors = match call.key.reduction {
        LossReduction::Mean => shared(dy, call.classes.clone()),
        LossReduction::Sum | LossReduction::None => dy,
    };
    let (cubes, dim) = cubes_of(logits, units(all), all);
    // SAFETY: logits and gradient have `vectors` vectors for each token; the classes, `lse` and, without a reduction, the
    // factors have one number. Units beyond the vectors end at once.
    unsafe {
        kernels::backward::launch_unchecked(
            &logits.client,
            cubes,
            dim,
            size,
            factors.into_buffer_arg(),
            logits.clone().into_buffer_arg(),
            call.classes.clone().into_buffer_arg(),
            lse.into_buffer_arg(),
            d_logits.clone().into_buffer_arg(),
            call.numbers(),
            call.terms(),
            call.key.reduction == LossReduction::None,
            element_of(logits),
        );
    }
    d_logits
}

/// Returns the gradient of the loss of a token, given that of the mean.
pub(in crate::ops) fn shared(dy: CubeTensor, classes: CubeTensor) -> CubeTensor {
    let [tokens] = classes.shape().dims();
    let (factor, units) = (uninitialised(&dy, Shape::new([1])), units(tokens));
    // SAFETY: there is a class for each token, one gradient and one factor.
    unsafe {
        kernels::share::launch_unchecked(
            &dy.client.clone(),
            CubeCount::new_single(),
            dim(units),
            dy.into_buffer_arg(),
            classes.into_buffer_arg(),
            factor.clone().into_buffer_arg(),
            tokens,
            units,
        );
    }
    factor
}
