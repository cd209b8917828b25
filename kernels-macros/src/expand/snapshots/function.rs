//! Annotated functions.

use quote::quote;

use super::check;

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
