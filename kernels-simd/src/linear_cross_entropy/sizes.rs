//! The sizes of a call, and the memory that it needs.

/// The sizes of the axes of a call, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The number of tokens.
    pub tokens: usize,
    /// The width of a hidden state.
    pub width: usize,
    /// The number of classes.
    pub classes: usize,
}

impl Sizes {
    /// The smallest and the largest memory for the logits of a chunk. Each chunk reads the weight once, or three times
    /// with gradients, and reads and writes the gradient of the weight, so few tokens at a time would make the products
    /// wait for memory.
    const BYTES: [usize; 2] = [64 << 20, 256 << 20];

    /// The part of all logits that a chunk may hold, if that is more than the smallest memory.
    const PART: usize = 4;

    /// The smallest and the largest number of tokens of a chunk, if there are as many.
    const CHUNK: [usize; 2] = [64, 1024];

    /// Returns the largest number of tokens whose logits, of `bytes` each, a kernel on the CPU computes together.
    pub fn chunk(self, bytes: usize) -> usize {
        let row = self.classes.max(1).saturating_mul(bytes);
        let [least, most] = Self::CHUNK;
        let [low, high] = Self::BYTES;
        let part = self.tokens.saturating_mul(row) / Self::PART;
        let tokens = (part.clamp(low, high) / row / least * least).clamp(least, most);
        tokens.min(self.tokens)
    }

    /// The largest number of groups that a kernel on the CPU divides the classes into.
    pub const GROUPS: usize = 64;
}
