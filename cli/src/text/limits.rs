//! Limits of the steps of a `tokenizer.json`. The file comes with a checkpoint and can be made to harm: steps that
//! lengthen a text multiply, and damaged tables end the program.

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The largest number of bytes that steps make of one byte. Known tokenizers stay below 40.
const GROWTH: f64 = 128.0;

/// The largest number of steps of a kind.
const STEPS: usize = 256;

/// The largest number of tokens that are added to a whole text.
const ADDED: usize = 4096;

/// The largest number of copies of a text in the text that steps make of it.
const REPEATS: usize = 4;

/// The largest number of bytes that are added to each part of a text between special tokens.
const PREFIX: f64 = 64.0;

/// The parts of a `tokenizer.json` with steps.
#[derive(Deserialize)]
struct Parts {
    normalizer: Option<Value>,
    pre_tokenizer: Option<Value>,
    post_processor: Option<Value>,
    decoder: Option<Value>,
}

/// Refuses steps of a `tokenizer.json` that make long texts of short ones.
pub(super) fn check(json: &[u8]) -> Result<(), String> {
    let parts: Parts =
        serde_json::from_slice(json).map_err(|error| format!("not a tokenizer: {error}"))?;
    let decoders = steps("decoder", parts.decoder.as_ref())?;
    Growth::of(&decoders)?;
    let mut both = steps("normalizer", parts.normalizer.as_ref())?;
    both.extend(steps("pre_tokenizer", parts.pre_tokenizer.as_ref())?);
    Growth::of(&both)?;
    let added = steps("post_processor", parts.post_processor.as_ref())?;
    if added.iter().any(|(_, step)| repeats(step) > REPEATS) {
        return Err(format!(
            "field `post_processor`: it repeats a text more than {REPEATS} times"
        ));
    }
    match added
        .iter()
        .map(|(_, step)| added_tokens(step))
        .sum::<usize>()
        > ADDED
    {
        true => Err(format!(
            "field `post_processor`: it adds more than {ADDED} tokens to a text"
        )),
        false => Ok(()),
    }
}

/// Returns the steps of a part in their order, each with its name.
fn steps<'a>(part: &str, value: Option<&'a Value>) -> Result<Vec<(String, &'a Value)>, String> {
    let mut steps = Vec::new();
    let mut open: Vec<&Value> = value.into_iter().collect();
    while let Some(step) = open.pop() {
        let lists = ["normalizers", "pretokenizers", "processors", "decoders"];
        let inner = lists
            .iter()
            .find_map(|list| step.get(list).and_then(Value::as_array));
        match inner {
            Some(inner) => open.extend(inner.iter().rev()),
            None => steps.push((format!("field `{part}`, step {}", steps.len() + 1), step)),
        }
        if steps.len() + open.len() > STEPS {
            return Err(format!("field `{part}`: it has more than {STEPS} steps"));
        }
    }
    Ok(steps)
}

/// The bytes that characters become in the steps from one on.
struct Growth {
    /// Of characters that differ from others.
    own: BTreeMap<char, f64>,
    /// Of each byte of all others.
    others: f64,
}

impl Growth {
    /// Follows the steps from the last to the first: a text that a step writes becomes what the later steps make of it.
    fn of(steps: &[(String, &Value)]) -> Result<(), String> {
        let mut growth = Self {
            own: BTreeMap::new(),
            others: 1.0,
        };
        for (name, step) in steps.iter().rev() {
            growth
                .before(step)
                .map_err(|problem| format!("{name}: {problem}"))?;
            if growth.most() > GROWTH {
                return Err(format!(
                    "{name}: this and the steps behind it make more than {GROWTH} bytes of one"
                ));
            }
        }
        Ok(())
    }

    fn of_char(&self, c: char) -> f64 {
        let other = self.others * c.len_utf8() as f64;
        self.own.get(&c).copied().unwrap_or(other)
    }

    fn of_text(&self, text: &str) -> f64 {
        text.chars().map(|c| self.of_char(c)).sum()
    }

    /// Returns the largest number of bytes that one byte becomes.
    fn most(&self) -> f64 {
        let own = self
            .own
            .iter()
            .map(|(c, bytes)| bytes / c.len_utf8() as f64);
        own.fold(self.others, f64::max)
    }

    /// Puts a step before the others.
    fn before(&mut self, step: &Value) -> Result<(), String> {
        let text = |name: &str| step.get(name).and_then(Value::as_str);
        match text("type").unwrap_or_default() {
            "Replace" => self.replace(step, self.of_text(text("content").unwrap_or_default()))?,
            "Split" if is_empty_text(step) => return Err("its pattern is empty".into()),
            "Prepend" | "Append" => {
                let added = text("prepend").or(text("append")).unwrap_or_default();
                if self.of_text(added) > PREFIX {
                    return Err(format!("it adds more than {PREFIX} bytes to a text"));
                }
            }
            "Metaspace" => {
                let blank = self.of_text(text("replacement").unwrap_or("▁"));
                self.own.insert(' ', blank.max(self.of_char(' ')));
            }
            "Precompiled" => {
                let longest = longest_entry(text("precompiled_charsmap").unwrap_or_default());
                self.multiply(
                    longest
                        .ok_or("its `precompiled_charsmap` is damaged")?
                        .max(1),
                );
            }
            // The most that Unicode knows.
            "NFKC" | "NFKD" => self.multiply(11),
            "BertNormalizer" => self.multiply(6),
            "NFC" | "NFD" => self.multiply(3),
            "Lowercase" | "ByteLevel" => self.multiply(2),
            _ => {}
        }
        Ok(())
    }

    fn multiply(&mut self, by: usize) {
        self.others = self.most() * by as f64;
        self.own.clear();
    }

    fn replace(&mut self, step: &Value, new: f64) -> Result<(), String> {
        if is_empty_text(step) {
            return Err("its pattern is empty".into());
        }
        match step.pointer("/pattern/String").and_then(Value::as_str) {
            Some(old) => {
                // A character is in one match at most, and each match is replaced once.
                let part = new / old.chars().count() as f64;
                for c in old.chars() {
                    self.own.insert(c, part.max(self.of_char(c)));
                }
            }
            // It may match any character, and nothing between two.
            None => {
                self.others += new;
                self.own.values_mut().for_each(|bytes| *bytes += new);
            }
        }
        Ok(())
    }
}

fn is_empty_text(step: &Value) -> bool {
    let patterns = ["/pattern/String", "/pattern/Regex"];
    patterns
        .iter()
        .any(|pattern| step.pointer(pattern).and_then(Value::as_str) == Some(""))
}

/// Returns the number of times that a step takes a text.
fn repeats(step: &Value) -> usize {
    let times = |name: &str| {
        let pieces = step
            .get(name)
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        pieces
            .filter(|piece| piece.get("Sequence").is_some())
            .count()
    };
    times("single").max(times("pair"))
}

/// Returns the number of tokens that a step adds to a text.
fn added_tokens(step: &Value) -> usize {
    let length = |value: Option<&Value>| value.and_then(Value::as_array).map_or(0, Vec::len);
    let pieces = |name: &str| {
        let pieces = step.get(name).and_then(Value::as_array);
        let ids = pieces
            .into_iter()
            .flatten()
            .filter_map(|piece| piece.pointer("/SpecialToken/id")?.as_str());
        let tokens = step.get("special_tokens");
        ids.map(|id| length(tokens.and_then(|tokens| tokens.get(id)?.get("ids"))))
            .sum::<usize>()
    };
    pieces("single").max(pieces("pair"))
}

/// Returns the length of the longest text that SentencePiece's table holds: the size of a trie, the trie, and texts that
/// end with zeros. Returns `None` if it is damaged.
fn longest_entry(base64: &str) -> Option<usize> {
    let table = decode(base64)?;
    let (size, rest) = table.split_first_chunk()?;
    let size = u32::from_le_bytes(*size) as usize;
    let texts = rest.get(size..).filter(|_| size >= 4)?;
    std::str::from_utf8(texts).ok()?;
    texts.split(|byte| *byte == 0).map(<[u8]>::len).max()
}

/// Decodes base64.
fn decode(text: &str) -> Option<Vec<u8>> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = Vec::new();
    let (mut held, mut bits) = (0_u32, 0);
    for digit in text.trim_end_matches('=').bytes() {
        let value = DIGITS.iter().position(|known| *known == digit)?;
        held = (held << 6 | value as u32) & 0xffff;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn said(normalizer: Value) -> Option<String> {
        check(
            json!({"normalizer": normalizer, "model": {}})
                .to_string()
                .as_bytes(),
        )
        .err()
    }

    fn replace(pattern: Value, content: &str) -> Value {
        json!({"type": "Replace", "pattern": pattern, "content": content})
    }

    fn sequence(steps: Vec<Value>) -> Value {
        json!({"type": "Sequence", "normalizers": steps})
    }

    #[test]
    fn steps_that_multiply_are_refused_and_others_are_not() {
        let doubles = replace(json!({"String": "a"}), "aa");
        assert!(said(sequence(vec![doubles.clone(); 6])).is_none());
        let problem = said(sequence(vec![doubles; 40])).unwrap();
        assert!(
            problem.contains("field `normalizer`, step 33: this"),
            "{problem}"
        );
        let anywhere = replace(json!({"Regex": "x?"}), "xxxx");
        assert!(said(sequence(vec![anywhere; 5])).is_some());
        // Through another character.
        let there = replace(json!({"String": "a"}), "bbbb");
        let back = replace(json!({"String": "b"}), "aaaa");
        let again = (0..3).flat_map(|_| [there.clone(), back.clone()]);
        assert!(said(sequence(again.collect())).is_some());
        // Many that don't meet, as for runs of blanks.
        let blanks = |count| {
            replace(
                json!({"String": " ".repeat(count)}),
                &format!("<|blank_{count}|>"),
            )
        };
        assert!(said(sequence((2..80).map(blanks).collect())).is_none());
        let usual = [
            json!({"type": "NFKC"}),
            replace(json!({"String": " "}), "▁"),
        ];
        assert!(said(sequence(usual.to_vec())).is_none());
    }

    #[test]
    fn empty_patterns_and_damaged_tables_are_named() {
        for empty in [json!({"String": ""}), json!({"Regex": ""})] {
            let problem = said(replace(empty, "a")).unwrap();
            assert!(
                problem.contains("step 1: its pattern is empty"),
                "{problem}"
            );
        }
        let table =
            |base64: &str| said(json!({"type": "Precompiled", "precompiled_charsmap": base64}));
        for damaged in ["AAAAAAAAAAAAAAAAAAAA", "/////w==", "!", ""] {
            let problem = table(damaged).unwrap();
            assert!(
                problem.contains("`precompiled_charsmap` is damaged"),
                "{problem}"
            );
        }
        // A trie of one unit, and the text "a".
        assert_eq!(table("BAAAAAAAAABhAA=="), None);
    }
}
