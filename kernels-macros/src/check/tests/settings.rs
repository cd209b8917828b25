//! Settings say what a kernel computes, and which operands there are.

use super::*;

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
        &["remove one of the two"],
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
    let expected = "subtracts no mean";
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
    let layer = || quote!("npu_fused_layernorm", shift = none);
    let named = |name: TokenStream, body: TokenStream| {
        quote!(
            fn #name(x: Tensor<2>, weight: Tensor<1>, eps: f64) -> Tensor<2> { #body }
        )
    };
    let body = || quote!(x.clone() / x.var_bias(1));
    accepted(layer(), named(quote!(layer_norm), body()));
    let expected = "RMSNorm is `npu_fused_rmsnorm`";
    refused(layer(), named(quote!(rms_norm), body()), &[expected]);
    let expected =
        "the body calls `var`, which `npu_fused_layernorm` does not here: it divides by n − 1";
    let body = quote!(x.clone() / x.var(1));
    refused(layer(), named(quote!(norm), body), &[expected]);
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
    refused(attribute, function, &["a function has no `self`"]);
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
