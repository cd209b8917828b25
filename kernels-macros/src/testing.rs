//! Helpers of the unit tests.

/// The messages of an error, one by one.
pub(crate) fn messages(error: Option<syn::Error>) -> Vec<String> {
    error
        .into_iter()
        .flatten()
        .map(|error| error.to_string())
        .collect()
}
