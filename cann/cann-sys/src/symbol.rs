//! Functions that may be missing.

use std::fmt;
use std::sync::Arc;

use crate::error::Attempt;
use crate::versions;

/// A function of CANN, or the reason why it is missing.
#[derive(Clone)]
pub struct Symbol<F> {
    name: &'static str,
    pointer: Option<F>,
    searched: Arc<[Attempt]>,
}

impl<F: Copy> Symbol<F> {
    pub(crate) fn new(name: &'static str, pointer: Option<F>, searched: Arc<[Attempt]>) -> Self {
        Self {
            name,
            pointer,
            searched,
        }
    }

    /// Returns the function.
    ///
    /// # Errors
    ///
    /// Returns an error if no library has it. The error names the libraries that were searched and the versions of
    /// CANN that have the function.
    pub fn get(&self) -> Result<F, MissingSymbol> {
        self.pointer.ok_or_else(|| self.absence())
    }

    /// Returns `true` if a library has the function.
    pub fn is_present(&self) -> bool {
        self.pointer.is_some()
    }

    /// Returns the name of the function.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the error of a missing function.
    pub fn error(&self) -> Option<MissingSymbol> {
        (!self.is_present()).then(|| self.absence())
    }

    fn absence(&self) -> MissingSymbol {
        MissingSymbol {
            name: self.name,
            searched: self.searched.clone(),
        }
    }
}

impl<F> fmt::Debug for Symbol<F> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.pointer.is_some() {
            "present"
        } else {
            "missing"
        };
        write!(out, "{} ({state})", self.name)
    }
}

/// A function that none of the libraries has.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub struct MissingSymbol {
    name: &'static str,
    searched: Arc<[Attempt]>,
}

impl MissingSymbol {
    /// Returns the name of the function.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the libraries that were searched, and those that could not be opened.
    pub fn searched(&self) -> &[Attempt] {
        &self.searched
    }
}

impl fmt::Display for MissingSymbol {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "the function {} of CANN was not found. ", self.name)?;
        if self.searched.is_empty() {
            write!(out, "There was no library to ask. ")?;
        } else {
            write!(out, "Libraries tried: ")?;
            for (position, attempt) in self.searched.iter().enumerate() {
                write!(out, "{}{attempt}", if position == 0 { "" } else { ", " })?;
            }
            write!(out, ". ")?;
        }
        write!(out, "{}", versions::known(self.name))
    }
}
