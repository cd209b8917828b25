//! `npu_fused_moe`: mixtures of experts. The experts are one contract where their weights are
//! stacked and one where they are layers of a list; the block around them, with its router, is a
//! third.

mod block;
mod list;
mod stacked;

pub(super) use block::CONTRACT as BLOCK;
pub(super) use list::CONTRACT as LIST;
pub(super) use stacked::CONTRACT as STACKED;

use super::swiglu::{self, ACTIVATION, CLAMP, UP_OFFSET};
use super::{
    CallContext, Condition, ForeignField, Key, Operand, Role, Setting, Tell, When, choice, clone,
    is,
};
use proc_macro2::TokenStream;
use quote::quote;

const ID: &str = "npu_fused_moe";

const SEPARATE: Condition = is("projections", &["separate"]);
const PACKED: Condition = is("projections", &["chunked", "interleaved"]);

const PROJECTIONS: Setting = Setting {
    name: "projections",
    type_name: "Projections",
    choices: &[
        choice("chunked", "Chunked"),
        choice("interleaved", "Interleaved"),
        choice("separate", "Separate"),
    ],
    other_words: &[
        (
            "packed",
            "projections = chunked` (Qwen, Mixtral) or `projections = interleaved` (gpt-oss)",
        ),
        ("halves", "projections = chunked"),
    ],
};

const BIAS: Setting = Setting {
    name: "bias",
    type_name: "ExpertBias",
    choices: &[choice("none", "None"), choice("all", "All")],
    other_words: &[("true", "bias = all"), ("false", "bias = none")],
};

const X: Operand = Operand {
    name: "x",
    role: Role::Tensor { rank: Some(2) },
    usual: &["x", "hidden_states", "hidden", "tokens"],
    when: When::Always,
};

const INDICES: Operand = Operand {
    name: "indices",
    role: Role::Indices,
    usual: &[
        "indices",
        "selected_experts",
        "expert_indices",
        "top_k_index",
        "topk_indices",
    ],
    when: When::Always,
};

const ROUTING: Operand = Operand {
    name: "routing",
    role: Role::Tensor { rank: Some(2) },
    usual: &[
        "routing",
        "routing_weights",
        "top_k_weights",
        "topk_weights",
    ],
    when: When::Always,
};

/// The number of experts, where the item has it too.
const NUM_EXPERTS: Operand = Operand {
    name: "num_experts",
    role: Role::Count,
    usual: &["num_experts", "n_routed_experts", "num_local_experts"],
    when: When::IfThere,
};

/// The router's fields, refused in experts of either form.
const ROUTERS_PART: ForeignField = ForeignField {
    names: &[
        "router",
        "top_k",
        "num_experts_per_tok",
        "shared_expert",
        "shared_experts",
    ],
    unless: None,
    instead_of: &[],
    advice: "the experts take the router's choice as `indices` and `routing`; the router and a \
             shared expert stand in a struct of their own, with `part = block`",
};

const ITEM_NAMES: &[Tell] = &[Tell {
    words: &["router", "topkrouter", "sparsemoeblock", "moeblock"],
    fits: None,
    advice: "the experts alone have no router; a block of both is `part = block`",
}];

fn is_packed(key: &Key) -> bool {
    key.holds(Some(PACKED)) == Some(true)
}

fn limit(call: &CallContext<'_>) -> TokenStream {
    call.read_optional("limit", "Number", "number")
}

/// `.num_experts(..)`, if the item says how many there are.
fn num_experts(call: &CallContext<'_>) -> TokenStream {
    if !call.has("num_experts") {
        return TokenStream::new();
    }
    let count = call.read("num_experts", "Count", "count");
    quote!(.num_experts(#count))
}

/// Writes the tensors that flow through experts.
fn flowing(call: &CallContext<'_>) -> TokenStream {
    let [x, indices, routing] = ["x", "indices", "routing"].map(|operand| call.value(operand));
    quote!(#x, #indices, #routing)
}

/// The experts' result in one sentence, and the shapes of what flows through.
fn docs(key: &Key) -> String {
    let is = |setting, value| key.choice(setting) == Some(value);
    let activation = key.choice("activation").unwrap_or_default();
    let up = match is("up_offset", "1") {
        true => "(1 + up)",
        false => "up",
    };
    let packing = match key.choice("projections") {
        Some("chunked") => "the halves of one projection",
        Some("interleaved") => "the even and odd elements of one projection",
        _ => "two projections",
    };
    let clamp = match is("clamp", "limit") {
        true => " Before, `gate` is clamped to at most `limit`, `up` to `±limit`.",
        false => "",
    };
    let bias = match is("bias", "all") {
        true => " Every projection has a bias.",
        false => "",
    };
    format!(
        "The experts of a mixture: for each token the sum of its experts' results, weighted by \
         `routing`. An expert computes `down({activation}(gate) · {up})`; `gate` and `up` are \
         {packing} of the token.{clamp}{bias}\n\n`x` is `[tokens, hidden]`, `indices` and `routing` \
         are `[tokens, k]`; the result is like `x`. An index that is the number of experts is one \
         on another device and adds nothing."
    )
}
