//! `npu_fused_linear_divergence`: the divergence of a student's tokens from a teacher's.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use super::cross_entropy::CAP_NAMES;
use super::linear_cross_entropy::SHIFT;
use super::{CallContext, Contract, Key, Operand, Returns, Role, Shape, When, is};

pub(super) static CONTRACT: Contract = Contract {
    id: "npu_fused_linear_divergence",
    variant: &[],
    docs,
    key: "LinearDivergence",
    op: "linear_divergence",
    settings: &[SHIFT],
    conflicts: &[],
    flow: &[],
    layer: SHAPE,
    function: Ok(SHAPE),
    composition,
    foreign_fields: &[],
    item_names: &[],
    body_calls: &[],
};

const BIASED: When = When::With(&[is("shift", &["bias"])]);

/// A tensor that flows through.
const fn tensor(
    name: &'static str,
    usual: &'static [&'static str],
    rank: usize,
    when: When,
) -> Operand {
    Operand {
        name,
        role: Role::Tensor { rank: Some(rank) },
        usual,
        when,
    }
}

/// A number.
const fn number(name: &'static str, usual: &'static [&'static str], when: When) -> Operand {
    Operand {
        name,
        role: Role::Number,
        usual,
        when,
    }
}

const SHAPE: Shape = Shape {
    operands: &[
        tensor("hidden", &["hidden", "hidden_states", "x"], 2, When::Always),
        tensor("weight", &["weight", "lm_head"], 2, When::Always),
        tensor("bias", &["bias"], 1, BIASED),
        tensor("teacher_hidden", &["teacher_hidden"], 2, When::Always),
        tensor("teacher_weight", &["teacher_weight"], 2, When::Always),
        tensor("teacher_bias", &["teacher_bias"], 1, BIASED),
        tensor("factors", &["factors"], 1, When::Always),
        number("mixture", &["mixture", "beta"], When::Always),
        number("temperature", &["temperature"], When::IfThere),
        number("softcap", CAP_NAMES, When::IfThere),
        number("teacher_softcap", &["teacher_softcap"], When::IfThere),
    ],
    returns: Returns::Loss,
    call,
};

fn call(call: &CallContext<'_>) -> TokenStream {
    let (function, operands) = operands(call);
    call.site(function, &operands)
}

fn composition(call: &CallContext<'_>) -> TokenStream {
    let (runtime, key) = (call.runtime, call.key());
    let (function, operands) = operands(call);
    let reference = format_ident!("{function}_reference");
    quote!(#runtime::#reference(#operands, #key))
}

/// The function, with biases or without, and its operands.
fn operands(call: &CallContext<'_>) -> (&'static str, TokenStream) {
    let runtime = call.runtime;
    let tensors = SHAPE.operands.iter().map(|operand| operand.name);
    let tensors = tensors.take(7).filter(|operand| call.has(operand));
    let tensors = tensors.map(|operand| call.value(operand));
    let mixture = call.read("mixture", "Number", "number");
    let [temperature, cap, teacher_cap] = ["temperature", "softcap", "teacher_softcap"]
        .map(|operand| call.read_optional(operand, "Number", "number"));
    let operands = quote!((#(#tensors),*), #runtime::DivergenceNumbers {
        mixture: #mixture,
        temperature: #temperature,
        cap: #cap,
        teacher_cap: #teacher_cap,
    });
    match call.has("bias") {
        true => ("linear_divergence_biased", operands),
        false => ("linear_divergence", operands),
    }
}

fn docs(key: &Key) -> String {
    let (biases, added) = match key.choice("shift") {
        Some("bias") => (", the biases `[classes]`", " + bias"),
        _ => ("", ""),
    };
    format!(
        "Sum of the divergences of a student's tokens from a teacher's, each times its factor, from the logits \
         `hidden · weight{added}` of both, which the kernel never holds for all tokens.\n\n\
         Hidden states are `[tokens, width]`, weights `[width, classes]`{biases}, and `factors` `[tokens]` in `f32` (`f64` for \
         `f64`). Classes that only one of the two has are left out. `mixture` 0 is `KL(T‖S)`, 1 is `KL(S‖T)`, and between them \
         is the generalised Jensen–Shannon divergence. The result is `[1]`, computed in `f32` (`f64` for `f64`), and of that \
         type. The teacher has no gradient."
    )
}
