//! The names and shapes of PEFT's tensors.
//!
//! | adapter of | `lora_A.weight` | `lora_B.weight` |
//! |---|---|---|
//! | a linear layer | `[rank, inputs]` | `[outputs, rank]` |
//! | all experts of a parameter | `[experts · rank, inputs]`, expert by expert | `[outputs, rank · experts]`, with the columns of all experts for the first element of the rank first |
//! | the same, if PEFT takes inputs for outputs | `[experts · rank, outputs]`: the second factor | `[inputs, rank · experts]`: the first factor |
//!
//! The name of an adapter of experts is that of the module of the parameter. If two parameters of a module have adapters, the
//! one that the module defines first is in the `base_layer` of the other.

use burn::tensor::{Device, Tensor, TensorData};

use super::AdapterConfig;
use super::attach::Factors;
use super::targets::{Experts, Target};
use crate::Architecture;
use crate::config::family::Axes;

const PREFIX: &str = "base_model.model.";
const A: &str = ".lora_A.weight";
const B: &str = ".lora_B.weight";

/// The parameters of experts, in the order in which the modules of `transformers` define them.
const PARAMETERS: [&str; 2] = ["gate_up_proj", "down_proj"];

/// Returns the names of the two tensors of an adapter. `adapted` are the names of all targets with one.
pub(super) fn names<'a>(
    target: &Target,
    adapted: impl Iterator<Item = &'a str> + Clone,
) -> [String; 2] {
    let name = target.name.as_str();
    let (place, nested) = match (target.experts, name.rsplit_once('.')) {
        (Some(_), Some((module, parameter))) => {
            let own = PARAMETERS.iter().position(|one| *one == parameter);
            let later = PARAMETERS.iter().skip(own.map_or(0, |own| own + 1));
            let is_adapted = |one: &&&str| adapted.clone().any(|name| is_of(name, module, one));
            (module, later.filter(is_adapted).count())
        }
        _ => (name, 0),
    };
    let base = ".base_layer".repeat(nested);
    [A, B].map(|end| format!("{PREFIX}{place}{base}{end}"))
}

/// Returns `true` for the name of this parameter of a module.
fn is_of(name: &str, module: &str, parameter: &str) -> bool {
    name.rsplit_once('.') == Some((module, parameter))
}

/// The families whose projections of MLPs PEFT can't adapt as modules, because it takes their names for those of experts,
/// which `transformers` once had as modules. It renames any target that ends in one of them.
const RENAMED: [&str; 8] = [
    "qwen2_moe",
    "qwen3_moe",
    "qwen3_next",
    "deepseek_v2",
    "deepseek_v3",
    "glm4_moe",
    "glm4v_moe",
    "qwen3_omni_moe_thinker",
];

/// The place of the text model in models of several modalities.
const NESTED: &str = "model.language_model.";

/// Returns the name that `transformers` gives to the layer or parameter of this name.
pub(super) fn name(architecture: Architecture, name: &str) -> String {
    let family = architecture.family();
    for (own, stored) in family.names {
        if let Some(rest) = format!("{name}.").strip_prefix(own) {
            return format!("{stored}{rest}").trim_end_matches('.').to_owned();
        }
    }
    // Checkpoints of some families have the tower outside of `model.`; `transformers` has it inside.
    if family.vision.is_some() && name.starts_with("visual.") {
        return format!("model.{name}");
    }
    // The decoder of a talker is in no other model.
    let nested = family.nested.is_some() && family.speech.is_none();
    match name.strip_prefix("model.").filter(|_| nested) {
        Some(rest) => format!("{NESTED}{rest}"),
        None => name.to_owned(),
    }
}

/// Returns `true` if a name is that of a layer in a text model inside another. The ends of such names can be those of layers
/// in other parts too.
pub(super) fn is_nested(name: &str) -> bool {
    name.starts_with(NESTED)
}

/// Returns the name that a tensor has in files of programs for which no text model is inside another.
pub(super) fn former(name: &str) -> String {
    name.replacen(NESTED, "model.", 1)
}

/// Returns `true` if PEFT can adapt a linear layer as a module. Routers are modules of other types, or return several
/// tensors; it adapts the weights of these, and of the layers that it would rename, as parameters.
pub(super) fn is_module(architecture: Architecture, name: &str) -> bool {
    let family = architecture.family();
    let is_one_of = |ends: &[&str]| ends.iter().any(|end| targets(end, name));
    let is_router = family.experts.is_some() && is_one_of(&["gate", "router"]);
    let is_renamed =
        RENAMED.contains(&family.model_type) && is_one_of(&["gate_proj", "up_proj", "down_proj"]);
    !is_router && !is_renamed
}

/// Returns `true` if PEFT takes an entry of `target_parameters` for the parameter of this name.
pub(super) fn targets(entry: &str, name: &str) -> bool {
    let before = name.strip_suffix(entry);
    before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

/// Returns the shapes of the two tensors of an adapter.
pub(super) fn shapes(target: &Target, rank: usize) -> [[usize; 2]; 2] {
    let ranks = rank.saturating_mul(target.experts.map_or(1, |experts| experts.count));
    let (inputs, outputs) = match is_reversed(target) {
        true => (target.outputs, target.inputs),
        false => (target.inputs, target.outputs),
    };
    [[ranks, inputs], [outputs, ranks]]
}

/// Returns the two tensors of an adapter. The last axis of each factor is its own, and the others are one.
pub(super) fn tensors(target: &Target, a: Tensor<2>, b: Tensor<2>) -> [Tensor<2>; 2] {
    let Some(Experts { count, .. }) = target.experts else {
        return [a.transpose(), b.transpose()];
    };
    let (
        [_, rank],
        Target {
            inputs, outputs, ..
        },
    ) = (a.dims(), target);
    // `[experts, rank, features]`.
    let first = a.reshape([count, *inputs, rank]).swap_dims(1, 2);
    let second = b.reshape([count, rank, *outputs]);
    let (first, second) = match is_reversed(target) {
        true => (second, first),
        false => (first, second),
    };
    let features = |of: &Tensor<3>| of.dims()[2];
    let (own, others) = (features(&first), features(&second));
    [
        first.reshape([count * rank, own]),
        second.permute([2, 1, 0]).reshape([others, rank * count]),
    ]
}

/// Returns the factors of an adapter whose tensors hold these values, of the [`shapes`] for the rank of `own`, its
/// settings.
pub(super) fn factors(target: &Target, own: &AdapterConfig, values: [Vec<f32>; 2]) -> Factors {
    let (rank, scale) = (own.rank, own.scale());
    let host = Device::flex();
    let [a, b] = shapes(target, rank);
    let tensor = |values: Vec<f32>, shape: [usize; 2]| {
        Tensor::<2>::from_data(TensorData::new(values, shape), &host)
    };
    let [first, second] = values;
    let (first, second) = (tensor(first, a), tensor(second, b));
    let Some(Experts { count, .. }) = target.experts else {
        return Factors {
            a: first.transpose().into_data(),
            b: second.transpose().into_data(),
            scale,
        };
    };
    let first: Tensor<3> = first.reshape([count, rank, a[1]]);
    let second: Tensor<3> = second.reshape([b[0], rank, count]);
    let second = second.permute([2, 1, 0]);
    let (first, second) = match is_reversed(target) {
        true => (second, first),
        false => (first, second),
    };
    Factors {
        a: first.swap_dims(1, 2).into_data(),
        b: second.into_data(),
        scale,
    }
}

fn is_reversed(target: &Target) -> bool {
    let experts = target.experts;
    experts.is_some_and(|experts| experts.axes == Axes::InOutUntold)
}
