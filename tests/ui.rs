//! What the attribute accepts and refuses, as a compiler shows it.
//!
//! `TRYBUILD=overwrite cargo test --test ui` writes the expected messages anew; read each one as
//! the user who gets it. Accepted items are modules of this test, and run: built one by one they
//! would build all of Burn again.

#[path = "ui/pass"]
mod pass {
    pub mod function;
    pub mod impl_block;
    pub mod items_inside_a_function;
    pub mod method;
    pub mod renamed_crate;
    pub mod strict_crate;
    pub mod struct_mlp_attribute_below_derive;
    pub mod struct_norm;
    pub mod struct_rope;
}

#[test]
fn refused_items() {
    trybuild::TestCases::new().compile_fail("tests/ui/fail/*.rs");
}

#[test]
fn function() {
    pass::function::main();
}

#[test]
fn impl_block() {
    pass::impl_block::main();
}

#[test]
fn items_inside_a_function() {
    pass::items_inside_a_function::main();
}

#[test]
fn method() {
    pass::method::main();
}

#[test]
fn renamed_crate() {
    pass::renamed_crate::main();
}

#[test]
fn strict_crate() {
    pass::strict_crate::main();
}

#[test]
fn struct_mlp_attribute_below_derive() {
    pass::struct_mlp_attribute_below_derive::main();
}

#[test]
fn struct_norm() {
    pass::struct_norm::main();
}

#[test]
fn struct_rope() {
    pass::struct_rope::main();
}
