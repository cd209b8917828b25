//! Pictures of prompts, in a build without the feature `images`: each use is an error.

use super::Args;
use super::prompts::Prompt;
use crate::feature::Missing;
pub use crate::pictures::{Reader, Source};
use crate::text::Message;
use serde_json::Value;
use std::path::Path;

pub fn add(_: &Args, _: &mut [Prompt]) -> anyhow::Result<()> {
    Err(missing("kernels generate --image"))
}

pub fn message(_: &str, _: &Value, _: &Path) -> anyhow::Result<(Message, Vec<Source>)> {
    anyhow::bail!(
        "`content` that is a list of parts, such as texts and pictures, needs a build with `--features images`; write a \
         text"
    )
}

fn missing(what: &'static str) -> anyhow::Error {
    let features = "`--features images`";
    Missing { what, features }.into()
}
