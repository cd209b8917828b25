//! The cross-entropy on GPUs: one cube for the loss of each token, which reads its logits once, with a running
//! maximum and sum. The gradient reads them once more.
//!
//! | pass | kernels | logits read and written |
//! |---|---|---|
//! | forward | [`kernels::forward`], then [`kernels::reduce`] for a mean or a sum | 1 |
//! | backward | [`kernels::share`] for a mean, then [`kernels::backward`] | 2 |
//!
//! **Mistakes.** Nothing reads the targets on the host, because that would wait for the device. A target that is neither a
//! class nor the ignored index is not an index on the device either: the loss of its token is NaN, and so is the gradient of its
//! logits.

pub(in crate::ops) mod classes;
pub(in crate::ops) mod kernels;

use super::{CrossEntropy, Each, Launch, Operands, Settings};
use crate::gpu::launch::{
    contiguous, cubes, cubes_of, dim, element_of, filled, uninitialised, uninitialised_as, units,
    vector_size, zeros, zeros_as,
};
use crate::gpu::{BASE, OnGpu};
use crate::ops::fused::{Backward, BackwardOn, Made, OpLaunch, Tensors};
use crate::registry::{self, Implementation};
use crate::semantics::{CrossEntropyKey, LogitCap, LossReduction, SemanticsKey};
use burn::backend::{Cube, Shape, TensorMetadata};
use burn_cubecl::cubecl::prelude::CubeCount;
use burn_cubecl::tensor::CubeTensor;
use kernels::{NumbersLaunch, Terms};

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    launch: registry::Launch::CrossEntropy(Launch(OpLaunch::of::<CrossEntropy, Cube>())),
    accepts: |key| matches!(key, SemanticsKey::CrossEntropy(_)),
    ..BASE
};

impl OnGpu for CrossEntropy {
    /// Replaces the targets by their classes.
    fn prepared(operands: Tensors<Self, Cube>) -> Tensors<Self, Cube> {
        let ([_, count], ignored) = (operands.sizes(), operands.settings().ignore_index);
        let classes = |targets| classes::of_targets(targets, count, ignored);
        operands.map(|logits| logits, classes)
    }

    fn check_backward(backward: &BackwardOn<Self, Cube>) {
        let ([lse], [tokens, _]) = (backward.saved(), backward.operands().sizes());
        assert_eq!(lse.shape().num_elements(), tokens, "lse of each token");
    }

    fn forward(
        operands: Operands<CubeTensor, CubeTensor>,
        _: Option<&Each<bool>>,
    ) -> Made<CubeTensor> {
        let [loss, lse] = forward(Call::new(operands));
        Made::new(loss).saving([lse])
    }

    fn backward(backward: Backward<Self, CubeTensor>) -> Each<Option<CubeTensor>> {
        let [lse] = backward.saved().clone();
        let (operands, dy, ..) = backward.into_parts();
        Each {
            logits: Some(gradient(Call::new(operands), dy, lse)),
        }
    }
}

/// A call on the thread of the device, with its tensors contiguous. The classes are in i32, with numbers below zero for tokens
/// without one.
struct Call {
    logits: CubeTensor,
    classes: CubeTensor,
    settings: Settings,
    key: CrossEntropyKey,
}

impl Call {
    fn new(operands: Operands<CubeTensor, CubeTensor>) -> Self {
        Self {
            logits: contiguous(operands.logits().clone()),
            classes: contiguous(operands.targets().clone()),
            settings: operands.settings(),
            key: operands.key(),
        }
    }

    fn terms(&self) -> Terms {
        Terms::of(self.settings)
    }

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
fn forward(call: Call) -> [CubeTensor; 2] {
    let (logits, (tokens, vectors, size)) = (&call.logits, call.sizes());
    let [losses, lse] = [(); 2].map(|()| uninitialised(logits, Shape::new([tokens])));
    if tokens == 0 {
        return [reduced(losses, call.classes, call.key.reduction), lse];
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
    [reduced(losses, call.classes, reduction), lse]
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
fn gradient(call: Call, dy: CubeTensor, lse: CubeTensor) -> CubeTensor {
    let [dy, lse] = [dy, lse].map(contiguous);
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
