//! The experts of a mixture. Tensors travel in the order of the functions' parameters.

use super::weights;
use crate::ops::moe::Many;
use crate::ops::moe::experts::{ExpertsBackend, ExpertsKernel, Gradients, Settings, Wanted};
use crate::remote::call::{Call, exactly, like, send};
use crate::remote::wire::{Malformed, Writer};
use crate::semantics::{ExpertLayout, Projections};
use burn::backend::ir::BackendIr;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Remote, Shape, TensorMetadata};

pub(super) const FORWARD: &str = "burn-kernels/experts";
pub(super) const BACKWARD: &str = "burn-kernels/experts_backward";

impl ExpertsBackend for Remote {
    fn experts(
        x: FloatTensor<Self>,
        indices: IntTensor<Self>,
        routing: FloatTensor<Self>,
        weights: Many<Self>,
        settings: Settings,
    ) -> FloatTensor<Self> {
        Self::experts_forward(x, indices, routing, weights, settings, false).0
    }
}

impl ExpertsKernel for Remote {
    fn experts_forward(
        x: FloatTensor<Self>,
        indices: IntTensor<Self>,
        routing: FloatTensor<Self>,
        weights: Many<Self>,
        settings: Settings,
        keep: bool,
    ) -> (FloatTensor<Self>, Option<FloatTensor<Self>>) {
        let numbers = weights::write(numbers(settings), &weights).flag(keep);
        let mut outputs = vec![like(&x)];
        if keep {
            // Slots that no expert takes have no row, so the server may keep less.
            let rows = indices.shape().num_elements();
            let shape = Shape::new([rows, 2 * width(&weights, settings)]);
            outputs.push((shape, x.dtype()));
        }
        let mut inputs = vec![x, indices, routing];
        inputs.extend(weights.0.into_iter().flatten());
        let results = send(FORWARD, inputs, outputs, numbers);
        if keep {
            let [y, kept] = exactly(results);
            (y, Some(kept))
        } else {
            let [y] = exactly(results);
            (y, None)
        }
    }

    fn experts_backward(
        dy: FloatTensor<Self>,
        x: FloatTensor<Self>,
        indices: IntTensor<Self>,
        routing: FloatTensor<Self>,
        weights: Many<Self>,
        kept: FloatTensor<Self>,
        settings: Settings,
        wanted: Wanted,
    ) -> Gradients<Self> {
        let numbers = weights::write(numbers(settings), &weights);
        let numbers = numbers.flag(wanted.x).flag(wanted.routing);
        let numbers = weights::write_wanted(numbers, &wanted.weights);
        let mut outputs: Vec<_> = wanted.x.then(|| like(&x)).into_iter().collect();
        outputs.extend(wanted.routing.then(|| like(&routing)));
        outputs.extend(weights::like_wanted(&weights, &wanted.weights));
        let mut inputs = vec![dy, x, indices, routing, kept];
        inputs.extend(weights.0.into_iter().flatten());
        let mut gradients = send(BACKWARD, inputs, outputs, numbers).into_iter();
        let mut next = || gradients.next().expect("as many results as were asked for");
        Gradients {
            x: wanted.x.then(&mut next),
            routing: wanted.routing.then(&mut next),
            weights: weights::place(&wanted.weights, &mut gradients),
        }
    }
}

/// The width of an expert, `I`.
fn width(weights: &Many<Remote>, settings: Settings) -> usize {
    let gate = weights.0[0][0].shape();
    let last = gate.num_dims() - 1;
    let features = match settings.key.layout {
        ExpertLayout::Linear => gate[last - 1],
        ExpertLayout::Matmul => gate[last],
    };
    match settings.key.projections {
        Projections::Separate => features,
        Projections::Chunked | Projections::Interleaved => features / 2,
    }
}

fn numbers(settings: Settings) -> Writer {
    Writer::new()
        .key(&settings.key)
        .optional_float(settings.limit)
}

fn settings<B: BackendIr>(call: &mut Call<'_, B>) -> Result<Settings, Malformed> {
    Ok(Settings {
        key: call.scalars.key()?,
        limit: call.scalars.optional_float()?,
    })
}

pub(super) fn forward<B>(call: &mut Call<'_, B>) -> Result<(), Malformed>
where
    B: BackendIr + ExpertsKernel,
{
    let settings = settings(call)?;
    let (x, indices, routing) = (call.float()?, call.int()?, call.float()?);
    let weights = weights::read(call)?;
    let keep = call.scalars.flag()?;
    let (y, kept) = B::experts_forward(x, indices, routing, weights, settings, keep);
    call.give(y)?;
    match kept.filter(|_| keep) {
        Some(kept) => call.give(kept),
        None => Ok(()),
    }
}

pub(super) fn backward<B>(call: &mut Call<'_, B>) -> Result<(), Malformed>
where
    B: BackendIr + ExpertsKernel,
{
    let settings = settings(call)?;
    let (dy, x, indices) = (call.float()?, call.float()?, call.int()?);
    let (routing, kept) = (call.float()?, call.float()?);
    let weights = weights::read(call)?;
    let (of_x, of_routing) = (call.scalars.flag()?, call.scalars.flag()?);
    let of_weights = weights::read_wanted(call, &weights)?;
    let wanted = Wanted {
        x: of_x,
        routing: of_routing,
        weights: of_weights.clone(),
    };
    let gradients = B::experts_backward(dy, x, indices, routing, weights, kept, settings, wanted);
    let firsts = [(of_x, gradients.x), (of_routing, gradients.routing)];
    for (wanted, gradient) in firsts {
        if wanted {
            let missing = || Malformed::new("the kernel left a gradient out");
            call.give(gradient.ok_or_else(missing)?)?;
        }
    }
    weights::give(call, &of_weights, gradients.weights)
}
