//! One custom operation: what a client sends, and what a server's handler is given.

use super::Host;
use super::bounded::{Held, Served, elements};
use super::charged::{Made, Session, Tensors};
use super::wire::{self, Malformed, Numbers};
use burn::backend::ir::{BackendIr, CustomOpIr, HandleContainer, TensorId, TensorIr};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Remote, RemoteDevice, Shape, TensorMetadata};
use burn::remote::CustomOpClient;
use burn::tensor::{DType, IntDType};
use serde::Serialize;
use std::any::Any;

/// The shape and type of a result, which the client has to know before it is there.
pub(crate) type Like = (Shape, DType);

/// What a tensor on the client's side looks like.
pub(crate) fn like(tensor: &impl TensorMetadata) -> Like {
    (tensor.shape(), tensor.dtype())
}

/// Sends an operation to the device of its first input. Returns its results, which the server has
/// not computed yet.
pub(crate) fn send<const N: usize>(
    op: &'static str,
    inputs: impl IntoIterator<Item = FloatTensor<Remote>>,
    results: [Like; N],
    numbers: &impl Serialize,
) -> [FloatTensor<Remote>; N] {
    let inputs: Vec<_> = inputs.into_iter().collect();
    let made = register(&inputs[0].device(), op, inputs, results, numbers);
    exactly(made)
}

/// The same for an operation without inputs.
pub(crate) fn send_to<const N: usize>(
    device: &RemoteDevice,
    op: &'static str,
    results: [Like; N],
    numbers: &impl Serialize,
) -> [FloatTensor<Remote>; N] {
    exactly(register(device, op, Vec::new(), results, numbers))
}

/// The same for a list of results, of which some may not be wanted.
pub(crate) fn send_wanted(
    op: &'static str,
    inputs: impl IntoIterator<Item = FloatTensor<Remote>>,
    results: Vec<Option<Like>>,
    numbers: &impl Serialize,
) -> impl Iterator<Item = Option<FloatTensor<Remote>>> {
    let inputs: Vec<_> = inputs.into_iter().collect();
    let wanted = results.iter().flatten().cloned();
    let mut made = register(&inputs[0].device(), op, inputs, wanted, numbers).into_iter();
    let mut next = move || made.next().expect("as many results as were asked for");
    results
        .into_iter()
        .map(move |result| result.map(|_| next()))
}

fn register(
    device: &RemoteDevice,
    op: &'static str,
    inputs: Vec<FloatTensor<Remote>>,
    results: impl IntoIterator<Item = Like>,
    numbers: &impl Serialize,
) -> Vec<FloatTensor<Remote>> {
    let client = CustomOpClient::new(device);
    let outputs: Vec<_> = results
        .into_iter()
        .map(|(shape, dtype)| TensorIr::uninit(client.create_empty_handle(), shape, dtype))
        .collect();
    let inputs: Vec<_> = inputs.into_iter().map(|input| input.into_ir()).collect();
    let numbers = wire::write(numbers);
    client.register(CustomOpIr::with_scalars(op, &inputs, &outputs, numbers))
}

fn exactly<const N: usize>(tensors: Vec<FloatTensor<Remote>>) -> [FloatTensor<Remote>; N] {
    match tensors.try_into() {
        Ok(tensors) => tensors,
        Err(_) => unreachable!("an operation gives as many results as it was asked for"),
    }
}

/// The result of a handler.
pub(crate) type Handled = Result<(), Malformed>;

/// An operation on the server: its inputs, in turn, and the results that it gives.
pub(crate) struct Call<'a, B: BackendIr> {
    tensors: &'a mut dyn Tensors<B>,
    inputs: std::slice::Iter<'a, TensorIr>,
    outputs: std::slice::Iter<'a, TensorIr>,
    pub(crate) device: &'a B::Device,
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

    /// Weights that rows of the operands before them are multiplied with.
    pub(crate) fn weights(&mut self, count: usize) -> Result<Vec<FloatTensor<B>>, Malformed> {
        let mut weights = Vec::new();
        for _ in 0..count {
            let input = self.input()?;
            weights.push(self.tensors.weight(&input));
        }
        Ok(weights)
    }

    pub(crate) fn int(&mut self) -> Result<IntTensor<B>, Malformed> {
        let input = self.input()?;
        Ok(self.tensors.int(&input))
    }

    /// Refuses a number that is no size of a result: so the client has asked for no less memory than it
    /// takes.
    pub(crate) fn expect_size(&self, number: usize) -> Handled {
        let mut outputs = self.outputs.as_slice().iter();
        if outputs.any(|output| output.shape.as_slice().contains(&number)) {
            return Ok(());
        }
        Err(Malformed::new(format_args!(
            "no result that is asked for has a dimension of {number}"
        )))
    }

    /// The type of the last result, one of integers, as the client expects it.
    pub(crate) fn ints_of_result(&self) -> Result<IntDType, Malformed> {
        match self.last_output().map(|output| output.dtype) {
            Some(dtype) if dtype.is_int() || dtype.is_uint() => Ok(IntDType::from(dtype)),
            other => Err(Malformed::new(format_args!(
                "a result of integers is asked for as {other:?}"
            ))),
        }
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
    pub(crate) fn expect(&self, results: &[Like]) -> Handled {
        let asked = self.outputs.as_slice().iter();
        let asked: Vec<Like> = asked.map(|ir| (ir.shape.clone(), ir.dtype)).collect();
        if asked == results {
            return Ok(());
        }
        Err(Malformed::new(format_args!(
            "the results of the operation are {results:?}, not {asked:?}"
        )))
    }

    /// Computes the results, which must be those that the client expects.
    pub(crate) fn answer<const N: usize>(
        &mut self,
        results: [Like; N],
        compute: impl FnOnce() -> [FloatTensor<B>; N],
    ) -> Handled {
        self.expect(&results)?;
        compute()
            .into_iter()
            .try_for_each(|result| self.give(result))
    }

    /// The same for a list of results, of which some may not be wanted; a kernel may compute them all the
    /// same.
    pub(crate) fn answer_wanted<R: IntoIterator<Item = Option<FloatTensor<B>>>>(
        &mut self,
        results: Vec<Option<Like>>,
        compute: impl FnOnce() -> R,
    ) -> Handled {
        let wanted: Vec<Like> = results.iter().flatten().cloned().collect();
        self.expect(&wanted)?;
        for (wanted, result) in results.into_iter().zip(compute()) {
            if wanted.is_some() {
                let missing = || Malformed::new("the kernel left a result out");
                self.give(result.ok_or_else(missing)?)?;
            }
        }
        Ok(())
    }

    pub(crate) fn give(&mut self, tensor: FloatTensor<B>) -> Handled {
        let id = self.output(&tensor)?;
        self.tensors.give(id, Made::Float(tensor));
        Ok(())
    }

    pub(crate) fn give_int(&mut self, tensor: IntTensor<B>) -> Handled {
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
pub(crate) fn run<B: Host, N: Numbers>(
    handles: &mut HandleContainer<Held<B::Handle>>,
    ir: &CustomOpIr,
    device: &Served<B::Device>,
    handler: impl FnOnce(&mut Call<'_, B>, N) -> Handled,
) {
    let run = || {
        let mut session = Session::<B>::begin(handles, ir, device);
        let device = session.device.clone();
        let mut call = Call::<B> {
            inputs: ir.inputs.iter(),
            outputs: ir.outputs.iter(),
            tensors: &mut session,
            device: &device,
        };
        handler(&mut call, wire::read(&ir.scalars)?)?;
        if (call.inputs.len(), call.outputs.len()) != (0, 0) {
            return Err(Malformed::new("an operation came with too many tensors"));
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
