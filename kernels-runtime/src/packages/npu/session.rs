//! Functions in a session of an NPU: the arguments on the device, and the work on the stream.

use crate::npu::backend::give;
use crate::npu::views::contiguous;
use crate::npu::{NpuError, base};
use crate::ops::fused::packaged::Packaged;
use crate::ops::fused::{BackwardOn, Gradients, Like, MadeOn, Tensors};
use crate::packages::call::{Call, Given, Handles, Slot};
use crate::packages::operations::{Bindable, Number};
use crate::packages::run::{Functions, places};
use crate::semantics::SemanticsKey;
use burn_cann::backend::{CannBackend, CannTensor};
use burn_cann::{DType, Stream, Tensor};
use kernels_packages::Device;
use smallvec::{SmallVec, smallvec};
use std::ptr::NonNull;

/// The functions of a binding in a session.
pub(super) struct Session {
    pub(super) functions: &'static Functions,
    /// The semantics of the functions.
    pub(super) key: &'static SemanticsKey,
}

/// The operands of a call, contiguous on the device.
struct Operands {
    stream: Stream,
    /// The tensors by their places.
    tensors: SmallVec<[Option<Tensor>; 5]>,
    numbers: SmallVec<[Number; 2]>,
    y: Like,
    saved: SmallVec<[Like; 2]>,
}

impl<O: Bindable> Packaged<O, CannBackend> for Session {
    fn forward(&self, operands: Tensors<O, CannBackend>) -> Result<MadeOn<CannBackend>, String> {
        let operands = self.read::<O>(operands)?;
        let y = operands.unwritten(&operands.y)?;
        let saved = operands.saved.iter().map(|like| operands.unwritten(like));
        let saved: SmallVec<[Tensor; 2]> = saved.collect::<Result<_, _>>()?;
        if !y.spec().is_empty() {
            let given = Given {
                result: Some(lent(&y)),
                saved: saved.iter().map(lent).collect(),
                ..operands.given()
            };
            let written = std::iter::once(&y).chain(&saved);
            operands.enqueue(&self.functions.forward, &given, written)?;
        }
        let saved = saved.into_iter().map(|tensor| give(Ok(tensor)));
        Ok(MadeOn::<CannBackend>::new(give(Ok(y))).saving(saved))
    }

    fn backward(
        &self,
        backward: BackwardOn<O, CannBackend>,
    ) -> Result<Gradients<O, CannBackend>, String> {
        let Some(call) = &self.functions.backward else {
            return Err(format!("{} has no gradient", self.functions.name));
        };
        let lengths = backward.lengths();
        let (operands, dy, saved, _, wanted) = backward.into_parts();
        let operands = self.read::<O>(operands)?;
        let given = operands.all(std::iter::once(dy).chain(saved))?;
        let (dy, saved) = given.split_first().expect("the gradient of the result");
        let there = places(O::KINDS, &lengths);
        let mut gradients: SmallVec<[Option<Tensor>; 5]> = smallvec![None; O::TENSORS.len()];
        for (place, wanted) in there.iter().zip(O::values(wanted, &lengths)) {
            let like = operands.tensors[*place].as_ref().filter(|_| wanted);
            let made = like.map(|like| filled(&operands.stream, like.dtype(), like.shape()));
            gradients[*place] = made.transpose()?;
        }
        if dy.spec().is_empty() {
            // A sum without terms. The function is not called.
            for gradient in gradients.iter_mut().flatten() {
                let (dtype, shape) = (gradient.dtype(), gradient.shape());
                *gradient = base::filled(&operands.stream, dtype, shape, 0.0).map_err(said)?;
            }
        } else {
            let given = Given {
                saved: saved.iter().map(lent).collect(),
                gradient: Some(lent(dy)),
                gradients: gradients
                    .iter()
                    .map(|gradient| gradient.as_ref().map(lent))
                    .collect(),
                ..operands.given()
            };
            let used = gradients.iter().flatten().chain(saved).chain([dy]);
            operands.enqueue(call, &given, used)?;
        }
        let gradients = there.iter().map(|place| gradients[*place].take());
        let gradients = gradients.map(|gradient| gradient.map(|tensor| give(Ok(tensor))));
        Ok(O::each(gradients, &lengths))
    }
}

impl Session {
    /// Reads operands, which must be those of a call that the functions compute: a client may have sent others.
    fn read<O: Bindable>(&self, operands: Tensors<O, CannBackend>) -> Result<Operands, String> {
        let dtype = O::dtype(&operands).map_err(|mismatch| mismatch.to_string())?;
        let (y, saved) = (O::results(&operands).swap_remove(0), O::saved(&operands));
        let parts = O::into_parts(operands);
        let (name, key) = (self.functions.name, O::key(&parts.numbers));
        if key != *self.key || !self.functions.is_for(dtype) {
            return Err(format!(
                "{name} computes {} in other types, or other semantics, than {key} in {dtype:?}",
                self.key
            ));
        }
        let mut read = Operands {
            stream: parts.floats[0].stream().clone(),
            tensors: smallvec![None; O::TENSORS.len()],
            numbers: O::numbers(&parts.numbers),
            y,
            saved: saved.into_iter().map(|saved| saved.like).collect(),
        };
        let there = places(O::KINDS, &parts.lengths);
        for (place, tensor) in there.into_iter().zip(read.all(parts.floats)?) {
            read.tensors[place] = Some(tensor);
        }
        Ok(read)
    }
}

impl Operands {
    /// Returns contiguous tensors.
    fn all(
        &self,
        tensors: impl IntoIterator<Item = CannTensor>,
    ) -> Result<SmallVec<[Tensor; 5]>, String> {
        let one = |tensor: CannTensor| contiguous(&self.stream, tensor.tensor()).map_err(said);
        tensors.into_iter().map(one).collect()
    }

    fn unwritten(&self, (shape, dtype): &Like) -> Result<Tensor, String> {
        let dtype = crate::npu::limits::dtype(*dtype);
        let dtype = dtype.ok_or("CANN has no such type")?;
        filled(&self.stream, dtype, shape.as_slice())
    }

    fn given(&self) -> Given<'_> {
        Given {
            tensors: self
                .tensors
                .iter()
                .map(|tensor| tensor.as_ref().map(lent))
                .collect(),
            numbers: self.numbers.clone(),
            ..Given::default()
        }
    }

    /// Puts the work of a function on the stream. `others` are the tensors besides the operands.
    fn enqueue<'a>(
        &'a self,
        call: &Call,
        given: &Given<'_>,
        others: impl Iterator<Item = &'a Tensor>,
    ) -> Result<(), String> {
        let tensors: Vec<&Tensor> = self.tensors.iter().flatten().chain(others).collect();
        let device = device(&self.stream);
        let run = |handles: burn_cann::Handles| {
            let stream = handles.stream;
            let handles = Handles {
                stream: NonNull::new(stream),
                workspace: NonNull::new(handles.workspace),
            };
            let run = || call.run_with(given, handles);
            let ran = match call.has(&Slot::Stream) {
                true => Ok(run()),
                // SAFETY: the stream is one of the device and lives meanwhile. `Package::load` demands that TVM-FFI's
                // library is sound.
                false => unsafe { kernels_packages::on_stream(device, stream, run) },
            };
            let ran = ran.and_then(|ran| ran);
            ran.map_err(|error| Failure(error.to_string()))
        };
        // SAFETY: the function gets only the tensors and the workspace, and the tensors that it writes were made for
        // the call. `Package::load` demands that a function only does its work with its arguments, on the stream.
        let done = unsafe {
            self.stream
                .enqueue(&tensors, || call.room(given).map_err(Failure), run)
        };
        done.map_err(|Failure(error)| error)
    }
}

/// The reason why work was not put on a stream.
struct Failure(String);

impl From<burn_cann::Error> for Failure {
    fn from(error: burn_cann::Error) -> Self {
        Self(error.to_string())
    }
}

fn said(error: NpuError) -> String {
    error.to_string()
}

/// Returns a tensor full of NaN, so that an element that a function leaves out is seen.
fn filled(stream: &Stream, dtype: DType, shape: &[usize]) -> Result<Tensor, String> {
    base::filled(stream, dtype, shape, f64::NAN).map_err(said)
}

fn device(stream: &Stream) -> Device {
    // CANN counts devices by 32 bits with a sign.
    Device::Npu(i32::try_from(stream.device().id()).unwrap_or(i32::MAX))
}

/// Lends a contiguous tensor to a function.
fn lent(tensor: &Tensor) -> kernels_packages::Tensor<'_> {
    use kernels_packages::DType as Lent;
    let dtype = match tensor.dtype() {
        DType::F32 => Lent::F32,
        DType::F16 => Lent::F16,
        DType::BF16 => Lent::Bf16,
        DType::F64 => Lent::F64,
        other => unreachable!("operations have no floats of type {other}"),
    };
    let size = |size: &usize| i64::try_from(*size).expect("a size below 2^63");
    let shape: SmallVec<[i64; 6]> = tensor.shape().iter().map(size).collect();
    let mut strides: SmallVec<[i64; 6]> = smallvec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(shape[axis].max(1));
    }
    let id = i32::try_from(tensor.device().id()).unwrap_or(i32::MAX);
    // SAFETY: the address is that of the tensor's elements on its device, which lie one after the other. The tensor holds its
    // memory, and the stream orders what uses it.
    unsafe {
        kernels_packages::Tensor::from_raw(
            tensor.address(),
            dtype,
            Device::Npu(id),
            &shape,
            &strides,
        )
    }
}
