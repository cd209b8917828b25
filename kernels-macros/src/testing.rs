//! Helpers of the unit tests.

use crate::origin::Origin;

/// The messages of an error, one by one.
pub(crate) fn messages(error: Option<syn::Error>) -> Vec<String> {
    error
        .into_iter()
        .flatten()
        .map(|error| error.to_string())
        .collect()
}

/// A place for attributes that no compiler expands.
pub(crate) fn origin() -> Origin {
    Origin {
        package: "models".to_owned(),
        version: "1.2.3".to_owned(),
        file: "src/lib.rs".to_owned(),
        line: 7,
    }
}
