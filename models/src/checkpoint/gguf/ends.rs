//! The tokens of a GGUF file that end a text.

use std::collections::BTreeSet;

use super::{File, Metadata};
use crate::ModelError;

/// The keys that name one: the end of a text, of a turn, and of a message that waits for a tool.
const KEYS: [&str; 3] = [
    "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.eot_token_id",
    "tokenizer.ggml.eom_token_id",
];

/// The texts of tokens that end one in any file, whatever their type. llama.cpp ends at them too.
const TEXTS: [&str; 11] = [
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
];

/// Returns whether a token of a file ends a text by its own text, whatever the keys of the file say, as `<|im_end|>` does.
pub fn ends_text(token: &str) -> bool {
    TEXTS.contains(&token)
}

impl File {
    /// Returns the ids of the tokens that end a text, each once: those that keys name, and those that have a usual text,
    /// such as `<|im_end|>`.
    ///
    /// # Errors
    ///
    /// Returns an error if a key is not an integer, or the tokens are not texts.
    pub fn end_tokens(&self) -> Result<Vec<i64>, ModelError> {
        end_tokens(&self.metadata)
    }
}

pub(super) fn end_tokens(metadata: &Metadata) -> Result<Vec<i64>, ModelError> {
    let mut ids = Vec::new();
    for key in KEYS {
        ids.extend(metadata.integer(key)?);
    }
    let texts = metadata.strings("tokenizer.ggml.tokens")?;
    let ends = (0..).zip(texts.unwrap_or_default());
    ids.extend(ends.filter_map(|(id, text)| ends_text(text).then_some(id)));
    let mut seen = BTreeSet::new();
    ids.retain(|id| seen.insert(*id));
    Ok(ids)
}
