//! Rules for layers of a stack, such as the first two layers of a decoder.

use super::PolicyError;
use std::fmt;
use std::str::FromStr;

/// A set of layers of a stack, counted from 0. Its text is `first:N`, `last:N`, `layers:I` or `layers:I-J`, where `J`
/// is the last layer.
///
/// ```
/// # extern crate kernels_runtime as burn_kernels;
/// use burn_kernels::policy::Layers;
///
/// assert_eq!("last:2".parse::<Layers>()?, Layers::Last(2));
/// assert_eq!("layers:3-5".parse::<Layers>()?, Layers::Range { first: 3, last: 5 });
/// assert!("layers:5-3".parse::<Layers>().is_err());
/// # Ok::<(), burn_kernels::policy::PolicyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layers {
    /// The first `n` layers.
    First(usize),
    /// The last `n` layers.
    Last(usize),
    /// A range of layers, both ends included.
    Range {
        /// The index of the first layer.
        first: usize,
        /// The index of the last layer.
        last: usize,
    },
}

/// A layer of a stack: its index and the number of layers.
pub(crate) type Position = (usize, usize);

impl Layers {
    pub(super) fn contains(self, (index, count): Position) -> bool {
        match self {
            Self::First(n) => index < n,
            Self::Last(n) => index.saturating_add(n) >= count,
            Self::Range { first, last } => (first..=last).contains(&index),
        }
    }

    /// Returns `true` if a word of a policy, without its sign, is a rule for layers, and no path such as `layers::Mlp`.
    pub(super) fn is_one(word: &str) -> bool {
        let parts = word.split_once(':');
        matches!(parts, Some(("first" | "last" | "layers", rest)) if !rest.starts_with(':'))
    }
}

impl FromStr for Layers {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let number = |text: &str| text.parse().ok();
        let parsed = match text.split_once(':') {
            Some(("first", n)) => number(n).map(Self::First),
            Some(("last", n)) => number(n).map(Self::Last),
            Some(("layers", range)) => {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                match (number(first), number(last)) {
                    (Some(first), Some(last)) if first <= last => Some(Self::Range { first, last }),
                    _ => None,
                }
            }
            _ => None,
        };
        parsed.ok_or_else(|| PolicyError::Layers {
            word: text.to_owned(),
        })
    }
}

impl fmt::Display for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::First(n) => write!(f, "first:{n}"),
            Self::Last(n) => write!(f, "last:{n}"),
            Self::Range { first, last } if first == last => write!(f, "layers:{first}"),
            Self::Range { first, last } => write!(f, "layers:{first}-{last}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context;
    use crate::dispatch::tests::ROPE_SITE;
    use crate::policy::{Policy, Wish, layer, scope};

    fn wish_at(position: Option<Position>) -> Wish {
        let _layer = position.map(|(index, count)| layer(index, count));
        let active = context::current().unwrap();
        active.policy.wish(&ROPE_SITE, ROPE_SITE.kernel)
    }

    #[test]
    fn rules_hold_in_their_layers_alone() {
        let _scope = scope("all,-first:2,-last:1,+layers:1".parse().unwrap());
        let wishes: Vec<Wish> = (0..5).map(|index| wish_at(Some((index, 5)))).collect();
        let (off, on) = (Wish::Off, Wish::Preferred);
        assert_eq!(wishes, [off, Wish::Required, on, on, off]);
        assert_eq!(wish_at(None), on);
    }

    #[test]
    fn more_layers_than_there_are_is_all_of_them() {
        for text in ["last:18446744073709551615", "first:18446744073709551615"] {
            let layers: Layers = text.parse().unwrap();
            assert!(layers.contains((0, 4)) && layers.contains((3, 4)), "{text}");
        }
    }

    #[test]
    fn a_path_in_a_module_of_that_name_is_a_pattern_of_sites() {
        for path in ["layers::Mlp", "first::*", "last::mlp::Mlp.forward"] {
            assert!(!Layers::is_one(path), "{path}");
        }
        for rule in ["layers:3", "first:2", "last:", "first:x"] {
            assert!(Layers::is_one(rule), "{rule}");
        }
    }

    #[test]
    fn layers_nest_and_are_left() {
        let _scope = scope("all,-layers:3".parse().unwrap());
        let here = || wish_at(None);
        {
            let _outer = layer(3, 4);
            assert_eq!(here(), Wish::Off);
            assert_eq!(wish_at(Some((0, 1))), Wish::Preferred);
            assert_eq!(here(), Wish::Off);
            let _scope = scope(Policy::auto());
            assert_eq!(here(), Wish::Preferred);
        }
        assert_eq!(here(), Wish::Preferred);
    }

    #[test]
    fn a_policy_that_comes_later_knows_the_layer() {
        let _layer = layer(0, 2);
        let _scope = scope("all,-first:1".parse().unwrap());
        assert_eq!(wish_at(None), Wish::Off);
    }

    #[test]
    fn rules_print_and_parse() {
        for text in ["first:2", "last:1", "layers:3", "layers:3-5"] {
            assert_eq!(text.parse::<Layers>().unwrap().to_string(), text);
        }
        for text in [
            "first",
            "first:",
            "last:-1",
            "layers:2-",
            "layers:5-3",
            "layer:1",
        ] {
            let error = text.parse::<Layers>().unwrap_err().to_string();
            assert!(error.contains("`first:N`"), "{text}: {error}");
        }
    }
}
