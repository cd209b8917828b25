//! Weights that are loaded from a file to the device on the server's side.

use super::control::{ask, dispatch, words_of};
use crate::registry::FloatType;
use crate::remote::bounded::elements;
use crate::remote::call::send_to;
use crate::remote::files::Files;
use crate::remote::hello::from_words;
use crate::remote::wire::Malformed;
use crate::remote::{Host, Kernels, Stored};
use burn::backend::{BackendTensor, RemoteDevice, Shape};
use burn::tensor::{DType, FloatDType, Tensor, TensorData};
use safetensors::Dtype;
use serde::{Deserialize, Serialize};

const LOOK: &str = "burn-kernels/look";
const LOAD: &str = "burn-kernels/load";

/// A tensor in a file, as a server describes it.
#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Stored { dtype: Dtype, shape: Vec<usize> },
    Refused(String),
}

/// A tensor in a file of the server's.
#[derive(Clone, Copy, Debug)]
pub(in crate::remote) struct Source<'a> {
    pub(in crate::remote) path: &'a str,
    pub(in crate::remote) name: &'a str,
    /// The shape that the tensor has in the file.
    pub(in crate::remote) shape: &'a [usize],
}

pub(super) fn handlers<B: Host>(kernels: Kernels<B>, files: Files) -> Kernels<B> {
    let looked = files.clone();
    let kernels = kernels.handle(LOOK, move |call, (path, name): (String, String)| {
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
    kernels.handle(LOAD, move |call, numbers: (String, String, Vec<usize>)| {
        let (path, name, shape) = numbers;
        let missing = || Malformed::new("no result is asked for");
        let wanted = call.last_output().ok_or_else(missing)?.clone();
        let stored = files.look(&path, &name).map_err(Malformed::request)?;
        // The tensor is read in its stored type and then cast.
        let bytes = elements(&stored.shape).saturating_mul(stored.dtype.bitsize().div_ceil(8));
        call.room(bytes);
        let data = files.read(&path, &name).map_err(Malformed::request)?;
        let found = data.shape().as_slice();
        if found != shape || wanted.shape.num_elements() != data.num_elements() {
            return Err(Malformed::request(format_args!(
                "{path}: `{name}` has the shape {found:?}, not {shape:?}"
            )));
        }
        let (bytes, _, dtype) = data.into_parts();
        let data = TensorData::from_bytes(bytes, wanted.shape.clone(), dtype);
        let stored = data.dtype();
        let tensor = B::float_from_data(data, call.device);
        call.give(if stored == wanted.dtype {
            tensor
        } else {
            B::float_cast(tensor, FloatDType::from(wanted.dtype))
        })
    })
}

/// Asks the server for a tensor in a file.
///
/// # Errors
/// Returns the reason why the server does not read it.
pub(in crate::remote) fn look(
    device: &RemoteDevice,
    path: &str,
    name: &str,
) -> Result<Stored, String> {
    let words = ask(device, LOOK, &(path, name)).map_err(|unanswered| unanswered.to_string())?;
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
            Ok(Stored {
                dtype: float.dtype(),
                shape,
            })
        }
    }
}

/// Makes the server read a tensor into another shape and any float type.
pub(in crate::remote) fn load<const D: usize>(
    device: &RemoteDevice,
    from: &Source<'_>,
    shape: &[usize],
    dtype: DType,
) -> Tensor<D> {
    let result = (Shape::from(shape.to_vec()), dtype);
    let numbers = (from.path, from.name, from.shape);
    let [tensor] = send_to(device, LOAD, [result], &numbers);
    Tensor::from_dispatch(dispatch(BackendTensor::Float(tensor)))
}
