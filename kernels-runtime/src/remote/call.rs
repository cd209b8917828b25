//! One custom operation: what a client sends, and what a server's handler is given.

use super::wire::{Malformed, Reader, Writer};
use burn::backend::ir::{BackendIr, CustomOpIr, HandleContainer, TensorIr};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Remote, RemoteDevice, Shape, TensorMetadata};
use burn::remote::CustomOpClient;
use burn::tensor::DType;
use std::any::Any;

/// The shape and type of a result, which the client has to know before it is there.
pub(super) type Like = (Shape, DType);

/// What a tensor on the client's side looks like.
pub(super) fn like(tensor: &impl TensorMetadata) -> Like {
    (tensor.shape(), tensor.dtype())
}

/// Sends an operation to the device of its first input. Returns its results, which the server has
/// not computed yet.
pub(super) fn send(
    op: &'static str,
    inputs: Vec<FloatTensor<Remote>>,
    outputs: Vec<Like>,
    scalars: Writer,
) -> Vec<FloatTensor<Remote>> {
    let device = inputs[0].device();
    send_to(&device, op, inputs, outputs, scalars)
}

/// The same for an operation that may have no input.
pub(super) fn send_to(
    device: &RemoteDevice,
    op: &'static str,
    inputs: Vec<FloatTensor<Remote>>,
    outputs: Vec<Like>,
    scalars: Writer,
) -> Vec<FloatTensor<Remote>> {
    let client = CustomOpClient::new(device);
    let outputs: Vec<_> = outputs
        .into_iter()
        .map(|(shape, dtype)| TensorIr::uninit(client.create_empty_handle(), shape, dtype))
        .collect();
    let inputs: Vec<_> = inputs.into_iter().map(|input| input.into_ir()).collect();
    client.register(CustomOpIr::with_scalars(
        op,
        &inputs,
        &outputs,
        scalars.finish(),
    ))
}

/// The results of an operation that has a fixed number of them.
pub(super) fn exactly<const N: usize>(
    tensors: Vec<FloatTensor<Remote>>,
) -> [FloatTensor<Remote>; N] {
    match tensors.try_into() {
        Ok(tensors) => tensors,
        Err(_) => unreachable!("an operation gives as many results as it was asked for"),
    }
}

/// An operation on the server: its inputs, in turn, and its numbers.
pub(super) struct Call<'a, B: BackendIr> {
    handles: &'a mut HandleContainer<B::Handle>,
    inputs: std::slice::Iter<'a, TensorIr>,
    outputs: std::slice::Iter<'a, TensorIr>,
    pub(super) device: &'a B::Device,
    pub(super) scalars: Reader<'a>,
}

impl<B: BackendIr> Call<'_, B> {
    fn input(&mut self) -> Result<&TensorIr, Malformed> {
        let missing = || Malformed::new("an operation came with too few tensors");
        self.inputs.next().ok_or_else(missing)
    }

    fn output(&mut self) -> Result<&TensorIr, Malformed> {
        let missing = || Malformed::new("an operation asks for too few results");
        self.outputs.next().ok_or_else(missing)
    }

    pub(super) fn float(&mut self) -> Result<FloatTensor<B>, Malformed> {
        let input = self.input()?.clone();
        Ok(self.handles.get_float_tensor::<B>(&input))
    }

    pub(super) fn int(&mut self) -> Result<IntTensor<B>, Malformed> {
        let input = self.input()?.clone();
        Ok(self.handles.get_int_tensor::<B>(&input))
    }

    /// How many results are still asked for.
    pub(super) fn wanted(&self) -> usize {
        self.outputs.len()
    }

    /// The last result, as the client expects it.
    pub(super) fn last_output(&self) -> Option<&TensorIr> {
        self.outputs.as_slice().last()
    }

    /// Refuses a call whose client expects other results than those that it will get, before there are
    /// any.
    pub(super) fn expect(&self, results: &[Like]) -> Result<(), Malformed> {
        let asked = self.outputs.as_slice().iter();
        let asked: Vec<Like> = asked.map(|ir| (ir.shape.clone(), ir.dtype)).collect();
        if asked == results {
            return Ok(());
        }
        Err(Malformed::new(format_args!(
            "the results of the operation are {results:?}, not {asked:?}"
        )))
    }

    pub(super) fn give(&mut self, tensor: FloatTensor<B>) -> Result<(), Malformed> {
        let id = self.output()?.id;
        self.handles.register_float_tensor::<B>(&id, tensor);
        Ok(())
    }

    pub(super) fn give_int(&mut self, tensor: IntTensor<B>) -> Result<(), Malformed> {
        let id = self.output()?.id;
        self.handles.register_int_tensor::<B>(&id, tensor);
        Ok(())
    }
}

/// Runs a handler.
///
/// # Panics
/// The operation is not what this build sends. Like a panic of the backend this ends the session:
/// Burn's server has no other way to fail an operation, and the client asks
/// [why](super::failure).
pub(super) fn run<B: BackendIr>(
    handles: &mut HandleContainer<B::Handle>,
    ir: &CustomOpIr,
    device: &B::Device,
    handler: impl FnOnce(&mut Call<'_, B>) -> Result<(), Malformed>,
) {
    let run = || {
        let mut call = Call::<B> {
            inputs: ir.inputs.iter(),
            outputs: ir.outputs.iter(),
            scalars: Reader::new(&ir.scalars)?,
            handles,
            device,
        };
        handler(&mut call)?;
        match (call.inputs.len(), call.outputs.len()) {
            (0, 0) => call.scalars.finish(),
            _ => Err(Malformed::new("an operation came with too many tensors")),
        }
    };
    run().unwrap_or_else(|malformed| panic!("`{}`: {malformed}", ir.id));
}

/// What a panic says.
pub(super) fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "a panic without a message".to_owned())
}
