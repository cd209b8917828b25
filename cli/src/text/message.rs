//! One turn of a conversation.

use minijinja::Value;

/// One turn of a conversation, as chat templates see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The speaker: `system`, `user` or `assistant`, or a role that only some templates know, such as `tool`.
    pub role: String,
    /// The text of the message. It is empty if the message has `parts`.
    pub content: String,
    /// The texts and pictures of the message, as templates see them, in place of `content` if there are any:
    /// `{"type": "text", "text": …}` and `{"type": "image"}`.
    pub parts: Vec<Value>,
    /// More that templates can write, by its name: `tool_calls`, `tool_call_id`, `name`, `reasoning_content` and the like.
    pub fields: Vec<(&'static str, Value)>,
    /// The functions that the assistant can call, a list. The first message has those of the conversation.
    pub tools: Option<Value>,
}

impl Message {
    /// Returns a turn of a role.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self {
            role: role.into(),
            content: content.into(),
            ..Self::default()
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

    /// Returns the calls of functions in this turn.
    pub fn calls(&self) -> Vec<Value> {
        let calls = self.fields.iter().find(|(name, _)| *name == Self::CALLS);
        let calls = calls.and_then(|(_, calls)| calls.try_iter().ok());
        calls.map_or_else(Vec::new, Iterator::collect)
    }

    /// Returns the message as the dictionary that templates see.
    pub(super) fn dictionary(&self) -> Value {
        let content = match self.parts.is_empty() {
            true => Value::from(self.content.as_str()),
            false => Value::from(self.parts.clone()),
        };
        let own = [
            ("role", Value::from(self.role.as_str())),
            ("content", content),
        ];
        Value::from_pairs(own.into_iter().chain(self.fields.iter().cloned()))
    }

    /// The name of the field with calls of functions.
    pub const CALLS: &'static str = "tool_calls";

    const ASSISTANT: &'static str = "assistant";
}
