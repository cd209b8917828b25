//! The library part of the program `kernels`: it reads the records of a built file, the results of benchmarks, and,
//! with the feature `text`, tokenizers and chat templates.

pub mod object_file;
pub mod results;
#[cfg(feature = "text")]
pub mod text;
