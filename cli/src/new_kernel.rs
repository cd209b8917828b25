//! `kernels new-kernel`: the start of a crate with a fused kernel of its own.

mod name;
mod template;

use crate::output;
use anyhow::{Context, bail};
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
        folder.display(),
        "burn-kernels",
        args.name.snake(),
    ))
}

/// What Cargo needs to find burn-kernels.
fn dependency(given: Option<&Path>) -> anyhow::Result<String> {
    let built_from = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let checkout = match given {
        Some(given) if !is_checkout(given) => {
            bail!("{} holds no package burn-kernels", given.display())
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
    fs::read_to_string(folder.join("Cargo.toml"))
        .is_ok_and(|manifest| manifest.contains("\nname = \"burn-kernels\"\n"))
}

/// Writes a folder that is either there and complete, or not there. Nothing that exists is touched.
fn write_whole(folder: &Path, files: &[(String, String)]) -> anyhow::Result<()> {
    if fs::symlink_metadata(folder).is_ok() {
        bail!("{} exists already; nothing was written", folder.display());
    }
    let parent = match folder.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // On the same file system, and gone again if anything fails.
    let staged = tempfile::Builder::new()
        .prefix(".new-kernel-")
        .tempdir_in(parent)
        .with_context(|| format!("cannot write in {}", parent.display()))?;
    let crate_folder = staged.path().join("crate");
    for (name, text) in files {
        let file = crate_folder.join(name);
        let written = fs::create_dir_all(file.parent().unwrap_or(&crate_folder))
            .and_then(|()| fs::write(&file, text));
        written.with_context(|| format!("cannot write {name}"))?;
    }
    fs::rename(&crate_folder, folder).with_context(|| format!("cannot make {}", folder.display()))
}
