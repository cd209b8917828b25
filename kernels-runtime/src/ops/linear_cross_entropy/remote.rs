//! The remote linear cross-entropy. Tensors are sent in the order hidden states, weight, bias, targets; a bias that the
//! key does not have is left out. The gradient of the loss comes first. Gradients that the forward pass kept are sent
//! alone.

use super::operands::room;
use super::{
    Backward, Gradients, Kept, LinearCrossEntropyBackend, LinearCrossEntropyKernel, Operands,
    Settings, Tensors, Wanted,
};
use crate::ops::compute_dtype;
use crate::remote::Kernels;
use crate::remote::call::{Call, Handled, Like, send_wanted};
use crate::remote::wire::Malformed;
use crate::semantics::{LinearCrossEntropyKey, Shift};
use burn::backend::ir::BackendIr;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Remote, TensorMetadata};
use burn::tensor::{DType, FloatDType};
use std::convert::Infallible;

const FORWARD: &str = "burn-kernels/linear_cross_entropy";
const SCALE: &str = "burn-kernels/linear_cross_entropy_scale";
const BACKWARD: &str = "burn-kernels/linear_cross_entropy_backward";

/// Adds the server's handlers of the operation.
pub(crate) fn handlers<B: BackendIr + LinearCrossEntropyKernel>(kernels: Kernels<B>) -> Kernels<B> {
    kernels
        .handle(FORWARD, forward)
        .handle(SCALE, scale)
        .handle(BACKWARD, backward)
}

impl LinearCrossEntropyBackend for Remote {
    fn linear_cross_entropy(operands: Tensors<Self>) -> FloatTensor<Self> {
        Self::linear_cross_entropy_forward(operands, Wanted::default()).0
    }
}

impl LinearCrossEntropyKernel for Remote {
    fn linear_cross_entropy_forward(
        operands: Tensors<Self>,
        wanted: Wanted,
    ) -> (FloatTensor<Self>, Gradients<FloatTensor<Self>>) {
        let kept = operands.kept(wanted).unwrap_or_default();
        let (results, numbers) = (results(&operands, kept), (numbers(&operands), kept));
        let mut results = send_wanted(FORWARD, in_order(&operands), results, &numbers);
        let loss = results.next().flatten().expect("it is always wanted");
        (loss, gradients(results))
    }

    type WeightFactors = Infallible;

    fn linear_cross_entropy_weight(factors: Infallible, _: FloatTensor<Self>) -> FloatTensor<Self> {
        match factors {}
    }

    fn linear_cross_entropy_scale(kept: Kept<FloatTensor<Self>>) -> Gradients<FloatTensor<Self>> {
        let (dtype, given) = (kept.dtype(), there(kept.gradients()));
        let results = scaled(kept.gradients(), dtype);
        let (gradients_kept, dy) = kept.into_parts();
        let inputs = std::iter::once(dy).chain(gradients_kept.all().flatten());
        let numbers = (given, FloatDType::from(dtype));
        gradients(send_wanted(SCALE, inputs, results, &numbers))
    }

    fn linear_cross_entropy_backward(
        backward: Backward<FloatTensor<Self>, IntTensor<Self>>,
    ) -> Gradients<FloatTensor<Self>> {
        let (operands, wanted) = (backward.operands(), *backward.wanted());
        let results = of_operands(operands, wanted);
        let inputs = std::iter::once(backward.dy().clone()).chain(in_order(operands));
        let numbers = (numbers(operands), wanted);
        gradients(send_wanted(BACKWARD, inputs, results, &numbers))
    }
}

type Numbers = (LinearCrossEntropyKey, Settings);

fn numbers<F, I>(operands: &Operands<F, I>) -> Numbers {
    (operands.key(), operands.settings())
}

fn in_order(operands: &Tensors<Remote>) -> Vec<FloatTensor<Remote>> {
    let floats = operands.floats().chain(operands.ints());
    floats.cloned().collect()
}

fn gradients<T>(mut found: impl Iterator<Item = Option<T>>) -> Gradients<T> {
    let mut next = || found.next().flatten();
    Gradients {
        hidden: next(),
        weight: next(),
        bias: next(),
    }
}

fn there<T>(gradients: &Gradients<T>) -> Wanted {
    Wanted {
        hidden: gradients.hidden.is_some(),
        weight: gradients.weight.is_some(),
        bias: gradients.bias.is_some(),
    }
}

/// Describes the loss and the kept gradients.
fn results<F: TensorMetadata, I: TensorMetadata>(
    operands: &Operands<F, I>,
    kept: Wanted,
) -> Vec<Option<Like>> {
    let wide = compute_dtype(operands.hidden().dtype());
    let gradients = operands.shapes(kept).map(|shape| (shape, wide));
    std::iter::once(Some(operands.result()))
        .chain(gradients.all())
        .collect()
}

/// Describes the gradients of the operands.
fn of_operands<F: TensorMetadata, I: TensorMetadata>(
    operands: &Operands<F, I>,
    wanted: Wanted,
) -> Vec<Option<Like>> {
    let dtype = operands.hidden().dtype();
    let gradients = operands.shapes(wanted).map(|shape| (shape, dtype));
    gradients.all().collect()
}

/// Describes kept gradients after they were rounded.
fn scaled<T: TensorMetadata>(gradients: &Gradients<T>, dtype: DType) -> Vec<Option<Like>> {
    let scaled = gradients.as_ref().map(|kept| (kept.shape(), dtype));
    scaled.all().collect()
}

fn read<B: BackendIr>(
    call: &mut Call<'_, B>,
    (key, settings): Numbers,
) -> Result<Tensors<B>, Malformed> {
    let (hidden, weight) = (call.float()?, call.float()?);
    let bias = (key.shift == Shift::Bias).then(|| call.float());
    let bias = bias.transpose()?;
    let operands = Operands::new(hidden, weight, bias, call.int()?, settings, key)?;
    let wide = compute_dtype(operands.dtype()?);
    call.room(room(operands.sizes(), wide.size()));
    Ok(operands)
}

fn forward<B: BackendIr + LinearCrossEntropyKernel>(
    call: &mut Call<'_, B>,
    (numbers, wanted): (Numbers, Wanted),
) -> Handled {
    let operands = read(call, numbers)?;
    let kept = operands.kept(wanted)?;
    call.answer_wanted(results(&operands, kept), || {
        let (loss, gradients) = B::linear_cross_entropy_forward(operands, kept);
        std::iter::once(Some(loss)).chain(gradients.all())
    })
}

fn scale<B: BackendIr + LinearCrossEntropyKernel>(
    call: &mut Call<'_, B>,
    (given, dtype): (Wanted, FloatDType),
) -> Handled {
    let dy = call.float()?;
    let mut kept = |given: bool| given.then(|| call.float()).transpose();
    let kept = Gradients {
        hidden: kept(given.hidden)?,
        weight: kept(given.weight)?,
        bias: kept(given.bias)?,
    };
    let kept = Kept::new(kept, dy, dtype.into())?;
    let results = scaled(kept.gradients(), kept.dtype());
    call.answer_wanted(results, || B::linear_cross_entropy_scale(kept).all())
}

fn backward<B: BackendIr + LinearCrossEntropyKernel>(
    call: &mut Call<'_, B>,
    (numbers, wanted): (Numbers, Wanted),
) -> Handled {
    let dy = call.float()?;
    let backward = read(call, numbers)?.backward(dy, wanted)?;
    let results = of_operands(backward.operands(), wanted);
    call.answer_wanted(results, || B::linear_cross_entropy_backward(backward).all())
}
