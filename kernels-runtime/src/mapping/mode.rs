use super::MappingError;
use crate::mode::Mode;
use std::fmt;
use std::ops::BitOr;
use std::str::FromStr;

/// The mode that a kernel is registered for, or that a model is kernelized for: flags that combine with `|`.
///
/// A kernel is registered for `INFERENCE` or `TRAINING`, each optionally with `COMPILE`, or as `FALLBACK`. A model is
/// kernelized for the same modes except `FALLBACK`. Everything else is an error. `COMPILE` means that Burn's fusion has
/// to continue through the layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModeFlags(u8);

impl ModeFlags {
    /// No gradient will be requested.
    pub const INFERENCE: Self = Self(1);
    /// Gradients will be requested.
    pub const TRAINING: Self = Self(2);
    /// Burn's fusion continues through the layer.
    pub const COMPILE: Self = Self(4);
    /// The kernel runs if nothing is registered for the mode.
    pub const FALLBACK: Self = Self(8);

    const NAMES: [(Self, &'static str); 4] = [
        (Self::INFERENCE, "inference"),
        (Self::TRAINING, "training"),
        (Self::COMPILE, "compile"),
        (Self::FALLBACK, "fallback"),
    ];

    /// Returns `true` if all flags of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Checks that a kernel can be registered for this mode.
    pub(super) fn check_registration(self) -> Result<Self, MappingError> {
        let wrong = |why| Err(MappingError::Mode { mode: self, why });
        if self.contains(Self::FALLBACK) && self != Self::FALLBACK {
            return wrong("`fallback` stands alone");
        }
        if self.contains(Self::INFERENCE) && self.contains(Self::TRAINING) {
            return wrong("`inference` and `training` exclude each other");
        }
        let named = [Self::INFERENCE, Self::TRAINING, Self::FALLBACK];
        if !named.into_iter().any(|flag| self.contains(flag)) {
            return wrong("it says neither `inference` nor `training` nor `fallback`");
        }
        Ok(self)
    }

    /// Checks that a model can be kernelized for this mode.
    pub(super) fn check_request(self) -> Result<Self, MappingError> {
        if self == Self::FALLBACK {
            return Err(MappingError::Mode {
                mode: self,
                why: "a model is kernelized for `inference` or for `training`",
            });
        }
        self.check_registration()
    }

    /// Returns the modes that are tried for this one, best first. A kernel that is registered for more is used if none
    /// is registered for less.
    pub(super) fn order(self) -> &'static [Self] {
        const I: ModeFlags = ModeFlags::INFERENCE;
        const T: ModeFlags = ModeFlags::TRAINING;
        const IC: ModeFlags = ModeFlags(I.0 | ModeFlags::COMPILE.0);
        const TC: ModeFlags = ModeFlags(T.0 | ModeFlags::COMPILE.0);
        const F: ModeFlags = ModeFlags::FALLBACK;
        match self {
            I => &[I, IC, T, TC, F],
            IC => &[IC, TC, F],
            T => &[T, TC, F],
            TC => &[TC, F],
            _ => &[F],
        }
    }

    /// Returns the mode of a call that this mode stands for.
    pub(crate) fn call_mode(self) -> Mode {
        match self.contains(Self::TRAINING) {
            true => Mode::Training,
            false => Mode::Inference,
        }
    }
}

impl From<Mode> for ModeFlags {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Training => Self::TRAINING,
            Mode::Inference => Self::INFERENCE,
        }
    }
}

impl BitOr for ModeFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The flags, joined by `+`.
impl fmt::Display for ModeFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = Self::NAMES.iter().filter(|(flag, _)| self.contains(*flag));
        let names: Vec<_> = set.map(|(_, name)| *name).collect();
        f.write_str(&names.join("+"))
    }
}

impl FromStr for ModeFlags {
    type Err = MappingError;

    fn from_str(text: &str) -> Result<Self, MappingError> {
        let mut flags = Self(0);
        for word in text.split('+').map(str::trim) {
            let known = Self::NAMES.iter().find(|(_, name)| *name == word);
            let Some((flag, _)) = known else {
                let names = Self::NAMES.map(|(_, name)| name);
                return Err(MappingError::unknown("mode", word, names));
            };
            flags = flags | *flag;
        }
        flags.check_registration()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const I: ModeFlags = ModeFlags::INFERENCE;
    const T: ModeFlags = ModeFlags::TRAINING;
    const C: ModeFlags = ModeFlags::COMPILE;
    const F: ModeFlags = ModeFlags::FALLBACK;

    #[test]
    fn exactly_five_modes_can_be_registered_and_four_asked_for() {
        let all = || (0..16).map(ModeFlags);
        let registered: Vec<_> = all()
            .filter(|mode| mode.check_registration().is_ok())
            .collect();
        assert_eq!(registered, [I, T, I | C, T | C, F]);
        let asked: Vec<_> = all().filter(|mode| mode.check_request().is_ok()).collect();
        assert_eq!(asked, [I, T, I | C, T | C]);
        for (mode, words) in [
            (I | T, "exclude each other"),
            (F | I, "stands alone"),
            (C, "neither"),
            (F, "a model is kernelized for"),
        ] {
            let error = mode.check_request().unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn names_parse_back() {
        for mode in [I, T, I | C, T | C, F] {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
        assert_eq!("compile + training".parse(), Ok(T | C));
        assert!("inference+training".parse::<ModeFlags>().is_err());
        let error = "trainig".parse::<ModeFlags>().unwrap_err().to_string();
        assert!(error.contains("did you mean `training`?"), "{error}");
    }

    #[test]
    fn the_order_is_that_of_the_documentation() {
        assert_eq!(I.order(), [I, I | C, T, T | C, F]);
        assert_eq!((I | C).order(), [I | C, T | C, F]);
        assert_eq!(T.order(), [T, T | C, F]);
        assert_eq!((T | C).order(), [T | C, F]);
    }
}
