//! The reader of files, for the fuzz target.

use super::file::{File, TuneError};

/// Reads choices, and checks that they are the same after writing and reading them again.
///
/// # Errors
/// Returns an error if the text does not hold choices.
pub fn file(text: &str) -> Result<(), TuneError> {
    let file = File::parse(text).map_err(|problem| TuneError::File {
        path: "input".to_owned(),
        problem,
    })?;
    let written = file.to_toml();
    assert_eq!(File::parse(&written).as_ref(), Ok(&file), "{written}");
    Ok(())
}
