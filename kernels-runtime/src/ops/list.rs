/// Lists the operations, once. `operations!(define)` gives the list to the macro `define`, which makes the items
/// of its module from it: an operation that is missing somewhere is missing everywhere.
///
/// Those of `sites` are what annotated places name, each with the type of its key and the operation that
/// kernels state for it; `parts` are run by others. `name` is what servers declare, `at` the folder, and
/// `kernel` the trait that a backend implements. A site's folder has `Launch` and the modules `key`, `site`, `remote`
/// and `cases`, a part's has `remote`.
macro_rules! operations {
    ($define:ident) => {
        $define! {
            sites {
                /// RMSNorm.
                RmsNorm {
                    name: rms_norm, at: rms_norm, kernel: RmsNormKernel, key: RmsNormKey of "rms_norm",
                }
                /// A sum and its RMSNorm.
                AddRmsNorm {
                    name: add_rms_norm, at: add_rms_norm, kernel: AddRmsNormKernel,
                    key: AddRmsNormKey of "add_rms_norm",
                }
                /// Gated linear units.
                Glu { name: glu, at: glu, kernel: GluKernel, key: GluKey of "glu", }
                /// Rotary position embedding.
                Rope { name: rope, at: rope, kernel: RopeKernel, key: RopeKey of "rope", }
                /// A step of AdamW.
                AdamW { name: adam_w, at: adam_w, kernel: AdamWBackend, key: AdamWKey of "adam_w", }
                /// The experts of a mixture.
                MoeExperts {
                    name: moe_experts, at: moe::experts, kernel: ExpertsKernel, key: MoeExpertsKey of "moe",
                }
                /// A sparse block, whose kernel is the router of its mixture.
                MoeBlock {
                    name: moe_block, at: moe::block, kernel: RouterKernel, key: MoeBlockKey of "moe",
                }
            }
            parts {
                /// Products of rows grouped by expert.
                GroupedMatmul {
                    name: grouped_matmul, at: moe::grouped_matmul, kernel: GroupedMatmulKernel,
                }
                /// Moving tokens to the rows of experts and back.
                Permute { name: permute, at: moe::permute, kernel: PermuteKernel, }
            }
        }
    };
}
pub(crate) use operations;
