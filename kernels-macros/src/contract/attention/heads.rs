//! Attention of projected heads.

use super::{
    CAP, CAP_FIELD, DROPOUT, ID, LENGTHS, MASK, MASK_FIELD, PREFIX, PREFIX_IN_A_WINDOW, SCALE,
    SEQUENCE_LENGTHS, SINK, SINKS, SINKS_FIELD, SOFTCAP, WINDOW, WINDOW_FIELD, WINDOW_SIZE,
    lengths, numbers, score, seen,
};
use crate::contract::{
    CallContext, Condition, Contract, ForeignField, Key, Operand, Returns, Role, Setting, Shape,
    When, choice, is,
};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

pub(in crate::contract) static CONTRACT: Contract = Contract {
    id: ID,
    variant: &[("part", "heads")],
    docs,
    key: "Attention",
    op: "attention",
    settings: &[MASK, WINDOW, BIAS, CAP, SINK, LENGTHS, LAYOUT],
    conflicts: &[PREFIX_IN_A_WINDOW],
    flow: &[],
    layer: SHAPE,
    function: Ok(SHAPE),
    composition,
    foreign_fields: &[
        PROJECTIONS,
        DROPOUT,
        MASK_FIELD,
        WINDOW_FIELD,
        CAP_FIELD,
        SINKS_FIELD,
    ],
    item_names: &[],
    body_calls: &[],
};

const BIAS: Setting = Setting {
    name: "bias",
    type_name: "AttentionBias",
    choices: &[choice("none", "None"), choice("additive", "Additive")],
    other_words: &[
        ("mask", "bias = additive"),
        ("alibi", "bias = additive"),
        ("true", "bias = additive"),
    ],
};

const LAYOUT: Setting = Setting {
    name: "layout",
    type_name: "HeadLayout",
    choices: &[choice("bnsd", "Bnsd"), choice("bsnd", "Bsnd")],
    other_words: &[("bhsd", "layout = bnsd"), ("bshd", "layout = bsnd")],
};

const BIASED: Condition = is("bias", &["additive"]);

const PROJECTIONS: ForeignField = ForeignField {
    names: &["q_proj", "k_proj", "v_proj", "o_proj", "qkv_proj"],
    unless: None,
    instead_of: &[],
    advice: "queries, keys and values with their projections are `part = layer`; the default, `part = heads`, \
             takes projected ones",
};

const SHAPE: Shape = Shape {
    operands: &[
        Operand {
            name: "q",
            role: Role::Tensor { rank: Some(4) },
            usual: &["q", "query", "query_states"],
            when: When::Always,
        },
        Operand {
            name: "k",
            role: Role::Tensor { rank: Some(4) },
            usual: &["k", "key", "key_states"],
            when: When::Always,
        },
        Operand {
            name: "v",
            role: Role::Tensor { rank: Some(4) },
            usual: &["v", "value", "value_states"],
            when: When::Always,
        },
        Operand {
            name: "attention_bias",
            role: Role::Tensor { rank: Some(4) },
            usual: &[
                "attention_bias",
                "attention_mask",
                "attn_mask",
                "mask",
                "bias",
            ],
            when: When::With(&[BIASED]),
        },
        SINKS,
        SEQUENCE_LENGTHS,
        SCALE,
        PREFIX,
        WINDOW_SIZE,
        SOFTCAP,
        Operand {
            name: "offset",
            role: Role::Count,
            usual: &["offset", "query_offset", "start_pos"],
            when: When::IfThere,
        },
    ],
    returns: Returns::Tensor,
    call,
};

fn call(call: &CallContext<'_>) -> TokenStream {
    let CallContext {
        runtime,
        at,
        reference,
        ..
    } = call;
    let sinks = call.read_lazily("sinks", "SinkScores", "sink_scores");
    let (function, operands) = operands(call, &sinks);
    quote!(#runtime::#function(#at, #operands, #reference))
}

fn composition(call: &CallContext<'_>) -> TokenStream {
    let (runtime, key) = (call.runtime, call.key());
    let sinks = call.read_optional("sinks", "SinkScores", "sink_scores");
    let (function, operands) = operands(call, &sinks);
    let reference = format_ident!("{function}_reference");
    quote!(#runtime::#reference(#operands, #key))
}

/// The function, with a bias or without, and its operands.
fn operands(call: &CallContext<'_>, sinks: &TokenStream) -> (Ident, TokenStream) {
    let [q, k, v] = ["q", "k", "v"].map(|operand| call.value(operand));
    let (settings, lengths) = (numbers(call), lengths(call));
    match call.has("attention_bias") {
        true => {
            let bias = call.value("attention_bias");
            let operands = quote!([#q, #k, #v, #bias], #sinks, #lengths, #settings);
            (format_ident!("attention_biased"), operands)
        }
        false => {
            let operands = quote!([#q, #k, #v], #sinks, #lengths, #settings);
            (format_ident!("attention"), operands)
        }
    }
}

fn docs(key: &Key) -> String {
    let is = |setting, value| key.choice(setting) == Some(value);
    let [rows, columns] = match is("layout", "bsnd") {
        true => [
            "[batch, queries, heads, width]",
            "[batch, keys, kv_heads, width]",
        ],
        false => [
            "[batch, heads, queries, width]",
            "[batch, kv_heads, keys, width]",
        ],
    };
    let bias = match is("bias", "additive") {
        true => " + bias",
        false => "",
    };
    let (score, seen) = (score(key), seen(key));
    format!(
        "Attention, `softmax({score}{bias}) · v`. {seen}\n\n\
         `q` is `{rows}`, and `k` and `v` are `{columns}`; values may have another width. `kv_heads` divides `heads`. \
         The result has the dtype of `q`, its shape, and the width of `v`."
    )
}
