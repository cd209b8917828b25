//! The remote gated linear units. Tensors are sent as gate and up, or as the one tensor that holds both.

use crate::ops::glu::{Backward, GluBackend, GluKernel, Operands, Projected, Settings, Tensors};
use crate::remote::call::{Call, Handled, Like, like, send, send_wanted};
use crate::remote::wire::Malformed;
use crate::remote::{Host, Kernels};
use crate::semantics::{GluKey, Projections};
use burn::backend::ir::BackendIr;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Remote, TensorMetadata};

const FORWARD: &str = "burn-kernels/glu";
const BACKWARD: &str = "burn-kernels/glu_backward";

/// Adds the server's handlers of the operation.
pub(crate) fn handlers<B: Host + GluKernel>(kernels: Kernels<B>) -> Kernels<B> {
    kernels.handle(FORWARD, forward).handle(BACKWARD, backward)
}

impl GluBackend for Remote {
    fn glu(operands: Tensors<Self>) -> FloatTensor<Self> {
        Self::glu_forward(operands)
    }
}

impl GluKernel for Remote {
    fn glu_forward(operands: Tensors<Self>) -> FloatTensor<Self> {
        let (results, numbers) = ([result(&operands)], numbers(&operands));
        let inputs = operands.into_projected().into_tensors();
        let [y] = send(FORWARD, inputs, results, &numbers);
        y
    }

    fn glu_backward(backward: Backward<FloatTensor<Self>>) -> Projected<FloatTensor<Self>> {
        let (gradients, numbers) = (gradients(&backward), numbers(backward.operands()));
        let (operands, dy) = backward.into_parts();
        // Sends the tensors themselves: a clone would have to be released later, with one more message.
        let tensors = operands.into_projected().into_tensors();
        let inputs = std::iter::once(dy).chain(tensors);
        let mut gradients = send_wanted(BACKWARD, inputs, gradients, &numbers).flatten();
        let mut next = || gradients.next().expect("all are wanted");
        match numbers.0.projections {
            Projections::Separate => Projected::Separate {
                gate: next(),
                up: next(),
            },
            Projections::Chunked | Projections::Interleaved => Projected::Packed(next()),
        }
    }
}

fn result<T: TensorMetadata>(operands: &Operands<T>) -> Like {
    let dtype = operands.tensors().next().map(TensorMetadata::dtype);
    (
        operands.result(),
        dtype.expect("there is one tensor at least"),
    )
}

/// Describes the gradients, which have the shapes and dtypes of the tensors.
fn gradients<T: TensorMetadata>(backward: &Backward<T>) -> Vec<Option<Like>> {
    let tensors = backward.operands().tensors();
    tensors.map(|tensor| Some(like(tensor))).collect()
}

type Numbers = (GluKey, Settings);

fn numbers<T>(operands: &Operands<T>) -> Numbers {
    (operands.key(), operands.settings())
}

fn read<B: BackendIr>(
    call: &mut Call<'_, B>,
    (key, settings): Numbers,
) -> Result<Tensors<B>, Malformed> {
    let projected = match key.projections {
        Projections::Separate => Projected::Separate {
            gate: call.float()?,
            up: call.float()?,
        },
        Projections::Chunked | Projections::Interleaved => Projected::Packed(call.float()?),
    };
    let operands = Operands::new(projected, settings, key)?;
    operands.dtype()?;
    Ok(operands)
}

fn forward<B: Host + GluKernel>(call: &mut Call<'_, B>, numbers: Numbers) -> Handled {
    let operands = read(call, numbers)?;
    call.answer([result(&operands)], || [B::glu_forward(operands)])
}

fn backward<B: Host + GluKernel>(call: &mut Call<'_, B>, numbers: Numbers) -> Handled {
    let dy = call.float()?;
    let backward = read(call, numbers)?.backward(dy)?;
    call.answer_wanted(gradients(&backward), || {
        B::glu_backward(backward).into_tensors().map(Some)
    })
}
