//! `kernels new-kernel`: the start of a crate with a fused kernel of its own.

mod name;
mod template;

use crate::output;
use anyhow::{Context, bail};
use kernels_io::{Limit, Staging, escape_path};
use name::Name;
use std::fs;
use std::path::{Path, PathBuf};

/// Start a crate with a fused kernel of its own
///
/// The crate holds a whole small kernel, soft capping: its registration, its reference, a fused
/// CPU implementation with a gradient, a program that uses it, a test of forward and gradients
/// beside the reference in f64, and a benchmark. Put your own maths in its place.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The kernel's name in snake_case, such as `top_k_gate`. It becomes the module, the operation
    /// and the id.
    name: Name,
    /// The folder to make; by default the crate's name, in the current folder.
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// The checkout of burn-kernels that the crate builds with; by default the one that this
    /// program was built from, or, if that has gone, the release of this program's version.
    #[arg(long, value_name = "DIR")]
    burn_kernels: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// The folder exists, or can't be written.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let folder = match &args.path {
        Some(path) => path.clone(),
        None => PathBuf::from(args.name.package()),
    };
    let dependency = dependency(args.burn_kernels.as_deref())?;
    write_whole(&folder, &template::files(&args.name, &dependency))?;
    output::text(format_args!(
        "made {} with {} = {dependency}\n\
         \x20 src/{}.rs   the kernel; it computes soft capping until you put your own maths there\n\
         \x20 cargo test, cargo run, cargo bench",
        escape_path(&folder),
        "burn-kernels",
        args.name.snake(),
    ))
}

/// What Cargo needs to find burn-kernels.
fn dependency(given: Option<&Path>) -> anyhow::Result<String> {
    let built_from = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let checkout = match given {
        Some(given) if !is_checkout(given) => {
            bail!("{} holds no package burn-kernels", escape_path(given))
        }
        Some(given) => given,
        None if is_checkout(built_from) => built_from,
        None => return Ok(concat!('"', env!("CARGO_PKG_VERSION"), '"').to_owned()),
    };
    let checkout = fs::canonicalize(checkout)?;
    let checkout = checkout
        .to_str()
        .context("the checkout's path is not Unicode")?;
    // A JSON string is one of TOML too.
    Ok(format!("{{ path = {} }}", serde_json::to_string(checkout)?))
}

fn is_checkout(folder: &Path) -> bool {
    const LIMIT: Limit = Limit::mib("a Cargo.toml", 1);
    kernels_io::read_text(&folder.join("Cargo.toml"), LIMIT)
        .is_ok_and(|manifest| manifest.contains("\nname = \"burn-kernels\"\n"))
}

/// Writes a folder that is either there and complete, or not there. Nothing that exists is touched.
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
    // On the same file system, and gone again if anything fails.
    let staging = Staging::beside(folder)?;
    for (name, text) in files {
        kernels_io::write_new(&staging.path().join(name), text.as_bytes())?;
    }
    Ok(staging.publish()?)
}
