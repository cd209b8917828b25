//! Loading of weights by a server on this machine. The server reads the files itself, so that weights don't cross the
//! connection.

use std::path::PathBuf;

use burn::tensor::{Device, FloatDType, Tensor};
use burn_kernels::remote::{self, LoadError};

use super::shards::Shards;
use crate::ModelError;
use crate::parameters::layout::Part;

/// A server that sees this machine's files and may read those of the checkpoint.
pub(super) struct ServerFiles {
    device: Device,
}

impl ServerFiles {
    /// Returns `None` for devices of this process and for servers on other machines. Also returns `None`, with a
    /// warning, if the server does not read the files.
    pub(super) fn of(device: &Device, shards: &Shards) -> Option<Self> {
        if !remote::describe(device)?.same_host {
            return None;
        }
        if let Some(file) = shards.files().iter().find(|file| file.is_gguf()) {
            tracing::warn!(
                "weights cross the connection: {}: servers read no GGUF files; `kernels_models::save` writes \
                 the model as safetensors files, which they read",
                kernels_io::escape_path(file.path())
            );
            return None;
        }
        for (path, name) in shards.samples() {
            if let Err(error) = remote::look(device, &real(path), &name) {
                tracing::warn!(
                    "weights cross the connection: {}: {error}; `kernels serve --weights DIR` lets \
                     the server read them itself",
                    kernels_io::escape_path(path)
                );
                return None;
            }
        }
        Some(Self {
            device: device.clone(),
        })
    }

    /// Assembles a parameter on the device. Only a matrix can be transposed, and it is one part.
    pub(super) fn tensor<const D: usize>(
        &self,
        shards: &Shards,
        parts: &[Part],
        shape: &[usize],
        transposed: bool,
        dtype: FloatDType,
    ) -> Result<Tensor<D>, ModelError> {
        let mut parts: Vec<&Part> = parts.iter().collect();
        parts.sort_by_key(|part| part.row);
        let flat = parts.iter().map(|part| self.flat(shards, part, dtype));
        let mut flat = flat.collect::<Result<Vec<_>, _>>()?;
        let flat = match flat.len() {
            1 => flat.remove(0),
            _ => Tensor::cat(flat, 0),
        };
        let dims: [usize; D] = std::array::from_fn(|axis| shape[axis]);
        Ok(match parts.as_slice() {
            [part] if transposed => {
                let [rows, columns] = [part.shape[0], part.shape[1]];
                flat.reshape([rows, columns]).transpose().reshape(dims)
            }
            _ => flat.reshape(dims),
        })
    }

    /// Loads the elements of a part, in the order of the file.
    fn flat(
        &self,
        shards: &Shards,
        part: &Part,
        dtype: FloatDType,
    ) -> Result<Tensor<1>, ModelError> {
        let stored = shards.find(&part.name);
        let (file, _) = stored.expect("every part was looked up before anything is read");
        let path = real(file.path());
        let name = shards.stored_name(&part.name);
        remote::load_flat(&self.device, &path, &name, &part.shape, dtype).map_err(
            |error: LoadError| ModelError::Remote {
                file: path,
                problem: error.to_string(),
            },
        )
    }
}

/// Returns the canonical path, or the given path if it has none.
fn real(path: &std::path::Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
