//! The source of a configuration: a file, or one that is to be written.

use std::path::Path;

use super::{File, Metadata};
use crate::ModelError;

/// Metadata and tensors of a file.
pub(super) trait Contents {
    /// Returns the path, which errors name.
    fn path(&self) -> &Path;

    fn metadata(&self) -> &Metadata;

    /// Returns the names of all tensors.
    fn names(&self) -> Vec<&str>;

    /// Returns the shape of a tensor, in row-major order.
    fn shape(&self, name: &str) -> Option<&[usize]>;

    /// Reads a tensor as single-precision numbers.
    fn numbers(&self, name: &str) -> Result<Vec<f32>, ModelError>;
}

impl Contents for File {
    fn path(&self) -> &Path {
        &self.path
    }

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn names(&self) -> Vec<&str> {
        let tensors = self.tensors.iter();
        tensors.map(|tensor| tensor.name.as_str()).collect()
    }

    fn shape(&self, name: &str) -> Option<&[usize]> {
        Self::shape(self, name)
    }

    fn numbers(&self, name: &str) -> Result<Vec<f32>, ModelError> {
        self.read(name)
    }
}
