//! The linear cross-entropy on GPUs: the logits of some tokens at a time.
//!
//! Burn's own kernels multiply the matrices, whichever it takes for their sizes. A kernel reads the logits of a chunk for the
//! losses, and once more for their gradient, which it writes in their place.
//!
//! | pass | for each chunk of tokens |
//! |---|---|
//! | without gradients | a product, [`kernels::losses`] |
//! | with gradients | the same; for those of the hidden states a product; for those of the weight [`kernels::counted`], and products that [`kernels::add`] adds up; for those of the bias [`kernels::sum_parts`] and the sums of the parts |
//!
//! **Half types.** Burn multiplies hidden states and weight as they are and adds up in f32. The logits and their
//! gradients stay in f32, and so do all gradients until their last factor; each is rounded once. For their products,
//! the hidden states of a chunk and the weights of some classes at a time become numbers in f32.
//!
//! **Memory.** The logits of a chunk take at most [`LOGITS`] bytes. Besides them, there are the hidden states of the chunk, and
//! of the gradient of the weight a part of at most [`PRODUCT`] bytes, or of [`MULTIPLE`] rows. With half types, there
//! is as much of the weight in f32, and of its product. More than [`MOST_CLASSES`] classes take the reference.
//!
//! **Mistakes.** As for the [cross-entropy](crate::ops::cross_entropy), nothing reads the targets on the host: a target that is
//! neither a class nor the ignored index makes the loss NaN, and so it does the gradients.
//!
//! **Determinism.** Each sum has one order. But where a program has Burn's `autotune`, measured times decide which kernels
//! multiply, so that two runs may round differently.

mod kernels;
mod matrix;
mod pass;

use super::{
    Backward, Gradients, Kept, LinearCrossEntropyBackend, LinearCrossEntropyKernel, Operands,
    Tensors, Wanted,
};
use crate::gpu::entries::BOOL;
use crate::gpu::launch::{contiguous, filled};
use crate::gpu::{BASE, Deferred, indexable};
use crate::ops::cross_entropy::cube::classes::of_targets;
use crate::ops::cross_entropy::cube::{reduced, shared};
use crate::ops::operands::checked;
use crate::reason::Reason;
use crate::registry::{Implementation, Launch};
use crate::semantics::{LinearCrossEntropyKey, LossReduction, OutputLayout, SemanticsKey};
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Cube, Scalar, Shape, TensorMetadata};
use burn::tensor::DType;
use burn_cubecl::kernel::cast;
use burn_cubecl::tensor::CubeTensor;
use matrix::MULTIPLE;
use pass::Pass;
use std::convert::Infallible;

/// The largest memory of the logits of a chunk, in bytes: the largest that every WebGPU device binds. Each chunk reads the
/// weight once, or twice with gradients, and reads and writes the gradient of the weight.
const LOGITS: usize = 128 << 20;

/// The largest memory of a product that is added to the gradient of the weight, in bytes. Caches of large GPUs hold it.
const PRODUCT: usize = 32 << 20;

/// The bytes of a number.
const BYTES: usize = size_of::<f32>();

/// The largest number of classes: a chunk has the logits of at least [`MULTIPLE`] tokens.
const MOST_CLASSES: usize = LOGITS / BYTES / MULTIPLE;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    launch: Launch::LinearCrossEntropy(super::launch),
    // Measured times may decide which kernels multiply.
    deterministic: false,
    accepts: |key| matches!(key, SemanticsKey::LinearCrossEntropy(_)),
    limits: Some(|key, tensors| {
        indexable(tensors)?;
        let weight = tensors[1].shape();
        let classes = match key.known::<LinearCrossEntropyKey>().layout {
            OutputLayout::OutputMajor => weight[0],
            OutputLayout::InputMajor => weight[1],
        };
        match classes <= MOST_CLASSES {
            true => Ok(()),
            false => Err(Reason::Shape),
        }
    }),
    ..BASE
};

impl LinearCrossEntropyBackend for Cube {
    fn linear_cross_entropy(operands: Tensors<Self>) -> FloatTensor<Self> {
        Self::linear_cross_entropy_forward(operands, Wanted::default()).0
    }
}

impl LinearCrossEntropyKernel for Cube {
    fn linear_cross_entropy_forward(
        operands: Tensors<Self>,
        wanted: Wanted,
    ) -> (FloatTensor<Self>, Gradients<FloatTensor<Self>>) {
        checked(operands.dtype());
        let kept = checked(operands.kept(wanted));
        let id = "burn-kernels/linear_cross_entropy";
        let loss = operands.result();
        let shapes = operands.shapes(kept).map(|shape| (shape, DType::F32));
        let mut deferred = Deferred::new(id, operands.hidden());
        let operands = operands_of(&mut deferred, operands);
        let results = std::iter::once(loss).chain(shapes.clone().all().flatten());
        let mut results = deferred.results(results, move |tensors| {
            let (loss, gradients) = forward(&resolved(&operands, |of| tensors.tensor(of)), kept);
            let gradients = gradients.all().flatten();
            std::iter::once(loss).chain(gradients).collect()
        });
        let mut next = || results.next().expect("there are as many as were wanted");
        (next(), shapes.map(|_| next()))
    }

    type WeightFactors = Infallible;

    fn linear_cross_entropy_weight(factors: Infallible, _: FloatTensor<Self>) -> FloatTensor<Self> {
        match factors {}
    }

    fn linear_cross_entropy_scale(kept: Kept<FloatTensor<Self>>) -> Gradients<FloatTensor<Self>> {
        let dtype = kept.dtype();
        let (gradients, dy) = kept.into_parts();
        let [factors] = dy.shape().dims();
        gradients.map(|gradient| {
            // One factor, or one for each row.
            let mut rows = vec![1; gradient.shape().num_dims()];
            rows[0] = factors;
            let dy = Self::float_reshape(dy.clone(), Shape::from(rows));
            // Infinity and NaN times zero are NaN. Zeros stay: those of ignored tokens, of whose logits nothing has a
            // gradient, are not told from others.
            let zero = Scalar::Float(0.0);
            let is_zero = Self::float_equal_elem(gradient.clone(), zero, BOOL);
            let scaled = Self::float_mask_fill(Self::float_mul(gradient, dy), is_zero, zero);
            match dtype {
                DType::F32 => scaled,
                half => Self::float_cast(scaled, half.into()),
            }
        })
    }

    fn linear_cross_entropy_backward(
        backward: Backward<FloatTensor<Self>, IntTensor<Self>>,
    ) -> Gradients<FloatTensor<Self>> {
        let (operands, dy, wanted) = backward.into_parts();
        let id = "burn-kernels/linear_cross_entropy_backward";
        let dtype = operands.hidden().dtype();
        let shapes = operands.shapes(wanted).map(|shape| (shape, dtype));
        let mut deferred = Deferred::new(id, operands.hidden());
        let operands = operands_of(&mut deferred, operands);
        let dy = deferred.operand(dy);
        let results = shapes.clone().all().flatten();
        let mut results = deferred.results(results, move |tensors| {
            let dy = tensors.tensor(dy.clone());
            let operands = resolved(&operands, |of| tensors.tensor(of));
            let gradients = again(&operands, dy, wanted).all().flatten();
            gradients.map(|gradient| cast(gradient, dtype)).collect()
        });
        shapes.map(|_| results.next().expect("there are as many as were wanted"))
    }
}

/// Returns the operands of a deferred operation, with the classes of the targets in i32.
fn operands_of(
    deferred: &mut Deferred,
    operands: Tensors<Cube>,
) -> Operands<crate::gpu::Operand, crate::gpu::Operand> {
    let (count, ignored) = (operands.sizes().classes, operands.settings().ignore_index);
    let classes = of_targets(operands.targets().clone(), count, ignored);
    let classes = deferred.operand(classes);
    operands.map(|tensor| deferred.operand(tensor), |_| classes.clone())
}

/// Returns the tensors of operands.
fn resolved(
    operands: &Operands<crate::gpu::Operand, crate::gpu::Operand>,
    mut each: impl FnMut(crate::gpu::Operand) -> CubeTensor,
) -> Operands<CubeTensor, CubeTensor> {
    let classes = each(operands.targets().clone());
    operands.clone().map(each, |_| classes.clone())
}

/// Returns the loss and the gradients to keep.
fn forward(
    operands: &Operands<CubeTensor, CubeTensor>,
    kept: Wanted,
) -> (CubeTensor, Gradients<CubeTensor>) {
    let reduction = operands.key().reduction;
    let (shape, _) = operands.result();
    let one = kept.any().then(|| filled(operands.hidden(), shape, 1.0));
    let pass = Pass::new(operands);
    let (losses, gradients) = pass.run(one.map(|one| factors(operands, one)), kept);
    let loss = reduced(losses, pass.classes().clone(), reduction);
    (loss, gradients)
}

/// Returns the gradients of losses, given those of the result.
fn again(
    operands: &Operands<CubeTensor, CubeTensor>,
    dy: CubeTensor,
    wanted: Wanted,
) -> Gradients<CubeTensor> {
    let factors = factors(operands, dy);
    Pass::new(operands).run(Some(factors), wanted).1
}

/// Returns the gradients of the tokens' losses, or the one of all, given that of the result.
fn factors(operands: &Operands<CubeTensor, CubeTensor>, dy: CubeTensor) -> CubeTensor {
    match (operands.key().reduction, operands.sizes().tokens) {
        (LossReduction::Mean, 1..) => shared(dy, contiguous(operands.targets().clone())),
        _ => dy,
    }
}
