//! Weights that are loaded from a file to the device on the server's side.

use super::control::{ask, dispatch};
use crate::registry::FloatType;
use crate::remote::Stored;
use crate::remote::call::send_to;
use crate::remote::declaration::from_words;
use burn::backend::{BackendTensor, RemoteDevice, Shape};
use burn::tensor::{DType, Tensor};
use serde::{Deserialize, Serialize};

/// The question for a tensor in a file.
pub const LOOK: &str = "burn-kernels/look";
/// The operation that loads a tensor from a file.
pub const LOAD: &str = "burn-kernels/load";

/// A tensor in a file, as a server describes it.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    /// It exists, with floats of this type.
    Stored {
        /// The type of its elements.
        dtype: FloatType,
        /// Its shape.
        shape: Vec<usize>,
    },
    /// The reason why the server does not read it.
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
        Answer::Stored { dtype, shape } => Ok(Stored {
            dtype: dtype.dtype(),
            shape,
        }),
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
