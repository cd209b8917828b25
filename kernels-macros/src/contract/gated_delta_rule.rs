//! `npu_fused_gated_delta_rule`: the linear attention of Gated DeltaNet and of Kimi.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use super::causal_conv1d::{FROM_STATE, LENGTHS, SEQUENCE_LENGTHS, STATE};
use super::{
    CallContext, Contract, Key, Operand, Returns, Role, Setting, Shape, Tell, When, choice, is,
};

pub(super) static CONTRACT: Contract = Contract {
    id: "npu_fused_gated_delta_rule",
    variant: &[],
    docs,
    key: "GatedDeltaRule",
    op: "gated_delta_rule",
    settings: &[DECAY, NORM, STATE, LENGTHS],
    conflicts: &[],
    flow: &[],
    layer: SHAPE,
    function: Ok(SHAPE),
    composition,
    foreign_fields: &[],
    item_names: &[KIMI],
    body_calls: &[],
};

const DECAY: Setting = Setting {
    name: "decay",
    type_name: "Decay",
    choices: &[choice("head", "Head"), choice("channel", "Channel")],
    other_words: &[
        ("gdn", "decay = head"),
        ("kda", "decay = channel"),
        ("scalar", "decay = head"),
    ],
};

const NORM: Setting = Setting {
    name: "norm",
    type_name: "KeyNorm",
    choices: &[choice("l2", "L2"), choice("none", "None")],
    other_words: &[("true", "norm = l2"), ("false", "norm = none")],
};

const KIMI: Tell = Tell {
    words: &["kda", "kimi"],
    fits: Some(is("decay", &["channel"])),
    advice: "Kimi Delta Attention has a decay for each channel of the key: write `decay = channel`",
};

/// A tensor that flows through and is always there, or only with a setting.
const fn tensor(
    name: &'static str,
    usual: &'static [&'static str],
    rank: usize,
    when: When,
) -> Operand {
    Operand {
        name,
        role: Role::Tensor { rank: Some(rank) },
        usual,
        when,
    }
}

const SHAPE: Shape = Shape {
    operands: &[
        tensor("q", &["q", "query", "query_states"], 4, When::Always),
        tensor("k", &["k", "key", "key_states"], 4, When::Always),
        tensor("v", &["v", "value", "value_states"], 4, When::Always),
        tensor("g", G, 3, When::With(&[is("decay", &["head"])])),
        tensor("g", G, 4, When::With(&[is("decay", &["channel"])])),
        tensor("beta", &["beta"], 3, When::Always),
        tensor(
            "initial_state",
            &["initial_state", "recurrent_state"],
            4,
            When::With(&[FROM_STATE]),
        ),
        SEQUENCE_LENGTHS,
        Operand {
            name: "scale",
            role: Role::Number,
            usual: &["scale", "scaling"],
            when: When::IfThere,
        },
    ],
    returns: Returns::Pair {
        does: "returns the result and the last state",
        written: "(Tensor<4>, Tensor<4>)",
    },
    call,
};

const G: &[&str] = &["g", "log_decay"];

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
    let [q, k, v, g, beta] = ["q", "k", "v", "g", "beta"].map(|operand| call.value(operand));
    let lengths = call.read_optional("sequence_lengths", "LengthList", "length_list");
    let scale = call.read_optional("scale", "Number", "number");
    match call.has("initial_state") {
        true => {
            let state = call.value("initial_state");
            let operands = quote!((#q, #k, #v, #g, #beta, #state), #lengths, #scale);
            ("gated_delta_rule_from_state", operands)
        }
        false => {
            let operands = quote!((#q, #k, #v, #g, #beta), #lengths, #scale);
            ("gated_delta_rule", operands)
        }
    }
}

fn docs(key: &Key) -> String {
    let is = |setting, value| key.choice(setting) == Some(value);
    let norm = match is("norm", "l2") {
        true => " Queries and keys are normalised before, `x / √(Σ x² + 1e-6)`.",
        false => "",
    };
    let g = match is("decay", "channel") {
        true => "`[batch, tokens, heads, key width]`, for the rows of the state",
        false => "`[batch, tokens, heads]`",
    };
    let state = match is("state", "given") {
        true => "`initial_state`, `[sequences, heads, key width, value width]`",
        false => "zeros",
    };
    let lengths = match is("lengths", "packed") {
        true => {
            " Each row is several sequences, one after the other, with `sequence_lengths`, and each has a state of \
             its own."
        }
        false => "",
    };
    format!(
        "Gated delta rule: for each token and head, `S ← e^g S`, `S ← S + beta k (v − Sᵀk)ᵀ`, `y = scale · Sᵀq`.{norm} \
         Returns the result and the last state.\n\n\
         `q` and `k` are `[batch, tokens, key heads, key width]`, `v` and the result `[batch, tokens, heads, \
         value width]`, `beta` is `[batch, tokens, heads]` and `g` {g}; `key heads` divides `heads`. The state begins \
         with {state}. `g` and states are in `f32` (`f64` for `f64`).{lengths}"
    )
}
