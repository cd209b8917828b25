//! `npu_fused_qk_norm_rope`: RMSNorm and rotary position embedding of projected queries and keys.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use super::rmsnorm::{self, OFFSET, ROUNDING};
use super::rope::{
    self, FOREIGN_FIELDS, LAYOUT, NEIGHBOURS, NEIGHBOURS_IN_HALVES, SECTIONS, SECTIONS_BY_HALVES,
    SECTIONS_IN_HALVES, STYLE, TABLE, WIDTH,
};
use super::{
    CallContext, Condition, Conflict, Contract, Key, Operand, Returns, Role, Setting, Shape, When,
    choice, is,
};

pub(super) static CONTRACT: Contract = Contract {
    id: "npu_fused_qk_norm_rope",
    variant: &[],
    docs,
    key: "QkNormRope",
    op: "qk_norm_rope",
    settings: &[
        NORM, OFFSET, ROUNDING, STYLE, WIDTH, LAYOUT, TABLE, SECTIONS,
    ],
    conflicts: &[
        Conflict {
            all: &[is("norm", &["none"]), is("offset", &["1"])],
            message: "`offset = 1` is added to the weight of a norm, which `norm = none` leaves out; \
                      remove one of the two",
        },
        Conflict {
            all: &[is("norm", &["none"]), is("rounding", &["gemma"])],
            message: "`rounding` belongs to the norm, which `norm = none` leaves out; \
                      remove one of the two",
        },
        NEIGHBOURS_IN_HALVES,
        SECTIONS_BY_HALVES,
        SECTIONS_IN_HALVES,
    ],
    flow: &[],
    layer: SHAPE,
    function: Ok(SHAPE),
    composition,
    foreign_fields: FOREIGN_FIELDS,
    item_names: &[],
    body_calls: &[NEIGHBOURS],
};

const NORM: Setting = Setting {
    name: "norm",
    type_name: "QkNorm",
    choices: &[
        choice("head", "Head"),
        choice("row", "Row"),
        choice("none", "None"),
    ],
    other_words: &[
        ("heads", "norm = head"),
        ("rows", "norm = row"),
        ("token", "norm = row"),
        ("true", "norm = head` or `norm = row"),
        ("false", "norm = none"),
    ],
};

const WITH_NORM: Condition = is("norm", &["head", "row"]);

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
            name: "q_weight",
            role: Role::Weight,
            usual: &["q_weight", "q_norm", "query_weight"],
            when: When::With(&[WITH_NORM]),
        },
        Operand {
            name: "k_weight",
            role: Role::Weight,
            usual: &["k_weight", "k_norm", "key_weight"],
            when: When::With(&[WITH_NORM]),
        },
        Operand {
            when: When::With(&[WITH_NORM]),
            ..rmsnorm::EPS
        },
        rope::COS,
        rope::SIN,
        rope::SECTION_COS,
        rope::SECTION_SIN,
        rope::SECTION_SIZES,
    ],
    returns: Returns::Pair {
        does: "normalises and rotates queries and keys together",
        written: "(Tensor<4>, Tensor<4>)",
    },
    call,
};

fn call(call: &CallContext<'_>) -> TokenStream {
    let (runtime, at, reference) = (call.runtime, &call.at, &call.reference);
    let weights = ["q_weight", "k_weight"]
        .map(|weight| call.read_lazily(weight, "NormWeight", "norm_weight"));
    let [q, k] = &weights;
    let weights = match keys_first(call) {
        true => quote!(#runtime::QkWeights::keys_first(#k, #q)),
        false => quote!(#runtime::QkWeights::queries_first(#q, #k)),
    };
    let (function, operands) = operands(call, &weights);
    quote!(#runtime::#function(#at, #operands, #reference))
}

fn composition(call: &CallContext<'_>) -> TokenStream {
    let (runtime, key) = (call.runtime, call.key());
    let weights = ["q_weight", "k_weight"]
        .map(|weight| call.read_optional(weight, "NormWeight", "norm_weight"));
    let [q, k] = &weights;
    let weights = match keys_first(call) {
        true => quote!({
            let k_weight = #k;
            [#q, k_weight]
        }),
        false => quote!([#q, #k]),
    };
    let (function, operands) = operands(call, &weights);
    let reference = format_ident!("{function}_reference");
    quote!(#runtime::#reference(#operands, #key))
}

/// Returns true if the body uses the keys' weight before the queries': parameters are initialised at their first use.
fn keys_first(call: &CallContext<'_>) -> bool {
    call.has("k_weight") && call.first_use.is_before("k_weight", "q_weight")
}

/// The function, for one position a token or three, and its operands.
fn operands(call: &CallContext<'_>, weights: &TokenStream) -> (Ident, TokenStream) {
    let [q, k] = ["q", "k"].map(|operand| call.value(operand));
    let [cos, sin] = ["cos", "sin"].map(|operand| call.shared(operand));
    let eps = call.read_optional("eps", "Epsilon", "epsilon");
    let tensors = quote!((#q, #k), #weights, (#cos, #sin));
    match call.key.choice("sections") {
        Some("none") | None => (format_ident!("qk_norm_rope"), quote!(#tensors, #eps)),
        Some(_) => {
            let lengths = call.read("mrope_section", "SectionLengths", "lengths");
            let operands = quote!(#tensors, #lengths, #eps);
            (format_ident!("qk_norm_rope_sections"), operands)
        }
    }
}

fn docs(key: &Key) -> String {
    let is = |setting, value| key.choice(setting) == Some(value);
    let weight = match is("offset", "1") {
        true => "(1 + weight)",
        false => "weight",
    };
    let norm = match key.choice("norm") {
        Some("none") => "Rotary position embedding of projected queries and keys".to_owned(),
        Some("row") => format!(
            "RMSNorm of all heads of a token together, `x / √(mean(x²) + ε) · {weight}`, and rotary position embedding \
             of projected queries and keys"
        ),
        _ => format!(
            "RMSNorm of each head, `x / √(mean(x²) + ε) · {weight}`, and rotary position embedding of projected queries \
             and keys"
        ),
    };
    let weights = match key.choice("norm") {
        Some("none") => "",
        Some("row") => " The weights are `[heads · dim]` and `[kv_heads · dim]`.",
        _ => " The weights are `[dim]`.",
    };
    let [q, k] = match is("layout", "bsnd") {
        true => ["[batch, seq, heads, dim]", "[batch, seq, kv_heads, dim]"],
        false => ["[batch, heads, seq, dim]", "[batch, kv_heads, seq, dim]"],
    };
    format!(
        "{norm}.\n\n`q` is `[batch, seq, heads, dim]` and `k` is `[batch, seq, kv_heads, dim]`; the results are `{q}` \
         and `{k}`.{weights} `cos` and `sin` are tables as of `npu_fused_rope`, of as many positions."
    )
}
