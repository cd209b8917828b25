//! Pictures of prompts, in a build without the feature `images`: each use is an error.

use super::Args;
use super::prompts::Prompt;
use crate::feature::Missing;
use crate::text::Message;
use burn::tensor::{Device, Int, Tensor};
use kernels_models::ModelConfig;
use serde_json::Value;
use std::path::Path;

/// The place of a picture.
#[derive(Debug, PartialEq, Eq)]
pub enum Source {}

/// A reader of pictures, which this build does not have.
#[derive(Debug)]
pub enum Reader {}

impl Reader {
    pub fn open(_: &Path, _: &ModelConfig) -> anyhow::Result<Self> {
        Err(missing("kernels generate --image"))
    }

    pub fn grids(&self, _: &[Source]) -> anyhow::Result<Vec<[usize; 3]>> {
        match *self {}
    }

    pub fn expand(&self, _: &[u32], _: &[[usize; 3]]) -> anyhow::Result<Vec<u32>> {
        match *self {}
    }

    pub fn tensors(&self, _: &[Source], _: &Device) -> anyhow::Result<(Tensor<2>, Tensor<2, Int>)> {
        match *self {}
    }
}

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
