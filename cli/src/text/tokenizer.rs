//! Text to token ids and back.

use super::config::TokenizerConfig;
use super::{TextError, gguf, limits};
use crate::catching::catching;
use kernels_io::{Limit, read};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use tokenizers::{AddedToken, ModelWrapper, PreTokenizerWrapper};

/// The names of special tokens that transformers knows. Files name others, which can be usual text.
const SPECIAL: [&str; 7] = [
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
];

/// The largest number of bytes of a token.
const LONGEST: usize = 1 << 16;

/// The same of a tokenizer that tries every way to divide a text. Known files have at most a hundred.
const LONGEST_SCORED: usize = 256;

/// The tokenizer of a checkpoint.
#[derive(Debug)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    file: PathBuf,
    special: BTreeMap<String, String>,
    /// The tokens that are left out of a text: special ones, and the ends of texts.
    hidden: BTreeSet<u32>,
    /// The number of the model's embeddings.
    vocab_size: usize,
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
    /// Reads the `tokenizer.json` and the `tokenizer_config.json` of a folder, or beside a GGUF file, for a model with
    /// `vocab_size` embeddings. Without a `tokenizer.json`, it reads the tokenizer of the GGUF file: `path` itself, or
    /// the only one in it.
    ///
    /// As in transformers, truncation and padding of `tokenizer.json` are ignored, and so are `add_bos_token` and
    /// `add_eos_token` of `tokenizer_config.json`. Of a GGUF file `add_bos_token` is followed, and `add_eos_token` is not,
    /// because a prompt is to be continued.
    ///
    /// Some tokenizers have more tokens than their model has embeddings, such as one for images. Only a text that holds such
    /// a token is an error.
    ///
    /// # Errors
    /// Returns an error that names the file if the folder has no tokenizer, if a file is not what it should be, or if the kind of
    /// tokenizer of a GGUF file is not known.
    pub fn open(path: &Path, vocab_size: usize) -> Result<Self, TextError> {
        let (file, text, config) = source(path)?;
        let wrong = |problem: String| TextError::content(&file, problem);
        limits::check(&text).map_err(wrong)?;
        let mut inner = catch(&file, || tokenizers::Tokenizer::from_bytes(text))?
            .map_err(|error| wrong(format!("not a tokenizer: {error}")))?;
        inner.with_padding(None);
        let cut = inner.with_truncation(None);
        cut.map_err(|error| wrong(error.to_string()))?;
        if let Some(adds) = config.prefix_space {
            set_prefix_space(&mut inner, adds);
        }
        let mut tokenizer = Self {
            special: config.special,
            inner,
            file,
            hidden: BTreeSet::new(),
            vocab_size,
        };
        tokenizer.add(config.added, path)?;
        tokenizer.check_lengths()?;
        Ok(tokenizer)
    }

    /// Adds the tokens of `added_tokens_decoder` and the special tokens that `tokenizer.json` does not have, or not as such.
    fn add(&mut self, added: BTreeMap<u32, AddedToken>, path: &Path) -> Result<(), TextError> {
        let differs = |id: u32, text: &str| TextError::Content {
            file: gguf::folder(path).join("tokenizer_config.json"),
            problem: format!(
                "`added_tokens_decoder` gives token `{text}` the id {id}, but tokenizer.json does not; the files are of \
                 different tokenizers"
            ),
        };
        for (id, token) in added {
            let text = token.content.clone();
            if token.special {
                self.hidden.insert(id);
            }
            let own = self.inner.get_added_vocabulary().get_vocab();
            if !own.contains_key(&text) {
                self.inner.add_tokens([token]).map_err(failed)?;
            }
            if self.inner.token_to_id(&text) != Some(id) {
                return Err(differs(id, &text));
            }
        }
        let special = SPECIAL.iter().filter_map(|name| self.special.get(*name));
        for text in special {
            let Some(id) = self.inner.token_to_id(text) else {
                continue;
            };
            self.hidden.insert(id);
            if !self
                .inner
                .get_added_vocabulary()
                .get_vocab()
                .contains_key(text)
            {
                let token = AddedToken::from(text.as_str(), true);
                self.inner.add_special_tokens([token]).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Returns an error if a token is so long that a few of them would fill the memory, or that every way to divide a text
    /// takes long.
    fn check_lengths(&self) -> Result<(), TextError> {
        let longest = match self.inner.get_model() {
            ModelWrapper::Unigram(_) => LONGEST_SCORED,
            _ => LONGEST,
        };
        let vocabulary = self.inner.get_vocab(true).into_iter();
        match vocabulary.max_by_key(|(token, _)| token.len()) {
            Some((token, id)) if token.len() > longest => {
                let problem = format!("token {id} has {} bytes, more than {longest}", token.len());
                Err(TextError::content(&self.file, problem))
            }
            _ => Ok(()),
        }
    }

    /// Hides tokens that end texts: they are left out of a text, even if the files don't call them special. A token that could
    /// be text, without brackets and not added, is shown as transformers does.
    pub fn hide(&mut self, ends: &[u32]) {
        for &id in ends {
            let text = self.inner.id_to_token(id).unwrap_or_default();
            let added = self.inner.get_added_vocabulary().get_vocab();
            let brackets = [('<', '>'), ('[', ']')];
            let mut brackets = brackets.iter();
            let marked =
                brackets.any(|(open, close)| text.starts_with(*open) && text.ends_with(*close));
            if marked || added.contains_key(&text) {
                self.hidden.insert(id);
            }
        }
    }

    /// Returns the first token that the model has no embedding for, and its id.
    pub fn beyond_model(&self) -> Option<(String, u32)> {
        let vocabulary = self.inner.get_vocab(true).into_iter();
        let beyond = vocabulary.filter(|(_, id)| *id as usize >= self.vocab_size);
        beyond.min_by_key(|(_, id)| *id)
    }

    /// Returns an error if the model has no embedding for a token.
    fn check(&self, ids: &[u32]) -> Result<(), TextError> {
        let beyond = ids.iter().find(|id| **id as usize >= self.vocab_size);
        match beyond {
            None => Ok(()),
            Some(&id) => Err(TextError::NoEmbedding {
                token: self.inner.id_to_token(id).unwrap_or_default(),
                id,
                vocab_size: self.vocab_size,
            }),
        }
    }

    /// Returns the first token that the tokenizer of another folder has no id or another id for, with this id and that one.
    /// Tokens that the model has no embedding for don't count.
    ///
    /// # Errors
    /// Returns an error as [`open`](Self::open) does.
    pub fn difference(
        &self,
        folder: &Path,
    ) -> Result<Option<(String, u32, Option<u32>)>, TextError> {
        let other = Self::open(folder, self.vocab_size)?;
        let vocabulary = self.inner.get_vocab(true).into_iter();
        let within = vocabulary.filter(|(_, id)| (*id as usize) < self.vocab_size);
        let all = within.map(|(token, id)| {
            let theirs = other.inner.token_to_id(&token);
            (token, id, theirs)
        });
        let differing = all.filter(|(_, id, theirs)| *theirs != Some(*id));
        Ok(differing.min_by_key(|(_, id, _)| *id))
    }

    /// Returns the token ids of a text, with the special tokens that the tokenizer adds, such as `<s>` at the start.
    ///
    /// # Errors
    /// Returns an error if the tokenizer fails, or if the model has no embedding for a token of the text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TextError> {
        let encoding = self.catch(|inner| inner.encode_fast(text, true))?;
        self.check(encoding.get_ids())?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Returns the token ids of a text that holds its special tokens already, such as a rendered conversation.
    ///
    /// # Errors
    /// Returns an error if the tokenizer fails, or if the model has no embedding for a token of the text.
    pub fn encode_plain(&self, text: &str) -> Result<Offsets, TextError> {
        let encoding = self.catch(|inner| inner.encode(text, false))?;
        self.check(encoding.get_ids())?;
        let bytes = encoding.get_offsets().iter();
        Ok(Offsets {
            ids: encoding.get_ids().to_vec(),
            bytes: bytes.map(|&(start, end)| start..end).collect(),
        })
    }

    /// Returns the text of token ids, without special tokens and the ends of texts. Invalid UTF-8 becomes `U+FFFD`.
    ///
    /// # Errors
    /// Returns an error if the tokenizer fails.
    pub fn decode(&self, ids: &[u32]) -> Result<String, TextError> {
        let shown = ids.iter().copied().filter(|id| !self.hidden.contains(id));
        let shown: Vec<u32> = shown.collect();
        self.catch(|inner| inner.decode(&shown, true))
    }

    /// Returns the text of token ids, with special tokens.
    ///
    /// # Errors
    /// Returns an error if the tokenizer fails.
    pub fn decode_all(&self, ids: &[u32]) -> Result<String, TextError> {
        self.catch(|inner| inner.decode(ids, false))
    }

    /// Calls the tokenizer, whose panic is an error of its file.
    fn catch<T>(
        &self,
        call: impl FnOnce(&tokenizers::Tokenizer) -> tokenizers::Result<T>,
    ) -> Result<T, TextError> {
        catch(&self.file, || call(&self.inner))?.map_err(failed)
    }

    /// Returns the id of a token that the model has an embedding for.
    pub fn id(&self, token: &str) -> Option<u32> {
        let id = self.inner.token_to_id(token)?;
        self.check(&[id]).is_ok().then_some(id)
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
        tokens.retain(|(token, id)| !token.trim().is_empty() && (*id as usize) < self.vocab_size);
        tokens.sort_by_key(|(token, id)| (std::cmp::Reverse(token.len()), *id));
        tokens.dedup();
        tokens
    }

    /// Returns all special tokens by their names.
    pub(super) fn specials(&self) -> &BTreeMap<String, String> {
        &self.special
    }
}

/// Has a byte-level tokenizer put a space before a text, or not.
fn set_prefix_space(tokenizer: &mut tokenizers::Tokenizer, adds: bool) {
    let Some(mut steps) = tokenizer.get_pre_tokenizer().cloned() else {
        return;
    };
    match &mut steps {
        PreTokenizerWrapper::ByteLevel(bytes) => bytes.add_prefix_space = adds,
        PreTokenizerWrapper::Sequence(several) => {
            for step in several.as_mut() {
                if let PreTokenizerWrapper::ByteLevel(bytes) = step {
                    bytes.add_prefix_space = adds;
                }
            }
        }
        _ => return,
    }
    tokenizer.with_pre_tokenizer(Some(steps));
}

/// Returns the file of a tokenizer, the text of its `tokenizer.json`, and its settings.
fn source(path: &Path) -> Result<(PathBuf, Vec<u8>, TokenizerConfig), TextError> {
    const LIMIT: Limit = Limit::mib("a tokenizer", 512);
    if let Some(file) = gguf::find(path)? {
        let text = gguf::tokenizer(&file)?.to_string();
        return Ok((file.path().into(), text.into_bytes(), gguf::config(&file)?));
    }
    let file = gguf::folder(path).join("tokenizer.json");
    if !kernels_io::is_there(&file) {
        return Err(TextError::Missing {
            folder: path.into(),
            problem: "the folder has no tokenizer.json; `AutoTokenizer.from_pretrained(…).save_pretrained(…)` of \
                      transformers writes one",
        });
    }
    let text = read(&file, LIMIT)?;
    Ok((file, text, TokenizerConfig::open(path)?))
}

/// Calls a function, whose panic is an error of a file.
fn catch<T>(file: &Path, call: impl FnOnce() -> T) -> Result<T, TextError> {
    catching(call)
        .map_err(|text| TextError::content(file, format!("this tokenizer can't be used: {text}")))
}

fn failed(error: tokenizers::Error) -> TextError {
    TextError::Tokenizer(error.to_string())
}
