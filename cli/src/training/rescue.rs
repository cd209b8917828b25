//! A second place for a model whose own folder can't be written.

use crate::output;
use anyhow::anyhow;
use kernels_io::escape_path;
use std::path::{Path, PathBuf};

/// Saves a model by `save` in `folder`, or else in the system's folder for temporary files.
///
/// # Errors
/// Returns an error that says where the model is, if `folder` can't be written.
pub fn save(folder: &Path, save: impl Fn(&Path) -> anyhow::Result<()>) -> anyhow::Result<()> {
    save_or_in(folder, &std::env::temp_dir(), save)
}

fn save_or_in(
    folder: &Path,
    other: &Path,
    save: impl Fn(&Path) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let Err(error) = save(folder) else {
        return Ok(());
    };
    let (shown, elsewhere) = (escape_path(folder), place(other));
    output::note(format_args!(
        "warning: the trained model can't be saved in {shown}: {}",
        output::chain(&error)
    ));
    match save(&elsewhere) {
        Ok(()) => Err(anyhow!(
            "the trained model can't be saved in {shown}; it is in {} instead: move it before the system removes it",
            escape_path(&elsewhere)
        )),
        Err(second) => Err(second.context(format!(
            "THE TRAINED MODEL IS NOT SAVED: neither {shown} nor {} can be written",
            escape_path(&elsewhere)
        ))),
    }
}

fn place(other: &Path) -> PathBuf {
    other.join(format!("kernels-model-{}", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::ensure;

    #[test]
    fn a_model_is_saved_in_one_of_two_places_or_an_error_says_that_it_is_not() {
        let other = tempfile::tempdir().unwrap();
        let folder = Path::new("/run/of/a/test");
        let rescued = place(other.path());
        assert!(save_or_in(folder, other.path(), |_| Ok(())).is_ok());
        let in_other = |path: &Path| {
            ensure!(path == rescued, "no space left");
            Ok(())
        };
        let said = save_or_in(folder, other.path(), in_other)
            .unwrap_err()
            .to_string();
        assert!(said.contains(&escape_path(&rescued)), "{said}");
        let nowhere = |_: &Path| anyhow::bail!("no space left");
        let said = format!(
            "{:#}",
            save_or_in(folder, other.path(), nowhere).unwrap_err()
        );
        assert!(
            said.contains("NOT SAVED") && said.contains("no space left"),
            "{said}"
        );
    }
}
