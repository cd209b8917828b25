//! Fields and parameters bind to the operands of a kernel.

use super::*;

#[test]
fn fields_bind_by_usual_or_given_names() {
    accepted(quote!("npu_fused_rmsnorm"), norm());
    let item = || {
        quote!(
            struct Norm {
                gamma: Param<Tensor<1>>,
                #[module(skip)]
                other: Tensor<1>,
                e: f32,
            }
        )
    };
    accepted(quote!("npu_fused_rmsnorm", eps = e), item());
    accepted(
        quote!("npu_fused_rmsnorm", weight = other, eps = e, ignore(gamma)),
        item(),
    );
    let expected = "unknown field `othr`; did you mean `other`?";
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
fn operands_are_there_always() {
    let item = quote! {
        struct Norm {
            #[cfg(a)] weight: Param<Tensor<1>>,
            #[serde(default)] eps: f64,
        }
    };
    let expected = "`weight`: the kernel reads the field always; write a struct for each case";
    refused(quote!("npu_fused_rmsnorm"), item, &[expected]);
    let function = quote! {
        fn swiglu(#[cfg(a)] gate: Tensor<2>, #[allow(unused)] up: Tensor<2>) -> Tensor<2> {}
    };
    let expected = "take this parameter always; write a function for each case";
    refused(quote!("npu_fused_swiglu"), function, &[expected]);
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
fn a_field_that_the_kernel_would_ignore_is_refused_whatever_its_name() {
    let with = |field: TokenStream| {
        quote!(
            struct Mlp {
                gate_proj: Linear,
                up_proj: Linear,
                down_proj: Linear,
                #field
            }
        )
    };
    let mlp = || quote!("npu_fused_swiglu");
    for field in [
        quote!(residual_dropout: Dropout),
        quote!(activation_fn: Gelu),
        quote!(bias: Param<Tensor<1>>),
        quote!(scale: Option<Param<Tensor<1>>>),
        quote!(extra: Vec<Linear>),
        quote!(nonlinearity: T),
    ] {
        refused(mlp(), with(field), &["which may have a part in `forward`"]);
    }
    // Numbers and text have no part that the settings don't say; skipped fields hold no parameter.
    for field in [
        quote!(layer_idx: usize),
        quote!(name: &'static str),
        quote!(sizes: Option<[usize; 2]>),
        quote!(device: PhantomData<T>),
        quote!(#[module(skip)] kind: Kind),
    ] {
        accepted(mlp(), with(field));
    }
    // A condition accounts for what it reads.
    accepted(
        quote!("npu_fused_swiglu", when = self.act.is_silu()),
        with(quote!(act: Activation)),
    );
    refused(mlp(), with(quote!(act: Activation)), &["activation = silu"]);
    accepted(
        quote!("npu_fused_swiglu", ignore(act)),
        with(quote!(act: Activation)),
    );
}

#[test]
fn ignored_fields_are_fields_and_no_operands() {
    let item = || {
        quote!(
            struct Norm {
                weight: Param<Tensor<1>>,
                eps: f64,
                dropout: Dropout,
                r#type: Kind,
            }
        )
    };
    let norm = |ignore: TokenStream| quote!("npu_fused_rmsnorm", #ignore);
    accepted(norm(quote!(ignore(dropout, type))), item());
    accepted(norm(quote!(ignore(dropout, r#type,))), item());
    refused(
        norm(quote!(ignore(dropout))),
        item(),
        &["would ignore the field `r#type`"],
    );
    refused(
        norm(quote!(ignore(dropout, type, droput))),
        item(),
        &["unknown field `droput`; did you mean `dropout`?"],
    );
    refused(
        norm(quote!(ignore(dropout, type, weight))),
        item(),
        &["`weight` is an operand of the kernel"],
    );
    refused(norm(quote!(ignore())), item(), &["`ignore` names fields"]);
    refused(
        norm(quote!(ignore = dropout)),
        item(),
        &["`ignore` names fields"],
    );
    refused(
        norm(quote!(ignore(self.dropout))),
        item(),
        &["`ignore` takes names of fields"],
    );
}

#[test]
fn a_body_needs_no_list_of_ignored_fields() {
    refused(
        quote!("npu_fused_rmsnorm", ignore(dropout)),
        quote!(
            impl Norm {
                fn forward(&self, x: Tensor<2>) -> Tensor<2> {
                    plain(x, self.weight.val(), self.eps)
                }
            }
        ),
        &["`ignore` is for the struct form"],
    );
}

#[test]
fn numbers_may_be_constants() {
    let item = || {
        quote!(
            struct Norm {
                weight: Param<Tensor<1>>,
            }
        )
    };
    for eps in [
        quote!(1e-5),
        quote!(1),
        quote!(1e-6_f32),
        quote!(EPS),
        quote!(Self::EPS),
        quote!(crate::limits::EPS_2),
    ] {
        accepted(quote!("npu_fused_rmsnorm", eps = #eps), item());
        accepted(
            quote!("npu_fused_rmsnorm", eps = #eps),
            quote!(
                impl Norm {
                    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
                        plain(x, self.weight.val())
                    }
                }
            ),
        );
    }
    refused(
        quote!("npu_fused_rmsnorm", eps = eps),
        item(),
        &["unknown field `eps`"],
    );
    refused(
        quote!("npu_fused_rmsnorm", eps = "1e-5"),
        item(),
        &["`eps` takes a name"],
    );
    // A tensor is not a constant.
    refused(
        quote!("npu_fused_rmsnorm", weight = WEIGHT, eps = 1e-5),
        item(),
        &["unknown field `WEIGHT`"],
    );
}
