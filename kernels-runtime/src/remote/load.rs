//! Weights that never cross the connection.

use super::{devices, offer};
use burn::backend::RemoteDevice;
use burn::tensor::{DType, Device, FloatDType, Tensor};
use kernels_io::{escape, escape_path};
use std::path::{Path, PathBuf};

/// Why a server doesn't read a tensor.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The device is not one that [`connect`](super::connect) gave.
    #[error("the device is no remote device of `connect`; load its weights as for any device")]
    NotRemote,
    /// The path is not UTF-8.
    #[error("{} can't be sent to the server: its name is not UTF-8", escape_path(.0))]
    Path(PathBuf),
    /// The server's reason: a file elsewhere than in its folders, a damaged one, an unknown name.
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
        /// Its shape.
        shape: Vec<usize>,
        /// The rank that was asked for.
        rank: usize,
    },
}

/// A tensor of a file as the server sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The type of its elements, a float of 16, 32 or 64 bits.
    pub dtype: DType,
    /// Its shape.
    pub shape: Vec<usize>,
}

/// What the server of a device finds under a name of a safetensors file on its own disk.
///
/// # Errors
/// See [`LoadError`].
pub fn look(device: &Device, path: &Path, name: &str) -> Result<Stored, LoadError> {
    offer::look(&handle(device)?, text(path)?, name).map_err(LoadError::Refused)
}

/// A tensor of a safetensors file that the *server* reads, from its own disk to the device: only
/// its name crosses the connection. `path` is the server's; it must be in a folder that
/// [`ServeOptions::weights`](super::ServeOptions::weights) names.
///
/// Floats of 16, 32 and 64 bits, cast to `dtype` on the device; `None` keeps the stored type. The
/// tensor has autodiff if the device has it, and no gradient is asked for.
///
/// # Errors
/// See [`LoadError`]. The server looks at the file's header before this returns; the values follow
/// without being waited for, and what goes wrong then ends the device's session, as any failed
/// operation does.
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

/// As [`load_tensor`], of a tensor whose shape is known: all elements in one axis, in the order of
/// the file. The server is not waited for at all.
///
/// # Errors
/// The device is no remote one, or the path is not UTF-8. A tensor that is not there, or of another
/// shape, ends the device's session.
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
