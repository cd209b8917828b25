//! Methods and functions fit their kernel.

use super::*;

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
    let expected = "unknown parameter `y`";
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

#[test]
fn a_function_shows_what_it_takes_and_returns() {
    let id = || quote!("npu_fused_swiglu");
    let function = |gate: TokenStream, output: TokenStream| quote!(fn f<T>(gate: #gate, up: Tensor<2>) -> #output {});
    let tensor = || quote!(Tensor<2>);
    accepted(id(), function(tensor(), tensor()));
    for (gate, found) in [
        (
            quote!(T),
            "`gate`: expected a float tensor by value, `Tensor<D>`, found `T`",
        ),
        (quote!(Arc<Tensor<2>>), "found `Arc<Tensor<2>>`"),
        (quote!(impl Into<Tensor<2>>), "found `impl Into<Tensor<2>>`"),
    ] {
        refused(id(), function(gate, tensor()), &[found]);
    }
    let hidden = "`impl` hides the type";
    refused(
        id(),
        function(tensor(), quote!(impl Into<Tensor<2>>)),
        &[hidden],
    );
    let cap = quote!(
        fn cap(x: Tensor<2>) -> impl Clone {}
    );
    refused(quote!(acme::soft_cap), cap, &[hidden]);
    let fallible = "always returns a value; write `-> Tensor<D>`";
    refused(
        id(),
        function(tensor(), quote!(Option<Tensor<2>>)),
        &[fallible],
    );
    let norm = quote!(
        fn f(x: Tensor<2>, weight: &mut Tensor<1>, eps: f64) -> Tensor<2> {}
    );
    refused(quote!("npu_fused_rmsnorm"), norm, &["take `&`"]);
}
