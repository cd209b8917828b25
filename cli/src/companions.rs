//! The files beside the weights of a checkpoint: its tokenizer, and how it generates.

use kernels_io::{FileError, Limit};
use std::path::Path;

/// The file of end tokens.
pub const GENERATION: &str = "generation_config.json";

/// The files of a tokenizer, of generation and of other inputs than text, which a tuned checkpoint has from its base:
/// what `save_pretrained` writes, and what other programs read in place of `tokenizer.json`.
const COPIED: [&str; 18] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "tokenizer.model",
    "sentencepiece.bpe.model",
    "spiece.model",
    "tekken.json",
    "chat_template.jinja",
    "chat_template.json",
    GENERATION,
    "preprocessor_config.json",
    "image_preprocessor_config.json",
    "video_preprocessor_config.json",
    "processor_config.json",
];

/// Copies a file if it is there.
pub fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    if !kernels_io::is_there(from) {
        return Ok(());
    }
    let bytes = match kernels_io::read(from, Limit::mib("a file of a checkpoint", 1024)) {
        // What training needs was read before. A file that was not fetched does not end a run that is over.
        Err(error @ (FileError::Pointer { .. } | FileError::Dangling { .. })) => {
            crate::output::note(format_args!("not copied: {error}"));
            return Ok(());
        }
        read => read?,
    };
    crate::output::write_file(to, &bytes)
}

/// Copies the files of a tokenizer and of generation that are in a folder.
///
/// # Errors
/// Returns an error if a file can't be read or written.
pub fn copy_companions(from: &Path, to: &Path) -> anyhow::Result<()> {
    COPIED
        .iter()
        .try_for_each(|name| copy(&from.join(name), &to.join(name)))
}
