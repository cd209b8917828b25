use super::{Base, Policy};
use crate::registry::{self, kernels};
use std::str::FromStr;
use thiserror::Error;

/// The grammar of a policy, as errors show it.
pub const GRAMMAR: &str = "a comma list of: `auto` or `all` (every kernel, the default) or `none`; \
                           then `+ID` to ask for a kernel, `-ID` to switch one off; `strict` to \
                           make an unmet wish an error. Example: `none,+npu_fused_swiglu`";

/// Why a text is not a policy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PolicyError {
    /// Nothing but blanks.
    #[error("the policy is empty; a policy is {GRAMMAR}")]
    Empty,
    /// A word that the grammar does not have.
    #[error("`{word}` is not part of a policy; a policy is {GRAMMAR}")]
    Word {
        /// The word.
        word: String,
    },
    /// An id that no kernel has.
    #[error("no kernel is called `{id}`{}; kernels here: {known}", near(.nearest))]
    UnknownKernel {
        /// The id.
        id: String,
        /// The known id that is nearest to it, if any is near.
        nearest: Option<String>,
        /// The known ids.
        known: String,
    },
    /// Two words that contradict each other or say the same twice.
    #[error("`{first}` and `{second}` can't stand in one policy; a policy is {GRAMMAR}")]
    Contradiction {
        /// The earlier word.
        first: String,
        /// The later word.
        second: String,
    },
    /// The environment variable is not Unicode.
    #[error("the environment variable BURN_KERNELS is not valid Unicode; a policy is {GRAMMAR}")]
    NotUnicode,
    /// The environment variable holds no policy.
    #[error("the environment variable BURN_KERNELS is `{value}`: {source}")]
    Environment {
        /// Its value.
        value: String,
        /// What is wrong with it.
        source: Box<PolicyError>,
    },
}

fn near(nearest: &Option<String>) -> String {
    nearest
        .as_ref()
        .map_or_else(String::new, |id| format!(", did you mean `{id}`?"))
}

impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        if text.trim().is_empty() {
            return Err(PolicyError::Empty);
        }
        let mut policy = Self::default();
        let mut seen: Vec<(Slot<'_>, &str)> = Vec::new();
        for word in text.split(',').map(str::trim) {
            let slot = slot(word).ok_or_else(|| PolicyError::Word {
                word: word.to_owned(),
            })?;
            if let Some((_, first)) = seen.iter().find(|(taken, _)| *taken == slot) {
                return Err(PolicyError::Contradiction {
                    first: (*first).to_owned(),
                    second: word.to_owned(),
                });
            }
            match slot {
                Slot::Base => policy.base = base(word),
                Slot::Strict => policy.strict = true,
                Slot::Kernel(id) => policy = policy.with(id, word.starts_with('+'))?,
            }
            seen.push((slot, word));
        }
        Ok(policy)
    }
}

/// What a word decides; each may be decided once.
#[derive(PartialEq)]
enum Slot<'a> {
    Base,
    Strict,
    Kernel(&'a str),
}

fn slot(word: &str) -> Option<Slot<'_>> {
    match word {
        "auto" | "all" | "none" => Some(Slot::Base),
        "strict" => Some(Slot::Strict),
        _ => word
            .strip_prefix(['+', '-'])
            .filter(|id| !id.is_empty())
            .map(Slot::Kernel),
    }
}

fn base(word: &str) -> Base {
    if word == "none" {
        Base::None
    } else {
        Base::All
    }
}

/// The registered spelling of `id`.
pub(super) fn known_id(id: &str) -> Result<&'static str, PolicyError> {
    registry::kernel(id)
        .map(|kernel| kernel.id)
        .ok_or_else(|| PolicyError::UnknownKernel {
            id: id.to_owned(),
            nearest: nearest(id),
            known: kernels()
                .map(|kernel| kernel.id)
                .collect::<Vec<_>>()
                .join(", "),
        })
}

/// The known id with the smallest edit distance, unless more than a third must change.
fn nearest(id: &str) -> Option<String> {
    kernels()
        .map(|kernel| (edit_distance(id, kernel.id), kernel.id))
        .min()
        .filter(|(distance, known)| distance * 3 <= known.len())
        .map(|(_, known)| known.to_owned())
}

/// Levenshtein distance, one row at a time.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        text.parse::<Policy>().unwrap_err().to_string()
    }

    #[test]
    fn blanks_and_order_do_not_matter() {
        let policy: Policy = " strict , -npu_fused_rope , all ".parse().unwrap();
        assert_eq!(
            policy,
            Policy::auto().strict().disable("npu_fused_rope").unwrap()
        );
        assert_eq!("auto".parse::<Policy>().unwrap(), Policy::auto());
    }

    #[test]
    fn errors_say_what_to_write() {
        assert!(error("").contains("empty"));
        assert!(error("all,,strict").contains("`` is not part"));
        assert!(error("al").contains("`al` is not part of a policy"));
        assert!(error("npu_fused_rope").contains("+ID"));
        assert!(error("+").contains("`+` is not part"));
        assert!(error("all,none").contains("`all` and `none` can't stand in one policy"));
        assert!(
            error("+npu_fused_rope,-npu_fused_rope")
                .contains("`+npu_fused_rope` and `-npu_fused_rope`")
        );
    }

    #[test]
    fn unknown_ids_list_what_is_near_and_known() {
        let message = error("none,+npu_fused_swigl");
        assert!(
            message.contains("did you mean `npu_fused_swiglu`?"),
            "{message}"
        );
        assert!(
            message.contains("npu_fused_rmsnorm, npu_fused_rope"),
            "{message}"
        );
        assert!(!error("none,+flash").contains("did you mean"));
    }

    #[test]
    fn edit_distances() {
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("abc", "abc"), 0);
    }
}
