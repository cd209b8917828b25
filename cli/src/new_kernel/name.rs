//! Names of new kernels, in the spellings that a crate needs.

use super::template;
use burn_kernels::kernel::Launch;
use burn_kernels::registry;
use std::str::FromStr;

/// A name in snake_case that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(String);

/// The reserved words of Rust 2024, and file names with a meaning.
const RESERVED: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate",
    "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl",
    "in", "let", "lib", "loop", "macro", "main", "match", "mod", "move", "mut", "override", "priv",
    "pub", "ref", "return", "self", "static", "struct", "super", "trait", "true", "try", "type",
    "typeof", "union", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if !is_snake_case(text) {
            return Err(
                "a kernel's name is snake_case: words of a-z and 0-9 that start with a letter, \
                 joined by `_`, such as `top_k_gate`"
                    .to_owned(),
            );
        }
        let name = Self(text.to_owned());
        if RESERVED.contains(&text) {
            return Err(format!("`{text}` is a word of Rust; choose another name"));
        }
        if !Launch::Custom.belongs_to(text) || registry::kernel(text).is_some() {
            return Err(format!(
                "`{text}` is a kernel of burn-kernels; choose another name"
            ));
        }
        let camel = name.camel();
        if template::words().any(|word| word == text || word == camel) {
            return Err(format!(
                "the new crate's code uses `{text}` or `{camel}` for something else; choose \
                 another name"
            ));
        }
        Ok(name)
    }
}

fn is_snake_case(text: &str) -> bool {
    text.split('_').enumerate().all(|(index, word)| {
        let mut characters = word.chars();
        let is_start = |c: char| c.is_ascii_lowercase() || (index > 0 && c.is_ascii_digit());
        characters.next().is_some_and(is_start)
            && characters.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
    })
}

impl Name {
    /// Returns the name as `top_k_gate`.
    pub fn snake(&self) -> &str {
        &self.0
    }

    /// Returns the name as `top-k-gate`.
    pub fn kebab(&self) -> String {
        self.0.replace('_', "-")
    }

    /// Returns the name as `TopKGate`.
    pub fn camel(&self) -> String {
        let words = self.0.split('_').map(|word| word.split_at(1));
        words
            .map(|(first, rest)| first.to_ascii_uppercase() + rest)
            .collect()
    }

    /// Returns the name of the package, `top-k-gate-kernel`.
    pub fn package(&self) -> String {
        self.kebab() + "-kernel"
    }

    /// Returns the name of the library, `top_k_gate_kernel`.
    pub fn library(&self) -> String {
        self.0.clone() + "_kernel"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings() {
        let name: Name = "top_2_gate".parse().unwrap();
        assert_eq!(name.kebab(), "top-2-gate");
        assert_eq!(name.camel(), "Top2Gate");
        assert_eq!(name.package(), "top-2-gate-kernel");
        assert_eq!(name.library(), "top_2_gate_kernel");
        assert!("soft_cap".parse::<Name>().is_ok());
    }

    #[test]
    fn names_that_would_not_build_are_refused() {
        for (text, words) in [
            ("", "snake_case"),
            ("Gate", "snake_case"),
            ("top-k", "snake_case"),
            ("2d", "snake_case"),
            ("_gate", "snake_case"),
            ("gate_", "snake_case"),
            ("a__b", "snake_case"),
            ("größe", "snake_case"),
            ("match", "a word of Rust"),
            ("main", "a word of Rust"),
            ("glu", "a kernel of burn-kernels"),
            ("npu_fused_rope", "a kernel of burn-kernels"),
            ("tensor", "uses `tensor` or `Tensor`"),
            ("operands", "uses `operands` or `Operands`"),
            ("x", "uses `x` or `X`"),
        ] {
            let error = text.parse::<Name>().unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
