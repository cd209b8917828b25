//! Parts of messages that a chat template leaves out.

use super::{ChatTemplate, Message, TextError};

/// Returns an error if the rendered conversation is the same without its tools, or without a field of messages other than a
/// number or a name: the model would see something else than what is given.
pub(super) fn check(
    template: &ChatTemplate,
    messages: &[Message],
    (text, answer_next): (&str, bool),
) -> Result<(), TextError> {
    let refuse = |name: &str, without: Vec<Message>| -> Result<(), TextError> {
        // Without its calls, a conversation may be refused.
        let other = template.render(&without, answer_next);
        match other.is_ok_and(|other| other == text) {
            false => Ok(()),
            true => Err(TextError::Conversation(format!(
                "the chat template leaves out `{name}`, and the model would not see it; remove it, or use a template that \
                 writes it"
            ))),
        }
    };
    if messages.iter().any(|message| message.tools.is_some()) {
        let without = messages.iter().cloned().map(|message| Message {
            tools: None,
            ..message
        });
        refuse("tools", without.collect())?;
    }
    for name in [Message::CALLS, "reasoning_content", "reasoning", "thinking"] {
        let has = |message: &Message| message.fields.iter().any(|(field, _)| *field == name);
        if messages.iter().any(has) {
            let mut without = messages.to_vec();
            for message in &mut without {
                message.fields.retain(|(field, _)| *field != name);
            }
            refuse(name, without)?;
        }
    }
    Ok(())
}
