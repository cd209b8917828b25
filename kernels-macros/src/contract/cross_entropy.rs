//! `npu_fused_cross_entropy`: the loss of logits and classes.

use proc_macro2::TokenStream;
use quote::quote;

use super::{
    CallContext, Condition, Contract, ForeignField, Key, Operand, Returns, Role, Setting, Shape,
    When, choice, is,
};

pub(super) static CONTRACT: Contract = Contract {
    id: "npu_fused_cross_entropy",
    variant: &[],
    docs,
    key: "CrossEntropy",
    op: "cross_entropy",
    settings: &[REDUCTION, CAP],
    conflicts: &[],
    flow: &[],
    layer: SHAPE,
    function: Ok(SHAPE),
    composition,
    foreign_fields: FOREIGN_FIELDS,
    item_names: &[],
    body_calls: &[],
};

pub(super) const REDUCTION: Setting = Setting {
    name: "reduction",
    type_name: "LossReduction",
    choices: &[
        choice("mean", "Mean"),
        choice("sum", "Sum"),
        choice("none", "None"),
    ],
    other_words: &[
        ("average", "reduction = mean"),
        ("false", "reduction = none"),
    ],
};

pub(super) const CAP: Setting = Setting {
    name: "cap",
    type_name: "LogitCap",
    choices: &[choice("none", "None"), choice("tanh", "Tanh")],
    other_words: &[("true", "cap = tanh")],
};

const CAPPED: Condition = is("cap", &["tanh"]);

pub(super) const CAP_NAMES: &[&str] = &["softcap", "soft_cap", "final_logit_softcapping"];

pub(super) const FOREIGN_FIELDS: &[ForeignField] = &[
    ForeignField {
        names: CAP_NAMES,
        unless: Some(CAPPED),
        instead_of: &[],
        advice: "a limit of the logits, `cap · tanh(logit / cap)`, is `cap = tanh`",
    },
    ForeignField {
        names: &["class_weights", "weights"],
        unless: None,
        instead_of: &[],
        advice: "the kernel has no weights of classes",
    },
    ForeignField {
        names: &["pad_tokens"],
        unless: None,
        instead_of: &[],
        advice: "the kernel ignores the tokens of one target, `ignore_index`",
    },
];

pub(super) const TARGETS: Operand = Operand {
    name: "targets",
    role: Role::Targets,
    usual: &["targets", "target", "labels"],
    when: When::Always,
};

pub(super) const IGNORE_INDEX: Operand = Operand {
    name: "ignore_index",
    role: Role::Integer,
    usual: &["ignore_index"],
    when: When::IfThere,
};

pub(super) const LABEL_SMOOTHING: Operand = Operand {
    name: "label_smoothing",
    role: Role::Number,
    usual: &["label_smoothing", "smoothing"],
    when: When::IfThere,
};

pub(super) const SOFTCAP: Operand = Operand {
    name: "softcap",
    role: Role::Number,
    usual: CAP_NAMES,
    when: When::With(&[CAPPED]),
};

pub(super) const Z_LOSS: Operand = Operand {
    name: "z_loss",
    role: Role::Number,
    usual: &["z_loss", "lse_square_scale", "z_loss_weight"],
    when: When::IfThere,
};

const SHAPE: Shape = Shape {
    operands: &[
        Operand {
            name: "logits",
            role: Role::Tensor { rank: Some(2) },
            usual: &["logits"],
            when: When::Always,
        },
        TARGETS,
        IGNORE_INDEX,
        LABEL_SMOOTHING,
        SOFTCAP,
        Z_LOSS,
    ],
    returns: Returns::Loss,
    call,
};

fn call(call: &CallContext<'_>) -> TokenStream {
    call.site("cross_entropy", &operands(call))
}

fn composition(call: &CallContext<'_>) -> TokenStream {
    let (runtime, key) = (call.runtime, call.key());
    let operands = operands(call);
    quote!(#runtime::cross_entropy_reference(#operands, #key))
}

fn operands(call: &CallContext<'_>) -> TokenStream {
    let [logits, targets] = ["logits", "targets"].map(|operand| call.value(operand));
    let numbers = numbers(call);
    quote!(#logits, #targets, #numbers)
}

/// The numbers of a loss.
pub(super) fn numbers(call: &CallContext<'_>) -> TokenStream {
    let runtime = call.runtime;
    let ignored = call.read_optional("ignore_index", "Integer", "integer");
    let [smoothing, cap, z_loss] = ["label_smoothing", "softcap", "z_loss"]
        .map(|operand| call.read_optional(operand, "Number", "number"));
    quote!(#runtime::LossNumbers {
        ignore_index: #ignored,
        label_smoothing: #smoothing,
        cap: #cap,
        z_loss: #z_loss,
    })
}

/// The rest of the docs of a loss whose logits are described.
pub(super) fn docs_of_loss(key: &Key) -> String {
    let is = |setting, value| key.choice(setting) == Some(value);
    let cap = match is("cap", "tanh") {
        true => " Logits become `softcap · tanh(logit / softcap)` first.",
        false => "",
    };
    let reduction = match key.choice("reduction") {
        Some("sum") => "The result is the sum over all tokens, `[1]`",
        Some("none") => "The result has one loss for each token, `[tokens]`",
        _ => {
            "The result is the mean over the tokens that are not ignored, `[1]`; it is NaN if all are"
        }
    };
    format!(
        "`targets` holds the class of each token, `[tokens]`, or the ignored index, -100 by default. Ignored tokens \
         have the loss 0 and no gradient.{cap}\n\n\
         {reduction}. It is computed in `f32` (`f64` for `f64`), and is of that type."
    )
}

fn docs(key: &Key) -> String {
    format!(
        "Cross-entropy of `logits`, `[tokens, classes]`.\n\n{}",
        docs_of_loss(key)
    )
}
