//! Whole items through parse and check: what is accepted, and what is refused with which words.

use super::*;
use crate::testing::{messages, origin};
use quote::quote;

/// Every message of the item's errors.
fn errors(attribute: TokenStream, item: TokenStream) -> Vec<String> {
    messages(crate::try_run(attribute, item, &origin()).err())
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
        &["one of another crate is named by its path"],
    );
    let expected = "an optimiser's step, which no layer has";
    refused(quote!("npu_fused_adam_w"), norm(), &[expected]);
    let expected = "write the id in quotes: `\"npu_fused_rmsnorm\"`";
    refused(quote!(npu_fused_rmsnorm), norm(), &[expected]);
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
            "`crate` takes the path",
            "`rounding` cannot be `bf16`",
            "no argument `epz` here; did you mean `eps`?",
            "adds no bias",
            "`gamma` and `scale` could all be `weight`",
            "no field for `eps`",
        ],
    );
}

#[test]
fn parse_errors_of_attribute_and_item_come_together() {
    refused(
        quote!("npu_fused_rmsnorm", weight =),
        quote!(
            enum E {}
        ),
        &["`weight` has no value", "stands on a struct"],
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
    let expected = "`activation = swish` is written `activation = silu`";
    refused(
        quote!("npu_fused_swiglu", activation = swish),
        mlp(),
        &[expected],
    );
    for activation in [
        "silu",
        "gelu",
        "gelu_tanh",
        "quick_gelu",
        "relu",
        "relu2",
        "sigmoid",
        "identity",
    ] {
        let activation = quote::format_ident!("{activation}");
        accepted(quote!("npu_fused_swiglu", activation = #activation), mlp());
    }
    let expected = "`style = gptj` is written `style = interleaved`";
    refused(quote!("npu_fused_rope", style = gptj), rope(), &[expected]);
    let expected = "`style = partial` is written `width = partial`";
    refused(
        quote!("npu_fused_rope", style = partial),
        rope(),
        &[expected],
    );
}

fn mlp() -> TokenStream {
    quote!(
        struct M {
            w1: Linear,
            w2: Linear,
            w3: Linear,
        }
    )
}

fn rope() -> TokenStream {
    quote!(
        struct R {
            cos: Tensor<2>,
            sin: Tensor<2>,
        }
    )
}

#[test]
fn settings_that_exclude_each_other() {
    let bare = quote!(
        struct Norm {
            eps: f64,
        }
    );
    accepted(quote!("npu_fused_rmsnorm", scale = none), bare.clone());
    refused(
        quote!("npu_fused_rmsnorm", offset = 1, scale = none),
        bare,
        &["leave one of them out"],
    );
    let packed = quote!(
        struct M {
            w13: Linear,
            w2: Linear,
            sparsity: f32,
        }
    );
    let attribute = quote!("npu_fused_swiglu", topk = gaussian, projections = chunked);
    refused(attribute, packed, &["write `projections = separate`"]);
    let conflicts = [
        (
            quote!(table = neighbours),
            "only `style = interleaved` reads",
        ),
        (
            quote!(style = interleaved_to_half, table = neighbours),
            "only `style = interleaved`",
        ),
    ];
    for (settings, expected) in conflicts {
        refused(quote!("npu_fused_rope", #settings), rope(), &[expected]);
    }
    let sections = quote!(
        struct R {
            cos: Tensor<4>,
            sin: Tensor<4>,
            mrope_section: Vec<usize>,
        }
    );
    accepted(
        quote!("npu_fused_rope", sections = chunked),
        sections.clone(),
    );
    let conflicts = [
        (
            quote!(style = interleaved, sections = chunked),
            "write `style = half`",
        ),
        (
            quote!(sections = interleaved, table = pairs),
            "write `table = halves`",
        ),
    ];
    for (settings, expected) in conflicts {
        refused(
            quote!("npu_fused_rope", #settings),
            sections.clone(),
            &[expected],
        );
    }
}

#[test]
fn settings_decide_which_operands_there_are() {
    let refused_mlp = |settings: TokenStream, expected: &str| {
        refused(quote!("npu_fused_swiglu", #settings), mlp(), &[expected]);
    };
    refused_mlp(
        quote!(clamp = limit),
        "no field for `limit`, which `clamp = limit` needs",
    );
    refused_mlp(
        quote!(limit = w1),
        "`limit` is read only with `clamp = limit`",
    );
    refused_mlp(quote!(gating = none), "is a setting of `npu_fused_rmsnorm`");
    // The value is in error, so that nothing is known of `limit`.
    refused_mlp(quote!(clamp = 7.0, limit = w1), "`clamp` cannot be `7.0`");

    let grouped = quote!(
        struct Norm {
            weight: Param<Tensor<1>>,
            eps: f64,
            group_size: usize,
        }
    );
    accepted(quote!("npu_fused_rmsnorm", groups = many), grouped.clone());
    let expected = "is `groups = many`, with `group_size`";
    refused(quote!("npu_fused_rmsnorm"), grouped, &[expected]);

    let gated = |gate: TokenStream| {
        quote! {
            fn forward(&self, x: Tensor<3>, #gate) -> Tensor<3> { x * self.weight + self.eps }
        }
    };
    let attribute = quote!("npu_fused_rmsnorm", gating = after_norm);
    accepted(attribute.clone(), gated(quote!(gate: Tensor<3>)));
    let expected = "is `gate`, which `gating = after_norm` needs (a float tensor";
    refused(attribute, gated(quote!(y: Tensor<3>)), &[expected]);
    accepted(
        quote!("npu_fused_rmsnorm", gating = before_norm, gate = y),
        gated(quote!(y: Tensor<3>)),
    );
    let expected = "would ignore `gate`: the kernel's gate is a tensor beside `x`, in `gating =";
    refused(
        quote!("npu_fused_rmsnorm"),
        gated(quote!(gate: Tensor<3>)),
        &[expected],
    );
}

#[test]
fn a_method_that_takes_all_tensors_needs_no_projections() {
    let method = |parameters: TokenStream| {
        quote! {
            fn gated(&self, #parameters) -> Tensor<3> { clamp(silu(a), self.limit) }
        }
    };
    accepted(
        quote!("npu_fused_swiglu", clamp = limit),
        method(quote!(gate: Tensor<3>, up: Tensor<3>)),
    );
    accepted(
        quote!(
            "npu_fused_swiglu",
            clamp = limit,
            projections = interleaved,
            gate_up = both
        ),
        method(quote!(both: Tensor<3>)),
    );
}

#[test]
fn fields_of_other_computations_say_what_to_write() {
    let with = |field: TokenStream| {
        quote!(
            struct M {
                gate_proj: Linear,
                up_proj: Linear,
                down_proj: Linear,
                #field
            }
        )
    };
    let cases = [
        (
            quote!(limit: f64),
            "`clamp = limit, activation = quick_gelu, up_offset = 1`",
        ),
        (
            quote!(alpha: f64),
            "`clamp = limit, activation = quick_gelu, up_offset = 1`",
        ),
        (quote!(activation_sparsity: f64), "is `topk = gaussian`"),
        (quote!(dropout: Dropout), "has no dropout"),
        (quote!(act: Activation), "`when = self.act == Act::Silu`"),
    ];
    for (field, expected) in cases {
        refused(quote!("npu_fused_swiglu"), with(field), &[expected]);
    }
    let attribute = quote!("npu_fused_swiglu", projections = chunked);
    let expected = [
        "are `projections = separate`",
        "are `projections = separate`",
    ];
    refused(attribute, with(quote!()), &expected);

    let rope = |field: TokenStream| {
        quote!(
            struct R {
                cos: Tensor<2>,
                sin: Tensor<2>,
                #field
            }
        )
    };
    let expected = "is `width = partial`";
    refused(
        quote!("npu_fused_rope"),
        rope(quote!(rotary_dim: usize)),
        &[expected],
    );
    accepted(
        quote!("npu_fused_rope", width = partial),
        rope(quote!(rotary_dim: usize)),
    );
    let expected = "are `sections = chunked` (Qwen2.5-VL) or `sections = interleaved`";
    let field = quote!(mrope_section: [usize; 3]);
    refused(quote!("npu_fused_rope"), rope(field), &[expected]);
}

#[test]
fn names_and_calls_tell_what_is_computed() {
    let unit = |name: &str, body: TokenStream| {
        let name = quote::format_ident!("{name}");
        quote!(fn #name(gate: Tensor<2>, up: Tensor<2>) -> Tensor<2> { #body })
    };
    let id = || quote!("npu_fused_swiglu");
    accepted(id(), unit("swiglu", quote!(silu(gate) * up)));
    accepted(id(), unit("f", quote!(gate.clone() * sigmoid(gate) * up)));
    accepted(
        id(),
        unit("f", quote!(if a { gelu(gate) } else { silu(gate) })),
    );
    let expected = "`geglu` is not what `npu_fused_swiglu` computes here: its activation is GELU";
    refused(id(), unit("geglu", quote!(act(gate) * up)), &[expected]);
    let expected = "the body calls `gelu`, which `npu_fused_swiglu` does not here: write \
                    `activation = gelu`";
    refused(
        id(),
        unit("f", quote!(activation::gelu(gate) * up)),
        &[expected],
    );
    let attribute = quote!("npu_fused_swiglu", activation = gelu_tanh);
    accepted(
        attribute,
        unit("geglu", quote!(gelu_approximate(gate) * up)),
    );

    let attribute = || quote!("npu_fused_rmsnorm");
    let expected = "subtracts no mean and adds no bias";
    let item = quote!(
        fn layer_norm(x: Tensor<2>, weight: Tensor<1>, eps: f64) -> Tensor<2> {}
    );
    refused(attribute(), item, &[expected]);
    let expected = "the body calls `var`, which";
    let item = quote!(
        fn norm(x: Tensor<2>, weight: Tensor<1>, eps: f64) -> Tensor<2> {
            x.clone() / x.var(1)
        }
    );
    refused(attribute(), item, &[expected]);
    let item = quote!(
        fn rotate(
            q: Tensor<4>,
            k: Tensor<4>,
            cos: Tensor<2>,
            sin: Tensor<2>,
        ) -> (Tensor<4>, Tensor<4>) {
            (rotate_every_two(q), rotate_every_two(k))
        }
    );
    refused(
        quote!("npu_fused_rope"),
        item.clone(),
        &["write `style = interleaved`"],
    );
    accepted(quote!("npu_fused_rope", style = interleaved), item);
}

#[test]
fn a_condition_accounts_for_what_it_mentions() {
    let method = quote! {
        fn forward(&self, x: Tensor<3>, fast: bool) -> Tensor<3> {
            let gate = self.act.apply(self.w1.forward(x));
            self.w2.forward(gate * self.w3.forward(x))
        }
    };
    accepted(
        quote!(
            "npu_fused_swiglu",
            when = fast && self.act == Act::Silu && x.dims()[0] > 1
        ),
        method.clone(),
    );
    refused(
        quote!("npu_fused_swiglu", when = self.act == Act::Silu),
        method.clone(),
        &["would ignore `fast`"],
    );
    let expected = "`when = self.act == Act::Silu`";
    refused(quote!("npu_fused_swiglu", when = fast), method, &[expected]);
    // A second tensor is lost, even if the condition looks at it.
    let method = quote! {
        fn forward(&self, x: Tensor<3>, y: Tensor<3>) -> Tensor<3> { x * self.weight + self.eps }
    };
    refused(
        quote!("npu_fused_rmsnorm", when = x.dims() == y.dims()),
        method,
        &["would ignore `y`"],
    );
    let function = quote!(
        fn f(gate: Tensor<2>, up: Tensor<2>) -> Tensor<2> {}
    );
    let attribute = quote!("npu_fused_swiglu", when = self.fast);
    refused(attribute, function, &["there is no `self` here"]);
}

#[test]
fn a_field_is_not_a_parameter_of_its_name() {
    let method = quote! {
        fn forward(&self, gate: Tensor<3>, up: Tensor<3>) -> Tensor<3> { gate * up * self.gate }
    };
    refused(
        quote!("npu_fused_swiglu"),
        method,
        &["would ignore `self.gate`"],
    );
}

#[test]
fn layers_have_names() {
    let named = |layer: TokenStream, expected: &[&str]| {
        refused(
            quote!("npu_fused_rmsnorm", layer = #layer),
            norm(),
            expected,
        );
    };
    named(quote!("RMSNorm"), &[]);
    named(quote!(""), &["the name is empty"]);
    named(
        quote!(RMSNorm),
        &["takes a name in quotes, as in `layer = \"RMSNorm\"`"],
    );
}

#[test]
fn kernels_of_other_crates_get_what_the_body_reads() {
    let method = quote! {
        fn forward(&self, logits: Tensor<2>) -> Tensor<2> {
            (logits / self.limit).tanh() * self.limit
        }
    };
    accepted(quote!(acme::soft_cap, cap = limit), method.clone());
    accepted(
        quote!(acme::soft_cap, cap = limit, x = logits, layer = "Cap"),
        method.clone(),
    );
    let expected = "the body reads `self.limit`, which `acme::soft_cap` would not get";
    refused(quote!(acme::soft_cap), method.clone(), &[expected]);
    let expected = "the operand `logits` is `limit` already";
    refused(
        quote!(acme::soft_cap, logits = limit),
        method.clone(),
        &[expected],
    );
    let expected = "`logits` is bound to both `a` and `b`";
    refused(
        quote!(acme::soft_cap, a = logits, b = logits, cap = limit),
        method,
        &[expected],
    );
    let function = quote!(
        fn cap(x: Tensor<2>) -> Tensor<2> {}
    );
    let expected = "there is no parameter `y`";
    refused(quote!(acme::soft_cap, x = y), function, &[expected]);
    refused(quote!(acme::soft_cap), norm(), &["annotate an impl block"]);
}

#[test]
fn a_method_has_one_kernel() {
    let block = |inner: TokenStream, outer: TokenStream| {
        quote! {
            #outer
            impl Norm {
                #inner
                fn forward(&self, x: Tensor<3>) -> Tensor<3> { x * self.weight + self.eps }
            }
        }
    };
    let id = || quote!("npu_fused_rmsnorm");
    let second = || quote!(#[burn_kernels::fused_kernel("npu_fused_rmsnorm")]);
    let two = ["two kernels for `forward`"];
    refused(id(), block(second(), quote!()), &two);
    refused(id(), block(quote!(), second()), &two);
    let other = quote!(#[fused_kernel("npu_fused_swiglu", method = mlp)]);
    accepted(id(), block(quote!(), other));
    let norm = norm();
    let second = second();
    refused(id(), quote!(#second #norm), &two);
    refused(
        id(),
        quote!(#second fn f(x: Tensor<2>, weight: Tensor<1>, eps: f64) -> Tensor<2> {}),
        &["two kernels for `f`"],
    );
}

#[test]
fn what_is_malformed_causes_no_other_error() {
    refused(
        quote!("npu_fused_rmsnorm", weight =, eps),
        quote!(
            struct Norm {
                w: Param<Tensor<1>>,
                e: f64,
            }
        ),
        &["`weight` has no value", "expected `name = value`"],
    );
    refused(
        quote!("npu_fused_swiglu", method =),
        quote!(
            impl Mlp {}
        ),
        &["`method` has no value"],
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
    let expected = "are `projections = chunked` (halves: Phi 3, GLM-4)";
    refused(quote!("npu_fused_swiglu"), packed.clone(), &[expected]);
    accepted(quote!("npu_fused_swiglu", projections = chunked), packed);
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
    let of_trait = quote!(impl Layer for Norm { fn forward(&self, x: Tensor<3>) -> Tensor<3> { x * self.weight + self.eps } });
    accepted(quote!("npu_fused_rmsnorm"), of_trait);
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

fn experts() -> TokenStream {
    quote!(
        struct Experts {
            gate_up_proj: Param<Tensor<3>>,
            down_proj: Param<Tensor<3>>,
        }
    )
}

fn block(fields: TokenStream) -> TokenStream {
    quote!(
        struct Block {
            gate: Linear,
            experts: Experts,
            top_k: usize,
            #fields
        }
    )
}

#[test]
fn a_variant_has_its_own_settings_and_operands() {
    let refused_experts = |settings: TokenStream, expected: &[&str]| {
        refused(quote!("npu_fused_moe", #settings), experts(), expected);
    };
    accepted(quote!("npu_fused_moe"), experts());
    accepted(
        quote!("npu_fused_moe", part = experts, experts = stacked),
        experts(),
    );
    refused_experts(quote!(part = router), &["it takes `experts` or `block`"]);
    refused_experts(quote!(part = "block"), &["without quotes: `part = block`"]);
    refused_experts(
        quote!(scoring = sigmoid),
        &["`scoring` belongs to `part = block`, and this is `part = experts`"],
    );
    refused_experts(
        quote!(list = down_proj),
        &["`list` belongs to `experts = list`, and this is `experts = stacked`"],
    );
    refused_experts(
        quote!(part = block, bias = all),
        &[
            "`bias` belongs to `part = experts`, and this is `part = block`",
            "`Experts` is not what `npu_fused_moe` computes here: a block has a router too",
            "would ignore the field `gate_up_proj`: the experts' weights stand in a struct of \
             their own",
            "would ignore the field `down_proj`",
            "no field for `gate` ",
            "no field for `top_k`",
        ],
    );
    // A setting of the swiglu kernel alone is still told as one.
    refused_experts(
        quote!(topk = gaussian),
        &["is a setting of `npu_fused_swiglu`"],
    );
}

#[test]
fn an_operand_may_need_several_settings() {
    let attribute = |settings: TokenStream| quote!("npu_fused_moe", bias = all, #settings);
    refused(
        attribute(quote!()),
        experts(),
        &[
            "no field for `gate_up_bias`, which `bias = all` needs",
            "no field for `down_bias`",
        ],
    );
    refused(
        quote!("npu_fused_moe", gate_bias = down_proj),
        experts(),
        &["`gate_bias` is read only with `bias = all` and `projections = separate`"],
    );
}

#[test]
fn an_operand_that_may_be_left_out_is_found_if_it_is_there() {
    let attribute = || quote!("npu_fused_moe", part = block);
    accepted(attribute(), block(quote!()));
    accepted(
        attribute(),
        block(quote!(num_experts: usize, routed_scaling_factor: f64)),
    );
    let wrong = block(quote!(routed_scaling_factor: usize));
    refused(attribute(), wrong, &["expected a number, `f64` or `f32`"]);
    let attribute = quote!("npu_fused_moe", part = block, routed_scaling_factor = scale);
    refused(attribute, block(quote!()), &["there is no field `scale`"]);
}

#[test]
fn a_field_of_an_element_is_not_looked_for() {
    let list = quote!(
        struct Experts {
            experts: [Mlp; 8],
        }
    );
    for attribute in [
        quote!("npu_fused_moe", experts = list),
        quote!("npu_fused_moe", experts = list, gate_up = w13, down = out),
        quote!(
            "npu_fused_moe",
            experts = list,
            list = experts,
            projections = separate
        ),
    ] {
        accepted(attribute, list.clone());
    }
    refused(
        quote!("npu_fused_moe", experts = list, layout = linear),
        list,
        &["`layout` is always `matmul` here"],
    );
    let one = quote!(
        struct Experts {
            experts: usize,
        }
    );
    let attribute = quote!("npu_fused_moe", experts = list);
    refused(attribute, one, &["expected the experts in a list"]);
}
