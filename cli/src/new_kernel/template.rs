//! The files of a new crate. They are those of `examples/third-party`, which the workspace builds and tests, with other
//! names.

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

/// The manifest of the new crate. The example's own takes versions from the workspace; this one states them.
const MANIFEST: &str = include_str!("Cargo.toml.in");

/// Returns every file with its path inside the crate. `dependency` is the manifest's value for burn-kernels.
pub fn files(name: &Name, dependency: &str) -> Vec<(String, String)> {
    let manifest = named(MANIFEST, name).replace("BURN_KERNELS", dependency);
    let sources = SOURCES
        .iter()
        .map(|(file, text)| (named(file, name), named(text, name)));
    std::iter::once(("Cargo.toml".to_owned(), manifest))
        .chain(sources)
        .collect()
}

/// Replaces the example's names in a text. A name that contains another is replaced first.
fn named(text: &str, name: &Name) -> String {
    text.replace("acme-kernels", &name.package())
        .replace("acme_kernels", &name.library())
        .replace("acme_soft_cap", name.snake())
        .replace("acme-cpu", &format!("{}-cpu", name.kebab()))
        .replace("soft_cap", name.snake())
        .replace("SoftCap", &name.camel())
}

/// Returns the words of the sources' code. A kernel with such a name would give the word two meanings.
pub fn words() -> impl Iterator<Item = &'static str> {
    let lines = SOURCES.iter().flat_map(|(_, text)| text.lines());
    let code = lines.map(|line| line.split("//").next().unwrap_or_default());
    code.flat_map(|code| code.split(|c: char| !(c.is_alphanumeric() || c == '_')))
        .filter(|word| !["soft_cap", "SoftCap"].contains(word))
}
