//! Weights that never cross the connection.

use super::{ops, table};
use burn::tensor::{Device, FloatDType, Tensor};
use std::path::Path;

/// Why a server doesn't read a tensor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The device is not one that [`connect`](super::connect) gave.
    #[error("the device is no remote device of `connect`; load its weights as for any device")]
    NotRemote,
    /// The path is not UTF-8.
    #[error("{0} can't be sent to the server: its name is not UTF-8")]
    Path(std::path::PathBuf),
    /// The server's reason: a file elsewhere than in its folders, a damaged one, an unknown name.
    #[error("the server does not read it: {0}")]
    Refused(String),
    /// The tensor has another rank.
    #[error("`{name}` in {path} has the shape {shape:?}, which is not of rank {rank}")]
    Rank {
        /// The file.
        path: std::path::PathBuf,
        /// The tensor's name.
        name: String,
        /// Its shape.
        shape: Vec<usize>,
        /// The rank that was asked for.
        rank: usize,
    },
}

/// A tensor of a safetensors file that the *server* reads, from its own disk to the device: only
/// its name crosses the connection. `path` is the server's; it must be in a folder that
/// [`ServeOptions::weights`](super::ServeOptions::weights) names.
///
/// Floats of 16, 32 and 64 bits, cast to `dtype` on the device; `None` keeps the stored type. It
/// needs no gradient.
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
    let remote = table::entry(device).and_then(|_| table::handle(device));
    let remote = remote.ok_or(LoadError::NotRemote)?;
    let text = path
        .to_str()
        .ok_or_else(|| LoadError::Path(path.to_owned()))?;
    let found = ops::look(&remote, text, name).map_err(LoadError::Refused)?;
    if found.shape.len() != D {
        return Err(LoadError::Rank {
            path: path.to_owned(),
            name: name.to_owned(),
            shape: found.shape,
            rank: D,
        });
    }
    let dtype = dtype.map_or(found.dtype, Into::into);
    Ok(ops::load(&remote, &found, dtype))
}
