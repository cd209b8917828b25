//! All errors of an item come together.

use super::*;

#[test]
fn the_kernel_is_known() {
    let expected = "unknown kernel `npu_fused_rmsnrom`; did you mean `npu_fused_rmsnorm`?";
    refused(quote!("npu_fused_rmsnrom"), norm(), &[expected]);
    refused(
        quote!("softmax"),
        norm(),
        &["one of another crate is named by its path"],
    );
    let expected = "an optimiser's step, which no layer has";
    refused(quote!("npu_fused_adam_w"), norm(), &[expected]);
    let expected = "write the id in quotes: `\"npu_fused_rmsnorm\"`";
    refused(quote!(npu_fused_rmsnorm), norm(), &[expected]);
}

#[test]
fn all_errors_come_together() {
    let item = quote!(
        struct Norm {
            gamma: f64,
            scale: Param<Tensor<1>>,
            bias: Param<Tensor<1>>,
            tiny: f64,
        }
    );
    refused(
        quote!("npu_fused_rmsnorm", epz = tiny, rounding = bf16, crate = 3),
        item,
        &[
            "`crate` takes the path",
            "`rounding` cannot be `bf16`",
            "no argument `epz` here; did you mean `eps`?",
            "adds no bias",
            "`gamma` and `scale` could all be `weight`",
            "no field for `eps`",
        ],
    );
}

#[test]
fn parse_errors_of_attribute_and_item_come_together() {
    refused(
        quote!("npu_fused_rmsnorm", weight =),
        quote!(
            enum E {}
        ),
        &["`weight` has no value", "stands on a struct"],
    );
}

#[test]
fn what_is_malformed_causes_no_other_error() {
    refused(
        quote!("npu_fused_rmsnorm", weight =, eps),
        quote!(
            struct Norm {
                w: Param<Tensor<1>>,
                e: f64,
            }
        ),
        &["`weight` has no value", "expected `name = value`"],
    );
    refused(
        quote!("npu_fused_swiglu", method =),
        quote!(
            impl Mlp {}
        ),
        &["`method` has no value"],
    );
}
