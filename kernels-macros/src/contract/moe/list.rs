//! Experts that are layers of a list. A kernel reads the weights of plain `Linear`s; any other
//! layer is called through its own `forward`.

use proc_macro2::TokenStream;
use quote::quote;

use super::swiglu::{ACTIVATION_FIELD, ALPHA, BODY_CALLS, DROPOUT, LIMIT, LIMIT_FIELD};
use super::{
    ACTIVATION, BIAS, CLAMP, CallContext, ForeignField, ID, INDICES, ITEM_NAMES, Key, NUM_EXPERTS,
    Operand, PACKED, PROJECTIONS, ROUTERS_PART, ROUTING, Role, SEPARATE, Setting, UP_OFFSET, When,
    X, choice, clone, flowing, is_packed, limit,
};
use crate::contract::{Contract, Returns, Shape};

pub(in crate::contract) static CONTRACT: Contract = Contract {
    id: ID,
    variant: &[("part", "experts"), ("experts", "list")],
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

/// Burn's `Linear` keeps `[in, out]`.
const LAYOUT: Setting = Setting {
    name: "layout",
    type_name: "ExpertLayout",
    choices: &[choice("matmul", "Matmul")],
    other_words: &[],
};

const FOREIGN_FIELDS: &[ForeignField] = &[
    ForeignField {
        names: &[
            "gate_up_proj",
            "gate_proj",
            "up_proj",
            "down_proj",
            "w1",
            "w2",
            "w3",
            "w13",
        ],
        unless: None,
        instead_of: &["list"],
        advice: "the projections are fields of each element of the list; stacked weights are \
                 `experts = stacked`, the default",
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
        Operand {
            name: "list",
            role: Role::List,
            usual: &["experts", "list"],
            when: When::Always,
        },
        projection("gate_up", &["gate_up_proj"], When::With(&[PACKED])),
        projection("gate", &["gate_proj"], When::With(&[SEPARATE])),
        projection("up", &["up_proj"], When::With(&[SEPARATE])),
        projection("down", &["down_proj"], When::Always),
        NUM_EXPERTS,
        LIMIT,
    ],
    returns: Returns::Tensor,
    call,
};

const fn projection(name: &'static str, usual: &'static [&'static str], when: When) -> Operand {
    Operand {
        name,
        role: Role::OfElement,
        usual,
        when,
    }
}

/// Writes the length of the list, compared with the item's own number of experts.
fn count(call: &CallContext<'_>) -> TokenStream {
    let (runtime, list) = (call.runtime, call.value("list"));
    if !call.has("num_experts") {
        return quote!(#list.len());
    }
    let expected = call.read("num_experts", "Count", "count");
    quote!(#runtime::same_count(#list.len(), #expected))
}

/// A projection of expert `expert`.
fn layer(call: &CallContext<'_>, name: &str) -> TokenStream {
    let (list, name) = (call.value("list"), call.value(name));
    quote!(#list[expert].#name)
}

fn call(call: &CallContext<'_>) -> TokenStream {
    let (runtime, at, reference) = (call.runtime, &call.at, &call.reference);
    let (flowing, count, limit) = (flowing(call), count(call), limit(call));
    let (form, projections): (_, &[_]) = match is_packed(call.key) {
        true => (quote!(packed), &["gate_up", "down"]),
        false => (quote!(separate), &["gate", "up", "down"]),
    };
    let plain = projections.iter().map(|name| {
        let layer = layer(call, name);
        quote!(#runtime::plain_linear!(&#layer))
    });
    quote! {
        #runtime::experts_list(
            #at,
            #flowing,
            #count,
            &|expert| #runtime::ListedExpert::#form(#(#plain),*),
            #limit,
            #reference,
        )
    }
}

fn composition(call: &CallContext<'_>) -> TokenStream {
    let (runtime, key) = (call.runtime, call.key());
    let (flowing, count, limit) = (flowing(call), count(call), limit(call));
    let gate_up = match is_packed(call.key) {
        true => {
            let gate_up = layer(call, "gate_up");
            quote!(#runtime::UnitInputs::Packed(#gate_up.forward(x)))
        }
        false => {
            let [gate, up] = ["gate", "up"].map(|name| layer(call, name));
            let x = clone(&quote!(&x));
            quote!(#runtime::UnitInputs::Separate {
                gate: #gate.forward(#x),
                up: #up.forward(x),
            })
        }
    };
    let down = layer(call, "down");
    quote! {
        #runtime::experts_list_reference(
            #flowing,
            #count,
            &|expert, x| #gate_up,
            &|expert, hidden| #down.forward(hidden),
            #limit,
            #key,
        )
    }
}

fn docs(key: &Key) -> String {
    format!(
        "{} A kernel runs if all projections are plain `Linear`s; any other layer, such as one \
         with an adapter, is called through its own `forward`.",
        super::docs(key)
    )
}
