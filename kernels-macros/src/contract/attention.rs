//! `npu_fused_attention`: scaled dot-product attention.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use super::{
    CallContext, Condition, Conflict, Contract, ForeignField, Key, Operand, Returns, Role, Setting,
    Shape, When, choice, is,
};

pub(super) static CONTRACT: Contract = Contract {
    id: "npu_fused_attention",
    variant: &[],
    docs,
    key: "Attention",
    op: "attention",
    settings: SETTINGS,
    conflicts: &[PREFIX_IN_A_WINDOW],
    flow: &[],
    layer: SHAPE,
    function: Ok(SHAPE),
    composition,
    foreign_fields: FOREIGN_FIELDS,
    item_names: &[],
    body_calls: &[],
};

const SETTINGS: &[Setting] = &[
    Setting {
        name: "mask",
        type_name: "AttentionMask",
        choices: &[
            choice("causal", "Causal"),
            choice("prefix", "Prefix"),
            choice("none", "None"),
        ],
        other_words: &[
            ("true", "mask = causal"),
            ("false", "mask = none"),
            ("full", "mask = none"),
            ("bidirectional", "mask = none"),
            ("prefix_lm", "mask = prefix"),
            ("additive", "bias = additive"),
            ("sliding", "window = sliding"),
        ],
    },
    Setting {
        name: "window",
        type_name: "AttentionWindow",
        choices: &[
            choice("none", "None"),
            choice("sliding", "Sliding"),
            choice("chunked", "Chunked"),
        ],
        other_words: &[("local", "window = sliding")],
    },
    Setting {
        name: "bias",
        type_name: "AttentionBias",
        choices: &[choice("none", "None"), choice("additive", "Additive")],
        other_words: &[
            ("mask", "bias = additive"),
            ("alibi", "bias = additive"),
            ("true", "bias = additive"),
        ],
    },
    Setting {
        name: "cap",
        type_name: "ScoreCap",
        choices: &[choice("none", "None"), choice("tanh", "Tanh")],
        other_words: &[("true", "cap = tanh")],
    },
    Setting {
        name: "sink",
        type_name: "Sinks",
        choices: &[choice("none", "None"), choice("learned", "Learned")],
        other_words: &[("true", "sink = learned")],
    },
    Setting {
        name: "lengths",
        type_name: "SequenceLengths",
        choices: &[
            choice("none", "None"),
            choice("padded", "Padded"),
            choice("left_padded", "LeftPadded"),
            choice("packed", "Packed"),
        ],
        other_words: &[
            ("varlen", "lengths = packed"),
            ("documents", "lengths = packed"),
            ("padding", "lengths = padded"),
        ],
    },
    Setting {
        name: "layout",
        type_name: "HeadLayout",
        choices: &[choice("bnsd", "Bnsd"), choice("bsnd", "Bsnd")],
        other_words: &[("bhsd", "layout = bnsd"), ("bshd", "layout = bsnd")],
    },
];

const WITH_PREFIX: Condition = is("mask", &["prefix"]);
const WINDOWED: Condition = is("window", &["sliding", "chunked"]);
const BIASED: Condition = is("bias", &["additive"]);
const CAPPED: Condition = is("cap", &["tanh"]);
const WITH_SINKS: Condition = is("sink", &["learned"]);
const WITH_LENGTHS: Condition = is("lengths", &["padded", "left_padded", "packed"]);

const PREFIX_IN_A_WINDOW: Conflict = Conflict {
    all: &[WITH_PREFIX, WINDOWED],
    message: "a prefix is visible from everywhere, and a window hides what is far away; kernels take \
              one of them; `bias = additive` takes any mask",
};

const FOREIGN_FIELDS: &[ForeignField] = &[
    ForeignField {
        names: &["q_proj", "k_proj", "v_proj", "o_proj", "qkv_proj"],
        unless: None,
        instead_of: &[],
        advice: "the kernel takes projected queries, keys and values; annotate the function or method that \
                 computes attention from them",
    },
    ForeignField {
        names: &["dropout", "attn_dropout", "attention_dropout"],
        unless: None,
        instead_of: &[],
        advice: "the kernel has no dropout of attention weights",
    },
    ForeignField {
        names: WINDOW_NAMES,
        unless: Some(WINDOWED),
        instead_of: &[],
        advice: "a window is `window = sliding` (Mistral, Gemma, gpt-oss) or `window = chunked` (Llama 4)",
    },
    ForeignField {
        names: CAP_NAMES,
        unless: Some(CAPPED),
        instead_of: &[],
        advice: "a limit of the scores, `cap · tanh(score / cap)`, is `cap = tanh`",
    },
    ForeignField {
        names: &["sinks"],
        unless: Some(WITH_SINKS),
        instead_of: &[],
        advice: "a learned score of each head in the sum of its softmax is `sink = learned`",
    },
];

const LENGTHS_NAMES: &[&str] = &["sequence_lengths", "lengths", "seq_lens", "seqlens"];
const WINDOW_NAMES: &[&str] = &[
    "window_size",
    "sliding_window",
    "chunk_size",
    "attention_chunk_size",
];
const CAP_NAMES: &[&str] = &["softcap", "soft_cap", "attn_logit_softcapping"];

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
        Operand {
            name: "sinks",
            role: Role::Weight,
            usual: &["sinks"],
            when: When::With(&[WITH_SINKS]),
        },
        Operand {
            name: "sequence_lengths",
            role: Role::Lengths,
            usual: LENGTHS_NAMES,
            when: When::With(&[WITH_LENGTHS]),
        },
        Operand {
            name: "scale",
            role: Role::Number,
            usual: &["scale", "scaling", "softmax_scale"],
            when: When::IfThere,
        },
        Operand {
            name: "prefix",
            role: Role::Count,
            usual: &["prefix", "prefix_length", "prefix_len"],
            when: When::With(&[WITH_PREFIX]),
        },
        Operand {
            name: "window_size",
            role: Role::Count,
            usual: WINDOW_NAMES,
            when: When::With(&[WINDOWED]),
        },
        Operand {
            name: "softcap",
            role: Role::Number,
            usual: CAP_NAMES,
            when: When::With(&[CAPPED]),
        },
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
    let runtime = call.runtime;
    let [q, k, v] = ["q", "k", "v"].map(|operand| call.value(operand));
    let [scale, cap] =
        ["scale", "softcap"].map(|operand| call.read_optional(operand, "Number", "number"));
    let [prefix, window, offset] = ["prefix", "window_size", "offset"]
        .map(|operand| call.read_optional(operand, "Count", "count"));
    let settings = quote!(#runtime::AttentionSettings {
        scale: #scale,
        prefix: #prefix,
        window: #window,
        cap: #cap,
        offset: #offset,
    });
    let lengths = call.read_optional("sequence_lengths", "LengthList", "length_list");
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
    let score = match is("cap", "tanh") {
        true => "softcap · tanh(scale · q·kᵀ / softcap)",
        false => "scale · q·kᵀ",
    };
    let bias = match is("bias", "additive") {
        true => " + bias",
        false => "",
    };
    let seen = match (is("mask", "causal"), key.choice("window")) {
        _ if is("mask", "prefix") => {
            "A query sees the key at its own position, all before it, and the first `prefix` keys."
        }
        (true, Some("sliding")) => {
            "A query sees the key at its own position and those before it, `window_size` in all."
        }
        (true, Some("chunked")) => {
            "A query sees the key at its own position and those before it, from the first position of its chunk of \
             `window_size` on."
        }
        (true, _) => "A query sees the key at its own position and all before it.",
        (false, Some("sliding")) => "A query sees keys fewer than `window_size` positions apart.",
        (false, Some("chunked")) => {
            "A query sees the keys of its chunk of `window_size` positions."
        }
        (false, _) => "A query sees all keys.",
    };
    let lengths = match key.choice("lengths") {
        Some("padded") => {
            " `sequence_lengths` are the lengths of the sequences, one for each; the keys behind them are hidden."
        }
        Some("left_padded") => {
            " `sequence_lengths` are the lengths of the sequences, one for each; the keys before them are hidden."
        }
        Some("packed") => {
            " Each sequence is several documents, one after the other, with `sequence_lengths`. A query sees keys of its own \
             document."
        }
        _ => "",
    };
    let sinks = match is("sink", "learned") {
        true => " Each head's sink takes part in the sum of the softmax.",
        false => "",
    };
    format!(
        "Attention, `softmax({score}{bias}) · v`. {seen}{lengths}{sinks}\n\n\
         `q` is `{rows}`, and `k` and `v` are `{columns}`; values may have another width. `kv_heads` divides `heads`. \
         The result has the dtype of `q`, its shape, and the width of `v`."
    )
}
