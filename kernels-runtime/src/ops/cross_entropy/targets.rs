//! The target classes of a loss on the host.

use super::Settings;
use crate::ops::operands::{Mismatch, require};

/// The checked target of each token.
#[derive(Clone, Debug)]
pub(in crate::ops) struct Targets {
    /// The class of each token, `None` if the token is ignored.
    classes: Vec<Option<usize>>,
    counted: usize,
}

impl Targets {
    /// Makes the targets from their numbers.
    ///
    /// # Errors
    /// Returns an error that names the first target that is neither a class nor the ignored index.
    pub(in crate::ops) fn new(
        op: &str,
        numbers: impl ExactSizeIterator<Item = i64>,
        classes: usize,
        settings: Settings,
    ) -> Result<Self, Mismatch> {
        let ignored = settings.ignore_index;
        let mut found = Vec::with_capacity(numbers.len());
        for (token, number) in numbers.enumerate() {
            let class = usize::try_from(number)
                .ok()
                .filter(|class| *class < classes);
            let class = class.filter(|_| number != ignored);
            require!(
                class.is_some() || number == ignored,
                "{op}: token {token} has the target {number}, but there are {classes} classes; only {ignored}, the \
                 ignored index, may be another number"
            );
            found.push(class);
        }
        let counted = found.iter().flatten().count();
        Ok(Self {
            classes: found,
            counted,
        })
    }

    /// Returns the class of each token, `None` for ignored tokens.
    pub(in crate::ops) fn classes(&self) -> &[Option<usize>] {
        &self.classes
    }

    /// Returns the number of tokens that are not ignored.
    pub(in crate::ops) fn counted(&self) -> usize {
        self.counted
    }
}
