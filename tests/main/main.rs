//! The tests of the package, but for those in `tests/alone` and those that are a program with another registry.

#[path = "../comparison/mod.rs"]
mod comparison;

mod attention_layer;
mod comparisons;
mod docs;
mod errors;
mod kv_cache;
mod lines;
mod nn;
mod peers;
mod quantized;
mod quantized_tables;
mod rooms;
mod spans;
