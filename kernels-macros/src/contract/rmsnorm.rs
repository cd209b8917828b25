//! `npu_fused_rmsnorm`: root mean square normalisation over the last dimension.

use proc_macro2::TokenStream;
use quote::quote;

use super::{Call, Choice, Contract, ForeignField, Operand, Returns, Role, Setting, Shape};

pub(super) static CONTRACT: Contract = Contract {
    id: "npu_fused_rmsnorm",
    docs: "Root mean square normalisation over the last dimension, \
           `y = x / √(mean(x²) + ε) · (offset + weight)`.\n\n\
           `x` is `[.., n]` and `weight` is `[n]`; the result has the shape and dtype of `x`. \
           The mean is taken in `f32` (`f64` for `f64`).",
    key: "RmsNorm",
    op: "rms_norm",
    settings: &[
        Setting {
            name: "offset",
            type_name: "Offset",
            choices: &[
                Choice {
                    written: "0",
                    variant: "Zero",
                    json: "zero",
                },
                Choice {
                    written: "1",
                    variant: "One",
                    json: "one",
                },
            ],
            refused: &[],
        },
        Setting {
            name: "rounding",
            type_name: "Rounding",
            choices: &[
                Choice {
                    written: "llama",
                    variant: "Llama",
                    json: "llama",
                },
                Choice {
                    written: "gemma",
                    variant: "Gemma",
                    json: "gemma",
                },
            ],
            refused: &[],
        },
    ],
    layer: SHAPE,
    function: SHAPE,
    composition,
    foreign_fields: &[
        ForeignField {
            names: &["bias", "beta"],
            why: "the kernel adds no bias, so the generated `forward` would leave it out; a norm \
                  with a bias is LayerNorm",
        },
        ForeignField {
            names: &["gate", "gate_proj"],
            why: "the kernel has no gate, so the generated `forward` would leave it out",
        },
    ],
};

const SHAPE: Shape = Shape {
    operands: &[
        Operand {
            name: "x",
            role: Role::Stream,
            usual: &[],
        },
        Operand {
            name: "weight",
            role: Role::Weight,
            usual: &["weight", "gamma", "scale"],
        },
        Operand {
            name: "eps",
            role: Role::Epsilon,
            usual: &["eps", "epsilon", "variance_epsilon", "norm_eps"],
        },
    ],
    returns: Returns::Tensor,
    call,
};

fn call(call: &Call<'_>) -> TokenStream {
    let Call {
        runtime, reference, ..
    } = call;
    let (x, weight, eps) = operands(call);
    quote!(#runtime::rms_norm(#runtime::At::new(&SITE), #x, ::core::option::Option::Some(#weight), #eps, ::core::option::Option::None, #reference))
}

fn composition(call: &Call<'_>) -> TokenStream {
    let Call { runtime, key, .. } = call;
    let (x, weight, eps) = operands(call);
    quote!(#runtime::reference::rms_norm(#x, ::core::option::Option::Some(#weight), #eps, ::core::option::Option::None, #key))
}

fn operands(call: &Call<'_>) -> (TokenStream, TokenStream, TokenStream) {
    let Call { runtime, .. } = call;
    let (weight, eps) = (call.borrow("weight"), call.borrow("eps"));
    (
        call.value("x"),
        quote!(#runtime::NormWeight::norm_weight(#weight)),
        quote!(#runtime::Epsilon::epsilon(#eps)),
    )
}
