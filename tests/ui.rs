//! Tests the items that the attribute accepts and refuses, with the compiler's messages.
//!
//! `TRYBUILD=overwrite cargo test --test ui` rewrites the expected messages. Read each one as its user would. Accepted
//! items are modules of this test and also run: as separate programs, they would build all of Burn again. It is a program
//! of its own, because it counts its sites.

#[path = "ui/acme.rs"]
mod acme;
#[path = "ui/common.rs"]
mod common;

#[path = "ui/pass"]
mod pass {
    pub mod add_norm;
    pub mod attention;
    pub mod causal_conv1d;
    pub mod cross_entropy;
    pub mod documented;
    pub mod function;
    pub mod function_variants;
    pub mod function_when;
    pub mod gated_delta_rule;
    pub mod impl_block;
    pub mod impl_experts;
    pub mod impl_of_a_trait;
    pub mod impl_several;
    pub mod impl_sparse_block;
    pub mod impl_when;
    pub mod item_attributes;
    pub mod item_cfg;
    pub mod item_generics;
    pub mod item_in_a_macro;
    pub mod item_no_prelude;
    pub mod item_private;
    pub mod item_raw_identifiers;
    pub mod items_inside_a_function;
    pub mod layer_names;
    pub mod layer_norm;
    pub mod linear;
    pub mod linear_divergence;
    pub mod list_of_experts;
    pub mod method;
    pub mod method_of_tensors;
    pub mod path_forms;
    pub mod qk_norm_rope;
    pub mod renamed_crate;
    pub mod softcap;
    pub mod strict_crate;
    pub mod struct_activations;
    pub mod struct_constants;
    pub mod struct_experts;
    pub mod struct_gated_norm;
    pub mod struct_mlp_attribute_below_derive;
    pub mod struct_norm;
    pub mod struct_norm_variants;
    pub mod struct_packed_mlp;
    pub mod struct_rope;
    pub mod struct_rope_sections;
    pub mod struct_rope_variants;
    pub mod struct_sparse_block;
    pub mod struct_sparse_mlp;
}

#[test]
fn refused_items() {
    trybuild::TestCases::new().compile_fail("tests/ui/fail/*.rs");
}

/// Runs the `main` of each accepted case.
macro_rules! accepted {
    ($($case:ident)*) => {
        mod accepted_items {
            $(
                #[test]
                fn $case() {
                    crate::pass::$case::main();
                }
            )*
        }
    };
}

accepted! {
    add_norm
    attention
    causal_conv1d
    cross_entropy
    documented
    function
    function_variants
    function_when
    gated_delta_rule
    impl_block
    impl_experts
    impl_of_a_trait
    impl_several
    impl_sparse_block
    impl_when
    item_attributes
    item_cfg
    item_generics
    item_in_a_macro
    item_no_prelude
    item_private
    item_raw_identifiers
    items_inside_a_function
    layer_names
    layer_norm
    linear
    linear_divergence
    list_of_experts
    method
    method_of_tensors
    path_forms
    qk_norm_rope
    renamed_crate
    softcap
    strict_crate
    struct_activations
    struct_constants
    struct_experts
    struct_gated_norm
    struct_mlp_attribute_below_derive
    struct_norm
    struct_norm_variants
    struct_packed_mlp
    struct_rope
    struct_rope_sections
    struct_rope_variants
    struct_sparse_block
    struct_sparse_mlp
}

/// The JSON in a site's record equals the site's key, for every site of the cases.
#[test]
fn records_say_what_the_sites_say() {
    let mut count = 0;
    for site in burn_kernels::registry::sites() {
        let records = burn_kernels::registry::section::decode(site.record()).expect("a record");
        let key = serde_json::to_value(site.spec().key).expect("JSON");
        assert_eq!(records[0].json()["key"], key, "{}", site.name());
        count += 1;
    }
    assert!(count > 40, "{count}");
}

/// The examples in the documentation can't be compiled there, because Burn is not a dependency.
#[test]
fn documented_examples_are_a_case() {
    let without_blanks = |text: &str| text.split_whitespace().collect::<String>();
    let cases = without_blanks(include_str!("ui/pass/documented.rs"));
    let docs: Vec<&str> = include_str!("../kernels-macros/src/lib.rs")
        .lines()
        .filter_map(|line| line.strip_prefix("///"))
        .chain(include_str!("../kernels-macros/kernels.md").lines())
        .collect();
    let docs = docs.join("\n");
    let examples: Vec<&str> = docs.split("```").skip(1).step_by(2).collect();
    assert_eq!(examples.len(), 7);
    for example in examples {
        let code = example.strip_prefix("ignore").expect("a block of Rust");
        assert!(cases.contains(&without_blanks(code)), "{code}");
    }
}
