//! `npu_fused_layernorm`: layer normalisation over the last dimension.

use proc_macro2::TokenStream;
use quote::quote;

use super::{
    CallContext, Contract, ForeignField, Key, Operand, Returns, Role, Setting, Shape, Tell, When,
    choice, is,
};

pub(super) static CONTRACT: Contract = Contract {
    id: "npu_fused_layernorm",
    variant: &[],
    docs,
    key: "LayerNorm",
    op: "layer_norm",
    settings: SETTINGS,
    conflicts: &[],
    flow: &[],
    layer: SHAPE,
    function: Ok(SHAPE),
    composition,
    foreign_fields: FOREIGN_FIELDS,
    item_names: ITEM_NAMES,
    body_calls: BODY_CALLS,
};

const SETTINGS: &[Setting] = &[Setting {
    name: "shift",
    type_name: "Shift",
    choices: &[choice("bias", "Bias"), choice("none", "None")],
    other_words: &[
        ("true", "shift = bias"),
        ("false", "shift = none"),
        ("beta", "shift = bias"),
    ],
}];

const BIAS_NAMES: &[&str] = &["bias", "beta"];

const FOREIGN_FIELDS: &[ForeignField] = &[
    ForeignField {
        names: BIAS_NAMES,
        unless: Some(is("shift", &["bias"])),
        instead_of: &[],
        advice: "with `shift = none` the kernel adds no bias; leave the setting out",
    },
    ForeignField {
        names: &["running_mean", "running_var"],
        unless: None,
        instead_of: &[],
        advice: "the kernel keeps no statistics; a norm with these is BatchNorm",
    },
    ForeignField {
        names: &["group_size", "n_groups", "num_groups"],
        unless: None,
        instead_of: &[],
        advice: "the kernel normalises the whole last dimension; a norm over groups is GroupNorm",
    },
    ForeignField {
        names: &["elementwise_affine"],
        unless: None,
        instead_of: &[],
        advice: "the kernel always has a weight, and the attribute fixes whether there is a bias, \
                 `shift = bias` or `shift = none`; make two structs",
    },
];

const ITEM_NAMES: &[Tell] = &[
    Tell {
        words: &["rmsnorm"],
        fits: None,
        advice: "the kernel subtracts the mean; RMSNorm is `npu_fused_rmsnorm`",
    },
    Tell {
        words: &["groupnorm", "batchnorm", "instancenorm"],
        fits: None,
        advice: "the kernel normalises each row over its last dimension; if this does too, rename \
                 it",
    },
];

const BODY_CALLS: &[Tell] = &[
    Tell {
        words: &["var", "varmean"],
        fits: None,
        advice: "it divides by n − 1, and the kernel's variance by n; call `var_bias` or \
                 `var_mean_bias`",
    },
    Tell {
        words: &["rmsnorm", "groupnorm"],
        fits: None,
        advice: "the kernel normalises each row by its mean and standard deviation; RMSNorm is \
                 `npu_fused_rmsnorm`",
    },
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
            name: "weight",
            role: Role::Weight,
            usual: &["weight", "gamma", "scale"],
            when: When::Always,
        },
        Operand {
            name: "bias",
            role: Role::Weight,
            usual: BIAS_NAMES,
            when: When::With(&[is("shift", &["bias"])]),
        },
        Operand {
            name: "eps",
            role: Role::Epsilon,
            usual: &[
                "eps",
                "epsilon",
                "variance_epsilon",
                "norm_eps",
                "layer_norm_eps",
                "layer_norm_epsilon",
            ],
            when: When::Always,
        },
    ],
    returns: Returns::Tensor,
    call,
};

fn call(call: &CallContext<'_>) -> TokenStream {
    call.site("layer_norm", &operands(call))
}

fn composition(call: &CallContext<'_>) -> TokenStream {
    let (runtime, key) = (call.runtime, call.key());
    let operands = operands(call);
    quote!(#runtime::layer_norm_reference(#operands, #key))
}

fn operands(call: &CallContext<'_>) -> TokenStream {
    let runtime = call.runtime;
    let x = call.value("x");
    let weight = call.lent("weight");
    let mut parameters = quote!(#runtime::NormParameters::new(#weight));
    if call.has("bias") {
        let bias = call.lent("bias");
        parameters.extend(quote!(.bias(#bias)));
        if call.first_use.is_before("bias", "weight") {
            parameters.extend(quote!(.bias_first()));
        }
    }
    let eps = call.read("eps", "Epsilon", "epsilon");
    quote!(#x, #parameters, #eps)
}

fn docs(key: &Key) -> String {
    let (bias, vectors) = match key.choice("shift") {
        Some("none") => ("", "`weight` is `[n]`"),
        _ => (" + bias", "`weight` and `bias` are `[n]`"),
    };
    format!(
        "Layer normalisation over the last dimension, `y = (x − mean(x)) / √(var(x) + ε) · weight{bias}`, with \
         the variance that divides by `n`.\n\n\
         `x` is `[.., n]` and {vectors}; the result has the shape and dtype of `x`. It is computed in `f32` (`f64` \
         for `f64`) and rounded once."
    )
}
