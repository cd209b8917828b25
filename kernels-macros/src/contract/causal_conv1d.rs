//! `npu_fused_causal_conv1d`: a short causal convolution of channels.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use super::attention::LENGTHS_NAMES;
use super::{
    CallContext, Condition, Contract, ForeignField, Key, Operand, Returns, Role, Setting, Shape,
    When, choice, is,
};

pub(super) static CONTRACT: Contract = Contract {
    id: "npu_fused_causal_conv1d",
    variant: &[],
    docs,
    key: "CausalConv1d",
    op: "causal_conv1d",
    settings: &[ACTIVATION, SHIFT, STATE, LENGTHS],
    conflicts: &[],
    flow: &[],
    layer: SHAPE,
    function: Ok(SHAPE),
    composition,
    foreign_fields: &[ForeignField {
        names: &["bias"],
        unless: Some(is("shift", &["bias"])),
        instead_of: &[],
        advice: "without `shift = bias` the kernel adds no bias",
    }],
    item_names: &[],
    body_calls: &[],
};

const ACTIVATION: Setting = Setting {
    name: "activation",
    type_name: "ConvActivation",
    choices: &[choice("silu", "Silu"), choice("none", "None")],
    other_words: &[
        ("swish", "activation = silu"),
        ("identity", "activation = none"),
    ],
};

const SHIFT: Setting = Setting {
    name: "shift",
    type_name: "Shift",
    choices: &[choice("none", "None"), choice("bias", "Bias")],
    other_words: &[("true", "shift = bias"), ("false", "shift = none")],
};

pub(super) const STATE: Setting = Setting {
    name: "state",
    type_name: "InitialState",
    choices: &[choice("none", "None"), choice("given", "Given")],
    other_words: &[("true", "state = given"), ("false", "state = none")],
};

pub(super) const LENGTHS: Setting = Setting {
    name: "lengths",
    type_name: "SequenceLengths",
    choices: &[choice("none", "None"), choice("packed", "Packed")],
    other_words: &[
        ("varlen", "lengths = packed"),
        ("documents", "lengths = packed"),
    ],
};

pub(super) const FROM_STATE: Condition = is("state", &["given"]);

pub(super) const SEQUENCE_LENGTHS: Operand = Operand {
    name: "sequence_lengths",
    role: Role::Lengths,
    usual: LENGTHS_NAMES,
    when: When::With(&[is("lengths", &["packed"])]),
};

const SHAPE: Shape = Shape {
    operands: &[
        Operand {
            name: "x",
            role: Role::Tensor { rank: Some(3) },
            usual: &["x", "hidden_states", "mixed_qkv"],
            when: When::Always,
        },
        Operand {
            name: "conv_state",
            role: Role::Tensor { rank: Some(3) },
            usual: &["conv_state", "initial_state", "cache"],
            when: When::With(&[FROM_STATE]),
        },
        Operand {
            name: "weight",
            role: Role::Matrix,
            usual: &["weight", "conv_weight"],
            when: When::Always,
        },
        Operand {
            name: "bias",
            role: Role::Weight,
            usual: &["bias", "conv_bias"],
            when: When::With(&[is("shift", &["bias"])]),
        },
        SEQUENCE_LENGTHS,
    ],
    returns: Returns::PairWith {
        condition: FROM_STATE,
        does: "returns the result and the last inputs",
        written: "(Tensor<3>, Tensor<3>)",
    },
    call,
};

fn call(call: &CallContext<'_>) -> TokenStream {
    let (function, operands) = operands(call);
    call.site(function, &operands)
}

fn composition(call: &CallContext<'_>) -> TokenStream {
    let (runtime, key) = (call.runtime, call.key());
    let (function, operands) = operands(call);
    let reference = format_ident!("{function}_reference");
    quote!(#runtime::#reference(#operands, #key))
}

/// The function, with a state or without, and its operands.
fn operands(call: &CallContext<'_>) -> (&'static str, TokenStream) {
    let (x, parameters) = (call.value("x"), parameters(call));
    let lengths = call.read_optional("sequence_lengths", "LengthList", "length_list");
    match call.has("conv_state") {
        true => {
            let state = call.value("conv_state");
            let operands = quote!([#x, #state], #parameters, #lengths);
            ("causal_conv1d_from_state", operands)
        }
        false => ("causal_conv1d", quote!(#x, #parameters, #lengths)),
    }
}

fn parameters(call: &CallContext<'_>) -> TokenStream {
    let (runtime, weight) = (call.runtime, call.lent("weight"));
    let mut parameters = quote!(#runtime::LinearParameters::new(#weight));
    if call.has("bias") {
        let bias = call.lent("bias");
        parameters.extend(quote!(.bias(#bias)));
        if call.first_use.is_before("bias", "weight") {
            parameters.extend(quote!(.bias_first()));
        }
    }
    parameters
}

fn docs(key: &Key) -> String {
    let is = |setting, value| key.choice(setting) == Some(value);
    let bias = match is("shift", "bias") {
        true => "bias + ",
        false => "",
    };
    let sum = format!("{bias}Σ_j weight[j] · x[t − K + 1 + j]");
    let y = match is("activation", "silu") {
        true => format!("silu({sum})"),
        false => sum,
    };
    let state = match is("state", "given") {
        true => {
            " `conv_state` has the inputs before the first token, `[sequences, K − 1, channels]`, and the second \
             result the last ones, from which the next call goes on."
        }
        false => " Inputs before the first token are zero.",
    };
    let lengths = match is("lengths", "packed") {
        true => {
            " Each row is several sequences, one after the other, with `sequence_lengths`, and each begins anew."
        }
        false => "",
    };
    format!(
        "Short causal convolution of each channel, `y[t] = {y}`.\n\n\
         `x` and the result are `[batch, tokens, channels]`, `weight` is `[channels, K]` with 2 to 8 weights for a \
         channel.{state}{lengths}"
    )
}
