//! Conversion of text to batches of bytes.

use super::settings::Settings;
use crate::training::batch::{Batch, Source};
use crate::training::identity::Fingerprint;
use crate::training::random::SplitMix64;
use anyhow::{Context, ensure};
use kernels_io::Limit;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// The divisor of a text's length that gives the number of held-out bytes.
const HELD_OUT: usize = 10;

const BUILT_IN: [(&str, &[u8]); 2] = [
    ("alice.txt", include_bytes!("../../corpus/alice.txt")),
    (
        "as-you-like-it.txt",
        include_bytes!("../../corpus/as-you-like-it.txt"),
    ),
];

/// The texts to train on.
pub struct Corpus {
    name: String,
    bytes: Vec<u8>,
    /// The range of each text in `bytes`. Sequences never cross from one text into the next.
    texts: Vec<Range<usize>>,
}

impl Corpus {
    /// Reads `path`, or returns the built-in books without one.
    ///
    /// # Errors
    /// Returns an error if the file can't be read.
    pub fn load(path: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = path else {
            return Ok(Self::built_in());
        };
        // The list of sequences takes eight more bytes for each byte.
        const LIMIT: Limit = Limit::mib("a corpus", 1024);
        let bytes = kernels_io::read(path, LIMIT).context("the corpus")?;
        // A run goes on from any working folder.
        let path = std::path::absolute(path).context("the corpus")?;
        Ok(Self {
            name: kernels_io::escape_path(&path),
            texts: std::iter::once(0..bytes.len()).collect(),
            bytes,
        })
    }

    fn built_in() -> Self {
        let mut bytes = Vec::new();
        let texts = BUILT_IN.map(|(_, text)| {
            let start = bytes.len();
            bytes.extend_from_slice(text);
            start..bytes.len()
        });
        Self {
            name: format!("built in: {}", BUILT_IN.map(|(name, _)| name).join(", ")),
            bytes,
            texts: texts.into(),
        }
    }

    /// Splits the texts into training and validation sequences of `seq` bytes. The end of each text is held out.
    ///
    /// # Errors
    /// Returns an error if the corpus is too short for one sequence of each kind.
    pub fn split(self, seq: usize) -> anyhow::Result<Splits> {
        let bytes: Arc<[u8]> = self.bytes.into();
        let cut = |text: &Range<usize>| text.end - text.len() / HELD_OUT;
        let train = self.texts.iter().map(|text| text.start..cut(text));
        let valid: Vec<_> = self.texts.iter().map(|text| cut(text)..text.end).collect();
        let mut fingerprint = Fingerprint::default();
        fingerprint.add(&bytes);
        let splits = Splits {
            corpus: self.name,
            fingerprint: fingerprint.to_string(),
            prompt: prompt(&bytes[valid[0].clone()]),
            train: Windows::new(&bytes, train, seq, 1),
            valid: Windows::new(&bytes, valid.into_iter(), seq, seq),
        };
        ensure!(
            !splits.train.is_empty() && !splits.valid.is_empty(),
            "the corpus ({}, {} bytes) is too short: sequences of {seq} bytes need at least {} bytes",
            splits.corpus,
            bytes.len(),
            seq * HELD_OUT,
        );
        Ok(splits)
    }
}

/// Returns the start of the first whole line of the held-out text, which a sample continues.
fn prompt(held_out: &[u8]) -> Vec<u8> {
    const LENGTH: usize = 64;
    let line = held_out
        .iter()
        .position(|byte| *byte == b'\n')
        .map_or(0, |end| end + 1);
    let rest = if line < held_out.len() {
        &held_out[line..]
    } else {
        held_out
    };
    rest.iter().copied().take(LENGTH).collect()
}

/// The training text and the held-out text.
pub struct Splits {
    /// The source of the text.
    pub corpus: String,
    /// A number that tells texts apart.
    pub fingerprint: String,
    /// The sequences of the training text, one at each byte.
    pub train: Windows,
    /// The sequences of the held-out text, without overlap.
    pub valid: Windows,
    prompt: Vec<u8>,
}

impl Splits {
    /// Returns held-out text for a sample to continue. It is never empty.
    pub fn prompt(&self) -> &[u8] {
        &self.prompt
    }
}

/// Sequences of one length in a text.
pub struct Windows {
    bytes: Arc<[u8]>,
    starts: Arc<[usize]>,
    seq: usize,
}

impl Windows {
    /// Returns a sequence every `stride` bytes of each part.
    fn new(
        bytes: &Arc<[u8]>,
        parts: impl Iterator<Item = Range<usize>>,
        seq: usize,
        stride: usize,
    ) -> Self {
        let starts = parts.flat_map(|part| {
            let end = (part.end + 1).saturating_sub(seq);
            (part.start..end).step_by(stride)
        });
        Self {
            bytes: bytes.clone(),
            starts: starts.collect(),
            seq,
        }
    }
}

impl Windows {
    /// Returns the number of sequences.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Returns `true` without sequences.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    fn get(&self, index: usize) -> &[u8] {
        let start = self.starts[index];
        &self.bytes[start..start + self.seq]
    }

    /// Returns sequences as a batch in which each byte is a token.
    fn batch(&self, indices: impl ExactSizeIterator<Item = usize>) -> Batch {
        let shape = [indices.len(), self.seq];
        let bytes = indices.flat_map(|index| self.get(index));
        Batch {
            shape,
            ids: bytes.copied().map(i64::from).collect(),
            #[cfg(feature = "text")]
            labels: None,
        }
    }
}

/// The batches of a run.
pub struct Batches<'a> {
    /// The text.
    pub splits: &'a Splits,
    /// The settings of the run.
    pub settings: &'a Settings,
}

impl Source for Batches<'_> {
    /// Draws sequences at random, with replacement.
    fn training(&self, step: usize) -> Vec<Batch> {
        let Settings { seed, batch, .. } = *self.settings;
        let windows = &self.splits.train;
        let mut random = SplitMix64::of(seed, step as u64);
        let indices = (0..batch).map(|_| random.below(windows.len()));
        vec![windows.batch(indices)]
    }

    /// Counts bytes, because sequences overlap.
    fn steps_per_epoch(&self) -> usize {
        let Settings { batch, seq, .. } = *self.settings;
        (self.splits.train.len() + seq)
            .div_ceil(batch.saturating_mul(seq))
            .max(1)
    }

    fn validations(&self) -> usize {
        self.splits.valid.len().div_ceil(self.settings.batch)
    }

    fn validation(&self, index: usize) -> Batch {
        let (batch, windows) = (self.settings.batch, &self.splits.valid);
        let first = index * batch;
        windows.batch(first..windows.len().min(first + batch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn corpus(texts: &[&[u8]]) -> Corpus {
        let mut bytes = Vec::new();
        let texts = texts.iter().map(|text| {
            bytes.extend_from_slice(text);
            bytes.len() - text.len()..bytes.len()
        });
        Corpus {
            name: "test".to_owned(),
            texts: texts.collect(),
            bytes,
        }
    }

    #[test]
    fn sequences_stay_inside_their_text_and_split() {
        let splits = corpus(&[&[b'a'; 100], &[b'b'; 50]]).split(5).unwrap();
        assert_eq!(splits.train.len(), (90 - 4) + (45 - 4));
        assert_eq!(splits.valid.len(), 2 + 1);
        for windows in [&splits.train, &splits.valid] {
            for index in 0..windows.len() {
                let sequence = windows.get(index);
                assert_eq!(sequence.len(), 5);
                assert!(sequence.iter().all(|byte| *byte == sequence[0]));
            }
        }
    }

    #[test]
    fn a_short_corpus_is_refused_with_the_length_that_is_needed() {
        let error = corpus(&[b"short"]).split(128).err().unwrap().to_string();
        assert!(
            error.contains("5 bytes") && error.contains("1280"),
            "{error}"
        );
        assert!(corpus(&[b""]).split(2).is_err());
        assert!(corpus(&[&[b'x'; 1280]]).split(128).is_ok());
    }

    #[test]
    fn the_built_in_books_are_large_enough_and_plain() {
        let corpus = Corpus::built_in();
        assert!(corpus.bytes.len() >= 200_000);
        assert!(corpus.bytes.iter().all(|b| b.is_ascii() && *b != b'\r'));
        assert!(!corpus.split(128).unwrap().prompt().is_empty());
    }
}
