//! `npu_fused_attention`: scaled dot-product attention. Projected heads are one contract. A layer, with its projections, is
//! another.

mod heads;
mod layer;

pub(super) use heads::CONTRACT as HEADS;
pub(super) use layer::CONTRACT as LAYER;

use super::{
    CallContext, Condition, Conflict, ForeignField, Key, Operand, Role, Setting, When, choice, is,
};
use proc_macro2::TokenStream;
use quote::quote;

const ID: &str = "npu_fused_attention";

const MASK: Setting = Setting {
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
};

const WINDOW: Setting = Setting {
    name: "window",
    type_name: "AttentionWindow",
    choices: &[
        choice("none", "None"),
        choice("sliding", "Sliding"),
        choice("chunked", "Chunked"),
    ],
    other_words: &[("local", "window = sliding")],
};

const CAP: Setting = Setting {
    name: "cap",
    type_name: "ScoreCap",
    choices: &[choice("none", "None"), choice("tanh", "Tanh")],
    other_words: &[("true", "cap = tanh")],
};

const SINK: Setting = Setting {
    name: "sink",
    type_name: "Sinks",
    choices: &[choice("none", "None"), choice("learned", "Learned")],
    other_words: &[("true", "sink = learned")],
};

const LENGTHS: Setting = Setting {
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
};

const WITH_PREFIX: Condition = is("mask", &["prefix"]);
const WINDOWED: Condition = is("window", &["sliding", "chunked"]);
const CAPPED: Condition = is("cap", &["tanh"]);
const WITH_SINKS: Condition = is("sink", &["learned"]);
const WITH_LENGTHS: Condition = is("lengths", &["padded", "left_padded", "packed"]);

const PREFIX_IN_A_WINDOW: Conflict = Conflict {
    all: &[WITH_PREFIX, WINDOWED],
    message: "a prefix is visible from everywhere, and a window hides what is far away; kernels take \
              one of them; `bias = additive` takes any mask",
};

const DROPOUT: ForeignField = ForeignField {
    names: &["dropout", "attn_dropout", "attention_dropout"],
    unless: None,
    instead_of: &[],
    advice: "the kernel has no dropout of attention weights",
};

const MASK_FIELD: ForeignField = ForeignField {
    names: &["mask", "attn_mask", "attention_mask"],
    unless: Some(is("bias", &["additive"])),
    instead_of: &[],
    advice: "a tensor that is added to the scores, such as a mask of zeros and negative infinities, is `bias = additive`; \
             `mask = causal`, `prefix` or `none` say which keys a query sees without a tensor",
};

const WINDOW_FIELD: ForeignField = ForeignField {
    names: WINDOW_NAMES,
    unless: Some(WINDOWED),
    instead_of: &[],
    advice: "a window is `window = sliding` (Mistral, Gemma, gpt-oss) or `window = chunked` (Llama 4)",
};

const CAP_FIELD: ForeignField = ForeignField {
    names: CAP_NAMES,
    unless: Some(CAPPED),
    instead_of: &[],
    advice: "a limit of the scores, `cap · tanh(score / cap)`, is `cap = tanh`",
};

const SINKS_FIELD: ForeignField = ForeignField {
    names: &["sinks"],
    unless: Some(WITH_SINKS),
    instead_of: &[],
    advice: "a learned score of each head in the sum of its softmax is `sink = learned`",
};

pub(in crate::contract) const LENGTHS_NAMES: &[&str] =
    &["sequence_lengths", "lengths", "seq_lens", "seqlens"];
const WINDOW_NAMES: &[&str] = &[
    "window_size",
    "sliding_window",
    "chunk_size",
    "attention_chunk_size",
];
const CAP_NAMES: &[&str] = &["softcap", "soft_cap", "attn_logit_softcapping"];

const SINKS: Operand = Operand {
    name: "sinks",
    role: Role::Weight,
    usual: &["sinks"],
    when: When::With(&[WITH_SINKS]),
};

const SEQUENCE_LENGTHS: Operand = Operand {
    name: "sequence_lengths",
    role: Role::Lengths,
    usual: LENGTHS_NAMES,
    when: When::With(&[WITH_LENGTHS]),
};

const SCALE: Operand = Operand {
    name: "scale",
    role: Role::Number,
    usual: &["scale", "scaling", "softmax_scale"],
    when: When::IfThere,
};

const PREFIX: Operand = Operand {
    name: "prefix",
    role: Role::Count,
    usual: &["prefix", "prefix_length", "prefix_len"],
    when: When::With(&[WITH_PREFIX]),
};

const WINDOW_SIZE: Operand = Operand {
    name: "window_size",
    role: Role::Count,
    usual: WINDOW_NAMES,
    when: When::With(&[WINDOWED]),
};

const SOFTCAP: Operand = Operand {
    name: "softcap",
    role: Role::Number,
    usual: CAP_NAMES,
    when: When::With(&[CAPPED]),
};

/// The numbers of a call.
fn numbers(call: &CallContext<'_>) -> TokenStream {
    let runtime = call.runtime;
    let [scale, cap] =
        ["scale", "softcap"].map(|operand| call.read_optional(operand, "Number", "number"));
    let [prefix, window, offset] = ["prefix", "window_size", "offset"]
        .map(|operand| call.read_optional(operand, "Count", "count"));
    quote!(#runtime::AttentionSettings {
        scale: #scale,
        prefix: #prefix,
        window: #window,
        cap: #cap,
        offset: #offset,
    })
}

fn lengths(call: &CallContext<'_>) -> TokenStream {
    call.read_optional("sequence_lengths", "LengthList", "length_list")
}

/// The sentences about the keys that a query sees, and about the sinks.
fn seen(key: &Key) -> String {
    let is = |setting, value| key.choice(setting) == Some(value);
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
    format!("{seen}{lengths}{sinks}")
}

/// The formula of the scores.
fn score(key: &Key) -> &'static str {
    match key.choice("cap") {
        Some("tanh") => "softcap · tanh(scale · q·kᵀ / softcap)",
        _ => "scale · q·kᵀ",
    }
}
