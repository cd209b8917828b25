//! The files of a new crate: those of `examples/third-party`, which the workspace builds and tests,
//! under other names.

use super::name::Name;

macro_rules! example {
    ($($file:literal),+) => {
        &[$(($file, include_str!(concat!("../../../examples/third-party/", $file)))),+]
    };
}

const SOURCES: &[(&str, &str)] = example![
    "src/lib.rs",
    "src/soft_cap.rs",
    "src/main.rs",
    "tests/soft_cap.rs",
    "benches/soft_cap.rs"
];

/// The example's manifest takes versions from the workspace; this one states them.
const MANIFEST: &str = include_str!("Cargo.toml.in");

/// Every file with its path inside the crate. `dependency` is what the manifest says of
/// burn-kernels.
pub fn files(name: &Name, dependency: &str) -> Vec<(String, String)> {
    let manifest = named(MANIFEST, name).replace("BURN_KERNELS", dependency);
    let sources = SOURCES
        .iter()
        .map(|(file, text)| (named(file, name), named(text, name)));
    std::iter::once(("Cargo.toml".to_owned(), manifest))
        .chain(sources)
        .collect()
}

/// The text with the example's names replaced. A name that holds another comes first.
fn named(text: &str, name: &Name) -> String {
    text.replace("acme-kernels", &name.package())
        .replace("acme_kernels", &name.library())
        .replace("acme_soft_cap", name.snake())
        .replace("acme-cpu", &format!("{}-cpu", name.kebab()))
        .replace("soft_cap", name.snake())
        .replace("SoftCap", &name.camel())
}

/// The words of the sources' code that no name may be: they would mean two things.
pub fn words() -> impl Iterator<Item = &'static str> {
    let lines = SOURCES.iter().flat_map(|(_, text)| text.lines());
    let code = lines.map(|line| line.split("//").next().unwrap_or_default());
    code.flat_map(|code| code.split(|c: char| !(c.is_alphanumeric() || c == '_')))
        .filter(|word| !["soft_cap", "SoftCap"].contains(word))
}
