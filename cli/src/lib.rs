//! The program `kernels`, which `src/main.rs` starts, and what its tests and the fuzz targets use of it: records of a built
//! file, results of benchmarks, importance matrices, and, with the feature `text`, tokenizers and chat templates.

mod bench;
mod bisect;
#[cfg(feature = "text")]
mod catching;
mod choice;
mod companions;
mod devices;
mod doctor;
mod export;
mod feature;
#[cfg(feature = "text")]
mod finetune;
#[cfg(feature = "text")]
mod generate;
#[cfg(feature = "gpu")]
mod gpu;
mod inspect;
mod inspect_model;
mod list;
mod loading;
#[cfg(feature = "text")]
mod merge;
mod new_kernel;
#[cfg(feature = "npu")]
mod npu;
pub mod object_file;
mod options;
mod output;
#[cfg(feature = "packages")]
mod packages;
#[cfg(feature = "text")]
mod pictures;
mod plan;
mod processor;
mod program;
mod quantize;
#[cfg(feature = "remote")]
mod remote;
pub mod results;
mod run;
mod screen;
mod semantics;
#[cfg(feature = "remote")]
mod serve;
mod signals;
mod splits;
#[cfg(feature = "text")]
pub mod text;
mod tokenizer_settings;
mod train;
mod training;
mod tune;
mod verify;

pub use program::main;
pub use quantize::Importance;
