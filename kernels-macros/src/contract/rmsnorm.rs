//! `npu_fused_rmsnorm`: root mean square normalisation over the last dimension.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use super::{
    CallContext, Conflict, Contract, ForeignField, Key, OFFSETS, Operand, Returns, Role, Setting,
    Shape, Tell, When, choice, is,
};

pub(super) static CONTRACT: Contract = Contract {
    id: "npu_fused_rmsnorm",
    variant: &[],
    docs,
    key: "RmsNorm",
    op: "rms_norm",
    settings: SETTINGS,
    conflicts: CONFLICTS,
    flow: &[],
    layer: SHAPE,
    function: Ok(SHAPE),
    composition,
    foreign_fields: FOREIGN_FIELDS,
    item_names: ITEM_NAMES,
    body_calls: BODY_CALLS,
};

pub(super) const CONFLICTS: &[Conflict] = &[Conflict {
    all: &[is("offset", &["1"]), is("scale", &["none"])],
    message: "`offset = 1` is added to the weight, and `scale = none` says that there is none; \
              leave one of them out",
}];

pub(super) const ITEM_NAMES: &[Tell] = &[
    Tell {
        words: &["layernorm"],
        fits: None,
        advice: "the kernel subtracts no mean and adds no bias; LayerNorm is `npu_fused_layernorm`",
    },
    Tell {
        words: &["groupnorm", "batchnorm", "instancenorm"],
        fits: None,
        advice: "the kernel subtracts no mean and adds no bias; if this is an RMSNorm, rename it",
    },
];

pub(super) const BODY_CALLS: &[Tell] = &[Tell {
    words: &[
        "layernorm",
        "groupnorm",
        "var",
        "varbias",
        "varmean",
        "varmeanbias",
    ],
    fits: None,
    advice: "it subtracts the mean, as LayerNorm does (`npu_fused_layernorm`), and the kernel \
             subtracts none: RMSNorm divides by the root of the mean of the squares",
}];

pub(super) const OFFSET: Setting = Setting {
    name: "offset",
    type_name: "Offset",
    choices: OFFSETS,
    other_words: &[("0.0", "offset = 0"), ("1.0", "offset = 1")],
};

pub(super) const ROUNDING: Setting = Setting {
    name: "rounding",
    type_name: "Rounding",
    choices: &[choice("llama", "Llama"), choice("gemma", "Gemma")],
    other_words: &[
        ("qwen", "rounding = llama"),
        ("mistral", "rounding = llama"),
        ("olmo2", "rounding = gemma"),
    ],
};

pub(super) const SETTINGS: &[Setting] = &[
    OFFSET,
    ROUNDING,
    Setting {
        name: "scale",
        type_name: "Scale",
        choices: &[choice("weight", "Weight"), choice("none", "None")],
        other_words: &[("false", "scale = none"), ("true", "scale = weight")],
    },
    Setting {
        name: "gating",
        type_name: "Gating",
        choices: &[
            choice("none", "None"),
            choice("after_norm", "AfterNorm"),
            choice("before_norm", "BeforeNorm"),
        ],
        other_words: &[("true", "gating = after_norm` or `gating = before_norm")],
    },
    Setting {
        name: "groups",
        type_name: "Groups",
        choices: &[choice("one", "One"), choice("many", "Many")],
        other_words: &[("1", "groups = one")],
    },
];

pub(super) const FOREIGN_FIELDS: &[ForeignField] = &[
    ForeignField {
        names: &["residual", "skip"],
        unless: None,
        instead_of: &[],
        advice: "a residual sum and its norm, both returned, are `npu_fused_add_rmsnorm`",
    },
    ForeignField {
        names: &["bias", "beta"],
        unless: None,
        instead_of: &[],
        advice: "the kernel adds no bias; a norm with a bias is LayerNorm, `npu_fused_layernorm`",
    },
    ForeignField {
        names: &["running_mean", "running_var"],
        unless: None,
        instead_of: &[],
        advice: "the kernel keeps no statistics; a norm with these is BatchNorm",
    },
    ForeignField {
        names: &["gate", "gate_proj"],
        unless: None,
        instead_of: &[],
        advice: "the kernel's gate is a tensor beside `x`, in `gating = after_norm` \
                 (norm(x) · silu(gate)) or `gating = before_norm` (norm(x · silu(gate))); project \
                 it before the call",
    },
    ForeignField {
        names: &["group_size", "n_groups", "num_groups"],
        unless: Some(is("groups", &["many"])),
        instead_of: &[],
        advice: "a mean over each group of elements is `groups = many`, with `group_size`, the \
                 number of elements in a group",
    },
    ForeignField {
        names: &["weight", "gamma"],
        unless: Some(is("scale", &["weight"])),
        instead_of: &[],
        advice: "with `scale = none` the kernel reads no weight; leave the setting out",
    },
    ForeignField {
        names: &["with_scale", "elementwise_affine"],
        unless: None,
        instead_of: &[],
        advice: "whether there is a weight is fixed by the attribute, `scale = weight` or \
                 `scale = none`; make two structs",
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
        GATE,
        WEIGHT,
        EPS,
        GROUP_SIZE,
    ],
    returns: Returns::Tensor,
    call,
};

pub(super) const GATE: Operand = Operand {
    name: "gate",
    role: Role::Tensor { rank: None },
    usual: &["gate", "z"],
    when: When::With(&[is("gating", &["after_norm", "before_norm"])]),
};

pub(super) const WEIGHT: Operand = Operand {
    name: "weight",
    role: Role::Weight,
    usual: &["weight", "gamma", "scale"],
    when: When::With(&[is("scale", &["weight"])]),
};

pub(super) const EPS: Operand = Operand {
    name: "eps",
    role: Role::Epsilon,
    usual: &["eps", "epsilon", "variance_epsilon", "norm_eps"],
    when: When::Always,
};

pub(super) const GROUP_SIZE: Operand = Operand {
    name: "group_size",
    role: Role::Count,
    usual: &["group_size"],
    when: When::With(&[is("groups", &["many"])]),
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
    let x = call.value("x");
    let eps = call.read("eps", "Epsilon", "epsilon");
    let group_size = call.read_optional("group_size", "Count", "count");
    match call.key.choice("gating") {
        Some("after_norm" | "before_norm") => {
            let gate = call.value("gate");
            let operands = quote!(#x, #gate, #weight, #eps, #group_size);
            (format_ident!("rms_norm_gated"), operands)
        }
        _ => {
            let operands = quote!(#x, #weight, #eps, #group_size);
            (format_ident!("rms_norm"), operands)
        }
    }
}

fn docs(key: &Key) -> String {
    let is = |setting, value| key.choice(setting) == Some(value);
    let (shapes, verb) = match is("gating", "none") {
        true => ("`x`", "is"),
        false => ("`x` and `gate`", "are"),
    };
    let weight = match is("scale", "weight") {
        true => " and `weight` is `[n]`",
        false => "",
    };
    format!(
        "Root mean square normalisation {}.\n\n\
         {shapes} {verb} `[.., n]`{weight}; the result has the shape and dtype of `x`. The mean \
         is taken in `f32` (`f64` for `f64`).",
        formula(key, "x")
    )
}

/// Over what is normalised, and the formula of `y` for an input of this name.
pub(super) fn formula(key: &Key, x: &str) -> String {
    let is = |setting, value| key.choice(setting) == Some(value);
    let input = match is("gating", "before_norm") {
        true => "u",
        false => x,
    };
    let scale = match (is("scale", "weight"), is("offset", "1")) {
        (false, _) => "",
        (true, false) => " · weight",
        (true, true) => " · (1 + weight)",
    };
    let gate = match key.choice("gating") {
        Some("after_norm") => " · silu(gate)".to_owned(),
        Some("before_norm") => format!("` with `u = {x} · silu(gate)"),
        _ => String::new(),
    };
    let over = match is("groups", "many") {
        true => "each stretch of `group_size` elements of the last dimension",
        false => "the last dimension",
    };
    format!("over {over}, `y = {input} / √(mean({input}²) + ε){scale}{gate}`")
}
