//! The part of a policy by which sites measure kernel and reference and keep the faster.

use super::{Policy, PolicyError};
use crate::tune::{Choices, TuneError};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// The way in which sites choose between a kernel that can run and the reference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Tune {
    /// The kernel runs.
    #[default]
    Off,
    /// The faster one runs, by measurement.
    Anew,
    /// The same, but choices of a file are not measured again.
    From(Arc<Choices>),
}

impl Policy {
    /// Lets sites measure the kernel and the reference in the first calls of each class of sizes, and keep the faster.
    /// The text form is `tune`. See [`tune`](crate::tune) for what is measured, and for the choices made.
    ///
    /// Kernels that the policy requests by name keep running: [`Policy::enable`], [`Policy::enable_sites`] and
    /// [`Policy::enable_layers`]. So do all kernels if the reaction to [`Reason::Tuned`](crate::dispatch::Reason::Tuned)
    /// is strict. Under a [`deterministic`](Policy::deterministic) policy, nothing is measured: all kernels stay but those
    /// for which a file has the reference.
    pub fn tune(mut self) -> Self {
        self.tune = Tune::Anew;
        self
    }

    /// Lets sites choose as [`Policy::tune`] does. Choices in this file, which
    /// [`TuneReport::write`](crate::tune::TuneReport::write) wrote, are not measured again. The text form is `tune:FILE`.
    ///
    /// Choices of other devices or of another release of burn-kernels are not used, and a warning says so.
    ///
    /// # Errors
    /// Returns an error if the file can't be read or does not hold choices, or if the text form can't name it: if its
    /// path has a comma, or blanks at its ends, or is not Unicode.
    pub fn tune_from(mut self, file: impl AsRef<Path>) -> Result<Self, PolicyError> {
        let path = file.as_ref();
        let name = path.to_str().filter(|name| is_word(name));
        let name = name.ok_or_else(|| TuneError::Path {
            path: path.to_string_lossy().into_owned(),
        })?;
        self.tune = Tune::From(Arc::new(Choices::read(name)?));
        Ok(self)
    }

    /// Returns `true` if [`Policy::tune`] or [`Policy::tune_from`] was set.
    pub fn is_tuning(&self) -> bool {
        self.tune != Tune::Off
    }

    /// Returns the choices of a file, if the policy names one.
    pub(crate) fn choices(&self) -> Option<&Arc<Choices>> {
        match &self.tune {
            Tune::From(choices) => Some(choices),
            Tune::Off | Tune::Anew => None,
        }
    }

    /// Returns a warning that a plan does not include what is measured.
    pub(crate) fn tuning_in_a_plan(&self) -> Option<String> {
        self.is_tuning().then(|| {
            "a plan does not know the sizes of tensors: with `tune`, a call takes the reference where that is measured \
             to be faster"
                .to_owned()
        })
    }
}

/// Returns whether a path can stand in the text form of a policy.
fn is_word(path: &str) -> bool {
    !path.is_empty() && path.trim() == path && !path.contains(',')
}

impl Tune {
    /// Returns the value in a policy's TOML.
    pub(super) fn key(&self) -> Option<TuneKey> {
        match self {
            Self::Off => None,
            Self::Anew => Some(TuneKey::Is(true)),
            Self::From(choices) => Some(TuneKey::File(choices.path().to_owned())),
        }
    }
}

impl fmt::Display for Tune {
    /// Writes the word in a policy, with the comma before it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => Ok(()),
            Self::Anew => f.write_str(",tune"),
            Self::From(choices) => write!(f, ",tune:{}", choices.path()),
        }
    }
}

/// The value of `tune` in a policy's TOML.
#[derive(Deserialize, Serialize)]
#[serde(
    untagged,
    expecting = "`tune` must be true, false or the path of a file"
)]
pub(super) enum TuneKey {
    Is(bool),
    File(String),
}

impl TuneKey {
    pub(super) fn apply(self, policy: Policy) -> Result<Policy, PolicyError> {
        match self {
            Self::Is(false) => Ok(policy),
            Self::Is(true) => Ok(policy.tune()),
            Self::File(path) => policy.tune_from(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_stays_in_every_form_of_a_policy() {
        let folder = std::env::temp_dir().join(format!("burn-kernels-tune-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("choices.toml");
        std::fs::write(&file, "release = \"0.0.0\"\n").unwrap();
        let text = format!("all,tune:{}", file.display());
        let policy: Policy = text.parse().unwrap();
        assert!(policy.is_tuning() && policy.choices().is_some());
        assert_eq!(policy.to_string(), text);
        assert_eq!(Policy::from_toml(&policy.to_toml()).unwrap(), policy);
        assert_eq!(Policy::auto().tune_from(&file).unwrap(), policy);
        assert_ne!(Policy::auto().tune(), policy);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn paths_that_a_policy_cannot_name_are_errors() {
        for path in ["a,b.toml", " a.toml", ""] {
            let error = Policy::auto().tune_from(path).unwrap_err().to_string();
            assert!(error.contains("can't name"), "{path}: {error}");
        }
    }

    #[test]
    fn the_key_may_be_false() {
        assert_eq!(Policy::from_toml("tune = false").unwrap(), Policy::auto());
        let policy = Policy::from_toml("tune = true").unwrap();
        assert_eq!(policy, Policy::auto().tune());
    }
}
