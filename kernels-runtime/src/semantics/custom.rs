use serde::Serialize;
use std::fmt;
use std::hash::{Hash, Hasher};

/// The key of an operation that another crate defines. The order of its settings has no meaning: records of built files
/// have them by name.
#[derive(Clone, Copy, Debug)]
pub struct CustomKey {
    op: &'static str,
    settings: &'static [(&'static str, &'static str)],
}

impl CustomKey {
    /// Creates the key of operation `op` with the settings that change its maths, as (name, value).
    ///
    /// Names and values consist of letters, digits, `_`, `-` and `.`, because they are written into JSON without
    /// escapes.
    ///
    /// # Panics
    /// Panics if a name or value has another character. In a constant this is a compile error.
    pub const fn new(op: &'static str, settings: &'static [(&'static str, &'static str)]) -> Self {
        assert!(
            is_word(op),
            "an operation's name is letters, digits, `_`, `-` and `.`"
        );
        let mut i = 0;
        while i < settings.len() {
            assert!(
                is_word(settings[i].0) && is_word(settings[i].1),
                "a setting's name and value are letters, digits, `_`, `-` and `.`"
            );
            i += 1;
        }
        Self { op, settings }
    }

    /// Returns the operation's name.
    pub const fn op(&self) -> &'static str {
        self.op
    }

    /// Returns the settings.
    pub const fn settings(&self) -> &'static [(&'static str, &'static str)] {
        self.settings
    }
}

impl PartialEq for CustomKey {
    fn eq(&self, other: &Self) -> bool {
        let are_in = |some: &Self, all: &Self| {
            let mut settings = some.settings.iter();
            settings.all(|setting| all.settings.contains(setting))
        };
        self.op == other.op && are_in(self, other) && are_in(other, self)
    }
}

impl Eq for CustomKey {}

impl Hash for CustomKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // The same for any order of the settings.
        self.op.hash(state);
    }
}

pub(super) const fn is_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        if !(bytes[i].is_ascii_alphanumeric() || matches!(bytes[i], b'_' | b'-' | b'.')) {
            return false;
        }
        i += 1;
    }
    !bytes.is_empty()
}

impl Serialize for CustomKey {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer
            .collect_map(std::iter::once(("op", self.op)).chain(self.settings.iter().copied()))
    }
}

impl fmt::Display for CustomKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut settings: Vec<String> = self
            .settings
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        settings.sort();
        write!(f, "{}({})", self.op, settings.join(", "))
    }
}
