//! Attention of annotated items: of projected heads, and with the projections.

mod heads;
mod layer;

pub use heads::{attention, attention_biased, attention_biased_reference, attention_reference};
pub use layer::{AttentionLayer, AttentionPart, attention_layer, attention_layer_reference};

pub use crate::ops::attention::Settings as AttentionSettings;
