//! The mask that is passed to an operator.

use super::super::Operands;
use super::ranges::Ranges;
use crate::npu::{Result, Seen, Specified};
use crate::semantics::{AttentionMask, AttentionWindow};
use burn_cann::ops::attention as cann;
use burn_cann::{Stream, Tensor};

/// The mask that is passed to an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hidden {
    /// No key is hidden.
    Nothing,
    /// The last query sees all keys, and each earlier one sees one key less.
    ToLast,
    /// The first query sees the first key, and each later one sees one key more.
    FromFirst,
    /// A query sees the keys from `before` its diagonal to `behind` it. The diagonal ends at the last query and the
    /// last key.
    Band {
        /// The number of keys before the diagonal.
        before: i64,
        /// The number of keys behind the diagonal.
        behind: i64,
    },
    /// Each query sees keys of its own.
    Full,
}

/// Returns the mask of sequences of one length.
pub(super) fn of_sequences<T: Specified>(operands: &Operands<Seen<T>>) -> Hidden {
    let (key, sizes, settings) = (operands.key(), operands.sizes(), operands.settings());
    if key.window == AttentionWindow::Chunked
        || key.mask == AttentionMask::Prefix
        || !operands.lengths().are_whole(sizes)
        || some_see_nothing(operands)
    {
        return Hidden::Full;
    }
    let first = settings.first(sizes);
    let ahead = first - (sizes.keys as i64 - sizes.queries as i64);
    if let Some(window) = settings.window {
        // A longer window hides nothing more.
        let reach = window.clamp(1, sizes.keys + sizes.queries) as i64 - 1;
        let later = match key.mask {
            AttentionMask::Causal => 0,
            AttentionMask::None | AttentionMask::Prefix => reach,
        };
        return Hidden::Band {
            before: reach - ahead,
            behind: later + ahead,
        };
    }
    match key.mask {
        AttentionMask::Causal if ahead == 0 => Hidden::ToLast,
        AttentionMask::Causal if first == 0 => Hidden::FromFirst,
        AttentionMask::Causal => Hidden::Full,
        AttentionMask::None | AttentionMask::Prefix => Hidden::Nothing,
    }
}

/// Returns whether a query sees no key, where all sequences are alike.
fn some_see_nothing<T: Specified>(operands: &Operands<Seen<T>>) -> bool {
    let visible = operands.visible();
    // Neither end of the visible keys decreases, so no query between these two sees nothing either.
    let ends = [0, operands.sizes().queries.saturating_sub(1)];
    ends.into_iter()
        .any(|query| visible.of(0, query).is_empty())
}

/// Returns the mask of documents, which have as many queries as keys. It has no prefix and no chunks.
pub(super) fn of_documents<T: Specified>(operands: &Operands<Seen<T>>) -> Hidden {
    let is_causal = operands.key().mask == AttentionMask::Causal;
    let Some(window) = operands.settings().window else {
        return match is_causal {
            true => Hidden::ToLast,
            false => Hidden::Nothing,
        };
    };
    // A longer window hides nothing more.
    let reach = window.clamp(1, operands.sizes().keys.max(1)) as i64 - 1;
    Hidden::Band {
        before: reach,
        behind: if is_causal { 0 } else { reach },
    }
}

impl Hidden {
    /// Returns CANN's mask: the first tensor for the compressed modes, and the second one for any other.
    pub(super) fn with<T>(self, square: T, full: T) -> cann::Mask<T> {
        match self {
            Self::Nothing => cann::Mask::None,
            Self::ToLast => cann::Mask::ToLast(square),
            Self::FromFirst => cann::Mask::FromFirst(square),
            Self::Full => cann::Mask::Full(full),
            Self::Band { before, behind } => cann::Mask::Band {
                mask: square,
                before,
                behind,
            },
        }
    }

    /// Makes the tensor of the mask. `ranges` are the keys that queries see, for a full mask.
    pub(super) fn tensor(self, stream: &Stream, ranges: Option<&Ranges>) -> Result<Option<Tensor>> {
        match (self, ranges) {
            (Self::Nothing, _) => Ok(None),
            (_, Some(ranges)) => ranges.hidden(stream).map(Some),
            (_, None) => Ok(Some(cann::causal_mask(stream)?)),
        }
    }
}
