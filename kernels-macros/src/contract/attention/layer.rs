//! Attention with its projections: each sequence attends to itself.

use super::{
    CAP, CAP_FIELD, DROPOUT, ID, LENGTHS, MASK, PREFIX, PREFIX_IN_A_WINDOW, SCALE,
    SEQUENCE_LENGTHS, SINK, SINKS, SINKS_FIELD, SOFTCAP, WINDOW, WINDOW_FIELD, WINDOW_SIZE,
    lengths, numbers, score, seen,
};
use crate::contract::{
    CallContext, Contract, ForeignField, Key, Operand, Returns, Role, Setting, Shape, When, choice,
};
use proc_macro2::TokenStream;
use quote::{format_ident, quote};

pub(in crate::contract) static CONTRACT: Contract = Contract {
    id: ID,
    variant: &[("part", "layer")],
    docs,
    key: "Attention",
    op: "attention",
    settings: &[LAYER_MASK, WINDOW, BIAS, CAP, SINK, LENGTHS, LAYOUT],
    conflicts: &[PREFIX_IN_A_WINDOW],
    flow: FLOW,
    layer: SHAPE,
    function: Err(
        "a layer calls its projections as layers of `self`; annotate the struct, an impl block or a \
         method with `&self`. Attention as a function of projected heads is `part = heads`, the default",
    ),
    composition,
    foreign_fields: &[PACKED, DROPOUT, WINDOW_FIELD, CAP_FIELD, SINKS_FIELD],
    item_names: &[],
    body_calls: &[],
};

/// As of heads, without the advice to add a bias.
const LAYER_MASK: Setting = Setting {
    other_words: &[
        ("true", "mask = causal"),
        ("false", "mask = none"),
        ("full", "mask = none"),
        ("bidirectional", "mask = none"),
        ("prefix_lm", "mask = prefix"),
        ("sliding", "window = sliding"),
    ],
    ..MASK
};

/// A layer has one value: a bias of scores is an operand of `part = heads`.
const BIAS: Setting = Setting {
    name: "bias",
    type_name: "AttentionBias",
    choices: &[choice("none", "None")],
    other_words: &[],
};

/// A layer has one value: projections leave the heads so.
const LAYOUT: Setting = Setting {
    name: "layout",
    type_name: "HeadLayout",
    choices: &[choice("bsnd", "Bsnd")],
    other_words: &[],
};

const PACKED: ForeignField = ForeignField {
    names: &["qkv_proj", "c_attn", "qkv", "in_proj"],
    unless: None,
    instead_of: &["q", "k", "v"],
    advice: "a layer has three projections; annotate the function or method that computes attention from \
             the parts of one projection, with `part = heads`",
};

const FLOW: &[(&str, &str)] = &[
    ("q_norm", "q"),
    ("k_norm", "k"),
    ("rotary", "q"),
    ("rotary", "k"),
    ("rotary", "q_norm"),
    ("rotary", "k_norm"),
    ("o", "q"),
    ("o", "k"),
    ("o", "v"),
    ("o", "q_norm"),
    ("o", "k_norm"),
    ("o", "rotary"),
    ("o", "sinks"),
];

const SHAPE: Shape = Shape {
    operands: &[
        operand("x", Role::Stream, &[], When::Always),
        operand(
            "q",
            Role::Layer,
            &["q_proj", "query", "wq", "to_q", "q"],
            When::Always,
        ),
        operand(
            "k",
            Role::Layer,
            &["k_proj", "key", "wk", "to_k", "k"],
            When::Always,
        ),
        operand(
            "v",
            Role::Layer,
            &["v_proj", "value", "wv", "to_v", "v"],
            When::Always,
        ),
        operand(
            "o",
            Role::Layer,
            &["o_proj", "out_proj", "output", "wo", "to_out", "dense", "o"],
            When::Always,
        ),
        operand(
            "q_norm",
            Role::Layer,
            &["q_norm", "query_norm"],
            When::IfThere,
        ),
        operand(
            "k_norm",
            Role::Layer,
            &["k_norm", "key_norm"],
            When::IfThere,
        ),
        operand(
            "rotary",
            Role::Rotation,
            &["rotary", "rotary_emb", "rope"],
            When::IfThere,
        ),
        operand(
            "num_heads",
            Role::Count,
            &["num_heads", "n_heads", "num_attention_heads"],
            When::Always,
        ),
        operand(
            "num_kv_heads",
            Role::Count,
            &["num_kv_heads", "n_kv_heads", "num_key_value_heads"],
            When::IfThere,
        ),
        SINKS,
        SEQUENCE_LENGTHS,
        SCALE,
        PREFIX,
        WINDOW_SIZE,
        SOFTCAP,
    ],
    returns: Returns::Tensor,
    call,
};

const fn operand(
    name: &'static str,
    role: Role,
    usual: &'static [&'static str],
    when: When,
) -> Operand {
    Operand {
        name,
        role,
        usual,
        when,
    }
}

fn call(call: &CallContext<'_>) -> TokenStream {
    let (runtime, at, reference) = (call.runtime, &call.at, &call.reference);
    let (x, layer) = (call.value("x"), layer(call));
    quote!(#runtime::attention_layer(#at, #x, #layer, #reference))
}

fn composition(call: &CallContext<'_>) -> TokenStream {
    let (runtime, key) = (call.runtime, call.key());
    let (x, layer) = (call.value("x"), layer(call));
    quote!(#runtime::attention_layer_reference(#x, #layer, #key))
}

/// The layers and numbers.
fn layer(call: &CallContext<'_>) -> TokenStream {
    let runtime = call.runtime;
    let project = |name| {
        let forward = call.forward_copied(name, quote!(x));
        quote!(&|x| #forward)
    };
    let [q, k, v, o] = ["q", "k", "v", "o"].map(project);
    let heads = call.read("num_heads", "Count", "count");
    let numbers = numbers(call);
    let mut layer = quote! {
        #runtime::AttentionLayer::new([#q, #k, #v, #o], #heads, #numbers)
    };
    if call.has("num_kv_heads") {
        let heads = call.read("num_kv_heads", "Count", "count");
        layer.extend(quote!(.kv_heads(#heads)));
    }
    for name in ["q_norm", "k_norm"] {
        if call.has(name) {
            let (method, forward) = (format_ident!("{name}"), project(name));
            layer.extend(quote!(.#method(#forward)));
        }
    }
    if call.has("rotary") {
        let forward = call.forward_copied("rotary", quote!(q, k));
        layer.extend(quote!(.rotary(&|q, k| #forward)));
    }
    if call.has("sinks") {
        let sinks = call.read_copied("sinks", "SinkScores", "sink_scores");
        layer.extend(quote!(.sinks(#sinks)));
    }
    if call.has("sequence_lengths") {
        let lengths = lengths(call);
        layer.extend(quote!(.lengths(#lengths)));
    }
    layer.extend(first_used(call));
    layer
}

/// The parts as the runtime calls them, in its own order.
const PARTS: &[(&str, &str)] = &[
    ("q", "Query"),
    ("k", "Key"),
    ("v", "Value"),
    ("q_norm", "QueryNorm"),
    ("k_norm", "KeyNorm"),
    ("rotary", "Rotary"),
    ("sinks", "Sinks"),
    ("o", "Output"),
];

/// `.first_used(..)`, if the order is not the runtime's own.
fn first_used(call: &CallContext<'_>) -> Option<TokenStream> {
    let runtime = call.runtime;
    let order = call.first_use.operands().iter();
    let order = order.filter_map(|name| PARTS.iter().position(|(operand, _)| operand == name));
    let order: Vec<usize> = order.collect();
    let parts = order.iter().map(|&part| {
        let part = format_ident!("{}", PARTS[part].1);
        quote!(#runtime::AttentionPart::#part)
    });
    (!order.is_sorted()).then(|| quote!(.first_used(&[#(#parts),*])))
}

fn docs(key: &Key) -> String {
    let (score, seen) = (score(key), seen(key));
    format!(
        "Self-attention with its projections, `o(softmax({score}) · v)`. {seen}\n\n\
         `x` is `[.., positions, width]`, and the result is what `o` makes of `[.., positions, num_heads · value_width]`. \
         `q(x)` is split into `num_heads` heads, `k(x)` and `v(x)` into `num_kv_heads`, which divides `num_heads`. Norms \
         of `q` and `k` run on the heads, `[batch, positions, heads, head_width]`, and the rotation after them on \
         `[batch, heads, positions, head_width]`. All are the layers of this struct, called through their own `forward`."
    )
}
