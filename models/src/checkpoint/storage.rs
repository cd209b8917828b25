//! The ways in which files store the elements of a tensor.

use std::fmt;

use kernels_quant::gguf::Block;
use safetensors::Dtype;

/// The form in which a file stores the elements of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Storage {
    /// One element after another.
    Plain(Dtype),
    /// In quantised blocks, along the last axis.
    Blocks(Block),
    /// In a type of GGUF files that is not read, by its name.
    Unread(&'static str),
}

impl Storage {
    /// Returns `true` if weights may be stored so without further factors.
    pub(super) fn is_supported(self) -> bool {
        match self {
            Self::Plain(dtype) => {
                matches!(dtype, Dtype::F16 | Dtype::BF16 | Dtype::F32 | Dtype::F64)
            }
            Self::Blocks(_) => true,
            Self::Unread(_) => false,
        }
    }

    /// Returns the number of bytes of so many elements, a whole number of blocks, of a type that is read.
    pub(super) fn bytes_of(self, elements: usize) -> usize {
        match self {
            Self::Plain(dtype) => elements * dtype.bitsize() / 8,
            Self::Blocks(block) => elements / block.elements() * block.bytes(),
            Self::Unread(name) => unreachable!("{name} was refused before"),
        }
    }
}

impl fmt::Display for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(dtype) => dtype.fmt(f),
            Self::Blocks(block) => f.write_str(block.name()),
            Self::Unread(name) => f.write_str(name),
        }
    }
}
