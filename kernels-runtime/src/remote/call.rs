//! One custom operation: the message of the client, and the call that the server's handler receives.

use super::wire::{self, Malformed};
use burn::backend::ir::{BackendIr, CustomOpIr, ScalarIr, TensorId, TensorIr};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Remote, RemoteDevice, Shape, TensorMetadata};
use burn::remote::CustomOpClient;
use burn::tensor::{DType, IntDType};
use serde::Serialize;

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
pub type Handled = Result<(), Malformed>;

/// A handler with the numbers as they were sent.
pub type Handler<B> = Box<dyn Fn(&mut Call<'_, B>, &[ScalarIr]) -> Handled + Send + Sync>;

/// A result.
pub enum Made<B: BackendIr> {
    /// A tensor of floats.
    Float(FloatTensor<B>),
    /// A tensor of integers.
    Int(IntTensor<B>),
}

/// The source of an operation's operands, and the place of its results.
pub trait Tensors<B: BackendIr> {
    /// Returns an operand of floats.
    fn float(&mut self, input: &TensorIr) -> FloatTensor<B>;
    /// Returns an operand of integers.
    fn int(&mut self, input: &TensorIr) -> IntTensor<B>;
    /// Returns a weight that rows of the other operands are multiplied by.
    fn weight(&mut self, input: &TensorIr) -> FloatTensor<B>;
    /// Takes a result.
    fn give(&mut self, id: TensorId, made: Made<B>);
    /// Reserves bytes that can't be derived from the operands or results.
    ///
    /// # Panics
    /// Panics if there is not enough memory.
    fn room(&mut self, bytes: usize);
}

/// Returns the product of sizes. If the other sizes are too large, a size of 0 does not hide this.
pub fn elements(sizes: &[usize]) -> usize {
    let sizes_above_0 = sizes.iter().filter(|size| **size > 0);
    let product = sizes_above_0.fold(1, |product: usize, size| product.saturating_mul(*size));
    match product {
        usize::MAX => usize::MAX,
        _ if sizes.contains(&0) => 0,
        product => product,
    }
}

/// An operation on the server. It provides the inputs in order, and receives the results.
pub struct Call<'a, B: BackendIr> {
    tensors: &'a mut dyn Tensors<B>,
    inputs: std::slice::Iter<'a, TensorIr>,
    outputs: std::slice::Iter<'a, TensorIr>,
    /// The device, in the form that its session uses.
    pub device: &'a B::Device,
}

/// Runs a handler.
///
/// # Errors
/// Returns an error if the operation is not one that this build sends, or if its operands don't go together.
///
/// # Panics
/// Panics if there is not enough memory.
pub fn run<B: BackendIr>(
    ir: &CustomOpIr,
    tensors: &mut dyn Tensors<B>,
    device: &B::Device,
    handler: &Handler<B>,
) -> Handled {
    let mut call = Call {
        inputs: ir.inputs.iter(),
        outputs: ir.outputs.iter(),
        tensors,
        device,
    };
    handler(&mut call, &ir.scalars)?;
    if (call.inputs.len(), call.outputs.len()) != (0, 0) {
        return Err(Malformed::new("an operation came with too many tensors"));
    }
    Ok(())
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
    pub fn room(&mut self, bytes: usize) {
        self.tensors.room(bytes);
    }

    /// Returns the last result, as the client expects it.
    pub fn last_output(&self) -> Option<&TensorIr> {
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

    /// Gives the next result.
    ///
    /// # Errors
    /// Returns an error if the client expects another one.
    pub fn give(&mut self, tensor: FloatTensor<B>) -> Handled {
        let id = self.output(&tensor)?;
        self.tensors.give(id, Made::Float(tensor));
        Ok(())
    }

    /// Gives the next result, of integers.
    ///
    /// # Errors
    /// Returns an error as [`give`](Self::give) does.
    pub fn give_int(&mut self, tensor: IntTensor<B>) -> Handled {
        let id = self.output(&tensor)?;
        self.tensors.give(id, Made::Int(tensor));
        Ok(())
    }
}
