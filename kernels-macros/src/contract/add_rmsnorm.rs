//! `npu_fused_add_rmsnorm`: the sum of two tensors and its root mean square normalisation.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use super::rmsnorm::{
    BODY_CALLS, EPS, GATE, GATE_FIELD, GATING, GROUP_SIZE, GROUPS, GROUPS_FIELD, ITEM_NAMES,
    OFFSET, OFFSET_WITHOUT_WEIGHT, ROUNDING, SCALE, SCALE_FIELD, STATISTICS, WEIGHT, WEIGHT_FIELD,
    formula,
};
use super::{CallContext, Contract, ForeignField, Key, Operand, Returns, Role, Shape, When};

pub(super) static CONTRACT: Contract = Contract {
    id: "npu_fused_add_rmsnorm",
    variant: &[],
    docs,
    key: "AddRmsNorm",
    op: "add_rms_norm",
    settings: &[OFFSET, ROUNDING, SCALE, GATING, GROUPS],
    conflicts: &[OFFSET_WITHOUT_WEIGHT],
    flow: &[],
    layer: SHAPE,
    function: Ok(SHAPE),
    composition,
    foreign_fields: FOREIGN_FIELDS,
    item_names: ITEM_NAMES,
    body_calls: BODY_CALLS,
};

const FOREIGN_FIELDS: &[ForeignField] = &[
    ForeignField {
        names: &["bias", "beta"],
        unless: None,
        instead_of: &[],
        advice: "the kernel adds no bias; a norm with a bias is `npu_fused_rmsnorm` with `shift = bias`, after the sum",
    },
    STATISTICS,
    GATE_FIELD,
    GROUPS_FIELD,
    WEIGHT_FIELD,
    SCALE_FIELD,
];

const SHAPE: Shape = Shape {
    operands: &[
        Operand {
            name: "x",
            role: Role::Stream,
            usual: &[],
            when: When::Always,
        },
        Operand {
            name: "residual",
            role: Role::Tensor { rank: None },
            usual: &["residual", "skip"],
            when: When::Always,
        },
        GATE,
        WEIGHT,
        EPS,
        GROUP_SIZE,
    ],
    returns: Returns::Pair {
        does: "returns the normalised sum and the sum",
        written: "(Tensor<D>, Tensor<D>)",
    },
    call,
};

fn call(call: &CallContext<'_>) -> TokenStream {
    let CallContext {
        runtime,
        at,
        reference,
        ..
    } = call;
    let weight = call.read_lazily("weight", "NormWeight", "norm_weight");
    let (function, operands) = operands(call, &weight);
    quote!(#runtime::#function(#at, #operands, #reference))
}

fn composition(call: &CallContext<'_>) -> TokenStream {
    let (runtime, key) = (call.runtime, call.key());
    let weight = call.read_optional("weight", "NormWeight", "norm_weight");
    let (function, operands) = operands(call, &weight);
    let reference = format_ident!("{function}_reference");
    quote!(#runtime::#reference(#operands, #key))
}

/// The function, with a gate or without, and its operands.
fn operands(call: &CallContext<'_>, weight: &TokenStream) -> (Ident, TokenStream) {
    let [x, residual] = ["x", "residual"].map(|operand| call.value(operand));
    let eps = call.read("eps", "Epsilon", "epsilon");
    let group_size = call.read_optional("group_size", "Count", "count");
    if call.has("gate") {
        let gate = call.value("gate");
        let operands = quote!([#x, #residual, #gate], #weight, #eps, #group_size);
        return (format_ident!("add_rms_norm_gated"), operands);
    }
    let operands = quote!(#x, #residual, #weight, #eps, #group_size);
    (format_ident!("add_rms_norm"), operands)
}

fn docs(key: &Key) -> String {
    let is = |setting, value| key.choice(setting) == Some(value);
    let shapes = match is("gating", "none") {
        true => "`x` and `residual` are",
        false => "`x`, `residual` and `gate` are",
    };
    let weight = match is("scale", "weight") {
        true => " and `weight` is `[n]`",
        false => "",
    };
    format!(
        "The sum `s = x + residual` and its root mean square normalisation {}. Returns `(y, s)`.\n\n\
         {shapes} `[.., n]`{weight}; both results have the shape and dtype of `x`. The mean is taken in \
         `f32` (`f64` for `f64`).",
        formula(key, "s")
    )
}
