//! Patterns of site names.

use super::PolicyError;
use crate::registry::{SPECS, SiteSpec};
use std::fmt;

/// A pattern of site names, `module::Type::method`.
///
/// * `.` and `::` are the same separator.
/// * `*` matches any characters, including separators; `?` matches one.
/// * Leading segments of the path may be left out, and so may the last one, the method. `llama::*`, `*Mlp`,
///   `LlamaMlp.forward` and `my_crate::llama::LlamaMlp::forward` all match the same site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SitePattern {
    text: String,
}

impl SitePattern {
    /// Reads a pattern. A plain name stands for `*::name`.
    ///
    /// # Errors
    /// Returns an error if the text is not a pattern, or if no site that is linked in matches.
    pub(super) fn new(text: &str) -> Result<Self, PolicyError> {
        let pattern = Self::parse(text)?;
        let names: Vec<String> = SPECS.iter().map(|site| site.name()).collect();
        if names.iter().any(|name| pattern.matches_name(name)) {
            return Ok(pattern);
        }
        Err(PolicyError::NoSite {
            pattern: text.to_owned(),
            near: near(&pattern, &names),
        })
    }

    /// Reads a pattern that need not match a site.
    ///
    /// # Errors
    /// Returns an error if a segment is empty or contains a blank, `,` or a single `:`.
    pub(crate) fn parse(text: &str) -> Result<Self, PolicyError> {
        let normal = text.trim().replace("::", ".");
        if normal.split('.').any(str::is_empty) || normal.contains([' ', ',', ':']) {
            return Err(PolicyError::Pattern {
                pattern: text.to_owned(),
            });
        }
        let text = normal.replace('.', "::");
        let text = match Self::is_one(&text) {
            true => text,
            false => format!("*::{text}"),
        };
        Ok(Self { text })
    }

    /// Reads a pattern that need not match a site of the test program.
    #[cfg(test)]
    pub(super) fn unchecked(text: &str) -> Self {
        Self::parse(text).unwrap()
    }

    /// Returns `true` if a word of a policy is a pattern and not the id of a kernel.
    pub(super) fn is_one(word: &str) -> bool {
        word.contains("::") || word.contains(['*', '?', '.'])
    }

    /// Returns `true` if the site's name matches.
    pub(crate) fn matches(&self, site: &SiteSpec) -> bool {
        self.matches_name(&site.name())
    }

    /// Returns `true` if a site's full name matches.
    pub(crate) fn matches_name(&self, name: &str) -> bool {
        tails(name).any(|tail| glob(&self.text, tail))
    }
}

impl fmt::Display for SitePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Returns the name without leading segments, each with and without the last segment.
fn tails(name: &str) -> impl Iterator<Item = &str> {
    let starts = std::iter::once(0).chain(name.match_indices("::").map(|(at, _)| at + 2));
    starts.flat_map(move |start| {
        let tail = &name[start..];
        let owner = tail.rsplit_once("::").map(|(owner, _)| owner);
        std::iter::once(tail).chain(owner)
    })
}

/// Returns `true` if `text` matches a pattern of `*` and `?`. After a mismatch, only the last `*` has to be retried: if
/// an earlier one took more characters, it would leave fewer for the rest.
fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(c) if *c == '?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    p = at + 1;
                    t = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// The maximum number of characters of a pattern that are compared. More would not change the nearest name.
const LONGEST: usize = 200;

/// Returns the three sites whose names are nearest to the literal characters of the pattern.
fn near(pattern: &SitePattern, names: &[String]) -> String {
    let spelled: String = pattern
        .text
        .chars()
        .filter(|c| !matches!(c, '*' | '?'))
        .take(LONGEST)
        .collect();
    let spelled = spelled.trim_matches(':');
    let mut names: Vec<(usize, &str)> = names
        .iter()
        .filter_map(|name| {
            let distance = tails(name)
                .map(|tail| strsim::osa_distance(spelled, tail))
                .min()?;
            Some((distance, name.as_str()))
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    let names: Vec<_> = names.iter().take(3).map(|(_, name)| *name).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "kernels_models::qwen3::Qwen3Mlp::forward";

    fn matches(pattern: &str) -> bool {
        SitePattern::parse(pattern).unwrap().matches_name(NAME)
    }

    #[test]
    fn paths_may_be_shortened_at_both_ends() {
        for pattern in [
            NAME,
            "kernels_models::qwen3::Qwen3Mlp",
            "qwen3.Qwen3Mlp.forward",
            "qwen3::Qwen3Mlp",
            "Qwen3Mlp.forward",
            "Qwen3Mlp",
            "forward",
            "*",
            "qwen3::*",
            "qwen3.*.forward",
            "kernels_models::*Mlp",
            "*Mlp",
            "*3*3*",
            "Qwen?Mlp",
            "*models::qwen3::*",
        ] {
            assert!(matches(pattern), "{pattern}");
        }
    }

    #[test]
    fn segments_are_whole_and_in_order() {
        for pattern in [
            "Mlp.forward",
            "Qwen3Mlp.forward.extra",
            "models::qwen3::*",
            "models*::qwen3*",
            "llama::*",
            "kernels_models::Qwen3Mlp",
            "qwen3Mlp",
            "Qwen??Mlp",
            "kernels_models",
            "*Norm*",
        ] {
            assert!(!matches(pattern), "{pattern}");
        }
    }

    #[test]
    fn globs_agree_with_their_definition() {
        /// Implements the definition, by trying everything.
        fn slow(pattern: &[u8], text: &[u8]) -> bool {
            match (pattern.split_first(), text.split_first()) {
                (None, None) => true,
                (Some((b'*', rest)), _) => (0..=text.len()).any(|i| slow(rest, &text[i..])),
                (Some((p, rest)), Some((t, left))) => (*p == b'?' || p == t) && slow(rest, left),
                _ => false,
            }
        }
        let words = |letters: &[char], longest: usize| {
            let mut words = vec![String::new()];
            for start in 0..longest {
                let longer: Vec<_> = words
                    .iter()
                    .filter(|word| word.len() == start)
                    .flat_map(|word| letters.iter().map(move |c| format!("{word}{c}")))
                    .collect();
                words.extend(longer);
            }
            words
        };
        for pattern in words(&['a', 'b', '*', '?'], 4) {
            for text in words(&['a', 'b'], 4) {
                assert_eq!(
                    glob(&pattern, &text),
                    slow(pattern.as_bytes(), text.as_bytes()),
                    "{pattern} on {text}"
                );
            }
        }
    }

    #[test]
    fn empty_segments_are_refused() {
        for pattern in ["", ".", "a..b", "::a", "a::", "a:b", "a b"] {
            assert!(SitePattern::parse(pattern).is_err(), "{pattern}");
        }
    }

    #[test]
    fn near_names_are_the_nearest() {
        let names = [NAME, "kernels_models::llama::LlamaMlp::forward"].map(str::to_owned);
        let pattern = SitePattern::parse("*LlamMlp").unwrap();
        assert!(near(&pattern, &names).starts_with("kernels_models::llama::"));
    }
}
