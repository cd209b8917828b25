//! `npu_fused_softcap`: soft capping of each element.

use proc_macro2::TokenStream;
use quote::quote;

use super::{CallContext, Contract, Key, Operand, Returns, Role, Shape, When};

pub(super) static CONTRACT: Contract = Contract {
    id: "npu_fused_softcap",
    variant: &[],
    docs,
    key: "Softcap",
    op: "softcap",
    settings: &[],
    conflicts: &[],
    flow: &[],
    layer: SHAPE,
    function: Ok(SHAPE),
    composition,
    foreign_fields: &[],
    item_names: &[],
    body_calls: &[],
};

const SHAPE: Shape = Shape {
    operands: &[
        Operand {
            name: "x",
            role: Role::Stream,
            usual: &[],
            when: When::Always,
        },
        Operand {
            name: "cap",
            role: Role::Number,
            usual: &[
                "cap",
                "softcap",
                "soft_cap",
                "final_logit_softcapping",
                "attn_logit_softcapping",
            ],
            when: When::Always,
        },
    ],
    returns: Returns::Tensor,
    call,
};

fn call(call: &CallContext<'_>) -> TokenStream {
    call.site("softcap", &operands(call))
}

fn composition(call: &CallContext<'_>) -> TokenStream {
    let runtime = call.runtime;
    let operands = operands(call);
    quote!(#runtime::softcap_reference(#operands))
}

fn operands(call: &CallContext<'_>) -> TokenStream {
    let x = call.value("x");
    let cap = call.read("cap", "Number", "number");
    quote!(#x, #cap)
}

fn docs(_: &Key) -> String {
    "Soft capping of each element, `y = cap · tanh(x / cap)`.\n\n\
     `x` has any shape; the result has its shape and dtype. Half types are computed in `f32` and rounded once."
        .to_owned()
}
