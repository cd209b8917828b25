//! Annotated structs.

use quote::quote;

use super::check;

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
