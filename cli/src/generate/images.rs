//! Pictures that prompts name.

use super::Args;
use super::prompts::{Content, Prompt};
pub use crate::pictures::{Reader, Source};
use crate::text::Message;
use anyhow::bail;
use kernels_images::{Images, Part};
use minijinja::value::Serde;
use serde_json::Value;
use std::path::Path;

/// Adds the pictures of `--image` to the only prompt, in a conversation before the content of the last message.
///
/// # Errors
/// Returns an error if there are several prompts, or if the prompt names pictures itself.
pub fn add(args: &Args, prompts: &mut [Prompt]) -> anyhow::Result<()> {
    let several = prompts.len();
    let [prompt] = prompts else {
        bail!(
            "--image adds pictures to one prompt, but there are {several}; give one, or name the pictures of each in a \
             .jsonl file, as parts {{\"type\": \"image\", \"path\": \"FILE\"}} of a message's `content`"
        );
    };
    if !prompt.pictures.is_empty() {
        bail!("the prompt names pictures itself; add those of --image there");
    }
    prompt.pictures = args.image.iter().cloned().map(Source::File).collect();
    if let Content::Messages(messages) = &mut prompt.content
        && let Some(last) = messages.last_mut()
    {
        // A message in parts has no text of its own.
        let own = match last.parts.is_empty() {
            true => for_template([Part::Text(std::mem::take(&mut last.content))].into_iter()),
            false => std::mem::take(&mut last.parts),
        };
        last.parts = for_template(prompt.pictures.iter().cloned().map(Part::Image));
        last.parts.extend(own);
    }
    Ok(())
}

/// Returns a message whose content is a list of parts, and the pictures among them, whose paths are relative to
/// `folder`.
///
/// # Errors
/// Returns an error that names a part that is not supported.
pub fn message(
    role: &str,
    content: &Value,
    folder: &Path,
) -> anyhow::Result<(Message, Vec<Source>)> {
    let parts = Images::none(folder).parts(content)?;
    let message = Message {
        parts: for_template(parts.iter().cloned()),
        ..Message::new(role, "")
    };
    let picture = |part| match part {
        Part::Image(source) => Some(source),
        Part::Text(_) => None,
    };
    Ok((message, parts.into_iter().filter_map(picture).collect()))
}

fn for_template(parts: impl Iterator<Item = Part>) -> Vec<minijinja::Value> {
    parts
        .map(|part| Serde(part.for_template()).into())
        .collect()
}
