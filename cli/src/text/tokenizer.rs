//! Text to token ids and back.

use super::config::TokenizerConfig;
use super::{TextError, gguf};
use kernels_io::{Limit, read};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The tokenizer of a checkpoint.
#[derive(Debug)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    special: BTreeMap<String, String>,
}

/// Token ids, each with the bytes of the text that it stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offsets {
    /// The token ids.
    pub ids: Vec<u32>,
    /// The bytes of each token in the text. A token of the middle of a character has the bytes of the character.
    pub bytes: Vec<Range<usize>>,
}

impl Tokenizer {
    /// Reads the `tokenizer.json` and the `tokenizer_config.json` of a folder, for a model with so many embeddings. Without a
    /// `tokenizer.json`, it reads the tokenizer of a GGUF file: `folder` itself, or the only one in it.
    ///
    /// As in transformers, truncation and padding of `tokenizer.json` are ignored, and so are `add_bos_token` and
    /// `add_eos_token` of `tokenizer_config.json`. Of a GGUF file `add_bos_token` is followed, and `add_eos_token` is not,
    /// because a prompt is to be continued.
    ///
    /// # Errors
    /// Returns an error that names the file if there is no tokenizer, if a file is not what it should be, if the kind of
    /// tokenizer of a GGUF file is not known, or if a token's id is not below `vocab_size`.
    pub fn open(folder: &Path, vocab_size: usize) -> Result<Self, TextError> {
        let (file, text, config) = source(folder)?;
        let wrong = |problem: String| TextError::content(&file, problem);
        let mut inner = tokenizers::Tokenizer::from_bytes(text)
            .map_err(|error| wrong(format!("not a tokenizer: {error}")))?;
        inner.with_padding(None);
        let cut = inner.with_truncation(None);
        cut.map_err(|error| wrong(error.to_string()))?;
        let tokenizer = Self {
            special: config.special,
            inner,
        };
        tokenizer.check_added(&config.added, folder)?;
        tokenizer.check_size(vocab_size).map_err(wrong)?;
        Ok(tokenizer)
    }

    /// Returns an error if a token that `tokenizer_config.json` adds is not in `tokenizer.json`.
    fn check_added(&self, added: &[(u32, String)], folder: &Path) -> Result<(), TextError> {
        let differs = |(id, token): &&(u32, String)| self.inner.token_to_id(token) != Some(*id);
        let Some((id, token)) = added.iter().find(differs) else {
            return Ok(());
        };
        let problem = format!(
            "`added_tokens_decoder` gives token `{token}` the id {id}, but tokenizer.json does not; the files are of \
             different tokenizers"
        );
        let file = folder.join("tokenizer_config.json");
        Err(TextError::content(file, problem))
    }

    fn check_size(&self, vocab_size: usize) -> Result<(), String> {
        let vocabulary = self.inner.get_vocab(true);
        let Some((token, id)) = vocabulary.into_iter().max_by_key(|(_, id)| *id) else {
            return Err("the vocabulary is empty".into());
        };
        if id as usize >= vocab_size {
            return Err(format!(
                "token `{token}` has the id {id}, but the model has {vocab_size} embeddings (vocab_size); the tokenizer \
                 is of another model"
            ));
        }
        Ok(())
    }

    /// Returns the token ids of a text, with the special tokens that the tokenizer adds, such as `<s>` at the start.
    ///
    /// # Errors
    /// Returns an error if the tokenizer fails.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TextError> {
        let encoding = self.inner.encode_fast(text, true).map_err(failed)?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Returns the token ids of a text that holds its special tokens already, such as a rendered conversation.
    ///
    /// # Errors
    /// Returns an error if the tokenizer fails.
    pub fn encode_plain(&self, text: &str) -> Result<Offsets, TextError> {
        let encoding = self.inner.encode(text, false).map_err(failed)?;
        let bytes = encoding.get_offsets().iter();
        Ok(Offsets {
            ids: encoding.get_ids().to_vec(),
            bytes: bytes.map(|&(start, end)| start..end).collect(),
        })
    }

    /// Returns the text of token ids, without special tokens. Bytes that are no UTF-8 are `U+FFFD`.
    ///
    /// # Errors
    /// Returns an error if the tokenizer fails.
    pub fn decode(&self, ids: &[u32]) -> Result<String, TextError> {
        self.inner.decode(ids, true).map_err(failed)
    }

    /// Returns the text of token ids, with special tokens.
    ///
    /// # Errors
    /// Returns an error if the tokenizer fails.
    pub fn decode_all(&self, ids: &[u32]) -> Result<String, TextError> {
        self.inner.decode(ids, false).map_err(failed)
    }

    /// Returns the id of a token.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// Returns a special token by its name, such as `eos_token`.
    pub fn special(&self, name: &str) -> Option<&str> {
        self.special.get(name).map(String::as_str)
    }

    /// Returns the special tokens with their ids, the longest first.
    pub(super) fn special_tokens(&self) -> Vec<(String, u32)> {
        let added = self.inner.get_added_tokens_decoder().into_iter();
        let added = added.filter(|(_, token)| token.special);
        let added = added.map(|(id, token)| (token.content, id));
        let named = self.special.values();
        let named = named.filter_map(|token| Some((token.clone(), self.id(token)?)));
        let mut tokens: Vec<(String, u32)> = added.chain(named).collect();
        tokens.retain(|(token, _)| !token.trim().is_empty());
        tokens.sort_by_key(|(token, id)| (std::cmp::Reverse(token.len()), *id));
        tokens.dedup();
        tokens
    }

    /// Returns all special tokens by their names.
    pub(super) fn specials(&self) -> &BTreeMap<String, String> {
        &self.special
    }
}

/// Returns the file of a tokenizer, the text of its `tokenizer.json`, and its settings.
fn source(folder: &Path) -> Result<(PathBuf, Vec<u8>, TokenizerConfig), TextError> {
    const LIMIT: Limit = Limit::mib("a tokenizer", 512);
    if let Some(file) = gguf::find(folder)? {
        let text = gguf::tokenizer(&file)?.to_string();
        return Ok((file.path().into(), text.into_bytes(), gguf::config(&file)?));
    }
    let file = folder.join("tokenizer.json");
    if !kernels_io::is_there(&file) {
        return Err(TextError::Missing {
            folder: folder.into(),
            problem: "the folder has no tokenizer.json; `AutoTokenizer.from_pretrained(…).save_pretrained(…)` of \
                      transformers writes one",
        });
    }
    let text = read(&file, LIMIT)?;
    Ok((file, text, TokenizerConfig::open(folder)?))
}

fn failed(error: tokenizers::Error) -> TextError {
    TextError::Tokenizer(error.to_string())
}
