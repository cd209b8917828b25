//! Collects every error of one annotated item, so that the user sees all of them in one go.

use std::fmt::Display;

use proc_macro2::Span;
use quote::ToTokens;
use syn::{Error, Result};

/// The errors found so far.
#[derive(Default)]
pub(crate) struct Errors {
    all: Option<Error>,
    count: usize,
}

impl Errors {
    /// Adds an error that underlines `tokens`.
    pub(crate) fn at(&mut self, tokens: impl ToTokens, message: impl Display) {
        self.push(Error::new_spanned(tokens, message));
    }

    /// Adds an error at one place.
    pub(crate) fn at_span(&mut self, span: Span, message: impl Display) {
        self.push(Error::new(span, message));
    }

    /// Adds an error, or several that were collected elsewhere.
    pub(crate) fn push(&mut self, error: Error) {
        self.count += 1;
        match &mut self.all {
            Some(first) => first.combine(error),
            None => self.all = Some(error),
        }
    }

    /// Returns the number of errors so far.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Keeps the value, or the error.
    pub(crate) fn keep<T>(&mut self, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.push(error)).ok()
    }

    /// Ends the collection. A value that was built in spite of errors is dropped; a missing value
    /// has left its error here.
    pub(crate) fn finish<T>(self, value: Option<T>) -> Result<T> {
        match (self.all, value) {
            (Some(error), _) => Err(error),
            (None, Some(value)) => Ok(value),
            (None, None) => Err(Error::new(
                Span::call_site(),
                "`#[fused_kernel]` gave up without saying why; please report this",
            )),
        }
    }
}
