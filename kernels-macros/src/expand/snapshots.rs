//! Whole expansions, one file per form under `snapshots/`, formatted as Rust.
//!
//! `BLESS=1 cargo test -p kernels-macros snapshots` writes them anew; read what changed.

use std::path::Path;

use proc_macro2::TokenStream;
use quote::quote;
use similar::TextDiff;

use crate::testing::origin;

#[track_caller]
fn check(name: &str, attribute: TokenStream, item: TokenStream) {
    compare(name, &crate::run(attribute, item, &origin()));
}

/// Compares with the committed file. Methods stand in a block, as items do in a file.
#[track_caller]
fn compare(name: &str, expansion: &TokenStream) {
    let parsed = syn::parse2(expansion.clone())
        .or_else(|_| syn::parse2(quote!(impl AroundTheMethod { #expansion })));
    let written = prettyplease::unparse(&parsed.expect("the expansion is Rust"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("snapshots/{name}.rs"));
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, written).expect("the snapshot can be written");
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        expected == written,
        "the expansion is not that of snapshots/{name}.rs (-); BLESS=1 writes it anew\n{}",
        TextDiff::from_lines(&expected, &written).unified_diff()
    );
}

#[test]
fn struct_norm() {
    check(
        "struct_norm",
        quote!(
            "npu_fused_rmsnorm",
            offset = 1,
            rounding = gemma,
            layer = "RMSNorm"
        ),
        quote! {
            /// A norm.
            #[derive(Module, Debug)]
            pub struct Norm {
                weight: Param<Tensor<1>>,
                eps: f64,
            }
        },
    );
}

#[test]
fn struct_attention_layer() {
    check(
        "struct_attention_layer",
        quote!("npu_fused_attention", part = layer, sink = learned),
        quote! {
            struct Attention {
                o_proj: Linear,
                k_proj: Linear,
                k_norm: RmsNorm,
                q_proj: Linear,
                v_proj: Linear,
                rotary: RotaryEncoding,
                sinks: Param<Tensor<1>>,
                num_heads: usize,
                num_key_value_heads: usize,
            }
        },
    );
}

#[test]
fn struct_add_norm() {
    check(
        "struct_add_norm",
        quote!("npu_fused_add_rmsnorm"),
        quote! {
            /// A sum and its norm.
            #[derive(Module, Debug)]
            pub struct AddNorm {
                weight: Param<Tensor<1>>,
                eps: f64,
            }
        },
    );
}

/// The fields say in which order the parameters are first used.
#[test]
fn struct_layer_norm() {
    check(
        "struct_layer_norm",
        quote!("npu_fused_layernorm", layer = "LayerNorm"),
        quote! {
            /// A norm.
            #[derive(Module, Debug)]
            pub struct Norm {
                beta: Param<Tensor<1>>,
                gamma: Param<Tensor<1>>,
                layer_norm_eps: f64,
            }
        },
    );
}

#[test]
fn function_softcap() {
    check(
        "function_softcap",
        quote!("npu_fused_softcap"),
        quote! {
            fn capped<const D: usize>(logits: Tensor<D>, softcap: f64) -> Tensor<D> {
                (logits / softcap).tanh() * softcap
            }
        },
    );
}

#[test]
fn function_gated_delta_rule() {
    check(
        "function_gated_delta_rule",
        quote!("npu_fused_gated_delta_rule", state = given),
        quote! {
            fn delta_rule(
                query: Tensor<4>,
                key: Tensor<4>,
                value: Tensor<4>,
                g: Tensor<3>,
                beta: Tensor<3>,
                recurrent_state: Tensor<4>,
            ) -> (Tensor<4>, Tensor<4>) {
                (value, recurrent_state)
            }
        },
    );
}

#[test]
fn struct_causal_conv1d() {
    check(
        "struct_causal_conv1d",
        quote!("npu_fused_causal_conv1d", state = given),
        quote! {
            /// A short convolution.
            #[derive(Module, Debug)]
            pub struct ShortConvolution {
                weight: Param<Tensor<2>>,
            }
        },
    );
}

#[test]
fn struct_linear() {
    check(
        "struct_linear",
        quote!("npu_fused_linear", shift = bias, layer = "Linear"),
        quote! {
            /// A projection.
            #[derive(Module, Debug)]
            pub struct Projection {
                bias: Param<Tensor<1>>,
                weight: Param<Tensor<2>>,
            }
        },
    );
}

#[test]
fn function_qk_norm_rope() {
    check(
        "function_qk_norm_rope",
        quote!("npu_fused_qk_norm_rope", offset = 1, rounding = gemma),
        quote! {
            fn prepare(
                q: Tensor<4>,
                k: Tensor<4>,
                q_norm: &Param<Tensor<1>>,
                k_norm: &Param<Tensor<1>>,
                cos: Tensor<3>,
                sin: Tensor<3>,
                eps: f64,
            ) -> (Tensor<4>, Tensor<4>) {
                (q, k)
            }
        },
    );
}

#[test]
fn function_attention() {
    check(
        "function_attention",
        quote!("npu_fused_attention", bias = additive, window = chunked),
        quote! {
            fn attend(
                q: Tensor<4>,
                k: Tensor<4>,
                v: Tensor<4>,
                mask: Tensor<4>,
                chunk_size: usize,
                scaling: f64,
            ) -> Tensor<4> {
                q
            }
        },
    );
}

#[test]
fn struct_cross_entropy() {
    check(
        "struct_cross_entropy",
        quote!("npu_fused_cross_entropy", cap = tanh, ignore_index = -1),
        quote! {
            /// A loss.
            #[derive(Module, Debug)]
            pub struct Loss {
                smoothing: f64,
                final_logit_softcapping: f64,
            }
        },
    );
}

#[test]
fn function_linear_cross_entropy() {
    check(
        "function_linear_cross_entropy",
        quote!("npu_fused_linear_cross_entropy", shift = bias),
        quote! {
            fn loss(
                hidden: Tensor<2>,
                lm_head: Tensor<2>,
                bias: Tensor<1>,
                labels: Tensor<1, Int>,
                z_loss: f64,
            ) -> Tensor<1> {
                hidden.sum()
            }
        },
    );
}

#[test]
fn struct_packed_mlp() {
    check(
        "struct_packed_mlp",
        quote!(
            "npu_fused_swiglu",
            activation = quick_gelu,
            projections = interleaved,
            clamp = limit,
            up_offset = 1,
            when = self.fast
        ),
        quote! {
            #[derive(Module, Debug)]
            struct Experts<L> where L: Layer {
                gate_up_proj: L,
                down_proj: L,
                limit: f64,
                fast: bool,
            }
        },
    );
}

#[test]
fn struct_rope_with_sections() {
    check(
        "struct_rope_with_sections",
        quote!("npu_fused_rope", sections = chunked, method = rotate),
        quote! {
            struct Rotary {
                cos: Tensor<4>,
                sin: Tensor<4>,
                mrope_section: [usize; 3],
            }
        },
    );
}

#[test]
fn impl_block() {
    check(
        "impl_block",
        quote!("npu_fused_swiglu", when = self.act == Act::Silu),
        quote! {
            impl<L: Layer> Mlp<L> {
                const WIDTH: usize = 4;

                /// The user's docs.
                #[must_use]
                #[tracing::instrument]
                pub fn forward<const D: usize>(&self, mut x: Tensor<D>) -> Tensor<D> {
                    x = x * 2.0;
                    let gate = self.act.apply(self.gate_proj.forward(x.clone()));
                    self.down_proj.forward(gate * self.up_proj.forward(x))
                }

                fn other(&self) {}
            }
        },
    );
}

#[test]
fn impl_of_a_trait() {
    check(
        "impl_of_a_trait",
        quote!("npu_fused_rmsnorm", gating = after_norm, scale = none),
        quote! {
            impl Layer for Norm {
                type Output = Tensor<3>;
                fn forward(&self, mut x: Tensor<3>, gate: Tensor<3>) -> Self::Output {
                    x = x.clone() / (x.square().mean_dim(2) + self.eps).sqrt();
                    x * silu(gate)
                }
            }
        },
    );
}

#[test]
fn method() {
    check(
        "method",
        quote!("npu_fused_rmsnorm", weight = w, groups = many),
        quote! {
            fn forward(&self, hidden: Tensor<3>) -> Tensor<3> {
                grouped(hidden, self.group_size) * self.w.val() + self.eps
            }
        },
    );
}

#[test]
fn function() {
    check(
        "function",
        quote!("npu_fused_rope", style = interleaved, table = pairs),
        quote! {
            #[inline]
            pub(crate) fn rotate(
                k: Tensor<4>,
                q: Tensor<4>,
                cos: &Tensor<2>,
                sin: Tensor<2>,
            ) -> (Tensor<4>, Tensor<4>) {
                (turn(q, cos, &sin), turn(k, cos, &sin))
            }
        },
    );
}

#[test]
fn path() {
    check(
        "path",
        quote!(acme::soft_cap, cap = limit, layer = "SoftCap"),
        quote! {
            impl Head {
                pub fn forward<const D: usize>(&self, logits: Tensor<D>, bias: &Tensor<1>) -> Tensor<D> {
                    (logits / self.limit).tanh() * self.limit + bias.clone().unsqueeze()
                }
            }
        },
    );
}

#[test]
fn struct_experts() {
    check(
        "struct_experts",
        quote!("npu_fused_moe", bias = all),
        quote! {
            pub struct Experts {
                gate_up_proj: Param<Tensor<3>>,
                gate_up_proj_bias: Param<Tensor<2>>,
                down_proj: Param<Tensor<3>>,
                down_proj_bias: Param<Tensor<2>>,
            }
        },
    );
}

#[test]
fn struct_list_of_experts() {
    check(
        "struct_list_of_experts",
        quote!(
            "npu_fused_moe",
            experts = list,
            projections = separate,
            gate = w1
        ),
        quote! {
            pub struct Experts {
                experts: Vec<Mlp>,
            }
        },
    );
}

#[test]
fn struct_sparse_block() {
    check(
        "struct_sparse_block",
        quote!(
            "npu_fused_moe",
            part = block,
            scoring = sigmoid,
            correction = bias,
            grouping = top_two,
            shared = gated
        ),
        quote! {
            pub struct SparseMoeBlock {
                gate: Linear,
                e_score_correction_bias: Param<Tensor<1>>,
                experts: Experts,
                shared_expert: Mlp,
                shared_expert_gate: Linear,
                top_k: usize,
                n_group: usize,
                topk_group: usize,
                routed_scaling_factor: f64,
            }
        },
    );
}

#[test]
fn function_of_experts() {
    check(
        "function_of_experts",
        quote!("npu_fused_moe", clamp = limit),
        quote! {
            fn experts(
                limit: f64,
                routing: Tensor<2>,
                indices: Tensor<2, Int>,
                x: Tensor<2>,
                w13: Tensor<3>,
                w2: &Param<Tensor<3>>,
            ) -> Tensor<2> {
                apply(x, indices, routing, w13, w2, limit)
            }
        },
    );
}

#[test]
fn method_of_a_list_of_experts() {
    check(
        "method_of_a_list_of_experts",
        quote!("npu_fused_moe", experts = list),
        quote! {
            fn forward(&self, x: Tensor<2>, indices: Tensor<2, Int>, routing: Tensor<2>) -> Tensor<2> {
                each(x, indices, routing, |e, x| self.experts[e].forward(x))
            }
        },
    );
}

#[test]
fn impl_sparse_block() {
    check(
        "impl_sparse_block",
        quote!(
            "npu_fused_moe",
            part = block,
            shared = plain,
            when = self.fast
        ),
        quote! {
            impl Block {
                pub fn forward<const D: usize>(&self, x: Tensor<D>) -> (Tensor<D>, Tensor<2>) {
                    let logits = self.router.forward(x);
                    let shared = self.shared_experts.forward(x);
                    let y = self.experts.forward(x, choose(logits, self.top_k));
                    (y + shared, logits)
                }
            }
        },
    );
}

#[test]
fn an_item_in_error() {
    check(
        "an_item_in_error",
        quote!("npu_fused_rmsnorm", offset = 2),
        quote! {
            pub struct Norm {
                weight: Param<Tensor<1>>,
                eps: f64,
            }
        },
    );
}

#[test]
fn impl_that_calls_up_first() {
    check(
        "impl_that_calls_up_first",
        quote!("npu_fused_swiglu"),
        quote! {
            impl Mlp {
                pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
                    let up = self.up_proj.forward(x.clone());
                    self.down_proj.forward(silu(self.gate_proj.forward(x)) * up)
                }
            }
        },
    );
}

#[test]
fn impl_whose_order_is_out_of_sight() {
    check(
        "impl_whose_order_is_out_of_sight",
        quote!("npu_fused_swiglu", gate = gate_proj, up = up_proj),
        quote! {
            impl Mlp {
                pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
                    self.down_proj.forward(self.hidden(x))
                }
            }
        },
    );
}
