//! One custom operation: the message of the client, and the call that the server's handler receives.

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

/// The shape and type of a result, which the client has to know before the result exists.
pub(crate) type Like = (Shape, DType);

/// Returns the shape and type of a tensor on the client's side.
pub(crate) fn like(tensor: &impl TensorMetadata) -> Like {
    (tensor.shape(), tensor.dtype())
}

/// Sends an operation to the device of its first input. Returns its results, which the server has not computed yet.
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

/// Sends an operation without inputs.
pub(crate) fn send_to<const N: usize>(
    device: &RemoteDevice,
    op: &'static str,
    results: [Like; N],
    numbers: &impl Serialize,
) -> [FloatTensor<Remote>; N] {
    exactly(register(device, op, Vec::new(), results, numbers))
}

/// Sends an operation with a list of results, some of which may not be wanted.
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

/// An operation on the server. It provides the inputs in order, and receives the results.
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

    /// Returns the id of the next result. The result must not be larger than the client expects, because memory was
    /// reserved for that size. Backends may differ in dimensions of size one, and may keep fewer rows of results that
    /// only they read again.
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

    /// Returns weights that rows of the previous operands are multiplied by.
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

    /// Returns an error if a number is not a size of a result. This ensures that memory was reserved for the number.
    pub(crate) fn expect_size(&self, number: usize) -> Handled {
        let mut outputs = self.outputs.as_slice().iter();
        if outputs.any(|output| output.shape.as_slice().contains(&number)) {
            return Ok(());
        }
        Err(Malformed::new(format_args!(
            "no result that is asked for has a dimension of {number}"
        )))
    }

    /// Returns the type of the last result, which has to be a type of integers, as the client expects it.
    pub(crate) fn ints_of_result(&self) -> Result<IntDType, Malformed> {
        match self.last_output().map(|output| output.dtype) {
            Some(dtype) if dtype.is_int() || dtype.is_uint() => Ok(IntDType::from(dtype)),
            other => Err(Malformed::new(format_args!(
                "a result of integers is asked for as {other:?}"
            ))),
        }
    }

    /// Reserves bytes that can't be derived from the operands or results.
    ///
    /// # Panics
    /// Panics if the session does not have enough memory.
    pub(crate) fn room(&mut self, bytes: usize) {
        self.tensors.room(bytes);
    }

    /// Returns the number of results that are still expected.
    pub(crate) fn wanted(&self) -> usize {
        self.outputs.len()
    }

    /// Returns the last result, as the client expects it.
    pub(crate) fn last_output(&self) -> Option<&TensorIr> {
        self.outputs.as_slice().last()
    }

    /// Returns an error if the client expects other results than it will receive. The check is made before the results
    /// exist.
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

    /// Computes the results, which must be the ones that the client expects.
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

    /// Computes a list of results, some of which may not be wanted. A kernel may compute these too.
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

/// Runs a handler after memory for its results was reserved.
///
/// # Panics
/// Panics if the operation is not one that this build sends, or if its session has not enough memory. As with a panic
/// of the backend, the session ends. Burn's server has no other way to fail an operation, and the client asks for the
/// [reason](super::failure).
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
    // A panic in Burn or in a kernel does not name the operation. The session ends after it, so unfinished changes are
    // never seen.
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

/// Returns the message of a panic.
pub(crate) fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a message")
}
