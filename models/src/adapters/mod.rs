//! Low-rank adapters (LoRA, arXiv:2106.09685): attached to a model, and saved and read in the layout of PEFT.

mod attach;
mod config;
mod file;
mod merge;
mod patterns;
mod peft;
mod targets;

pub use config::AdapterConfig;
pub use file::save_adapters;
pub use merge::load_merged;
pub use patterns::AdapterPatterns;
