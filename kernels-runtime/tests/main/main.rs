//! The tests of the package, but for those in the other folders here.

#[cfg(feature = "cpu")]
#[path = "../../../tests/comparison/mod.rs"]
mod comparison;
#[cfg(feature = "cpu")]
#[path = "../support/declared.rs"]
mod declared;
#[cfg(feature = "cpu")]
#[path = "../support/mod.rs"]
mod support;

#[cfg(feature = "cpu")]
mod add_norm;
#[cfg(feature = "cpu")]
mod attention;
#[cfg(feature = "cpu")]
mod causal_conv1d;
#[cfg(feature = "cpu")]
mod cross_entropy;
#[cfg(feature = "cpu")]
mod edges;
#[cfg(feature = "cpu")]
mod expert_adapters;
#[cfg(feature = "cpu")]
mod gated_delta_rule;
#[cfg(feature = "cpu")]
mod gated_norm;
#[cfg(feature = "cpu")]
mod goldens;
#[cfg(feature = "cpu")]
mod layer_norm;
#[cfg(feature = "cpu")]
mod linear;
#[cfg(feature = "cpu")]
mod linear_cross_entropy;
#[cfg(feature = "cpu")]
mod linear_divergence;
#[cfg(feature = "cpu")]
mod live;
#[cfg(feature = "cpu")]
mod moe_experts;
#[cfg(feature = "cpu")]
mod moe_goldens;
#[cfg(feature = "cpu")]
mod moe_sharded;
#[cfg(feature = "cpu")]
mod moe_sites;
#[cfg(feature = "cpu")]
mod norm_bias;
#[cfg(feature = "cpu")]
mod operands;
#[cfg(feature = "cpu")]
mod qk_norm_rope;
#[cfg(feature = "cpu")]
mod refusals;
#[cfg(feature = "cpu")]
mod shared_gradients;
#[cfg(feature = "cpu")]
mod sites;
#[cfg(feature = "cpu")]
mod softcap;
#[cfg(feature = "cpu")]
mod verify;
