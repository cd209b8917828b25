//! Pictures of prompts and of training data, as a model with a vision tower takes them.
//!
//! [`Reader`] follows the settings of a checkpoint, [`Images`] reads the pictures that a record names, [`Picture`] is one of
//! them, and [`Pictures`] are those of an example or a batch. In a build without the feature `images` there are none, and each
//! use is an error.

mod placed;
#[cfg(feature = "images")]
mod read;
#[cfg(not(feature = "images"))]
#[path = "none.rs"]
mod read;

pub use placed::{Pictures, Placed};
pub use read::{Images, Picture, Reader, Source, file};

/// The content of a message.
#[derive(Debug, Default, PartialEq)]
pub struct Content {
    /// Its text, if it has no pictures.
    pub text: String,
    /// Its texts and pictures, as templates see them, if it has some.
    pub parts: Vec<minijinja::Value>,
}
