//! One custom operation: what a client sends, and what a server's handler is given.

use super::Host;
use super::bounded::{Held, Served, elements};
use super::charged::{Made, Session, Tensors};
use super::wire::{Malformed, Reader, Writer};
use burn::backend::ir::{BackendIr, CustomOpIr, HandleContainer, TensorId, TensorIr};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Remote, RemoteDevice, Shape, TensorMetadata};
use burn::remote::CustomOpClient;
use burn::tensor::DType;
use std::any::Any;

/// The shape and type of a result, which the client has to know before it is there.
pub(crate) type Like = (Shape, DType);

/// What a tensor on the client's side looks like.
pub(crate) fn like(tensor: &impl TensorMetadata) -> Like {
    (tensor.shape(), tensor.dtype())
}

/// Sends an operation to the device of its first input. Returns its results, which the server has
/// not computed yet.
pub(crate) fn send(
    op: &'static str,
    inputs: Vec<FloatTensor<Remote>>,
    outputs: Vec<Like>,
    scalars: Writer,
) -> Vec<FloatTensor<Remote>> {
    let device = inputs[0].device();
    send_to(&device, op, inputs, outputs, scalars)
}

/// The same for an operation that may have no input.
pub(crate) fn send_to(
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
pub(crate) fn exactly<const N: usize>(
    tensors: Vec<FloatTensor<Remote>>,
) -> [FloatTensor<Remote>; N] {
    match tensors.try_into() {
        Ok(tensors) => tensors,
        Err(_) => unreachable!("an operation gives as many results as it was asked for"),
    }
}

/// An operation on the server: its inputs, in turn, and its numbers.
pub(crate) struct Call<'a, B: BackendIr> {
    tensors: &'a mut dyn Tensors<B>,
    inputs: std::slice::Iter<'a, TensorIr>,
    outputs: std::slice::Iter<'a, TensorIr>,
    pub(crate) device: &'a B::Device,
    pub(crate) scalars: Reader<'a>,
}

impl<B: BackendIr> Call<'_, B> {
    fn input(&mut self) -> Result<TensorIr, Malformed> {
        let missing = || Malformed::new("an operation came with too few tensors");
        self.inputs.next().cloned().ok_or_else(missing)
    }

    /// The next result. It must be no larger than what the client expects, for which memory was set aside; backends
    /// may differ in dimensions of one element, and keep fewer rows, of what only they read again.
    fn output(&mut self, result: &impl TensorMetadata) -> Result<TensorId, Malformed> {
        let missing = || Malformed::new("an operation asks for too few results");
        let output = self.outputs.next().ok_or_else(missing)?;
        let ((shape, dtype), expected) = (like(result), &output.shape);
        if elements(&shape) <= elements(expected) && dtype == output.dtype {
            return Ok(output.id);
        }
        Err(Malformed::new(format_args!(
            "a result of shape {shape:?} and type {dtype:?} is asked for as {expected:?} and {:?}",
            output.dtype
        )))
    }

    pub(crate) fn float(&mut self) -> Result<FloatTensor<B>, Malformed> {
        let input = self.input()?;
        Ok(self.tensors.float(&input))
    }

    /// A weight that rows of the operands before it are multiplied with.
    pub(crate) fn weight(&mut self) -> Result<FloatTensor<B>, Malformed> {
        let input = self.input()?;
        Ok(self.tensors.weight(&input))
    }

    pub(crate) fn int(&mut self) -> Result<IntTensor<B>, Malformed> {
        let input = self.input()?;
        Ok(self.tensors.int(&input))
    }

    /// A number that is a size of a result, so that the client has asked for no less memory than it takes.
    pub(crate) fn size_of_result(&mut self) -> Result<usize, Malformed> {
        let number = self.scalars.number()?;
        let mut outputs = self.outputs.as_slice().iter();
        if outputs.any(|output| output.shape.as_slice().contains(&number)) {
            return Ok(number);
        }
        Err(Malformed::new(format_args!(
            "no result that is asked for has a dimension of {number}"
        )))
    }

    /// Sets bytes aside that neither operands nor results tell.
    ///
    /// # Panics
    /// The session has not so many.
    pub(crate) fn room(&mut self, bytes: usize) {
        self.tensors.room(bytes);
    }

    /// How many results are still asked for.
    pub(crate) fn wanted(&self) -> usize {
        self.outputs.len()
    }

    /// The last result, as the client expects it.
    pub(crate) fn last_output(&self) -> Option<&TensorIr> {
        self.outputs.as_slice().last()
    }

    /// Refuses a call whose client expects other results than those that it will get, before there are
    /// any.
    pub(crate) fn expect(&self, results: &[Like]) -> Result<(), Malformed> {
        let asked = self.outputs.as_slice().iter();
        let asked: Vec<Like> = asked.map(|ir| (ir.shape.clone(), ir.dtype)).collect();
        if asked == results {
            return Ok(());
        }
        Err(Malformed::new(format_args!(
            "the results of the operation are {results:?}, not {asked:?}"
        )))
    }

    pub(crate) fn give(&mut self, tensor: FloatTensor<B>) -> Result<(), Malformed> {
        let id = self.output(&tensor)?;
        self.tensors.give(id, Made::Float(tensor));
        Ok(())
    }

    pub(crate) fn give_int(&mut self, tensor: IntTensor<B>) -> Result<(), Malformed> {
        let id = self.output(&tensor)?;
        self.tensors.give(id, Made::Int(tensor));
        Ok(())
    }
}

/// Runs a handler, after memory for its results was set aside.
///
/// # Panics
/// The operation is not what this build sends, or its session may not hold so much. Like a panic of the backend
/// this ends the session: Burn's server has no other way to fail an operation, and the client asks
/// [why](super::failure).
pub(crate) fn run<B: Host>(
    handles: &mut HandleContainer<Held<B::Handle>>,
    ir: &CustomOpIr,
    device: &Served<B::Device>,
    handler: impl FnOnce(&mut Call<'_, B>) -> Result<(), Malformed>,
) {
    let run = || {
        let mut session = Session::<B>::begin(handles, ir, device);
        let device = session.device.clone();
        let mut call = Call::<B> {
            inputs: ir.inputs.iter(),
            outputs: ir.outputs.iter(),
            scalars: Reader::new(&ir.scalars)?,
            tensors: &mut session,
            device: &device,
        };
        handler(&mut call)?;
        match (call.inputs.len(), call.outputs.len()) {
            (0, 0) => call.scalars.finish()?,
            _ => return Err(Malformed::new("an operation came with too many tensors")),
        }
        session.end();
        Ok::<_, Malformed>(())
    };
    // A panic from deeper, in Burn or a kernel, does not know the operation's name. The session ends after
    // it, so that nothing is seen that it left half done.
    let said = match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
        Ok(Ok(())) => return,
        Ok(Err(malformed)) => malformed.to_string(),
        Err(panic) => message(&*panic).to_owned(),
    };
    match said.contains(&ir.id) {
        true => panic!("{said}"),
        false => panic!("`{}`: {said}", ir.id),
    }
}

/// What a panic says.
pub(crate) fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a message")
}
