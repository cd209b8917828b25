//! `npu_fused_swiglu`: the gated activation of an MLP, between its projections.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;

use super::{
    CallContext, Conflict, Contract, ForeignField, Key, OFFSETS, Operand, Returns, Role, Setting,
    Shape, Tell, When, choice, clone, is,
};

pub(super) static CONTRACT: Contract = Contract {
    id: "npu_fused_swiglu",
    variant: &[],
    docs,
    key: "Glu",
    op: "glu",
    settings: SETTINGS,
    conflicts: &[Conflict {
        all: &[
            is("topk", &["gaussian"]),
            is("projections", &["chunked", "interleaved"]),
        ],
        message: "`topk = gaussian` reads the gate as a tensor of its own, as Gemma 3n has it; \
                  write `projections = separate`",
    }],
    flow: &[("down", "gate"), ("down", "up"), ("down", "gate_up")],
    layer: LAYER,
    function: Ok(FUNCTION),
    composition,
    foreign_fields: FOREIGN_FIELDS,
    item_names: ITEM_NAMES,
    body_calls: BODY_CALLS,
};

pub(super) const ACTIVATION: Setting = Setting {
    name: "activation",
    type_name: "Activation",
    choices: &[
        choice("silu", "Silu"),
        choice("gelu", "Gelu"),
        choice("gelu_tanh", "GeluTanh"),
        choice("quick_gelu", "QuickGelu"),
        choice("relu", "Relu"),
        choice("relu2", "Relu2"),
        choice("sigmoid", "Sigmoid"),
        choice("identity", "Identity"),
    ],
    other_words: &[
        ("swish", "activation = silu"),
        ("swiglu", "activation = silu"),
        ("geglu", "activation = gelu` or `activation = gelu_tanh"),
        ("reglu", "activation = relu"),
        ("gelu_pytorch_tanh", "activation = gelu_tanh"),
        ("gelu_approximate", "activation = gelu_tanh"),
        ("gelu_new", "activation = gelu_tanh"),
        ("gelu_erf", "activation = gelu"),
        ("gelu_python", "activation = gelu"),
        ("relu_squared", "activation = relu2"),
        ("squared_relu", "activation = relu2"),
        ("linear", "activation = identity"),
        ("none", "activation = identity"),
    ],
};

pub(super) const CLAMP: Setting = Setting {
    name: "clamp",
    type_name: "Clamp",
    choices: &[choice("none", "None"), choice("limit", "Limit")],
    other_words: &[("true", "clamp = limit")],
};

pub(super) const UP_OFFSET: Setting = Setting {
    name: "up_offset",
    type_name: "Offset",
    choices: OFFSETS,
    other_words: &[("0.0", "up_offset = 0"), ("1.0", "up_offset = 1")],
};

const SETTINGS: &[Setting] = &[
    ACTIVATION,
    Setting {
        name: "projections",
        type_name: "Projections",
        choices: &[
            choice("separate", "Separate"),
            choice("chunked", "Chunked"),
            choice("interleaved", "Interleaved"),
        ],
        other_words: &[
            (
                "packed",
                "projections = chunked` (Phi 3, GLM-4) or `projections = interleaved` (gpt-oss)",
            ),
            ("halves", "projections = chunked"),
        ],
    },
    CLAMP,
    UP_OFFSET,
    Setting {
        name: "topk",
        type_name: "TopK",
        choices: &[choice("none", "None"), choice("gaussian", "Gaussian")],
        other_words: &[("true", "topk = gaussian")],
    },
];

const SEPARATE: super::Condition = is("projections", &["separate"]);
const PACKED: super::Condition = is("projections", &["chunked", "interleaved"]);

pub(super) const DROPOUT: ForeignField = ForeignField {
    names: &["dropout"],
    unless: None,
    instead_of: &[],
    advice: "the kernel has no dropout; apply it before or after",
};

pub(super) const ACTIVATION_FIELD: ForeignField = ForeignField {
    names: &["activation", "act", "act_fn", "hidden_act"],
    unless: None,
    instead_of: &[],
    advice: "the kernel's activation is fixed by the attribute, `activation = silu` by default; \
             remove the field, or annotate an impl block and say when the kernel is right, \
             `when = self.act == Act::Silu`",
};

pub(super) const LIMIT_FIELD: ForeignField = ForeignField {
    names: &["limit", "swiglu_limit"],
    unless: Some(is("clamp", &["limit"])),
    instead_of: &[],
    advice: "a clamp of gate and up is `clamp = limit`; all of gpt-oss's gated unit is \
             `clamp = limit, activation = quick_gelu, up_offset = 1`",
};

pub(super) const ALPHA: ForeignField = ForeignField {
    names: &["alpha"],
    unless: Some(is("activation", &["quick_gelu"])),
    instead_of: &[],
    advice: "a · σ(1.702 a) is `activation = quick_gelu`; all of gpt-oss's gated unit is \
             `clamp = limit, activation = quick_gelu, up_offset = 1`",
};

const FOREIGN_FIELDS: &[ForeignField] = &[
    ForeignField {
        names: PACKED_NAMES,
        unless: Some(PACKED),
        instead_of: &["gate", "up"],
        advice: "gate and up in one projection are `projections = chunked` (halves: Phi 3, GLM-4) \
                 or `projections = interleaved` (even and odd elements: gpt-oss)",
    },
    ForeignField {
        names: &["gate_proj", "up_proj"],
        unless: Some(SEPARATE),
        instead_of: &["gate_up"],
        advice: "gate and up in two projections are `projections = separate`, the default",
    },
    DROPOUT,
    ACTIVATION_FIELD,
    LIMIT_FIELD,
    ALPHA,
    ForeignField {
        names: SPARSITY_NAMES,
        unless: Some(is("topk", &["gaussian"])),
        instead_of: &[],
        advice: "Gemma 3n's sparse gate is `topk = gaussian`",
    },
];

/// By definition of the names (Shazeer, arXiv:2002.05202). gpt-oss calls its own unit `swiglu`.
const ITEM_NAMES: &[Tell] = &[
    Tell {
        words: &["geglu"],
        fits: Some(is("activation", &["gelu", "gelu_tanh", "quick_gelu"])),
        advice: "its activation is GELU: write `activation = gelu`, or `gelu_tanh` for the \
                 approximation by tanh (Gemma)",
    },
    Tell {
        words: &["reglu"],
        fits: Some(is("activation", &["relu", "relu2"])),
        advice: "its activation is ReLU: write `activation = relu`",
    },
    Tell {
        words: &["swiglu"],
        fits: Some(is("activation", &["silu", "quick_gelu"])),
        advice: "its activation is SiLU: write `activation = silu`",
    },
];

/// One line for each activation that a body may call; a body that calls several tells nothing.
/// Sigmoid, tanh and erf are parts of others.
pub(super) const BODY_CALLS: &[Tell] = &[
    Tell {
        words: &["silu", "swish"],
        fits: Some(is("activation", &["silu", "quick_gelu"])),
        advice: "write `activation = silu`",
    },
    Tell {
        words: &["gelu", "gelutanh", "geluapproximate"],
        fits: Some(is("activation", &["gelu", "gelu_tanh", "quick_gelu"])),
        advice: "write `activation = gelu`, or `gelu_tanh` for the approximation by tanh (Gemma)",
    },
    Tell {
        words: &["relu"],
        fits: Some(is("activation", &["relu", "relu2"])),
        advice: "write `activation = relu`, or `relu2` for its square",
    },
    Tell {
        words: &["sigmoid"],
        fits: Some(is(
            "activation",
            &["silu", "quick_gelu", "sigmoid", "gelu_tanh"],
        )),
        advice: "write `activation = sigmoid`, `silu` for a · σ(a) or `quick_gelu` for \
                 a · σ(1.702 a)",
    },
    Tell {
        words: &["tanh", "erf"],
        fits: Some(is(
            "activation",
            &["gelu", "gelu_tanh", "silu", "quick_gelu", "sigmoid"],
        )),
        advice: "write `activation = gelu_tanh`, or `gelu` for the exact GELU",
    },
];

pub(super) const GATE_NAMES: &[&str] = &["gate_proj", "gate", "w1"];
pub(super) const UP_NAMES: &[&str] = &["up_proj", "up", "w3"];
pub(super) const PACKED_NAMES: &[&str] = &["gate_up_proj", "gate_up", "w13"];
pub(super) const DOWN_NAMES: &[&str] = &["down_proj", "down", "w2"];
const SPARSITY_NAMES: &[&str] = &["sparsity", "activation_sparsity"];

pub(super) const LIMIT: Operand = Operand {
    name: "limit",
    role: Role::Number,
    usual: &["limit", "swiglu_limit"],
    when: When::With(&[is("clamp", &["limit"])]),
};
const SPARSITY: Operand = Operand {
    name: "sparsity",
    role: Role::Number,
    usual: SPARSITY_NAMES,
    when: When::With(&[is("topk", &["gaussian"])]),
};

const LAYER: Shape = Shape {
    operands: &[
        Operand {
            name: "x",
            role: Role::Stream,
            usual: &[],
            when: When::Always,
        },
        Operand {
            name: "gate",
            role: Role::Layer,
            usual: GATE_NAMES,
            when: When::With(&[SEPARATE]),
        },
        Operand {
            name: "up",
            role: Role::Layer,
            usual: UP_NAMES,
            when: When::With(&[SEPARATE]),
        },
        Operand {
            name: "gate_up",
            role: Role::Layer,
            usual: PACKED_NAMES,
            when: When::With(&[PACKED]),
        },
        Operand {
            name: "down",
            role: Role::Layer,
            usual: DOWN_NAMES,
            when: When::Always,
        },
        LIMIT,
        SPARSITY,
    ],
    returns: Returns::Tensor,
    call: call_mlp,
};

const FUNCTION: Shape = Shape {
    operands: &[
        Operand {
            name: "gate",
            role: Role::Tensor { rank: None },
            usual: GATE_NAMES,
            when: When::With(&[SEPARATE]),
        },
        Operand {
            name: "up",
            role: Role::Tensor { rank: None },
            usual: UP_NAMES,
            when: When::With(&[SEPARATE]),
        },
        Operand {
            name: "gate_up",
            role: Role::Tensor { rank: None },
            usual: PACKED_NAMES,
            when: When::With(&[PACKED]),
        },
        LIMIT,
        SPARSITY,
    ],
    returns: Returns::Tensor,
    call: call_activation,
};

fn is_packed(key: &Key) -> bool {
    key.holds(Some(PACKED)) == Some(true)
}

fn limit(call: &CallContext<'_>) -> TokenStream {
    call.read_optional("limit", "Number", "number")
}

fn sparsity(call: &CallContext<'_>) -> TokenStream {
    call.read_optional("sparsity", "Number", "number")
}

fn call_mlp(call: &CallContext<'_>) -> TokenStream {
    let CallContext {
        runtime,
        at,
        reference,
        ..
    } = call;
    let (limit, sparsity) = (limit(call), sparsity(call));
    let x = call.value("x");
    let copied = CallContext::forward_copied;
    let down = call.forward_of_any_rank(copied, "down", quote!(hidden));
    if is_packed(call.key) {
        let gate_up = call.forward_of_any_rank(copied, "gate_up", quote!(x));
        return quote! {
            #runtime::glu_packed_mlp(
                #at,
                #x,
                &|x| #gate_up,
                &|hidden| #down,
                #limit,
                #reference,
            )
        };
    }
    let [gate, up] = ["gate", "up"].map(local);
    let project = project(call, copied, &quote!(x), &quote!((#gate, #up)));
    quote! {
        #runtime::glu_mlp(
            #at,
            #x,
            &|x| { #project },
            &|hidden| #down,
            #limit,
            #sparsity,
            #reference,
        )
    }
}

/// A variable of the expansion, which no name of the user's is.
fn local(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

/// Both projections of `x` in the order of their first use, and then `result`.
fn project<'a>(
    call: &CallContext<'a>,
    forward: fn(&CallContext<'a>, &str, TokenStream) -> TokenStream,
    x: &TokenStream,
    result: &TokenStream,
) -> TokenStream {
    let (again, cloned) = (local("again"), clone(&quote!(&#x)));
    let [first, second] = match call.first_use.is_before("up", "gate") {
        false => ["gate", "up"],
        true => ["up", "gate"],
    };
    let [layer, other] = [
        call.forward_of_any_rank(forward, first, quote!(#again)),
        call.forward_of_any_rank(forward, second, x.clone()),
    ];
    let [first, second] = [first, second].map(local);
    quote! {
        let #again = #cloned;
        let #first = #layer;
        let #second = #other;
        #result
    }
}

fn call_activation(call: &CallContext<'_>) -> TokenStream {
    let CallContext {
        runtime,
        at,
        reference,
        ..
    } = call;
    let (function, operands) = match is_packed(call.key) {
        true => {
            let (gate_up, limit) = (call.value("gate_up"), limit(call));
            (quote!(glu_packed), quote!(#gate_up, #limit))
        }
        false => {
            let [gate, up] = ["gate", "up"].map(|operand| call.value(operand));
            let (limit, sparsity) = (limit(call), sparsity(call));
            (quote!(glu), quote!(#gate, #up, #limit, #sparsity))
        }
    };
    quote!(#runtime::#function(#at, #operands, #reference))
}

/// The generated `forward_reference` of a struct.
fn composition(call: &CallContext<'_>) -> TokenStream {
    let (runtime, key) = (call.runtime, call.key());
    let (limit, sparsity) = (limit(call), sparsity(call));
    let x = call.value("x");
    if is_packed(call.key) {
        let gate_up = call.forward_of_any_rank(CallContext::forward, "gate_up", x);
        return call.forward_of_any_rank(
            CallContext::forward,
            "down",
            quote!(#runtime::glu_packed_reference(#gate_up, #limit, #key)),
        );
    }
    let [gate, up] = ["gate", "up"].map(local);
    let down = call.forward_of_any_rank(
        CallContext::forward,
        "down",
        quote!(#runtime::glu_reference(#gate, #up, #limit, #sparsity, #key)),
    );
    project(call, CallContext::forward, &x, &down)
}

fn docs(key: &Key) -> String {
    let is = |setting, value| key.choice(setting) == Some(value);
    let activation = key.choice("activation").unwrap_or_default();
    let formula = match activation {
        "silu" => "silu(a) = a / (1 + exp(-a))",
        "gelu" => "gelu(a) = a · Φ(a), with the normal distribution's Φ",
        "gelu_tanh" => "gelu_tanh(a) = a/2 · (1 + tanh(√(2/π) · (a + 0.044715 a³)))",
        "quick_gelu" => "quick_gelu(a) = a · σ(1.702 a)",
        "relu" => "relu(a) = max(a, 0)",
        "relu2" => "relu2(a) = max(a, 0)²",
        "sigmoid" => "sigmoid(a) = 1 / (1 + exp(-a))",
        _ => "identity(a) = a",
    };
    let up = match is("up_offset", "1") {
        true => "(1 + up)",
        false => "up",
    };
    let packing = match key.choice("projections") {
        Some("chunked") => " `gate` and `up` are the halves of `gate_up(x)`.",
        Some("interleaved") => " `gate` and `up` are the even and odd elements of `gate_up(x)`.",
        _ => " `gate` and `up` are two projections of `x`.",
    };
    let clamp = match is("clamp", "limit") {
        true => " Before, `gate` is clamped to at most `limit`, `up` to `±limit`.",
        false => "",
    };
    let topk = match is("topk", "gaussian") {
        true => {
            " Before, `gate` becomes `max(gate − (mean + std · Φ⁻¹(sparsity)), 0)`, with the mean \
             and the population standard deviation of its last axis; a sparsity of 0 leaves it."
        }
        false => "",
    };
    format!(
        "The gated MLP, `down({activation}(gate) · {up})`, where `{formula}`.{packing}{clamp}\
         {topk}\n\n`x` is `[.., d]`; the result is what `down` makes of `[.., hidden]`. The \
         projections are the layers of this struct, called through their own `forward`."
    )
}
