//! The tests of the package, but for those in `tests/alone`.

#[path = "../common/mod.rs"]
mod common;
#[path = "../../../tests/comparison/mod.rs"]
mod comparison;

mod adapters;
mod attention;
mod bad_inputs;
mod cache;
mod distillation;
mod expert_adapters;
mod experts;
mod generation;
mod gguf;
mod gguf_hostile;
mod goldens;
mod half_mixtures;
#[cfg(unix)]
mod hostile;
mod kept;
mod kept_experts;
mod learning;
mod linear_attention;
mod log_probs;
mod masked;
mod omni;
mod omni_wholes;
mod picture_sequences;
mod preference;
mod preference_edges;
mod published;
mod qlora;
mod quantised;
mod quantised_folders;
mod rewards;
mod rope_tables;
mod round_trip;
mod sequences;
mod slopes;
mod three_axes;
mod vision;
