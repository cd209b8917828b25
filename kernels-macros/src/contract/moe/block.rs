//! A sparse block: a router, its experts and perhaps a shared expert. The kernel is the router's;
//! the experts are a layer with a kernel of their own.

use proc_macro2::TokenStream;
use quote::quote;

use super::swiglu::DROPOUT;
use super::{
    CallContext, Condition, ForeignField, ID, Key, NUM_EXPERTS, Operand, Role, Setting, Tell, When,
    choice, is, num_experts,
};
use crate::contract::{Conflict, Contract, Returns, Shape};

pub(in crate::contract) static CONTRACT: Contract = Contract {
    id: ID,
    variant: &[("part", "block")],
    docs,
    key: "MoeBlock",
    op: "moe",
    settings: SETTINGS,
    conflicts: CONFLICTS,
    flow: &[("experts", "gate"), ("experts", "e_score_correction_bias")],
    layer: SHAPE,
    function: Err(
        "a block calls its router and its experts as layers of `self`; annotate the struct, an \
         impl block or a method with `&self`. Experts as a function of tensors are \
         `part = experts`",
    ),
    composition,
    foreign_fields: FOREIGN_FIELDS,
    item_names: &[Tell {
        words: &["experts", "moeexperts"],
        fits: None,
        advice: "a block has a router too; the experts alone are `part = experts`, the default",
    }],
    body_calls: &[Tell {
        words: &["softmax"],
        fits: Some(is("scoring", &["softmax", "softmax_of_chosen"])),
        advice: "write `scoring = softmax`, or `softmax_of_chosen` for a softmax after the choice",
    }],
};

const SETTINGS: &[Setting] = &[
    Setting {
        name: "scoring",
        type_name: "Scoring",
        choices: &[
            choice("softmax", "Softmax"),
            choice("sigmoid", "Sigmoid"),
            choice("softmax_of_chosen", "SoftmaxOfChosen"),
        ],
        other_words: &[("topk_softmax", "scoring = softmax_of_chosen")],
    },
    Setting {
        name: "correction",
        type_name: "Correction",
        choices: &[choice("none", "None"), choice("bias", "Bias")],
        other_words: &[
            ("true", "correction = bias"),
            ("noaux_tc", "correction = bias"),
        ],
    },
    Setting {
        name: "grouping",
        type_name: "Grouping",
        choices: &[
            choice("none", "None"),
            choice("max", "Max"),
            choice("top_two", "TopTwo"),
        ],
        other_words: &[
            (
                "true",
                "grouping = max` (DeepSeek-V2) or `grouping = top_two` (DeepSeek-V3)",
            ),
            ("group_limited_greedy", "grouping = max"),
        ],
    },
    Setting {
        name: "renormalise",
        type_name: "Renormalise",
        choices: &[choice("none", "None"), choice("sum", "Sum")],
        other_words: &[
            ("true", "renormalise = sum"),
            ("false", "renormalise = none"),
        ],
    },
    Setting {
        name: "weights",
        type_name: "RouterWeights",
        choices: &[choice("logits", "Logits"), choice("wide", "Wide")],
        other_words: &[("f32", "weights = wide")],
    },
    Setting {
        name: "shared",
        type_name: "SharedExpert",
        choices: &[
            choice("none", "None"),
            choice("plain", "Plain"),
            choice("gated", "Gated"),
        ],
        other_words: &[("true", "shared = plain` or `shared = gated")],
    },
];

const NO_SCORES: Condition = is("scoring", &["softmax_of_chosen"]);

const CONFLICTS: &[Conflict] = &[
    Conflict {
        all: &[NO_SCORES, is("correction", &["bias"])],
        message: "`scoring = softmax_of_chosen` has no scores before the choice that a bias could \
                  correct; add a bias of the logits to the router's projection, and leave \
                  `correction` out",
    },
    Conflict {
        all: &[NO_SCORES, is("grouping", &["top_two"])],
        message: "`scoring = softmax_of_chosen` has no scores before the choice that could be \
                  summed; write `grouping = max` or leave it out",
    },
    Conflict {
        all: &[NO_SCORES, is("renormalise", &["sum"])],
        message: "the weights of `scoring = softmax_of_chosen` sum to one already; leave \
                  `renormalise` out",
    },
];

const SHARED: Condition = is("shared", &["plain", "gated"]);
const GATED: Condition = is("shared", &["gated"]);
const CORRECTED: Condition = is("correction", &["bias"]);
const GROUPED: Condition = is("grouping", &["max", "top_two"]);

const SHARED_NAMES: &[&str] = &["shared_expert", "shared_experts"];
const CORRECTION_NAMES: &[&str] = &["e_score_correction_bias", "correction_bias"];

const FOREIGN_FIELDS: &[ForeignField] = &[
    ForeignField {
        names: SHARED_NAMES,
        unless: Some(SHARED),
        instead_of: &[],
        advice: "an expert that every token goes to is `shared = plain` (DeepSeek), or \
                 `shared = gated` with `shared_expert_gate` (Qwen2-MoE)",
    },
    ForeignField {
        names: &["shared_expert_gate"],
        unless: Some(GATED),
        instead_of: &[],
        advice: "a gate of the shared expert is `shared = gated`",
    },
    ForeignField {
        names: CORRECTION_NAMES,
        unless: Some(CORRECTED),
        instead_of: &[],
        advice: "a bias that corrects the choice is `correction = bias`",
    },
    ForeignField {
        names: &["n_group", "topk_group"],
        unless: Some(GROUPED),
        instead_of: &[],
        advice: "a choice from the best groups alone is `grouping = max` (DeepSeek-V2) or \
                 `grouping = top_two` (DeepSeek-V3)",
    },
    ForeignField {
        names: &["norm_topk_prob"],
        unless: None,
        instead_of: &[],
        advice: "whether weights sum to one is fixed by the attribute, `renormalise = sum` or \
                 `renormalise = none`; remove the field, or annotate an impl block and say when \
                 the kernel is right, `when = self.norm_topk_prob`",
    },
    ForeignField {
        names: &["jitter_noise", "router_jitter_noise"],
        unless: None,
        instead_of: &[],
        advice: "the kernel adds no noise; multiply the input with it before the call",
    },
    ForeignField {
        names: &["gate_up_proj", "gate_proj", "up_proj", "down_proj"],
        unless: None,
        instead_of: &["experts"],
        advice: "the experts' weights stand in a struct of their own, with `part = experts`; the \
                 block has that struct as `experts`",
    },
    DROPOUT,
];

const SHAPE: Shape = Shape {
    operands: &[
        Operand {
            name: "hidden_states",
            role: Role::Stream,
            usual: &[],
            when: When::Always,
        },
        operand("gate", Role::Layer, &["gate", "router"], When::Always),
        operand("experts", Role::Experts, &["experts"], When::Always),
        operand(
            "top_k",
            Role::Count,
            &["top_k", "num_experts_per_tok"],
            When::Always,
        ),
        NUM_EXPERTS,
        operand(
            "shared_expert",
            Role::Layer,
            SHARED_NAMES,
            When::With(&[SHARED]),
        ),
        operand(
            "shared_expert_gate",
            Role::Layer,
            &["shared_expert_gate"],
            When::With(&[GATED]),
        ),
        operand(
            "e_score_correction_bias",
            Role::Weight,
            CORRECTION_NAMES,
            When::With(&[CORRECTED]),
        ),
        operand("n_group", Role::Count, &["n_group"], When::With(&[GROUPED])),
        operand(
            "topk_group",
            Role::Count,
            &["topk_group"],
            When::With(&[GROUPED]),
        ),
        operand(
            "routed_scaling_factor",
            Role::Number,
            &["routed_scaling_factor"],
            When::IfThere,
        ),
    ],
    returns: Returns::WithLogits,
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
    let (hidden, block) = (call.value("hidden_states"), block(call));
    quote!(#runtime::block(#at, #hidden, #block, #reference))
}

fn composition(call: &CallContext<'_>) -> TokenStream {
    let (runtime, key) = (call.runtime, call.key());
    let (hidden, block) = (call.value("hidden_states"), block(call));
    quote!(#runtime::block_reference(#hidden, #block, #key))
}

/// The layers and numbers.
fn block(call: &CallContext<'_>) -> TokenStream {
    let runtime = call.runtime;
    let count = |name| call.read(name, "Count", "count");
    let layer = |name| {
        let forward = call.forward_copied(name, quote!(x));
        quote!(&|x| #forward)
    };
    let experts = call.forward_copied("experts", quote!(x, indices, routing));
    let (gate, top_k) = (layer("gate"), count("top_k"));
    let mut block = quote! {
        #runtime::Block::new(
            #gate,
            &|x, indices, routing| #experts,
            #top_k,
        )
    };
    block.extend(num_experts(call));
    if call.has("shared_expert") {
        let shared = layer("shared_expert");
        block.extend(quote!(.shared(#shared)));
    }
    if call.has("shared_expert_gate") {
        let gate = layer("shared_expert_gate");
        block.extend(quote!(.shared_gate(#gate)));
    }
    if call.has("e_score_correction_bias") {
        let bias = call.lent("e_score_correction_bias");
        block.extend(quote!(.correction(#bias)));
    }
    if call.has("n_group") && call.has("topk_group") {
        let (groups, chosen) = (count("n_group"), count("topk_group"));
        block.extend(quote!(.groups(#groups, #chosen)));
    }
    if call.has("routed_scaling_factor") {
        let scale = call.read("routed_scaling_factor", "Number", "number");
        block.extend(quote!(.scale(#scale)));
    }
    block.extend(first_used(call));
    block
}

/// The parts as the runtime calls them, in its own order.
const PARTS: &[(&str, &str)] = &[
    ("gate", "Router"),
    ("e_score_correction_bias", "Correction"),
    ("experts", "Experts"),
    ("shared_expert", "Shared"),
    ("shared_expert_gate", "SharedGate"),
];

/// `.first_used(..)`, if the order is not the runtime's own.
fn first_used(call: &CallContext<'_>) -> Option<TokenStream> {
    let runtime = call.runtime;
    let order = call.first_use.operands().iter();
    let order = order.filter_map(|name| PARTS.iter().position(|(operand, _)| operand == name));
    let order: Vec<usize> = order.collect();
    let parts = order.iter().map(|&part| {
        let part = quote::format_ident!("{}", PARTS[part].1);
        quote!(#runtime::Part::#part)
    });
    (!order.is_sorted()).then(|| quote!(.first_used(&[#(#parts),*])))
}

fn docs(key: &Key) -> String {
    let is = |setting, value| key.choice(setting) == Some(value);
    let scores = match key.choice("scoring") {
        Some("sigmoid") => "Scores are the logistic function of the router's logits",
        Some("softmax_of_chosen") => {
            "The experts with the largest logits are chosen, and weighted by their softmax"
        }
        _ => "Scores are the softmax of the router's logits",
    };
    let correction = match is("correction", "bias") {
        true => "; the choice, but not the weights, adds a bias to them",
        false => "",
    };
    let grouping = match key.choice("grouping") {
        Some("max") => {
            " A token chooses from the `topk_group` of `n_group` groups of experts whose best \
             score is largest."
        }
        Some("top_two") => {
            " A token chooses from the `topk_group` of `n_group` groups of experts whose two best \
             scores have the largest sum."
        }
        _ => "",
    };
    let renormalise = match is("renormalise", "sum") {
        true => " The weights of a token are divided by their sum.",
        false => "",
    };
    let shared = match key.choice("shared") {
        Some("plain") => " The shared expert's result is added.",
        Some("gated") => {
            " The shared expert's result is multiplied with the logistic function of its gate and \
             added."
        }
        _ => "",
    };
    format!(
        "A sparse block: every token goes to its `top_k` best experts. \
         {scores}{correction}.{grouping}{renormalise}{shared}\n\n\
         `hidden_states` is `[.., hidden]`. The results are one like it, and the router's logits, \
         `[tokens, experts]`. All layers are called through their own `forward`."
    )
}
