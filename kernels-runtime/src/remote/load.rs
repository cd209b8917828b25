//! Weights that the server reads from its own disk.

use super::{devices, offer};
use burn::backend::RemoteDevice;
use burn::tensor::{DType, Device, FloatDType, Tensor};
use kernels_io::{escape, escape_path};
use std::path::{Path, PathBuf};

/// The reason why a server doesn't read a tensor.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The device does not come from [`connect`](super::connect).
    #[error("the device does not come from `connect`; load its weights as for any other device")]
    NotRemote,
    /// The path is not UTF-8.
    #[error("{} can't be sent to the server: its name is not UTF-8", escape_path(.0))]
    Path(PathBuf),
    /// The server's reason, such as a file outside its folders, a damaged file or an unknown name.
    #[error("the server does not read it: {}", escape(.0))]
    Refused(String),
    /// The tensor has another rank.
    #[error(
        "`{}` in {} has the shape {shape:?}, which is not of rank {rank}",
        escape(.name),
        escape_path(.path)
    )]
    Rank {
        /// The file.
        path: PathBuf,
        /// The tensor's name.
        name: String,
        /// The tensor's shape.
        shape: Vec<usize>,
        /// The expected rank.
        rank: usize,
    },
}

/// A tensor in a file, as the server describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The type of its elements, a float of 16, 32 or 64 bits.
    pub dtype: DType,
    /// The tensor's shape.
    pub shape: Vec<usize>,
}

/// Returns the description of a tensor in a safetensors file on the disk of the device's server.
///
/// # Errors
/// Returns an error as described by [`LoadError`].
pub fn look(device: &Device, path: &Path, name: &str) -> Result<Stored, LoadError> {
    offer::look(&handle(device)?, text(path)?, name).map_err(LoadError::Refused)
}

/// Loads a tensor of a safetensors file that the *server* reads from its own disk to the device. Only the tensor's name
/// is sent over the connection. `path` is a path on the server, and must be in a folder that
/// `ServeOptions::weights` names.
///
/// The file's tensor has floats of 16, 32 or 64 bits. They are cast to `dtype` on the device, or keep the stored type
/// if it is `None`. The tensor has autodiff if the device has it, but does not require a gradient.
///
/// # Errors
/// Returns an error as described by [`LoadError`]. The server reads the file's header before this function returns. It
/// reads the values later, without being waited for. A failure then ends the device's session, as any failed operation
/// does.
pub fn load_tensor<const D: usize>(
    device: &Device,
    path: &Path,
    name: &str,
    dtype: Option<FloatDType>,
) -> Result<Tensor<D>, LoadError> {
    let found = look(device, path, name)?;
    if found.shape.len() != D {
        return Err(LoadError::Rank {
            path: path.to_owned(),
            name: name.to_owned(),
            shape: found.shape,
            rank: D,
        });
    }
    let dtype = dtype.map_or(found.dtype, Into::into);
    load(device, path, name, &found.shape, &found.shape, dtype)
}

/// Loads a tensor as [`load_tensor`] does, if its shape is known. All elements are in one axis, in the order of the
/// file. This function does not wait for the server at all.
///
/// # Errors
/// Returns an error if the device is not a remote one, or if the path is not UTF-8. A tensor that is missing or has
/// another shape ends the device's session.
pub fn load_flat(
    device: &Device,
    path: &Path,
    name: &str,
    shape: &[usize],
    dtype: FloatDType,
) -> Result<Tensor<1>, LoadError> {
    let length = shape.iter().product();
    load(device, path, name, shape, &[length], dtype.into())
}

fn load<const D: usize>(
    device: &Device,
    path: &Path,
    name: &str,
    stored: &[usize],
    shape: &[usize],
    dtype: DType,
) -> Result<Tensor<D>, LoadError> {
    let from = offer::Source {
        path: text(path)?,
        name,
        shape: stored,
    };
    let tensor = offer::load(&handle(device)?, &from, shape, dtype);
    Ok(if device.is_autodiff() {
        tensor.autodiff()
    } else {
        tensor
    })
}

fn handle(device: &Device) -> Result<RemoteDevice, LoadError> {
    let remote = devices::entry(device).and_then(|_| devices::handle(device));
    remote.ok_or(LoadError::NotRemote)
}

fn text(path: &Path) -> Result<&str, LoadError> {
    path.to_str()
        .ok_or_else(|| LoadError::Path(path.to_owned()))
}
