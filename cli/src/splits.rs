//! The tokenizers of GGUF files: the ways to split a text before its bytes are merged, by their names
//! (`tokenizer.ggml.pre`), and the longest token with a score.

use serde_json::{Value, json};

/// The ways by name. A name of llama.cpp comes before others of the same way.
pub const SPLITS: [(&str, Split); 6] = [
    ("gpt-2", Split::Gpt2),
    ("smollm", Split::Digits),
    ("qwen2", Split::Pattern(QWEN2)),
    ("llama-bpe", Split::Pattern(LLAMA3)),
    ("llama3", Split::Pattern(LLAMA3)),
    ("llama-v3", Split::Pattern(LLAMA3)),
];

const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// The largest number of bytes of a token with a score. Every way to divide one is tried. Known files have at most a
/// hundred.
pub const LONGEST: usize = 512;

/// The division of a text before its bytes are merged.
#[derive(Clone, Copy, Debug)]
pub enum Split {
    /// As GPT-2 does.
    Gpt2,
    /// Each digit by itself, and then as GPT-2 does.
    Digits,
    Pattern(&'static str),
}

impl Split {
    /// Returns the steps of the pre-tokenizer in a `tokenizer.json`.
    pub fn steps(self) -> Vec<Value> {
        match self {
            Self::Gpt2 => vec![bytes(true)],
            Self::Digits => vec![
                json!({"type": "Digits", "individual_digits": true}),
                bytes(true),
            ],
            Self::Pattern(pattern) => vec![
                json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false}),
                bytes(false),
            ],
        }
    }
}

/// Returns the step that turns a text into bytes, after splitting it as GPT-2 does or not.
pub fn bytes(use_regex: bool) -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": use_regex})
}
