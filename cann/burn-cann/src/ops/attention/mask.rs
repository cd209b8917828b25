//! The keys that are hidden from each query.

use super::super::{Checked, Refusal, check, create, rearrange};
use crate::dtype::DType;
use crate::error::Result;
use crate::stream::Stream;
use crate::tensor::{Spec, Tensor};

/// The length of each side of [`causal_mask`].
const COMPRESSED: usize = 2048;

/// CANN's number for an unlimited window.
const NO_END: i64 = i32::MAX as i64;

/// The keys that are hidden from each query. Masks have the dtype bool or u8 and are true for hidden keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mask<T> {
    /// No key is hidden.
    None,
    /// Any mask of shape `[batch or 1, heads or 1, queries, keys]` (heads only with the batch) or `[queries, keys]`.
    Full(T),
    /// A causal mask from the first token: query `i` sees the keys up to `i`. The tensor is that of [`causal_mask`].
    FromFirst(T),
    /// A causal mask to the last token: the last query sees all keys, and each earlier one sees one key less. The
    /// tensor is that of [`causal_mask`].
    ToLast(T),
    /// A band around the diagonal that ends at the last query and the last key. The tensor is that of [`causal_mask`].
    Band {
        /// The tensor of the mask.
        mask: T,
        /// The number of keys before the diagonal that a query sees. If it is negative, the band begins behind it.
        before: i64,
        /// The number of keys behind the diagonal that a query sees. If it is negative, the band ends before it.
        behind: i64,
    },
}

impl<T> Mask<T> {
    pub(super) fn tensor(self) -> Option<T> {
        match self {
            Self::None => None,
            Self::Full(mask)
            | Self::FromFirst(mask)
            | Self::ToLast(mask)
            | Self::Band { mask, .. } => Some(mask),
        }
    }

    /// Returns CANN's number of the mode.
    pub(super) fn mode(&self) -> i64 {
        match self {
            Self::None => 0,
            Self::Full(_) => 1,
            Self::FromFirst(_) => 2,
            Self::ToLast(_) => 3,
            Self::Band { .. } => 4,
        }
    }

    /// Returns CANN's numbers of keys before and behind the diagonal.
    pub(super) fn band(&self) -> [i64; 2] {
        match *self {
            Self::Band { before, behind, .. } => [before, behind],
            _ => [NO_END; 2],
        }
    }

    pub(super) fn map<U>(self, with: impl FnOnce(T) -> U) -> Mask<U> {
        match self {
            Self::None => Mask::None,
            Self::Full(mask) => Mask::Full(with(mask)),
            Self::FromFirst(mask) => Mask::FromFirst(with(mask)),
            Self::ToLast(mask) => Mask::ToLast(with(mask)),
            Self::Band {
                mask,
                before,
                behind,
            } => Mask::Band {
                mask: with(mask),
                before,
                behind,
            },
        }
    }
}

/// Makes the mask of the causal modes: `[2048, 2048]`, true above the diagonal. One mask serves all calls.
///
/// # Errors
///
/// Returns an error if memory is short or a call fails.
pub fn causal_mask(stream: &Stream) -> Result<Tensor> {
    let all = create::full(stream, DType::Bool, [COMPRESSED; 2], true)?;
    rearrange::triu(stream, &all, 1)
}

impl Mask<&Spec> {
    /// Checks that the mask has the shape that its kind needs.
    pub(super) fn check(self, [batch, heads, queries, keys]: [usize; 4]) -> Checked<()> {
        let compressed = !matches!(self, Self::None | Self::Full(_));
        self.check_band([queries, keys])?;
        if let Some(mask) = self.tensor() {
            check::dtype(("mask", mask), &[DType::Bool, DType::U8])?;
            let fits = match (compressed, mask.shape()) {
                (true, shape) => shape == [COMPRESSED; 2],
                (false, [rows, columns]) => (*rows, *columns) == (queries, keys),
                (false, [of, own, rows, columns]) => {
                    (*rows, *columns) == (queries, keys)
                        && (*of == batch && (*own == heads || *own == 1) || (*of, *own) == (1, 1))
                }
                _ => false,
            };
            if !fits {
                let expected = if compressed {
                    format!("that of causal_mask, {:?}", [COMPRESSED; 2])
                } else {
                    format!("[{batch}, {heads} or 1, {queries}, {keys}] or its last two")
                };
                return Err(check::wrong_shape(("mask", mask), expected));
            }
        }
        Ok(())
    }

    /// Checks that a band holds a score.
    pub(super) fn check_band(self, [queries, keys]: [usize; 2]) -> Checked<()> {
        let Self::Band { before, behind, .. } = self else {
            return Ok(());
        };
        let holds = before.saturating_add(behind) >= 0
            && before > -(queries as i64)
            && behind > -(keys as i64);
        if holds {
            return Ok(());
        }
        Err(Refusal::Value {
            what: "the band",
            found: format!("{before} before the diagonal to {behind} behind it"),
            expected: "a band with at least one score",
        })
    }
}
