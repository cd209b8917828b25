//! Mixtures of experts: variants with settings and operands of their own.

use super::*;

fn experts() -> TokenStream {
    quote!(
        struct Experts {
            gate_up_proj: Param<Tensor<3>>,
            down_proj: Param<Tensor<3>>,
        }
    )
}

fn block(fields: TokenStream) -> TokenStream {
    quote!(
        struct Block {
            gate: Linear,
            experts: Experts,
            top_k: usize,
            #fields
        }
    )
}

#[test]
fn a_variant_has_its_own_settings_and_operands() {
    let refused_experts = |settings: TokenStream, expected: &[&str]| {
        refused(quote!("npu_fused_moe", #settings), experts(), expected);
    };
    accepted(quote!("npu_fused_moe"), experts());
    accepted(
        quote!("npu_fused_moe", part = experts, experts = stacked),
        experts(),
    );
    refused_experts(quote!(part = router), &["it takes `experts` or `block`"]);
    refused_experts(quote!(part = "block"), &["without quotes: `part = block`"]);
    refused_experts(
        quote!(scoring = sigmoid),
        &["`scoring` belongs to `part = block`, and this is `part = experts`"],
    );
    refused_experts(
        quote!(list = down_proj),
        &["`list` belongs to `experts = list`, and this is `experts = stacked`"],
    );
    refused_experts(
        quote!(part = block, bias = all),
        &[
            "`bias` belongs to `part = experts`, and this is `part = block`",
            "`Experts` is not what `npu_fused_moe` computes here: a block has a router too",
            "would ignore the field `gate_up_proj`: the experts' weights stand in a struct of \
             their own",
            "would ignore the field `down_proj`",
            "no field for `gate` ",
            "no field for `top_k`",
        ],
    );
    // A setting of the swiglu kernel alone is still told as one.
    refused_experts(
        quote!(topk = gaussian),
        &["is a setting of `npu_fused_swiglu`"],
    );
}

#[test]
fn an_operand_may_need_several_settings() {
    let attribute = |settings: TokenStream| quote!("npu_fused_moe", bias = all, #settings);
    refused(
        attribute(quote!()),
        experts(),
        &[
            "no field for `gate_up_bias`, which `bias = all` needs",
            "no field for `down_bias`",
        ],
    );
    refused(
        quote!("npu_fused_moe", gate_bias = down_proj),
        experts(),
        &["`gate_bias` is read only with `bias = all` and `projections = separate`"],
    );
}

#[test]
fn an_operand_that_may_be_left_out_is_found_if_it_is_there() {
    let attribute = || quote!("npu_fused_moe", part = block);
    accepted(attribute(), block(quote!()));
    accepted(
        attribute(),
        block(quote!(num_experts: usize, routed_scaling_factor: f64)),
    );
    let wrong = block(quote!(routed_scaling_factor: usize));
    refused(attribute(), wrong, &["expected a number, `f64` or `f32`"]);
    let attribute = quote!("npu_fused_moe", part = block, routed_scaling_factor = scale);
    refused(attribute, block(quote!()), &["unknown field `scale`"]);
}

#[test]
fn a_field_of_an_element_is_not_looked_for() {
    let list = quote!(
        struct Experts {
            experts: [Mlp; 8],
        }
    );
    for attribute in [
        quote!("npu_fused_moe", experts = list),
        quote!("npu_fused_moe", experts = list, gate_up = w13, down = out),
        quote!(
            "npu_fused_moe",
            experts = list,
            list = experts,
            projections = separate
        ),
    ] {
        accepted(attribute, list.clone());
    }
    refused(
        quote!("npu_fused_moe", experts = list, layout = linear),
        list,
        &["`layout` is always `matmul` here"],
    );
    let one = quote!(
        struct Experts {
            experts: usize,
        }
    );
    let attribute = quote!("npu_fused_moe", experts = list);
    refused(attribute, one, &["expected the experts in a list"]);
}
