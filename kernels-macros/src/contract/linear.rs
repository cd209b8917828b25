//! `npu_fused_linear`: a linear layer over the last dimension.

use proc_macro2::TokenStream;
use quote::quote;

use super::{
    CallContext, Contract, ForeignField, Key, Operand, Returns, Role, Setting, Shape, When, choice,
    is,
};

pub(super) static CONTRACT: Contract = Contract {
    id: "npu_fused_linear",
    variant: &[],
    docs,
    key: "Linear",
    op: "linear",
    settings: &[LAYOUT, SHIFT],
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
        choice("input_major", "InputMajor"),
        choice("output_major", "OutputMajor"),
    ],
    other_words: &[
        ("burn", "layout = input_major"),
        ("row", "layout = input_major"),
        ("col", "layout = output_major"),
        ("torch", "layout = output_major"),
    ],
};

const SHIFT: Setting = Setting {
    name: "shift",
    type_name: "Shift",
    choices: &[choice("none", "None"), choice("bias", "Bias")],
    other_words: &[("true", "shift = bias"), ("false", "shift = none")],
};

const FOREIGN_FIELDS: &[ForeignField] = &[
    ForeignField {
        names: &["bias"],
        unless: Some(is("shift", &["bias"])),
        instead_of: &[],
        advice: "without `shift = bias` the kernel adds no bias",
    },
    ForeignField {
        names: &["lora_a", "lora_b", "adapter"],
        unless: None,
        instead_of: &[],
        advice: "the kernel multiplies by the weight alone; call an annotated layer from the one with the adapter",
    },
];

const SHAPE: Shape = Shape {
    operands: &[
        Operand {
            name: "x",
            role: Role::Stream,
            usual: &[],
            when: When::Always,
        },
        Operand {
            name: "weight",
            role: Role::Matrix,
            usual: &["weight", "kernel"],
            when: When::Always,
        },
        Operand {
            name: "bias",
            role: Role::Weight,
            usual: &["bias"],
            when: When::With(&[is("shift", &["bias"])]),
        },
    ],
    returns: Returns::Tensor,
    call,
};

fn call(call: &CallContext<'_>) -> TokenStream {
    call.site("linear", &operands(call))
}

fn composition(call: &CallContext<'_>) -> TokenStream {
    let (runtime, key) = (call.runtime, call.key());
    let operands = operands(call);
    quote!(#runtime::linear_reference(#operands, #key))
}

fn operands(call: &CallContext<'_>) -> TokenStream {
    let runtime = call.runtime;
    let x = call.value("x");
    let weight = call.lent("weight");
    let mut parameters = quote!(#runtime::LinearParameters::new(#weight));
    if call.has("bias") {
        let bias = call.lent("bias");
        parameters.extend(quote!(.bias(#bias)));
        if call.first_use.is_before("bias", "weight") {
            parameters.extend(quote!(.bias_first()));
        }
    }
    quote!(#x, #parameters)
}

fn docs(key: &Key) -> String {
    let (weight, product) = match key.choice("layout") {
        Some("output_major") => ("[outputs, inputs]", "x · weightᵀ"),
        _ => ("[inputs, outputs]", "x · weight"),
    };
    let (bias, added) = match key.choice("shift") {
        Some("bias") => (" and `bias` `[outputs]`", " + bias"),
        _ => ("", ""),
    };
    format!(
        "Linear layer over the last dimension, `y = {product}{added}`.\n\n\
         `x` is `[.., inputs]`, `weight` is `{weight}`{bias}; the result is `[.., outputs]` in the dtype of `x`. Half \
         types are summed in `f32` and rounded once."
    )
}
