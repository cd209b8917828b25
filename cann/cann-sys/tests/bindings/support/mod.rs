//! Shared code of the tests: making bindings from headers, and reading bindings.

pub mod compare;
pub mod generate;
pub mod ours;

use std::io::Write;

/// Returns `true` if libclang can be loaded. Otherwise prints a message that the test harness does not hide, and fails
/// if `REQUIRE_LIBCLANG` is set, as in CI.
pub fn libclang_or_shout(what: &str) -> bool {
    let Err(why) = clang_sys::load() else {
        return true;
    };
    let text = format!(
        "\n*** NOT TESTED: {what}: {why}\n*** Install libclang (Debian: apt-get install libclang-dev).\n\n"
    );
    assert!(std::env::var_os("REQUIRE_LIBCLANG").is_none(), "{text}");
    std::io::stderr()
        .write_all(text.as_bytes())
        .expect("stderr can be written");
    false
}
