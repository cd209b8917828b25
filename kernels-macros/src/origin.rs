//! The place of an attribute.

/// The crate, file and line of an attribute.
#[derive(Clone)]
pub(crate) struct Origin {
    pub(crate) package: String,
    pub(crate) version: String,
    /// The file, as `file!()` gives it.
    pub(crate) file: String,
    pub(crate) line: u32,
}

impl Origin {
    /// Returns the origin of the attribute that is being expanded.
    pub(crate) fn of_expansion() -> Self {
        let span = proc_macro::Span::call_site();
        Self::at(span.file(), u32::try_from(span.line()).unwrap_or(u32::MAX))
    }

    /// Returns the origin of a place in the crate that is being compiled. Without Cargo the crate is unknown.
    pub(crate) fn at(file: String, line: u32) -> Self {
        let of_cargo = |name| std::env::var(name).unwrap_or_else(|_| "unknown".to_owned());
        Self {
            package: of_cargo("CARGO_PKG_NAME"),
            version: of_cargo("CARGO_PKG_VERSION"),
            file,
            line,
        }
    }
}
