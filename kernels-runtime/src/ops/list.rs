/// The list of operations, written once. `operations!(define)` passes the list to the macro `define`, which generates
/// the items of its module. An operation that is missing from the list is therefore missing everywhere.
///
/// The operations in `sites` are named by annotated sites. Each gives the type of its key and the operation name that
/// kernels state for it. The operations in `parts` are run by other operations. `name` is the name that servers
/// declare, `at` is the module, and `kernel` is the bound of backends that have its kernels. The module of a site operation
/// has `Launch` and the submodules `key`, `site`, `remote` and `cases`; the module of a part has `remote`.
///
/// `operations!(of_npus define)` leaves out the operations without an implementation for NPUs.
macro_rules! operations {
    ($define:ident) => {
        $crate::ops::operations! {
            $define with {
                /// Soft capping.
                Softcap {
                    name: softcap, at: softcap,
                    kernel: FusedKernel<crate::ops::softcap::Softcap>, key: SoftcapKey of "softcap",
                }
                /// Short causal convolutions.
                CausalConv1d {
                    name: causal_conv1d, at: causal_conv1d,
                    kernel: FusedKernel<crate::ops::causal_conv1d::CausalConv1d>,
                    key: CausalConv1dKey of "causal_conv1d",
                }
                /// Gated delta rules.
                GatedDeltaRule {
                    name: gated_delta_rule, at: gated_delta_rule,
                    kernel: FusedKernel<crate::ops::gated_delta_rule::GatedDeltaRule>,
                    key: GatedDeltaRuleKey of "gated_delta_rule",
                }
                /// The divergence of a student's tokens from a teacher's.
                LinearDivergence {
                    name: linear_divergence, at: linear_divergence,
                    kernel: FusedKernel<crate::ops::linear_divergence::LinearDivergence>,
                    key: LinearDivergenceKey of "linear_divergence",
                }
            }
        }
    };
    (of_npus $define:ident) => {
        $crate::ops::operations! { $define with {} }
    };
    ($define:ident with { $($others:tt)* }) => {
        $define! {
            sites {
                /// RMSNorm.
                RmsNorm {
                    name: rms_norm, at: rms_norm,
                    kernel: FusedKernel<crate::ops::rms_norm::RmsNorm>, key: RmsNormKey of "rms_norm",
                }
                /// The sum of two tensors and its RMSNorm.
                AddRmsNorm {
                    name: add_rms_norm, at: add_rms_norm, kernel: crate::ops::add_rms_norm::AddRmsNormKernel,
                    key: AddRmsNormKey of "add_rms_norm",
                }
                /// LayerNorm.
                LayerNorm {
                    name: layer_norm, at: layer_norm,
                    kernel: FusedKernel<crate::ops::layer_norm::LayerNorm>, key: LayerNormKey of "layer_norm",
                }
                /// Linear layers.
                Linear {
                    name: linear, at: linear,
                    kernel: FusedKernel<crate::ops::linear::Linear>, key: LinearKey of "linear",
                }
                /// Gated linear units.
                Glu { name: glu, at: glu, kernel: crate::ops::glu::GluKernel, key: GluKey of "glu", }
                /// Rotary position embedding.
                Rope { name: rope, at: rope, kernel: FusedKernel<crate::ops::rope::Rope>, key: RopeKey of "rope", }
                /// The norm and rotation of queries and keys.
                QkNormRope {
                    name: qk_norm_rope, at: qk_norm_rope, kernel: FusedKernel<crate::ops::qk_norm_rope::QkNormRope>,
                    key: QkNormRopeKey of "qk_norm_rope",
                }
                /// Attention.
                Attention {
                    name: attention, at: attention,
                    kernel: FusedKernel<crate::ops::attention::Attention>, key: AttentionKey of "attention",
                }
                /// The cross-entropy of logits and classes.
                CrossEntropy {
                    name: cross_entropy, at: cross_entropy, kernel: FusedKernel<crate::ops::cross_entropy::CrossEntropy>,
                    key: CrossEntropyKey of "cross_entropy",
                }
                /// The cross-entropy of hidden states and the output layer's weight.
                LinearCrossEntropy {
                    name: linear_cross_entropy, at: linear_cross_entropy, kernel: crate::ops::linear_cross_entropy::LinearCrossEntropyKernel,
                    key: LinearCrossEntropyKey of "linear_cross_entropy",
                }
                /// A step of AdamW.
                AdamW {
                    name: adam_w, at: adam_w,
                    kernel: FusedKernel<crate::ops::adam_w::AdamW>, key: AdamWKey of "adam_w",
                }
                /// The experts of a mixture.
                MoeExperts {
                    name: moe_experts, at: moe::experts,
                    kernel: FusedKernel<crate::ops::moe::experts::Experts>, key: MoeExpertsKey of "moe",
                }
                /// A sparse block. Its kernel is the router of its mixture.
                MoeBlock {
                    name: moe_block, at: moe::block,
                    kernel: FusedKernel<crate::ops::moe::router::Router>, key: MoeBlockKey of "moe",
                }
                $($others)*
            }
            parts {
                /// Products of rows grouped by expert.
                GroupedMatmul {
                    name: grouped_matmul, at: moe::grouped_matmul, kernel: FusedKernel<crate::ops::moe::grouped_matmul::GroupedMatmul>,
                }
                /// Moves tokens to the rows of their experts and back.
                Permute { name: permute, at: moe::permute, kernel: crate::ops::moe::permute::PermuteKernel, }
            }
        }
    };
}
pub(crate) use operations;
