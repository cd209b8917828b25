//! One turn of a conversation.

/// One turn of a conversation, as chat templates see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who speaks: `system`, `user` or `assistant`, or a role that only some templates know, such as `tool`.
    pub role: String,
    /// The text of the message.
    pub content: String,
}

impl Message {
    /// Returns a turn of a role.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self {
            role: role.into(),
            content: content.into(),
        }
    }

    /// Returns an instruction that holds for the whole conversation.
    pub fn system(content: impl Into<String>) -> Self {
        Self::new("system", content)
    }

    /// Returns a turn of the user.
    pub fn user(content: impl Into<String>) -> Self {
        Self::new("user", content)
    }

    /// Returns a turn of the model.
    pub fn assistant(content: impl Into<String>) -> Self {
        Self::new(Self::ASSISTANT, content)
    }

    /// Returns `true` for a turn of the model.
    pub fn is_answer(&self) -> bool {
        self.role == Self::ASSISTANT
    }

    const ASSISTANT: &'static str = "assistant";
}
