//! Operations over CANN's operators: beside the reference in f64 and the goldens, with failures, and from strangers.

mod adam_w;
mod add_norm;
mod attention;
mod attention_composed;
mod attention_fallback;
mod attention_infer;
mod borders;
mod cached;
mod choice;
mod cross_entropy;
mod deterministic;
mod faults;
mod glu;
mod goldens;
mod layer_norm;
mod linear;
mod linear_cross_entropy;
mod mistakes;
mod moe;
mod norm;
mod qk_norm_rope;
mod rope;
mod router;
mod sections;
