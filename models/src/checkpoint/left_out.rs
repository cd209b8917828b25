//! The layers that a `quantization_config` leaves as floats, against those that the files have so.
//!
//! The files decide how a weight is read. A list that says something else is of another checkpoint, or of a package that reads
//! its own files in another way, so it is worth a remark.

use std::collections::BTreeSet;

use kernels_io::escape;
use kernels_quant::LeftOut;
use regex::Regex;

use super::matrices::Matrices;
use super::shards::counted;

/// The beginnings of names that packages and versions of packages put or leave out.
const OUTER: [&str; 4] = ["model.", "language_model.", "thinker.", "talker."];

/// Returns a remark on each kind of difference.
pub(super) fn differences<'a>(
    list: &LeftOut,
    quantised: &Matrices,
    names: impl Iterator<Item = &'a str>,
) -> Vec<String> {
    let field = format!("`quantization_config.{}`", list.field);
    let entries = list.entries.iter().map(|entry| Entry::new(entry));
    let entries: Result<Vec<Entry>, String> = entries.collect();
    let entries = match entries {
        Ok(entries) => entries,
        Err(entry) => {
            let entry = escape(&entry);
            return vec![format!(
                "{field} has `{entry}`, a pattern that can't be followed, so the list is not compared with the files"
            )];
        }
    };
    let is_left_out = |weight: &str| {
        let layer = weight.strip_suffix(".weight").unwrap_or(weight);
        let dotted = dotted(layer);
        entries.iter().any(|entry| entry.matches(layer, &dotted))
    };
    let listed: Vec<&str> = quantised.names().filter(|name| is_left_out(name)).collect();
    // A layer is one that could be quantised if layers of its kind are.
    let kinds: BTreeSet<&str> = quantised.names().map(kind).collect();
    let plain = names.filter(|name| name.ends_with(".weight"));
    let plain = plain.filter(|name| quantised.encoding(name).is_none());
    let missing = plain.filter(|name| kinds.contains(kind(name)) && !is_left_out(name));
    let missing: Vec<&str> = missing.collect();
    let remark =
        |(names, what): (Vec<&str>, &str)| Some(format!("{} {what} {field}", counted(&names)?));
    [
        (listed, "quantised in the files, but left out by"),
        (missing, "of floats in the files, but not left out by"),
    ]
    .into_iter()
    .filter_map(remark)
    .collect()
}

/// Returns the last names of a weight, such as `q_proj.weight`.
fn kind(weight: &str) -> &str {
    let layer = weight.strip_suffix(".weight").unwrap_or(weight);
    &weight[layer.rfind('.').map_or(0, |dot| dot + 1)..]
}

/// Returns a name without what stands before the parts of a text model.
fn inner(mut name: &str) -> &str {
    while let Some(rest) = OUTER.iter().find_map(|outer| name.strip_prefix(outer)) {
        name = rest;
    }
    name
}

/// Returns the inner name between dots, so that a name is part of another only where whole words are.
fn dotted(name: &str) -> String {
    format!(".{}.", inner(name))
}

/// An entry of a list: a pattern of whole names from their beginning, or a name of a layer, a group of layers, or their end,
/// between dots.
enum Entry {
    Pattern(Regex),
    Name(String),
}

impl Entry {
    /// Reads an entry. Returns an unreadable pattern.
    fn new(entry: &str) -> Result<Self, String> {
        let pattern = match entry.strip_prefix("re:") {
            Some(pattern) => pattern,
            None if entry.contains(['*', '^', '$', '|']) => entry,
            None => return Ok(Self::Name(dotted(entry))),
        };
        let pattern = Regex::new(&format!("^(?:{pattern})"));
        pattern.map(Self::Pattern).map_err(|_| entry.to_owned())
    }

    /// Returns `true` if the entry leaves a layer out, whose [`dotted`] name is made once for all entries.
    fn matches(&self, layer: &str, dotted: &str) -> bool {
        match self {
            Self::Pattern(pattern) => [layer, inner(layer)]
                .iter()
                .any(|name| pattern.is_match(name)),
            Self::Name(name) => dotted.contains(name.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernels_quant::{Code, Encoding, Scales, Unpacked};

    fn remarks(entries: &[&str]) -> Vec<String> {
        let encoding: Encoding = Unpacked {
            code: Code::Int8,
            scales: Scales::Rows,
            symmetric: true,
        }
        .into();
        let part = encoding.part_names()[0];
        let quantised = ["model.layers.0.mlp.up_proj", "model.layers.1.mlp.up_proj"];
        let stored: Vec<String> = quantised
            .iter()
            .map(|layer| format!("{layer}.{part}"))
            .chain([
                "model.layers.2.mlp.up_proj.weight".into(),
                "lm_head.weight".into(),
            ])
            .collect();
        let names = || stored.iter().map(String::as_str);
        let matrices = Matrices::find(encoding, names());
        let list = LeftOut {
            field: "ignore",
            entries: entries.iter().map(|entry| (*entry).to_owned()).collect(),
        };
        differences(&list, &matrices, names())
    }

    #[test]
    fn a_list_that_is_that_of_the_files_has_no_remark() {
        for entries in [
            &["lm_head", "model.layers.2.mlp.up_proj"][..],
            &["layers.2"],
            &["re:.*layers\\.2.*"],
            &["model.layers.2.*"],
            &["model.language_model.layers.2.mlp"],
        ] {
            assert_eq!(remarks(entries), Vec::<String>::new(), "{entries:?}");
        }
    }

    #[test]
    fn contradictions_are_told_with_a_name() {
        let found = remarks(&["layers.0", "lm_head", "layers.20"]);
        assert_eq!(
            found,
            [
                "tensor `model.layers.0.mlp.up_proj.weight` is quantised in the files, but left out by \
                 `quantization_config.ignore`",
                "tensor `model.layers.2.mlp.up_proj.weight` is of floats in the files, but not left out by \
                 `quantization_config.ignore`",
            ]
        );
        let found = remarks(&["re:(?!lm_head)"]);
        assert!(
            found.len() == 1 && found[0].contains("can't be followed"),
            "{found:?}"
        );
    }
}
