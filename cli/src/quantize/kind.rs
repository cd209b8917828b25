//! The types of tensors in GGUF files, by ggml's numbers.

use kernels_quant::Dtype;
use kernels_quant::gguf::Block;
use std::fmt;

/// A type of tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Floats that can be quantised.
    Float(Dtype),
    Block(Block),
    /// Numbers that are only copied: ggml's number of the type, and the bytes of an element.
    Other(u32, usize),
}

const BLOCKS: [(u32, Block); 9] = [
    (2, Block::Q4_0),
    (3, Block::Q4_1),
    (6, Block::Q5_0),
    (7, Block::Q5_1),
    (8, Block::Q8_0),
    (12, Block::Q4K),
    (13, Block::Q5K),
    (14, Block::Q6K),
    (39, Block::Mxfp4),
];

const FLOATS: [(u32, Dtype); 3] = [(0, Dtype::F32), (1, Dtype::F16), (30, Dtype::BF16)];

/// i8, i16, i32, i64 and f64.
const OTHERS: [(u32, usize); 5] = [(24, 1), (25, 2), (26, 4), (27, 8), (28, 8)];

impl Kind {
    /// Returns the type of a number, if it is one that this command knows.
    pub fn of(id: u32) -> Option<Self> {
        let float = FLOATS.iter().find(|own| own.0 == id);
        let block = BLOCKS.iter().find(|own| own.0 == id);
        let other = OTHERS.iter().find(|own| own.0 == id);
        (float.map(|own| Self::Float(own.1)))
            .or(block.map(|own| Self::Block(own.1)))
            .or(other.map(|own| Self::Other(own.0, own.1)))
    }

    /// Returns ggml's number.
    pub fn id(self) -> u32 {
        let float = |dtype| FLOATS.iter().find(|own| own.1 == dtype);
        let block = |block| BLOCKS.iter().find(|own| own.1 == block);
        match self {
            Self::Float(dtype) => float(dtype).expect("a type of floats").0,
            Self::Block(of) => block(of).expect("every block").0,
            Self::Other(id, _) => id,
        }
    }

    /// Returns the number of elements that rows are made of.
    pub fn block_size(self) -> u64 {
        match self {
            Self::Block(block) => block.elements() as u64,
            Self::Float(_) | Self::Other(..) => 1,
        }
    }

    /// Returns the number of bytes of so many elements. Returns `None` if these are not whole blocks, or too many.
    pub fn bytes(self, elements: u64) -> Option<u64> {
        let size = match self {
            Self::Float(dtype) => dtype.size(),
            Self::Block(block) => block.bytes(),
            Self::Other(_, size) => size,
        };
        let whole = elements.is_multiple_of(self.block_size());
        let blocks = whole.then_some(elements / self.block_size())?;
        blocks.checked_mul(size as u64)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Float(dtype) => dtype.fmt(f),
            Self::Block(block) => block.fmt(f),
            Self::Other(id, _) => write!(f, "type {id}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_types_go_together() {
        for id in 0..64 {
            if let Some(kind) = Kind::of(id) {
                assert_eq!(kind.id(), id);
            }
        }
        for &block in Block::ALL {
            assert_eq!(Kind::of(Kind::Block(block).id()), Some(Kind::Block(block)));
        }
        assert_eq!(Kind::Block(Block::Q6K).bytes(512), Some(420));
        assert_eq!(Kind::Block(Block::Q6K).bytes(320), None);
        assert_eq!(Kind::Float(Dtype::BF16).bytes(3), Some(6));
        assert_eq!(Kind::of(10), None);
    }
}
