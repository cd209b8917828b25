//! `npu_fused_rope`: rotary position embedding of queries and keys.

use proc_macro2::TokenStream;
use quote::quote;

use super::{Call, Choice, Contract, ForeignField, Operand, Returns, Role, Setting, Shape};

pub(super) static CONTRACT: Contract = Contract {
    id: "npu_fused_rope",
    docs: "Rotary position embedding of queries and keys, `y = x · cos + rotate_half(x) · sin`, \
           where `rotate_half([a, b]) = [-b, a]` over the halves of the last dimension.\n\n\
           `q` is `[batch, heads, seq, dim]` and `k` is `[batch, kv_heads, seq, dim]`; `cos` and \
           `sin` are `[seq, dim]`, with a batch dimension (and a head dimension of 1) before it or \
           not. The results have the shapes and dtypes of `q` and `k`.",
    key: "Rope",
    op: "rope",
    settings: &[Setting {
        name: "style",
        type_name: "RopeStyle",
        choices: &[Choice {
            written: "half",
            variant: "Half",
            json: "half",
        }],
        refused: &[
            ("interleaved", NOT_HALF),
            ("gptj", NOT_HALF),
            (
                "mrope",
                "the kernel rotates by one position per token, not by sections of several",
            ),
            (
                "partial",
                "the kernel rotates the whole head dimension; slice it around the call",
            ),
        ],
    }],
    layer: SHAPE,
    function: SHAPE,
    composition,
    foreign_fields: &[ForeignField {
        names: &["rotary_dim", "partial_rotary_factor", "mrope_section"],
        why: "the kernel rotates the whole head dimension by one position per token, so the \
              generated `forward` would ignore it",
    }],
};

const SHAPE: Shape = Shape {
    operands: &[
        Operand {
            name: "q",
            role: Role::Tensor { rank: Some(4) },
            usual: &["q", "query", "query_states"],
        },
        Operand {
            name: "k",
            role: Role::Tensor { rank: Some(4) },
            usual: &["k", "key", "key_states"],
        },
        Operand {
            name: "cos",
            role: Role::Table,
            usual: &["cos"],
        },
        Operand {
            name: "sin",
            role: Role::Table,
            usual: &["sin"],
        },
    ],
    returns: Returns::Pair,
    call,
};
const NOT_HALF: &str = "the kernel pairs element i with element i + dim/2; with neighbouring pairs \
                        it would run without an error and give other numbers";

fn call(call: &Call<'_>) -> TokenStream {
    let Call {
        runtime, reference, ..
    } = call;
    let (q, k) = (call.value("q"), call.value("k"));
    let (cos, sin) = (call.shared("cos"), call.shared("sin"));
    quote!(#runtime::rope(#runtime::At::new(&SITE), #q, #k, #cos, #sin, #reference))
}

fn composition(call: &Call<'_>) -> TokenStream {
    let Call { runtime, key, .. } = call;
    let (q, k) = (call.value("q"), call.value("k"));
    let (cos, sin) = (call.shared("cos"), call.shared("sin"));
    quote!(#runtime::reference::rope(#q, #k, #cos, #sin, #key))
}
