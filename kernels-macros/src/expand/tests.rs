//! Whole items through all steps: what the expansions look like.

use super::*;
use crate::testing::origin;
use syn::{File, ImplItem, Item, ItemImpl};

fn expanded(attribute: TokenStream, item: TokenStream) -> TokenStream {
    crate::try_run(attribute, item, &origin()).unwrap_or_else(|error| panic!("{error}"))
}

fn items(tokens: TokenStream) -> Vec<Item> {
    syn::parse2::<File>(tokens)
        .unwrap_or_else(|error| panic!("{error}"))
        .items
}

/// Blanks differ between token streams that mean the same.
fn text(tokens: impl quote::ToTokens) -> String {
    tokens
        .to_token_stream()
        .to_string()
        .split_whitespace()
        .collect()
}

#[track_caller]
fn contains(whole: &TokenStream, part: TokenStream) {
    assert!(
        text(whole).contains(&text(&part)),
        "{part}\nis not in\n{whole}"
    );
}

fn impl_of(item: &Item) -> &ItemImpl {
    match item {
        Item::Impl(block) => block,
        other => panic!("not an impl block: {}", text(other)),
    }
}

fn method_names(block: &ItemImpl) -> Vec<String> {
    let methods = block.items.iter().filter_map(|item| match item {
        ImplItem::Fn(method) => Some(method.sig.ident.to_string()),
        _ => None,
    });
    methods.collect()
}

#[test]
fn a_struct_stays_as_it_is() {
    let item = quote! {
        /// Docs.
        #[derive(Module, Debug)]
        #[cfg(unix)]
        pub(crate) struct Norm<D, const N: usize = 4> where D: Clone {
            /// Field docs.
            #[module(skip)]
            pub gamma: Param<Tensor<1>>,
            variance_epsilon: f64,
            more: D,
        }
    };
    let expanded = items(expanded(
        quote!("npu_fused_rmsnorm", offset = 1, ignore(more)),
        item.clone(),
    ));
    assert_eq!(text(&expanded[0]), text(item));
    let block = impl_of(&expanded[1]);
    assert_eq!(method_names(block), ["forward", "forward_reference"]);
    let block = quote!(#block);
    contains(
        &block,
        quote!(#[cfg(unix)] impl<D, const N: usize> Norm<D, N> where D: Clone),
    );
    // `D` is taken by the struct.
    contains(
        &block,
        quote!(pub(crate) fn forward<const D1: usize>(&self, x: ::burn_kernels::__private::burn::tensor::Tensor<D1>)),
    );
    contains(
        &block,
        quote!(::burn_kernels::__private::NormWeight::norm_weight(
            &self.gamma
        )),
    );
    contains(
        &block,
        quote!(::burn_kernels::__private::Epsilon::epsilon(
            &self.variance_epsilon
        )),
    );
    contains(
        &block,
        quote!(&mut |x| {
            let copy = ::burn_kernels::__private::detached!(self);
            ::burn_kernels::__private::begin();
            copy.get(self).forward_reference(x)
        }),
    );
}

#[test]
fn a_site_says_its_key_twice() {
    let item = quote!(
        struct Norm {
            weight: Param<Tensor<1>>,
            eps: f64,
        }
    );
    let expanded = expanded(quote!("npu_fused_rmsnorm", rounding = gemma), item);
    contains(
        &expanded,
        quote! {
            form: ::burn_kernels::__private::Form::Struct,
            key: ::burn_kernels::__private::SemanticsKey::RmsNorm(
                ::burn_kernels::__private::RmsNormKey {
                    offset: ::burn_kernels::__private::Offset::Zero,
                    rounding: ::burn_kernels::__private::Rounding::Gemma,
                    scale: ::burn_kernels::__private::Scale::Weight,
                    gating: ::burn_kernels::__private::Gating::None,
                    groups: ::burn_kernels::__private::Groups::One,
                    shift: ::burn_kernels::__private::Shift::None
                }
            ),
            layer: ::core::option::Option::None
        },
    );
    contains(
        &expanded,
        quote! {
            json: ::core::concat!(
                "{\"schema\":3,\"record\":\"site\",\"kernel\":\"npu_fused_rmsnorm\",\"crate\":\"models\",\"crate_version\":\"1.2.3\",\"module\":\"",
                ::core::module_path!(),
                "\",\"form\":\"struct\",\"item\":\"Norm::forward\",\"file\":\"src/lib.rs\",\"line\":7,\"key\":{\"op\":\"rms_norm\",\"offset\":\"zero\",\"rounding\":\"gemma\",\"scale\":\"weight\",\"gating\":\"none\",\"groups\":\"one\",\"shift\":\"none\"},\"layer\":null,\"condition\":null}"
            )
        },
    );
}

#[test]
fn layers_are_called_through_their_own_forward() {
    let item = quote!(
        pub struct Mlp {
            w1: Linear,
            w2: Linear,
            w3: Linear,
        }
    );
    let expanded = expanded(quote!("npu_fused_swiglu", crate = a::b, method = run), item);
    contains(&expanded, quote!(a::b::__private::glu_mlp));
    contains(
        &expanded,
        quote!(&|hidden| a::b::__private::layer_output::<D, _>({
            let copy = a::b::__private::detached!(&self.w2);
            a::b::__private::begin();
            (*copy.get(&self.w2)).forward(a::b::__private::layer_input(hidden))
        })),
    );
    contains(&expanded, quote!(pub fn run_reference<const D: usize>));
    contains(
        &expanded,
        quote!(self.w3.forward(a::b::__private::layer_input(x))),
    );
}

#[test]
fn a_rope_struct_takes_queries_and_keys() {
    let item = quote!(
        struct Rope {
            cos: Tensor<2>,
            sin: Tensor<2>,
        }
    );
    let expanded = expanded(quote!("npu_fused_rope"), item);
    contains(
        &expanded,
        quote!(q, k, &self.cos, &self.sin, &mut |(q, k)| {
            let copy = ::burn_kernels::__private::detached!(self);
            ::burn_kernels::__private::begin();
            copy.get(self).forward_reference(q, k)
        }),
    );
    let tensor = quote!(::burn_kernels::__private::burn::tensor::Tensor<4usize>);
    contains(
        &expanded,
        quote!((&self, q: #tensor, k: #tensor) -> (#tensor, #tensor)),
    );
}

#[test]
fn a_block_keeps_its_other_members() {
    let item = quote! {
        #[allow(clippy::all)]
        impl<L: Layer> Mlp<L> {
            const A: usize = 1;
            /// Docs.
            #[inline]
            #[tracing::instrument]
            pub fn forward<const D: usize>(&self, mut x: Tensor<D>) -> Tensor<D> {
                x = x + self.gate.n() + self.up.n();
                self.down.forward(x)
            }
            fn other(&self) {}
        }
    };
    let expanded = expanded(quote!("npu_fused_swiglu"), item);
    let parsed = items(expanded.clone());
    let block = impl_of(&parsed[0]);
    assert_eq!(
        method_names(block),
        ["forward", "forward_reference", "other"]
    );
    contains(
        &expanded,
        quote!(#[allow(clippy::all)] impl<L: Layer> Mlp<L>),
    );
    contains(
        &expanded,
        quote!(const A: usize = 1; #[doc = r" Docs."] #[inline]),
    );
    contains(
        &expanded,
        quote!(#[tracing::instrument] #[track_caller] pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D>),
    );
    contains(
        &expanded,
        quote!(#[inline] pub fn forward_reference<const D: usize>(&self, mut x: Tensor<D>) -> Tensor<D>),
    );
    contains(
        &expanded,
        quote!(&mut |x| {
            let copy_of_self = ::burn_kernels::__private::detached!(self);
            ::burn_kernels::__private::begin();
            copy_of_self.get(self).forward_reference::<D>(x)
        }),
    );
    contains(
        &expanded,
        quote!(form: ::burn_kernels::__private::Form::Impl),
    );
}

#[test]
fn associated_functions_are_reached_through_the_type() {
    let item = quote! {
        impl Rope { fn apply(k: Tensor<4>, q: Tensor<4>, cos: Tensor<2>, sin: &Tensor<2>) -> (Tensor<4>, Tensor<4>) {} }
    };
    let expanded = expanded(quote!("npu_fused_rope", method = apply), item);
    let call = quote! {
        rope(::burn_kernels::__private::At::new(&SITE), q, k, ::core::clone::Clone::clone(&cos), sin, &mut ::burn_kernels::__private::once(|(q, k): (Tensor<4>, Tensor<4>)| {
            let copy_of_cos = ::burn_kernels::__private::detached!(&cos);
            let copy_of_sin = ::burn_kernels::__private::detached!(sin);
            ::burn_kernels::__private::begin();
            Self::apply_reference(k, q, copy_of_cos.own(cos), copy_of_sin.get(sin))
        }))
    };
    contains(&expanded, call);
}

#[test]
fn a_function_has_a_sibling() {
    let item = quote! {
        #[must_use]
        pub fn gated<'a, T: Into<f64>, const D: usize>(a: Tensor<D>, b: Tensor<D>) -> Tensor<D> where T: 'a { a.body(b) }
    };
    let expanded = expanded(quote!("npu_fused_swiglu", gate = b, up = a), item);
    let names: Vec<_> = items(expanded.clone())
        .into_iter()
        .map(|item| match item {
            Item::Fn(function) => function.sig.ident.to_string(),
            other => panic!("not a function: {}", text(other)),
        })
        .collect();
    assert_eq!(names, ["gated", "gated_reference"]);
    contains(
        &expanded,
        quote!(
            At::new(&SITE).instance(&|| ()),
            b,
            a,
            ::core::option::Option::None,
            ::core::option::Option::None,
            &mut |(b, a)| {
                ::burn_kernels::__private::begin();
                gated_reference::<T, D>(a, b)
            }
        ),
    );
    contains(
        &expanded,
        quote!(#[must_use] pub fn gated_reference<'a, T: Into<f64>, const D: usize>),
    );
}

#[test]
fn a_method_reaches_its_reference_through_self() {
    let item = quote! {
        fn forward(&self, hidden: Tensor<3>) -> Tensor<3> { hidden * self.scale.val() + self.eps }
    };
    let expanded = expanded(quote!("npu_fused_rmsnorm"), item);
    contains(
        &expanded,
        quote!(form: ::burn_kernels::__private::Form::Method),
    );
    contains(&expanded, quote!(norm_weight(&self.scale)));
    contains(
        &expanded,
        quote!(&mut |hidden| {
            let copy_of_self = ::burn_kernels::__private::detached!(self);
            ::burn_kernels::__private::begin();
            copy_of_self.get(self).forward_reference(hidden)
        }),
    );
}

#[test]
fn what_flows_through_stands_in_the_contracts_order() {
    let item = quote! {
        fn forward(&self, z: Tensor<3>, x: Tensor<3>) -> Tensor<3> { x * z + self.weight + self.eps }
    };
    let expanded = expanded(quote!("npu_fused_rmsnorm", gating = before_norm), item);
    contains(
        &expanded,
        quote!(At::new(&SITE).instance(&|| ()), x, z, &|| ::core),
    );
    contains(
        &expanded,
        quote!(copy_of_self.get(self).forward_reference(z, x)),
    );
}

#[test]
fn numbers_are_handed_over_where_settings_bring_them() {
    let item = quote! {
        fn gated(&self, gate_up: Tensor<3>) -> Tensor<3> { clamp(gate_up, self.limit) }
    };
    let attribute = quote!("npu_fused_swiglu", projections = chunked, clamp = limit);
    let private = quote!(::burn_kernels::__private);
    contains(
        &expanded(attribute, item),
        quote!(glu_packed(#private::At::new(&SITE).instance(&|| ()), gate_up, ::core::option::Option::Some(#private::Number::number(&self.limit)), &mut |gate_up| {
            let copy_of_self = #private::detached!(self);
            #private::begin();
            copy_of_self.get(self).gated_reference(gate_up)
        })),
    );
}

#[test]
fn a_method_under_two_cfgs_is_dispatched_twice() {
    let item = quote! {
        impl Norm {
            #[cfg(a)]
            fn forward(&self, x: Tensor<2>) -> Tensor<2> { x * self.weight + self.eps }
            #[cfg(not(a))]
            fn forward(&self, x: Tensor<3>) -> Tensor<3> { x * self.gamma + self.eps }
        }
    };
    let expanded = expanded(quote!("npu_fused_rmsnorm"), item);
    contains(
        &expanded,
        quote!(#[cfg(a)] fn forward_reference(&self, x: Tensor<2>)),
    );
    contains(
        &expanded,
        quote!(#[cfg(not(a))] fn forward_reference(&self, x: Tensor<3>)),
    );
}

#[test]
fn raw_names_stay_raw_in_code_and_plain_in_records() {
    let item = quote! {
        impl r#Type {
            fn r#match(&self, x: Tensor<2>) -> Tensor<2> { x * self.r#type + self.eps }
        }
    };
    let expanded = expanded(
        quote!("npu_fused_rmsnorm", method = match, weight = type),
        item,
    );
    contains(&expanded, quote!(item: "Type::match"));
    contains(&expanded, quote!(&self.r#type));
    contains(&expanded, quote!(copy_of_self.get(self).match_reference(x)));
}

#[test]
fn several_attributes_take_a_method_each() {
    let item = quote! {
        #[fused_kernel("npu_fused_swiglu", method = mlp)]
        impl Layer {
            fn forward(&self, x: Tensor<2>) -> Tensor<2> { x * self.weight + self.eps }
            fn mlp(&self, x: Tensor<2>) -> Tensor<2> {
                self.down.forward(self.gate.forward(x) * self.up.forward(x))
            }
        }
    };
    let first = expanded(quote!("npu_fused_rmsnorm"), item);
    let mut found = items(first);
    let Some(Item::Impl(block)) = found.first_mut() else {
        panic!("not an impl block")
    };
    assert_eq!(block.attrs.len(), 1);
    block.attrs.clear();
    let second = expanded(quote!("npu_fused_swiglu", method = mlp), quote!(#block));
    let names = method_names(impl_of(&items(second)[0]));
    assert_eq!(
        names,
        ["forward", "forward_reference", "mlp", "mlp_reference"]
    );
}

#[test]
fn a_body_of_a_trait_takes_a_copy_for_self() {
    let item = quote! {
        impl Layer for Norm {
            fn forward(&self, x: Tensor<2>) -> Tensor<2> {
                self::helper(x, vec![self.weight], self) + self.eps
            }
        }
    };
    let expanded = expanded(quote!("npu_fused_rmsnorm"), item);
    contains(
        &expanded,
        quote!({
            let copy_of_self = ::burn_kernels::__private::detached!(self);
            ::burn_kernels::__private::begin();
            let _this = copy_of_self.get(self);
            { self::helper(x, vec![_this.weight], _this) + _this.eps }
        }),
    );
}

#[test]
fn a_half_typed_body_still_expands() {
    let item = quote!(fn forward(&self, x: Tensor<3>) -> Tensor<3> { x * self.weight + self.eps; let y = });
    contains(
        &expanded(quote!("npu_fused_rmsnorm"), item),
        quote!(let y =),
    );
}

#[test]
fn an_error_keeps_the_item() {
    let item = quote!(
        fn f(x: Tensor<2>) -> Tensor<2> {
            x
        }
    );
    let output = crate::run(quote!("npu_fused_swiglu"), item.clone(), &origin());
    contains(&output, item);
    contains(&output, quote!(::core::compile_error!));
}
