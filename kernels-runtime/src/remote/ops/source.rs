//! Weights that go from a file to the device on the server's side.

use super::talk::{ask, dispatch, words_of};
use crate::registry::FloatType;
use crate::remote::call::{self, exactly, send_to};
use crate::remote::files::Files;
use crate::remote::hello::from_words;
use crate::remote::wire::{Malformed, Writer};
use burn::backend::ir::BackendIr;
use burn::backend::{BackendTensor, RemoteDevice, Shape};
use burn::tensor::{DType, FloatDType, Tensor};
use burn_remote::server::CustomOpRegistry;
use safetensors::Dtype;
use serde::{Deserialize, Serialize};

const LOOK: &str = "burn-kernels/look";
const LOAD: &str = "burn-kernels/load";

/// What a server says of a tensor in a file.
#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Stored { dtype: Dtype, shape: Vec<usize> },
    Refused(String),
}

/// A tensor in a file that the server reads.
#[derive(Clone, Debug)]
pub(in crate::remote) struct Loader {
    path: String,
    name: String,
    /// The type in which it is stored.
    pub(in crate::remote) dtype: DType,
    /// Its shape.
    pub(in crate::remote) shape: Vec<usize>,
}

pub(super) fn register<B: BackendIr>(registry: &mut CustomOpRegistry<B>, files: Files) {
    let looked = files.clone();
    registry.register(LOOK, move |handles, ir, device| {
        call::run::<B>(handles, ir, device, |call| {
            let (path, name) = (call.scalars.text()?, call.scalars.text()?);
            let answer = match looked.look(&path, &name) {
                Ok(stored) => Answer::Stored {
                    dtype: stored.dtype,
                    shape: stored.shape,
                },
                Err(reason) => Answer::Refused(reason),
            };
            let text = serde_json::to_string(&answer).expect("text and numbers are JSON");
            words_of(call, &text)
        });
    });
    registry.register(LOAD, move |handles, ir, device| {
        call::run::<B>(handles, ir, device, |call| {
            let (path, name) = (call.scalars.text()?, call.scalars.text()?);
            let missing = || Malformed::new("no result is asked for");
            let wanted = call.last_output().ok_or_else(missing)?.clone();
            let data = files.read(&path, &name).map_err(Malformed::new)?;
            if data.shape() != &wanted.shape {
                return Err(Malformed::new(format_args!(
                    "{path}: `{name}` is {:?} where the server is, not {:?}",
                    data.shape(),
                    wanted.shape
                )));
            }
            let stored = data.dtype();
            let tensor = B::float_from_data(data, call.device);
            call.give(if stored == wanted.dtype {
                tensor
            } else {
                B::float_cast(tensor, FloatDType::from(wanted.dtype))
            })
        });
    });
}

/// Asks the server for a tensor in a file.
///
/// # Errors
/// The server's reason why it does not read it.
pub(in crate::remote) fn look(
    device: &RemoteDevice,
    path: &str,
    name: &str,
) -> Result<Loader, String> {
    let words = ask(device, LOOK, Writer::new().text(path).text(name))?;
    let unreadable = || "the server's answer is not understood".to_owned();
    let answer = serde_json::from_str(&from_words(&words).ok_or_else(unreadable)?);
    match answer.map_err(|_| unreadable())? {
        Answer::Refused(reason) => Err(reason),
        Answer::Stored { dtype, shape } => {
            let float = match dtype {
                Dtype::F64 => FloatType::F64,
                Dtype::F32 => FloatType::F32,
                Dtype::F16 => FloatType::F16,
                Dtype::BF16 => FloatType::Bf16,
                other => return Err(format!("`{name}` is stored as {other:?}, not as floats")),
            };
            Ok(Loader {
                path: path.to_owned(),
                name: name.to_owned(),
                dtype: float.dtype(),
                shape,
            })
        }
    }
}

/// Has the server read a tensor, in any float type.
pub(in crate::remote) fn load<const D: usize>(
    device: &RemoteDevice,
    loader: &Loader,
    dtype: DType,
) -> Tensor<D> {
    let numbers = Writer::new().text(&loader.path).text(&loader.name);
    let output = (Shape::from(loader.shape.clone()), dtype);
    let [tensor] = exactly(send_to(device, LOAD, Vec::new(), vec![output], numbers));
    Tensor::from_dispatch(dispatch(BackendTensor::Float(tensor)))
}
