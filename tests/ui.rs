//! What the attribute accepts and refuses, as a compiler shows it.
//!
//! `TRYBUILD=overwrite cargo test --test ui` writes the expected messages anew; read each one as
//! the user who gets it.

#[test]
fn ui() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass/*.rs");
    cases.compile_fail("tests/ui/fail/*.rs");
}
