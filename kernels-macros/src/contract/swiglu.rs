//! `npu_fused_swiglu`: the gated activation of an MLP, between its projections.

use proc_macro2::TokenStream;
use quote::quote;

use super::{Call, Choice, Contract, ForeignField, Operand, Returns, Role, Setting, Shape};

pub(super) static CONTRACT: Contract = Contract {
    id: "npu_fused_swiglu",
    docs: "The gated MLP, `down(silu(gate(x)) · up(x))`, where `silu(a) = a / (1 + exp(-a))`.\n\n\
           `x` is `[.., d]`; the result is what `down` makes of `[.., hidden]`. The projections \
           are the layers of this struct, called through their own `forward`.",
    key: "Glu",
    op: "glu",
    settings: &[Setting {
        name: "activation",
        type_name: "Activation",
        choices: &[Choice {
            written: "silu",
            variant: "Silu",
            json: "silu",
        }],
        refused: &[
            ("gelu", NOT_SILU),
            ("gelu_tanh", NOT_SILU),
            ("gelu_pytorch_tanh", NOT_SILU),
            ("quick_gelu", NOT_SILU),
            ("relu", NOT_SILU),
            ("sigmoid", NOT_SILU),
        ],
    }],
    layer: Shape {
        operands: &[
            Operand {
                name: "x",
                role: Role::Stream,
                usual: &[],
            },
            Operand {
                name: "gate",
                role: Role::Layer,
                usual: GATE,
            },
            Operand {
                name: "up",
                role: Role::Layer,
                usual: UP,
            },
            Operand {
                name: "down",
                role: Role::Layer,
                usual: &["down_proj", "down", "w2"],
            },
        ],
        returns: Returns::Tensor,
        call: call_mlp,
    },
    function: Shape {
        operands: &[
            Operand {
                name: "gate",
                role: Role::Tensor { rank: None },
                usual: GATE,
            },
            Operand {
                name: "up",
                role: Role::Tensor { rank: None },
                usual: UP,
            },
        ],
        returns: Returns::Tensor,
        call: call_activation,
    },
    composition,
    foreign_fields: &[
        ForeignField {
            names: &["gate_up_proj", "gate_up", "w13"],
            why: "the kernel reads gate and up from two projections; split the packed one in two",
        },
        ForeignField {
            names: &["dropout"],
            why: "the generated `forward` would leave the dropout out; annotate an impl block \
                  whose body shows where it stands",
        },
        ForeignField {
            names: &["limit", "alpha", "clamp"],
            why: "the kernel computes plain SwiGLU without a clamp or a slope, which is another \
                  function",
        },
    ],
};

const GATE: &[&str] = &["gate_proj", "gate", "w1"];
const UP: &[&str] = &["up_proj", "up", "w3"];
const NOT_SILU: &str = "the kernel computes `silu(gate) · up`; with another activation it would \
                        run without an error and give other numbers";

fn call_mlp(call: &Call<'_>) -> TokenStream {
    let Call {
        runtime, reference, ..
    } = call;
    let [x, gate, up, down] = ["x", "gate", "up", "down"].map(|operand| call.value(operand));
    quote! {
        #runtime::glu_mlp(
            #runtime::At::new(&SITE),
            #x,
            |x| (#gate.forward(::core::clone::Clone::clone(&x)), #up.forward(x)),
            |hidden| #down.forward(hidden),
            ::core::option::Option::None,
            ::core::option::Option::None,
            #reference,
        )
    }
}

fn call_activation(call: &Call<'_>) -> TokenStream {
    let Call {
        runtime, reference, ..
    } = call;
    let (gate, up) = (call.value("gate"), call.value("up"));
    quote!(#runtime::glu(#runtime::At::new(&SITE), #gate, #up, ::core::option::Option::None, ::core::option::Option::None, #reference))
}

fn composition(call: &Call<'_>) -> TokenStream {
    let Call { runtime, key, .. } = call;
    let [x, gate, up, down] = ["x", "gate", "up", "down"].map(|operand| call.value(operand));
    quote! {
        let gate = #gate.forward(::core::clone::Clone::clone(&#x));
        let up = #up.forward(#x);
        #down.forward(#runtime::reference::glu(gate, up, ::core::option::Option::None, ::core::option::Option::None, #key))
    }
}
