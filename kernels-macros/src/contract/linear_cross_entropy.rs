//! `npu_fused_linear_cross_entropy`: the loss of hidden states and output weights.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use super::cross_entropy::{
    CAP, FOREIGN_FIELDS, IGNORE_INDEX, LABEL_SMOOTHING, REDUCTION, SOFTCAP, TARGETS, Z_LOSS,
    docs_of_loss, numbers,
};
use super::{CallContext, Contract, Key, Operand, Returns, Role, Setting, Shape, When, choice, is};

pub(super) static CONTRACT: Contract = Contract {
    id: "npu_fused_linear_cross_entropy",
    variant: &[],
    docs,
    key: "LinearCrossEntropy",
    op: "linear_cross_entropy",
    settings: &[REDUCTION, CAP, LAYOUT, SHIFT],
    conflicts: &[],
    flow: &[],
    layer: SHAPE,
    function: Ok(SHAPE),
    composition,
    foreign_fields: FOREIGN_FIELDS,
    item_names: &[],
    body_calls: &[],
};

const LAYOUT: Setting = Setting {
    name: "layout",
    type_name: "OutputLayout",
    choices: &[
        choice("output_major", "OutputMajor"),
        choice("input_major", "InputMajor"),
    ],
    other_words: &[
        ("embedding", "layout = output_major"),
        ("tied", "layout = output_major"),
        ("linear", "layout = input_major"),
    ],
};

pub(super) const SHIFT: Setting = Setting {
    name: "shift",
    type_name: "Shift",
    choices: &[choice("none", "None"), choice("bias", "Bias")],
    other_words: &[("true", "shift = bias"), ("false", "shift = none")],
};

const SHAPE: Shape = Shape {
    operands: &[
        Operand {
            name: "hidden",
            role: Role::Tensor { rank: Some(2) },
            usual: &["hidden", "hidden_states", "x"],
            when: When::Always,
        },
        Operand {
            name: "weight",
            role: Role::Tensor { rank: Some(2) },
            usual: &["weight", "lm_head", "embedding"],
            when: When::Always,
        },
        Operand {
            name: "bias",
            role: Role::Tensor { rank: Some(1) },
            usual: &["bias"],
            when: When::With(&[is("shift", &["bias"])]),
        },
        TARGETS,
        IGNORE_INDEX,
        LABEL_SMOOTHING,
        SOFTCAP,
        Z_LOSS,
    ],
    returns: Returns::Loss,
    call,
};

fn call(call: &CallContext<'_>) -> TokenStream {
    let (runtime, at, reference) = (call.runtime, &call.at, &call.reference);
    let (function, operands) = operands(call);
    quote!(#runtime::#function(#at, #operands, #reference))
}

fn composition(call: &CallContext<'_>) -> TokenStream {
    let (runtime, key) = (call.runtime, call.key());
    let (function, operands) = operands(call);
    let reference = format_ident!("{function}_reference");
    quote!(#runtime::#reference(#operands, #key))
}

/// The function, with a bias or without, and its operands.
fn operands(call: &CallContext<'_>) -> (Ident, TokenStream) {
    let [hidden, weight, targets] =
        ["hidden", "weight", "targets"].map(|operand| call.value(operand));
    let numbers = numbers(call);
    match call.has("bias") {
        true => {
            let bias = call.value("bias");
            let operands = quote!((#hidden, #weight, #bias, #targets), #numbers);
            (format_ident!("linear_cross_entropy_biased"), operands)
        }
        false => {
            let operands = quote!((#hidden, #weight, #targets), #numbers);
            (format_ident!("linear_cross_entropy"), operands)
        }
    }
}

fn docs(key: &Key) -> String {
    let (weight, product) = match key.choice("layout") {
        Some("input_major") => ("[width, classes]", "hidden · weight"),
        _ => ("[classes, width]", "hidden · weightᵀ"),
    };
    let (bias, added) = match key.choice("shift") {
        Some("bias") => (" and `bias` `[classes]`", " + bias"),
        _ => ("", ""),
    };
    format!(
        "Cross-entropy of the logits `{product}{added}`, which the kernel never holds for all tokens.\n\n\
         `hidden` is `[tokens, width]`, `weight` is `{weight}`{bias}. {}",
        docs_of_loss(key)
    )
}
