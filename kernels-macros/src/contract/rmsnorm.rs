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
    settings: &[OFFSET, ROUNDING, SCALE, GATING, GROUPS, SHIFT],
    conflicts: &[OFFSET_WITHOUT_WEIGHT, BIAS_WITH_GATE],
    flow: &[],
    layer: SHAPE,
    function: Ok(SHAPE),
    composition,
    foreign_fields: FOREIGN_FIELDS,
    item_names: ITEM_NAMES,
    body_calls: BODY_CALLS,
};

pub(super) const OFFSET_WITHOUT_WEIGHT: Conflict = Conflict {
    all: &[is("offset", &["1"]), is("scale", &["none"])],
    message: "`offset = 1` is added to the weight, which `scale = none` leaves out; \
              remove one of the two",
};

const BIAS_WITH_GATE: Conflict = Conflict {
    all: &[
        is("shift", &["bias"]),
        is("gating", &["after_norm", "before_norm"]),
    ],
    message: "a bias does not go with a gate; remove `shift` or `gating`",
};

pub(super) const ITEM_NAMES: &[Tell] = &[
    Tell {
        words: &["layernorm"],
        fits: None,
        advice: "the kernel subtracts no mean; LayerNorm is `npu_fused_layernorm`",
    },
    Tell {
        words: &["groupnorm", "batchnorm", "instancenorm"],
        fits: None,
        advice: "the kernel subtracts no mean; if this is an RMSNorm, rename it",
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

pub(super) const SCALE: Setting = Setting {
    name: "scale",
    type_name: "Scale",
    choices: &[choice("weight", "Weight"), choice("none", "None")],
    other_words: &[("false", "scale = none"), ("true", "scale = weight")],
};

pub(super) const GATING: Setting = Setting {
    name: "gating",
    type_name: "Gating",
    choices: &[
        choice("none", "None"),
        choice("after_norm", "AfterNorm"),
        choice("before_norm", "BeforeNorm"),
    ],
    other_words: &[("true", "gating = after_norm` or `gating = before_norm")],
};

pub(super) const GROUPS: Setting = Setting {
    name: "groups",
    type_name: "Groups",
    choices: &[choice("one", "One"), choice("many", "Many")],
    other_words: &[("1", "groups = one")],
};

const SHIFT: Setting = Setting {
    name: "shift",
    type_name: "Shift",
    choices: &[choice("none", "None"), choice("bias", "Bias")],
    other_words: &[("true", "shift = bias"), ("false", "shift = none")],
};

const FOREIGN_FIELDS: &[ForeignField] = &[
    ForeignField {
        names: &["residual", "skip"],
        unless: None,
        instead_of: &[],
        advice: "a residual sum and its norm, both returned, are `npu_fused_add_rmsnorm`",
    },
    ForeignField {
        names: BIAS_NAMES,
        unless: Some(is("shift", &["bias"])),
        instead_of: &[],
        advice: "without `shift = bias` the kernel adds no bias, and it never subtracts the mean; LayerNorm is \
                 `npu_fused_layernorm`",
    },
    STATISTICS,
    GATE_FIELD,
    GROUPS_FIELD,
    WEIGHT_FIELD,
    SCALE_FIELD,
];

const BIAS_NAMES: &[&str] = &["bias", "beta"];

pub(super) const STATISTICS: ForeignField = ForeignField {
    names: &["running_mean", "running_var"],
    unless: None,
    instead_of: &[],
    advice: "the kernel keeps no statistics; a norm with these is BatchNorm",
};

pub(super) const GATE_FIELD: ForeignField = ForeignField {
    names: &["gate", "gate_proj"],
    unless: None,
    instead_of: &[],
    advice: "the kernel's gate is a tensor beside `x`, in `gating = after_norm` \
             (norm(x) · silu(gate)) or `gating = before_norm` (norm(x · silu(gate))); project \
             it before the call",
};

pub(super) const GROUPS_FIELD: ForeignField = ForeignField {
    names: &["group_size", "n_groups", "num_groups"],
    unless: Some(is("groups", &["many"])),
    instead_of: &[],
    advice: "a mean over each group of elements is `groups = many`, with `group_size`, the \
             number of elements in a group",
};

pub(super) const WEIGHT_FIELD: ForeignField = ForeignField {
    names: &["weight", "gamma"],
    unless: Some(is("scale", &["weight"])),
    instead_of: &[],
    advice: "with `scale = none` the kernel reads no weight; leave the setting out",
};

pub(super) const SCALE_FIELD: ForeignField = ForeignField {
    names: &["with_scale", "elementwise_affine"],
    unless: None,
    instead_of: &[],
    advice: "whether there is a weight is fixed by the attribute, `scale = weight` or \
             `scale = none`; make two structs",
};

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
        Operand {
            name: "bias",
            role: Role::Weight,
            usual: BIAS_NAMES,
            when: When::With(&[is("shift", &["bias"])]),
        },
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
    let [weight, bias] =
        ["weight", "bias"].map(|operand| call.read_lazily(operand, "NormWeight", "norm_weight"));
    let (function, operands) = operands(call, &weight, &bias);
    quote!(#runtime::#function(#at, #operands, #reference))
}

fn composition(call: &CallContext<'_>) -> TokenStream {
    let (runtime, key) = (call.runtime, call.key());
    let read = |operand| match call.has("bias") {
        // The function reads them in the order of their first use.
        true => call.read_lazily(operand, "NormWeight", "norm_weight"),
        false => call.read_optional(operand, "NormWeight", "norm_weight"),
    };
    let (function, operands) = operands(call, &read("weight"), &read("bias"));
    let reference = format_ident!("{function}_reference");
    quote!(#runtime::#reference(#operands, #key))
}

/// The function, with a gate, a bias or neither, and its operands.
fn operands(
    call: &CallContext<'_>,
    weight: &TokenStream,
    bias: &TokenStream,
) -> (Ident, TokenStream) {
    let x = call.value("x");
    let eps = call.read("eps", "Epsilon", "epsilon");
    let group_size = call.read_optional("group_size", "Count", "count");
    match call.key.choice("gating") {
        Some("after_norm" | "before_norm") => {
            let gate = call.value("gate");
            let operands = quote!(#x, #gate, #weight, #eps, #group_size);
            (format_ident!("rms_norm_gated"), operands)
        }
        _ if call.has("bias") => {
            let bias_first = call.first_use.is_before("bias", "weight");
            let operands = quote!(#x, #weight, #bias, #bias_first, #eps, #group_size);
            (format_ident!("rms_norm_biased"), operands)
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
    let weight = match (is("scale", "weight"), is("shift", "bias")) {
        (true, true) => ", and `weight` and `bias` are `[n]`",
        (true, false) => " and `weight` is `[n]`",
        (false, true) => " and `bias` is `[n]`",
        (false, false) => "",
    };
    format!(
        "Root mean square normalisation {}.\n\n\
         {shapes} {verb} `[.., n]`{weight}; the result has the shape and dtype of `x`. The mean \
         is taken in `f32` (`f64` for `f64`).",
        formula(key, "x")
    )
}

/// The normalised elements, and the formula of `y` for an input of this name.
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
        _ if is("shift", "bias") => " + bias".to_owned(),
        _ => String::new(),
    };
    let over = match is("groups", "many") {
        true => "each stretch of `group_size` elements of the last dimension",
        false => "the last dimension",
    };
    format!("over {over}, `y = {input} / √(mean({input}²) + ε){scale}{gate}`")
}
