//! `kernels new-kernel`: creates a crate with a fused kernel of its own.

mod name;
mod template;

use crate::output;
use anyhow::{Context, bail};
use kernels_io::{Limit, Staging, escape_path};
use name::Name;
use std::fs;
use std::path::{Path, PathBuf};

/// Create a crate with a fused kernel of its own
///
/// The crate holds a complete small kernel, soft capping: its registration, its reference, a fused CPU implementation
/// with a gradient, a program that uses it, a test of results and gradients against the reference in f64, and a
/// benchmark. Replace its maths with your own.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The kernel's name in snake_case, such as `top_k_gate`. The module, the operation and the id get this name.
    name: Name,
    /// The folder to create; by default the crate's name, in the current folder.
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// The checkout of burn-kernels to depend on; by default the one that this program was built from, or, if it no
    /// longer exists, the release with this program's version.
    #[arg(long, value_name = "DIR")]
    burn_kernels: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// Returns an error if the folder exists or can't be written.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let folder = match &args.path {
        Some(path) => path.clone(),
        None => PathBuf::from(args.name.package()),
    };
    let dependency = dependency(args.burn_kernels.as_deref())?;
    write_whole(&folder, &template::files(&args.name, &dependency))?;
    output::text(format_args!(
        "created {} with {} = {dependency}\n\
         \x20 src/{}.rs   the kernel; it computes soft capping until you put your own maths there\n\
         \x20 cargo test, cargo run, cargo bench",
        escape_path(&folder),
        "burn-kernels",
        args.name.snake(),
    ))
}

/// Returns the dependency on burn-kernels for the manifest.
fn dependency(given: Option<&Path>) -> anyhow::Result<String> {
    let built_from = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let checkout = match given {
        Some(given) if !is_checkout(given) => {
            bail!(
                "{} does not contain the package burn-kernels",
                escape_path(given)
            )
        }
        Some(given) => given,
        None if is_checkout(built_from) => built_from,
        None => return Ok(concat!('"', env!("CARGO_PKG_VERSION"), '"').to_owned()),
    };
    let checkout = fs::canonicalize(checkout)?;
    let checkout = checkout
        .to_str()
        .context("the checkout's path is not Unicode")?;
    // A JSON string is also a TOML string.
    Ok(format!("{{ path = {} }}", serde_json::to_string(checkout)?))
}

fn is_checkout(folder: &Path) -> bool {
    const LIMIT: Limit = Limit::mib("a Cargo.toml", 1);
    kernels_io::read_text(&folder.join("Cargo.toml"), LIMIT)
        .is_ok_and(|manifest| manifest.contains("\nname = \"burn-kernels\"\n"))
}

/// Writes a folder, complete or not at all. It changes nothing that exists.
fn write_whole(folder: &Path, files: &[(String, String)]) -> anyhow::Result<()> {
    if fs::symlink_metadata(folder).is_ok() {
        bail!(
            "{} exists already; nothing was written",
            escape_path(folder)
        );
    }
    let parent = match folder.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if !parent.is_dir() {
        bail!("cannot write in {}: no such folder", escape_path(parent));
    }
    // The staging folder is on the same file system, and is removed if anything fails.
    let staging = Staging::beside(folder)?;
    for (name, text) in files {
        kernels_io::write_new(&staging.path().join(name), text.as_bytes())?;
    }
    Ok(staging.publish()?)
}
