//! Pictures, in a build without the feature `images`: each use is an error.

use super::Content;
use crate::feature::Missing;
use burn::tensor::{Device, Int, Tensor};
use kernels_models::ModelConfig;
use serde_json::{Map, Value};
use std::marker::PhantomData;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// The place of a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {}

/// A reader of pictures, which this build does not have.
#[derive(Debug)]
pub enum Reader {}

/// A picture of training data, which this build does not have.
#[derive(Debug, PartialEq, Eq)]
pub enum Picture {}

pub fn file(source: &Source) -> Option<&Path> {
    match *source {}
}

/// The pictures of a record, which must be none in this build.
pub struct Images<'a>(PhantomData<&'a ()>);

impl Reader {
    pub fn open(_: &Path, _: &ModelConfig) -> anyhow::Result<Self> {
        let what = "kernels generate --image";
        let features = "`--features images`";
        Err(Missing { what, features }.into())
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

    pub fn picture(self: &Arc<Self>, _: &Source) -> anyhow::Result<Picture> {
        match **self {}
    }

    pub fn expanded(
        &self,
        _: &[u32],
        _: &[[usize; 3]],
    ) -> anyhow::Result<(Vec<u32>, Vec<Range<usize>>)> {
        match *self {}
    }

    pub fn positions(&self, _: &[u32], _: &[[usize; 3]]) -> anyhow::Result<Vec<[i64; 3]>> {
        match *self {}
    }
}

impl Picture {
    pub fn grid(&self) -> [usize; 3] {
        match *self {}
    }

    pub fn fingerprint(&self) -> &str {
        match *self {}
    }

    pub fn bytes(&self) -> usize {
        match *self {}
    }

    pub fn patches(&self) -> anyhow::Result<Vec<f32>> {
        match *self {}
    }
}

impl<'a> Images<'a> {
    pub fn of_record(
        _: &Map<String, Value>,
        named: Option<&str>,
        _: &'a Path,
    ) -> Result<Self, String> {
        match named {
            None => Ok(Self(PhantomData)),
            Some(name) => Err(format!(
                "`{name}` needs a build with `--features images`; remove it to learn without it"
            )),
        }
    }

    pub fn content(&mut self, content: &Value) -> Result<Content, String> {
        match content {
            Value::String(text) => Ok(Content {
                text: text.clone(),
                ..Content::default()
            }),
            _ => Err(
                "`content` that is a list of parts, such as texts and pictures, needs a build with `--features images`; \
                 write a text"
                    .into(),
            ),
        }
    }

    pub fn finish(self) -> Result<Vec<Source>, String> {
        Ok(Vec::new())
    }
}
