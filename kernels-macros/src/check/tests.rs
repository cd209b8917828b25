//! Whole items through parse and check: what is accepted, and what is refused with which words.

use super::*;
use crate::testing::messages;
use quote::quote;

/// Every message of the item's errors.
fn errors(attribute: TokenStream, item: TokenStream) -> Vec<String> {
    messages(crate::try_run(attribute, item).err())
}

/// The item is refused for exactly these reasons, each given by a part of its message.
#[track_caller]
fn refused(attribute: TokenStream, item: TokenStream, expected: &[&str]) {
    let found = errors(attribute, item);
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (message, part) in found.iter().zip(expected) {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
}

#[track_caller]
fn accepted(attribute: TokenStream, item: TokenStream) {
    assert_eq!(errors(attribute, item), [""; 0]);
}

fn norm() -> TokenStream {
    quote!(
        struct Norm {
            weight: Param<Tensor<1>>,
            eps: f64,
        }
    )
}

#[test]
fn the_kernel_is_known() {
    let expected = "no kernel `npu_fused_rmsnrom`; did you mean `npu_fused_rmsnorm`?";
    refused(quote!("npu_fused_rmsnrom"), norm(), &[expected]);
    refused(
        quote!("softmax"),
        norm(),
        &["the kernels are `npu_fused_rmsnorm`, "],
    );
}

#[test]
fn all_errors_come_together() {
    let item = quote!(
        struct Norm {
            gamma: f64,
            scale: Param<Tensor<1>>,
            bias: Param<Tensor<1>>,
            tiny: f64,
        }
    );
    refused(
        quote!("npu_fused_rmsnorm", epz = tiny, rounding = bf16, crate = 3),
        item,
        &[
            "no argument `epz` here; did you mean `eps`?",
            "adds no bias",
            "`gamma` and `scale` could all be `weight`",
            "no field for `eps`",
            "`rounding` cannot be `bf16`",
            "`crate` takes the path",
        ],
    );
}

#[test]
fn parse_errors_of_attribute_and_item_come_together() {
    refused(
        quote!(weight),
        quote!(
            enum E {}
        ),
        &["the kernel's id comes first", "stands on a struct"],
    );
}

#[test]
fn fields_bind_by_usual_or_given_names() {
    accepted(quote!("npu_fused_rmsnorm"), norm());
    let item = || {
        quote!(
            struct Norm {
                gamma: Param<Tensor<1>>,
                other: Tensor<1>,
                e: f32,
            }
        )
    };
    accepted(quote!("npu_fused_rmsnorm", eps = e), item());
    accepted(quote!("npu_fused_rmsnorm", weight = other, eps = e), item());
    let expected = "no field `othr`; did you mean `other`?";
    refused(
        quote!("npu_fused_rmsnorm", weight = othr, eps = e),
        item(),
        &[expected],
    );
    let expected = "`e` is bound to both `weight` and `eps`";
    let found = errors(quote!("npu_fused_rmsnorm", weight = e, eps = e), item());
    assert!(
        found.iter().any(|message| message.contains(expected)),
        "{found:?}"
    );
}

#[test]
fn one_field_under_two_cfgs_is_one_field() {
    let item = quote! {
        struct Norm {
            #[cfg(a)] weight: Param<Tensor<1>>,
            #[cfg(not(a))] weight: Tensor<1>,
            eps: f64,
        }
    };
    accepted(quote!("npu_fused_rmsnorm"), item);
}

#[test]
fn settings_are_what_the_kernel_computes() {
    accepted(
        quote!("npu_fused_rmsnorm", offset = 1, rounding = gemma),
        norm(),
    );
    refused(
        quote!("npu_fused_rmsnorm", offset = 2),
        norm(),
        &["it takes `0` or `1`"],
    );
    let quoted = "without quotes: `rounding = gemma`";
    refused(
        quote!("npu_fused_rmsnorm", rounding = "gemma"),
        norm(),
        &[quoted],
    );
    let mlp = quote!(
        struct M {
            w1: Linear,
            w2: Linear,
            w3: Linear,
        }
    );
    let expected = "`activation = gelu_tanh` is not what this kernel computes";
    refused(
        quote!("npu_fused_swiglu", activation = gelu_tanh),
        mlp,
        &[expected],
    );
    let rope = quote!(
        struct R {
            cos: Tensor<2>,
            sin: Tensor<2>,
        }
    );
    refused(
        quote!("npu_fused_rope", style = interleaved),
        rope,
        &["neighbouring pairs"],
    );
}

#[test]
fn structs_have_named_fields_and_no_foreign_ones() {
    let id = || quote!("npu_fused_rmsnorm");
    refused(
        id(),
        quote!(
            struct Norm(Param<Tensor<1>>, f64);
        ),
        &["give the fields names"],
    );
    refused(
        id(),
        quote!(
            struct Norm;
        ),
        &["give the fields names"],
    );
    let packed = quote!(
        struct M {
            gate_up_proj: Linear,
            down_proj: Linear,
        }
    );
    let expected = [
        "split the packed one",
        "no field for `gate`",
        "no field for `up`",
    ];
    refused(quote!("npu_fused_swiglu"), packed, &expected);
}

#[test]
fn methods_read_their_fields_from_the_body() {
    let method = |body: TokenStream| quote!(fn forward(&self, x: Tensor<3>) -> Tensor<3> { #body });
    let id = || quote!("npu_fused_rmsnorm");
    accepted(id(), method(quote!(x * self.gamma.val() + self.norm_eps)));
    let found = ["no parameter and no field that the body reads is `weight`"];
    refused(id(), method(quote!(x * self.w.val() + self.eps)), &found);
    let found = ["`weight` and `gamma` could all be `weight`"];
    refused(
        id(),
        method(quote!(x * self.weight * self.gamma + self.eps)),
        &found,
    );
    accepted(
        quote!("npu_fused_rmsnorm", weight = w),
        method(quote!(x * self.w.val() + self.eps)),
    );
}

#[test]
fn a_block_has_the_method() {
    let block = || quote!(impl Norm { fn apply(&self, x: Tensor<3>) -> Tensor<3> { x * self.weight + self.eps } });
    accepted(quote!("npu_fused_rmsnorm", method = apply), block());
    refused(
        quote!("npu_fused_rmsnorm"),
        block(),
        &["it has `apply`; say which one"],
    );
    let expected = "no method `aply`; did you mean `apply`?";
    refused(
        quote!("npu_fused_rmsnorm", method = aply),
        block(),
        &[expected],
    );
    let of_trait =
        quote!(impl Layer for Norm { fn forward(&self, x: Tensor<3>) -> Tensor<3> { x } });
    refused(
        quote!("npu_fused_rmsnorm"),
        of_trait,
        &["inherent impl block"],
    );
    let taken = quote! {
        impl Norm {
            fn forward(&self, x: Tensor<3>) -> Tensor<3> { x * self.weight + self.eps }
            fn forward_reference(&self) {}
        }
    };
    refused(quote!("npu_fused_rmsnorm"), taken, &["rename this method"]);
}

#[test]
fn every_parameter_is_used() {
    let rope = |signature: TokenStream| quote!(fn rope(#signature) -> (Tensor<4>, Tensor<4>) {});
    let id = || quote!("npu_fused_rope");
    accepted(
        id(),
        rope(quote!(q: Tensor<4>, k: Tensor<4>, cos: &Tensor<3>, sin: &Tensor<3>)),
    );
    let hugging_face =
        quote!(q: Tensor<4>, k: Tensor<4>, cos: Tensor<3>, sin: Tensor<3>, unsqueeze_dim: usize);
    refused(id(), rope(hugging_face), &["would ignore `unsqueeze_dim`"]);
    let expected = ["no parameter is `sin`"];
    refused(
        id(),
        rope(quote!(q: Tensor<4>, k: Tensor<4>, cos: Tensor<3>)),
        &expected,
    );
    refused(
        quote!("npu_fused_rmsnorm"),
        quote!(
            fn forward(&self, x: Tensor<3>, y: Tensor<3>) -> Tensor<3> {
                self.weight;
                self.eps
            }
        ),
        &["the kernel takes `self`, `x`, `weight` and `eps`"],
    );
    refused(
        quote!("npu_fused_rmsnorm"),
        quote!(
            fn forward(&self) -> Tensor<3> {
                self.weight;
                self.eps
            }
        ),
        &["exactly one tensor beside `self`"],
    );
}

#[test]
fn signatures_fit_the_kernel() {
    refused(
        quote!("npu_fused_rope"),
        quote!(
            const unsafe fn rope(
                q: Tensor<3>,
                (k, _): (Tensor<4>, u8),
                cos: Tensor<3>,
                sin: f32,
            ) -> Tensor<4> {
            }
        ),
        &[
            "remove `const`",
            "remove `unsafe`",
            "return both",
            "take it apart in the body",
            "no parameter is `k`",
            "`q`: expected a float tensor by value, `Tensor<4>`, found `Tensor<3>`",
            "`sin`: expected a table",
        ],
    );
    refused(
        quote!("npu_fused_swiglu"),
        quote!(
            async fn forward(&mut self, x: Tensor<3>) {
                self.w1;
                self.w2;
                self.w3
            }
        ),
        &["remove `async`", "take `&self`", "write `-> Tensor<D>`"],
    );
}

#[test]
fn method_names_no_function() {
    let item = quote!(
        fn f(gate: Tensor<2>, up: Tensor<2>) -> Tensor<2> {}
    );
    refused(
        quote!("npu_fused_swiglu", method = f),
        item,
        &["leave `method` out"],
    );
}
