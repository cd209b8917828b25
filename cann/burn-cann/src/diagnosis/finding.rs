//! A single finding of a diagnosis.

use std::fmt;

/// The layer that a finding is about. The order is from the bottom up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Area {
    /// The operating system and processor.
    Platform,
    /// The driver of the NPU and the device nodes that it makes.
    Driver,
    /// The toolkit: its environment and its libraries.
    Toolkit,
    /// The functions that the libraries export.
    Functions,
    /// The devices, which are opened and tried.
    Device,
}

impl fmt::Display for Area {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Platform => "platform",
            Self::Driver => "driver",
            Self::Toolkit => "toolkit",
            Self::Functions => "functions",
            Self::Device => "device",
        })
    }
}

/// The state of what was checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It is as it should be.
    Good,
    /// It is worth knowing; nothing has to be done.
    Note,
    /// Something that an NPU needs is missing.
    Missing,
}

impl fmt::Display for State {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Good => "ok",
            Self::Note => "note",
            Self::Missing => "missing",
        })
    }
}

/// A fact about the machine, with advice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The layer that it is about.
    pub area: Area,
    /// Its state.
    pub state: State,
    /// The fact.
    pub text: String,
    /// Advice, if something has to be done.
    pub advice: Option<String>,
}

impl Finding {
    pub(super) fn good(area: Area, text: impl Into<String>) -> Self {
        Self::new(area, State::Good, text, None)
    }

    pub(super) fn note(area: Area, text: impl Into<String>) -> Self {
        Self::new(area, State::Note, text, None)
    }

    pub(super) fn missing(area: Area, text: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(area, State::Missing, text, Some(advice.into()))
    }

    fn new(area: Area, state: State, text: impl Into<String>, advice: Option<String>) -> Self {
        let text = text.into();
        Self {
            area,
            state,
            text,
            advice,
        }
    }
}
