//! The calls of sites that a thread is in, for messages about their operands.

use super::{Site, span};
use std::cell::Cell;
use std::fmt;
use std::panic::Location;

thread_local! {
    static INNERMOST: Cell<Option<Entered>> = const { Cell::new(None) };
}

/// A call of a site.
#[derive(Clone, Copy)]
pub(crate) struct Entered {
    pub(super) site: &'static Site,
    pub(super) caller: &'static Location<'static>,
}

impl Entered {
    /// Returns the innermost call that this thread is in.
    pub(crate) fn innermost() -> Option<Self> {
        INNERMOST.get()
    }

    /// Marks the call as the innermost one, and opens its span, until the result is dropped.
    #[inline]
    pub(super) fn open(self) -> Open {
        Open {
            outer: INNERMOST.replace(Some(self)),
            _span: span::call(self.site),
        }
    }
}

impl fmt::Display for Entered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { site, caller } = self;
        let spec = site.spec();
        write!(
            f,
            "in `{}` ({}:{}), called at {caller}",
            site.name(),
            spec.file,
            spec.line
        )
    }
}

/// The end of a call, when this is dropped.
#[must_use]
pub(crate) struct Open {
    outer: Option<Entered>,
    _span: Option<span::Open>,
}

impl Drop for Open {
    fn drop(&mut self) {
        INNERMOST.set(self.outer);
    }
}
