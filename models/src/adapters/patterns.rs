//! Ranks and factors of single adapters: `rank_pattern` and `alpha_pattern` of `adapter_config.json`.

use std::fmt;
use std::path::Path;

use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value, json};

use super::AdapterConfig;
use crate::ModelError;

/// Numbers of single adapters, by regular expressions. As in PEFT, an expression means layers whose name ends with it, from
/// a dot on, and the first one that matches counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AdapterPatterns {
    /// Ranks.
    pub ranks: Vec<(String, usize)>,
    /// Factors, before they are divided by the rank, or by its root.
    pub alphas: Vec<(String, f64)>,
}

impl AdapterPatterns {
    /// Reads the patterns in the text of the file `file`.
    pub(super) fn parse(text: &str, file: &Path) -> Result<Self, ModelError> {
        #[derive(Deserialize)]
        struct Fields {
            rank_pattern: Option<Pairs<usize>>,
            alpha_pattern: Option<Pairs<f64>>,
        }
        let fields: Fields = serde_json::from_str(text).map_err(|source| ModelError::Json {
            file: file.into(),
            source,
        })?;
        Ok(Self {
            ranks: fields.rank_pattern.map_or_else(Vec::new, |pairs| pairs.0),
            alphas: fields.alpha_pattern.map_or_else(Vec::new, |pairs| pairs.0),
        })
    }
}

/// The settings of every adapter.
pub(super) struct Each<'a> {
    config: &'a AdapterConfig,
    ranks: Vec<(Pattern, usize)>,
    alphas: Vec<(Pattern, f64)>,
}

impl<'a> Each<'a> {
    /// Reads the expressions.
    ///
    /// # Errors
    /// Returns an error if one can't be read.
    pub(super) fn of(config: &'a AdapterConfig) -> Result<Self, ModelError> {
        Ok(Self {
            config,
            ranks: compiled("rank_pattern", &config.patterns.ranks)?,
            alphas: compiled("alpha_pattern", &config.patterns.alphas)?,
        })
    }

    /// Returns the settings of the adapter of a layer, without patterns and targets.
    ///
    /// # Errors
    /// Returns an error if a number is outside its range.
    pub(super) fn at(&self, name: &str) -> Result<AdapterConfig, ModelError> {
        let own = AdapterConfig {
            rank: first(&self.ranks, name).unwrap_or(self.config.rank),
            alpha: first(&self.alphas, name).unwrap_or(self.config.alpha),
            dropout: self.config.dropout,
            rank_stabilised: self.config.rank_stabilised,
            targets: Vec::new(),
            patterns: AdapterPatterns::default(),
        };
        match own.check() {
            Err(ModelError::Adapter { problem }) => Err(ModelError::Adapter {
                problem: format!("the adapter of `{name}`: {problem}"),
            }),
            checked => checked.map(|()| own),
        }
    }

    /// Returns `rank_pattern` and `alpha_pattern` with the whole names of these layers.
    pub(super) fn to_json<'n>(
        &self,
        names: impl Iterator<Item = &'n str>,
    ) -> Result<[Value; 2], ModelError> {
        let (mut ranks, mut alphas) = (Map::new(), Map::new());
        for name in names {
            let own = self.at(name)?;
            if own.rank != self.config.rank {
                ranks.insert(name.to_owned(), json!(own.rank));
            }
            if own.alpha != self.config.alpha {
                alphas.insert(name.to_owned(), json!(own.alpha));
            }
        }
        Ok([ranks.into(), alphas.into()])
    }
}

/// An expression that means the ends of names.
enum Pattern {
    /// Without other signs than dots. An adapter can have one for each of its layers.
    Plain(String),
    Regex(Regex),
}

/// The memory of all compiled expressions of a field, in bytes.
const MEMORY: usize = 64 << 20;

impl Pattern {
    fn new(text: &str, memory: usize) -> Option<Self> {
        if is_plain(text) {
            return Some(Self::Plain(text.to_owned()));
        }
        let whole = format!(r"^(?:.*\.)?(?:{text})$");
        let regex = RegexBuilder::new(&whole).size_limit(memory).build();
        regex.ok().map(Self::Regex)
    }

    fn is_match(&self, name: &str) -> bool {
        let text = match self {
            Self::Plain(text) => text.as_bytes(),
            Self::Regex(regex) => return regex.is_match(name),
        };
        let before = name.len().checked_sub(text.len());
        let Some((before, end)) = before.map(|before| name.as_bytes().split_at(before)) else {
            return false;
        };
        let same = |(own, other): (&u8, &u8)| *own == b'.' || own == other;
        before.last().is_none_or(|last| *last == b'.') && text.iter().zip(end).all(same)
    }
}

fn is_plain(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    text.chars().all(is_plain)
}

fn first<T: Copy>(patterns: &[(Pattern, T)], name: &str) -> Option<T> {
    let found = patterns.iter().find(|(pattern, _)| pattern.is_match(name));
    found.map(|(_, number)| *number)
}

fn compiled<T: Copy>(
    field: &str,
    patterns: &[(String, T)],
) -> Result<Vec<(Pattern, T)>, ModelError> {
    let others = patterns.iter().filter(|(text, _)| !is_plain(text));
    let memory = MEMORY / others.count().max(1);
    let one = |(text, number): &(String, T)| match Pattern::new(text, memory) {
        Some(pattern) => Ok((pattern, *number)),
        None => Err(ModelError::Adapter {
            problem: format!(
                "`{field}`: unsupported regular expression `{}`",
                kernels_io::escape(text)
            ),
        }),
    };
    patterns.iter().map(one).collect()
}

/// The entries of a JSON object in their order.
struct Pairs<T>(Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Pairs<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T>(Vec<(String, T)>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = Pairs<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with names of layers and numbers")
            }

            fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Pairs<T>, A::Error> {
                while let Some(entry) = map.next_entry()? {
                    self.0.push(entry);
                }
                Ok(Pairs(self.0))
            }
        }
        deserializer.deserialize_map(Entries(Vec::new()))
    }
}
