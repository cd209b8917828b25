//! A prompt and its completion to token ids.

use crate::text::{TextError, Tokenizer};

/// Turns prompts and completions into token ids.
pub struct PairEncoder {
    /// The tokens that the tokenizer adds before a text.
    first: Vec<u32>,
    /// The token at the end of a text.
    end: Option<u32>,
    /// True if the tokenizer takes the start of a text for the start of a word, as SentencePiece's do.
    begins_words: bool,
}

impl PairEncoder {
    /// Creates the encoder of a tokenizer, with the token at the end of a text.
    ///
    /// # Errors
    /// Returns an error if the tokenizer fails.
    pub fn new(tokenizer: &Tokenizer, end: Option<u32>) -> Result<Self, TextError> {
        let (first, _) = tokenizer.added()?;
        let [start, inside] = ["x", "\nx"].map(|text| tokenizer.encode_plain(text));
        Ok(Self {
            first,
            end,
            begins_words: !inside?.ids.ends_with(&start?.ids),
        })
    }

    /// Returns the token ids of a text, after those that the tokenizer adds before it.
    ///
    /// # Errors
    /// Returns an error if the tokenizer fails.
    pub fn text(&self, tokenizer: &Tokenizer, text: &str) -> Result<Vec<u32>, TextError> {
        let ids = tokenizer.encode_plain_long(text)?.ids;
        Ok([&self.first[..], &ids].concat())
    }

    /// Returns the token ids of a prompt with its completion and the end of the text, and the number of them before the
    /// completion.
    ///
    /// The completion goes on where the prompt ends, and has the tokens of the whole text if one of them begins there. If
    /// none does, it has tokens of its own: those that a model writes behind the prompt. Only a tokenizer that would begin a
    /// new word with them has the tokens of the whole text even then, and the one across the border is the completion's.
    ///
    /// # Errors
    /// Returns an error if the tokenizer fails.
    pub fn encode(
        &self,
        tokenizer: &Tokenizer,
        prompt: &str,
        completion: &str,
    ) -> Result<(Vec<u32>, usize), TextError> {
        let whole = tokenizer.encode_plain_long(&[prompt, completion].concat())?;
        let border = prompt.len();
        let inside = whole.bytes.partition_point(|bytes| bytes.end <= border);
        let crosses = whole
            .bytes
            .get(inside)
            .is_some_and(|bytes| bytes.start < border);
        let mut ids = self.first.clone();
        let start;
        if crosses && !self.begins_words {
            ids.extend(tokenizer.encode_plain_long(prompt)?.ids);
            start = ids.len();
            ids.extend(tokenizer.encode_plain_long(completion)?.ids);
        } else {
            start = ids.len() + inside;
            ids.extend(whole.ids);
        }
        // Some completions end with it already.
        let end = self.end.filter(|end| ids.last() != Some(end));
        ids.extend(end);
        Ok((ids, start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn tokenizer(name: &str) -> Tokenizer {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/text");
        Tokenizer::open(&fixtures.join(name), 1000).unwrap()
    }

    fn encoded(name: &str, prompt: &str, completion: &str) -> (Vec<u32>, usize) {
        let tokenizer = tokenizer(name);
        let pairs = PairEncoder::new(&tokenizer, Some(2)).unwrap();
        pairs.encode(&tokenizer, prompt, completion).unwrap()
    }

    #[test]
    fn completions_of_sentence_piece_begin_no_word() {
        let tokenizer = tokenizer("spm");
        for (prompt, completion, learned) in [
            ("walk", "ing", "ing"),
            ("The river", " is", "is"),
            ("the ", "river", "river"),
            // A token of both is learned.
            ("Hello, r", "iver", "river"),
        ] {
            let (ids, start) = encoded("spm", prompt, completion);
            let whole = tokenizer.encode(&format!("{prompt}{completion}")).unwrap();
            assert_eq!(ids, [&whole[..], &[2]].concat(), "{prompt} {completion}");
            let end = tokenizer.decode(&ids[start..]).unwrap();
            assert_eq!(end.trim_start(), learned);
        }
        let (ids, start) = encoded("spm", "", "ing");
        assert_eq!((ids[0], start), (1, 1), "the token at the start of a text");
    }

    #[test]
    fn a_completion_that_ends_has_one_end() {
        for completion in [" b", " b<|im_end|>"] {
            let (ids, _) = encoded("tiny", "a", completion);
            assert!(ids.ends_with(&[2]) && !ids.ends_with(&[2, 2]), "{ids:?}");
        }
    }

    #[test]
    fn other_completions_are_what_a_model_writes_behind_the_prompt() {
        let tokenizer = tokenizer("tiny");
        for (prompt, completion) in [("The river", " has"), ("The riv", "er"), ("a ", "b")] {
            let (ids, start) = encoded("tiny", prompt, completion);
            let own = [prompt, completion].map(|text| tokenizer.encode(text).unwrap());
            assert_eq!(start, own[0].len());
            assert_eq!(
                ids,
                [&own.concat()[..], &[2]].concat(),
                "{prompt}|{completion}"
            );
        }
    }
}
