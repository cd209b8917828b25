use crate::near::unknown;
use crate::reason::Reason;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// The reaction if a wanted kernel can't run, or if a mapping has no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reaction {
    /// The call panics with the reason, and `kernelize` returns an error.
    Strict,
    /// The site computes its reference, and logs this once for every kind of call.
    Warn,
    /// The site computes its reference. Only reports and plans show it.
    Silent,
}

impl Reaction {
    /// All reactions.
    pub const ALL: [Self; 3] = [Self::Strict, Self::Warn, Self::Silent];

    /// Returns the name in policies.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Warn => "warn",
            Self::Silent => "silent",
        }
    }

    /// Returns the reaction if a policy states none: silent for the user's own choices, to which a layer that a mapping
    /// leaves out belongs, and a warning for the rest.
    pub const fn default_to(reason: Reason) -> Self {
        match reason {
            Reason::Policy
            | Reason::Mapping
            | Reason::NoLayer
            | Reason::Adapters
            | Reason::Tuned => Self::Silent,
            _ => Self::Warn,
        }
    }
}

impl fmt::Display for Reaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Reaction {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|reaction| reaction.name() == name)
            .ok_or_else(|| unknown("reaction", name, Self::ALL.map(Self::name)))
    }
}

/// The reactions that a policy states. For all other reasons, the defaults apply.
pub(super) type Reactions = BTreeMap<Reason, Reaction>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back() {
        for reaction in Reaction::ALL {
            assert_eq!(reaction.name().parse(), Ok(reaction));
            assert_eq!(serde_json::to_value(reaction).unwrap(), reaction.name());
        }
        assert!(
            "loud"
                .parse::<Reaction>()
                .unwrap_err()
                .contains("strict, warn, silent")
        );
    }

    #[test]
    fn only_choices_are_silent_by_default() {
        let silent: Vec<_> = Reason::ALL
            .iter()
            .filter(|reason| Reaction::default_to(**reason) == Reaction::Silent)
            .collect();
        let choices = [
            &Reason::Policy,
            &Reason::Mapping,
            &Reason::NoLayer,
            &Reason::Adapters,
            &Reason::Tuned,
        ];
        assert_eq!(silent, choices);
        assert!(
            Reason::ALL
                .iter()
                .all(|reason| Reaction::default_to(*reason) != Reaction::Strict)
        );
    }
}
