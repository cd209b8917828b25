//! Experts whose weights are stacked, one tensor a projection.

use proc_macro2::TokenStream;
use quote::quote;

use super::swiglu::{
    ACTIVATION_FIELD, ALPHA, BODY_CALLS, DOWN_NAMES, DROPOUT, GATE_NAMES, LIMIT, LIMIT_FIELD,
    PACKED_NAMES, UP_NAMES,
};
use super::{
    ACTIVATION, BIAS, CLAMP, CallContext, ForeignField, ID, INDICES, ITEM_NAMES, Key, NUM_EXPERTS,
    Operand, PACKED, PROJECTIONS, ROUTERS_PART, ROUTING, Role, SEPARATE, Setting, UP_OFFSET, When,
    X, choice, flowing, is, is_packed, limit, num_experts,
};
use crate::contract::{Condition, Contract, Returns, Shape};

pub(in crate::contract) static CONTRACT: Contract = Contract {
    id: ID,
    variant: &[("part", "experts"), ("experts", "stacked")],
    docs,
    key: "MoeExperts",
    op: "moe",
    settings: &[ACTIVATION, PROJECTIONS, CLAMP, UP_OFFSET, LAYOUT, BIAS],
    conflicts: &[],
    flow: &[],
    layer: SHAPE,
    function: Ok(SHAPE),
    composition,
    foreign_fields: FOREIGN_FIELDS,
    item_names: ITEM_NAMES,
    body_calls: BODY_CALLS,
};

const LAYOUT: Setting = Setting {
    name: "layout",
    type_name: "ExpertLayout",
    choices: &[choice("linear", "Linear"), choice("matmul", "Matmul")],
    other_words: &[
        ("transposed", "layout = linear"),
        ("out_in", "layout = linear"),
        ("in_out", "layout = matmul"),
    ],
};

const ALL: Condition = is("bias", &["all"]);

const BIAS_NAMES: &[&str] = &[
    "gate_up_proj_bias",
    "gate_up_bias",
    "gate_proj_bias",
    "gate_bias",
    "up_proj_bias",
    "up_bias",
    "down_proj_bias",
    "down_bias",
];

const FOREIGN_FIELDS: &[ForeignField] = &[
    ForeignField {
        names: PACKED_NAMES,
        unless: Some(PACKED),
        instead_of: &["gate", "up"],
        advice: "gate and up in one tensor are `projections = chunked` (halves: Qwen, Mixtral), \
                 the default, or `projections = interleaved` (even and odd elements: gpt-oss)",
    },
    ForeignField {
        names: &["gate_proj", "up_proj"],
        unless: Some(SEPARATE),
        instead_of: &["gate_up"],
        advice: "gate and up in two tensors are `projections = separate`",
    },
    ForeignField {
        names: &["experts"],
        unless: None,
        instead_of: &["gate", "up", "gate_up", "down"],
        advice: "experts that are layers in a list are `experts = list`; a block of a router and \
                 its experts is `part = block`",
    },
    ForeignField {
        names: BIAS_NAMES,
        unless: Some(ALL),
        instead_of: &[],
        advice: "biases of all projections are `bias = all`",
    },
    DROPOUT,
    ACTIVATION_FIELD,
    LIMIT_FIELD,
    ALPHA,
    ROUTERS_PART,
];

const SHAPE: Shape = Shape {
    operands: &[
        X,
        INDICES,
        ROUTING,
        weights("gate_up", PACKED_NAMES, When::With(&[PACKED])),
        weights("gate", GATE_NAMES, When::With(&[SEPARATE])),
        weights("up", UP_NAMES, When::With(&[SEPARATE])),
        weights("down", DOWN_NAMES, When::Always),
        biases(
            "gate_up_bias",
            &["gate_up_proj_bias", "gate_up_bias"],
            When::With(&[ALL, PACKED]),
        ),
        biases(
            "gate_bias",
            &["gate_proj_bias", "gate_bias"],
            When::With(&[ALL, SEPARATE]),
        ),
        biases(
            "up_bias",
            &["up_proj_bias", "up_bias"],
            When::With(&[ALL, SEPARATE]),
        ),
        biases(
            "down_bias",
            &["down_proj_bias", "down_bias"],
            When::With(&[ALL]),
        ),
        NUM_EXPERTS,
        LIMIT,
    ],
    returns: Returns::Tensor,
    call,
};

const fn weights(name: &'static str, usual: &'static [&'static str], when: When) -> Operand {
    Operand {
        name,
        role: Role::Stacked { rank: 3 },
        usual,
        when,
    }
}

const fn biases(name: &'static str, usual: &'static [&'static str], when: When) -> Operand {
    Operand {
        name,
        role: Role::Stacked { rank: 2 },
        usual,
        when,
    }
}

fn call(call: &CallContext<'_>) -> TokenStream {
    let (runtime, at, reference) = (call.runtime, &call.at, &call.reference);
    let (flowing, experts, limit) = (flowing(call), experts(call), limit(call));
    quote!(#runtime::experts(#at, #flowing, #experts, #limit, #reference))
}

fn composition(call: &CallContext<'_>) -> TokenStream {
    let (runtime, key) = (call.runtime, call.key());
    let (flowing, experts, limit) = (flowing(call), experts(call), limit(call));
    quote!(#runtime::experts_reference(#flowing, #experts, #limit, #key))
}

/// The weights, and the biases if there are any.
fn experts(call: &CallContext<'_>) -> TokenStream {
    let runtime = call.runtime;
    let (form, projections): (_, &[_]) = match is_packed(call.key) {
        true => (quote!(packed), &["gate_up", "down"]),
        false => (quote!(separate), &["gate", "up", "down"]),
    };
    let weights = projections.iter().map(|name| call.lent(name));
    let count = num_experts(call);
    let mut experts = quote!(#runtime::StackedExperts::#form(#(#weights),*)#count);
    let biases = projections.iter().map(|name| format!("{name}_bias"));
    let biases: Vec<String> = match call.key.holds(Some(ALL)) {
        Some(true) => biases.collect(),
        _ => Vec::new(),
    };
    if !biases.is_empty() {
        let lent = biases.iter().map(|name| call.lent(name));
        experts.extend(quote!(.biases(&[#(#lent),*])));
    }
    let operands: Vec<&str> = match biases.is_empty() {
        true => projections.to_vec(),
        // Each projection has its weights and then its biases.
        false => projections
            .iter()
            .zip(&biases)
            .flat_map(|(weights, biases)| [*weights, biases.as_str()])
            .collect(),
    };
    let order = call.first_use.operands().iter();
    let order = order.filter_map(|name| operands.iter().position(|other| other == name));
    let order: Vec<usize> = order.collect();
    if !order.is_sorted() {
        experts.extend(quote!(.first_used(&[#(#order),*])));
    }
    experts
}

fn docs(key: &Key) -> String {
    let sizes = match key.choice("layout") {
        Some("matmul") => "`[experts, in, out]`",
        _ => "`[experts, out, in]`",
    };
    format!("{} The weights are {sizes}.", super::docs(key))
}
