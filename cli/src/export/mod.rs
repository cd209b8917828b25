//! `kernels export`: the CPU kernels as a package for Python.

mod package;
mod wheel;

use crate::output;
use anyhow::{Context, bail, ensure};
use kernels_io::{Limit, Staging, escape_path, read};
use object::read::{NameOrOrdinal, Object};
use object::{Architecture, BinaryFormat};
use std::fs;
use std::path::{Path, PathBuf};

/// Write the CPU kernels as a package for Python
///
/// The folder has build/, which Hugging Face's library `kernels` loads, and dist/, with a wheel for pip. The library that
/// both hold is built by `cargo build --profile dist -p kernels-export`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The new folder.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The library kernels_export of one machine; repeat it for several machines. By default, the one beside this program.
    #[arg(long, value_name = "FILE")]
    library: Vec<PathBuf>,
}

/// The largest size of a library.
const LIBRARY: Limit = Limit {
    bytes: 512 << 20,
    what: "a library",
};

/// Runs the command.
///
/// # Errors
/// Returns an error if a library is not one of these kernels, or if the folder can't be written.
pub fn run(args: &Args) -> anyhow::Result<()> {
    output::refuse_occupied(&args.out)?;
    let paths = match args.library.is_empty() {
        true => vec![beside_the_program()?],
        false => args.library.clone(),
    };
    let mut libraries = Vec::new();
    for path in &paths {
        let library = Library::open(path).with_context(|| escape_path(path))?;
        ensure!(
            libraries
                .iter()
                .all(|other: &Library| other.file() != library.file()),
            "--library: two libraries are for {} on {}",
            library.machine,
            library.system.name
        );
        libraries.push(library);
    }
    let staging = Staging::beside(&args.out)?;
    let build = staging.path().join("build");
    package::write(&build, "torch-universal", &libraries)?;
    for library in &libraries {
        let variant = format!("tvm-ffi01-cpu-{}-{}", library.machine, library.system.name);
        package::write(&build, &variant, std::slice::from_ref(library))?;
        wheel::write(&staging.path().join("dist"), library)?;
    }
    staging.publish()?;
    let wheels = libraries.iter().map(wheel::name).collect::<Vec<_>>();
    output::note(format_args!(
        "{} has the package in build/ and {} in dist/",
        escape_path(&args.out),
        wheels.join(" and ")
    ));
    Ok(())
}

/// Returns the library that a build of the workspace puts beside the program.
fn beside_the_program() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe().context("the place of this program")?;
    let name = format!(
        "{}kernels_export{}",
        std::env::consts::DLL_PREFIX,
        std::env::consts::DLL_SUFFIX
    );
    let path = program.with_file_name(name);
    ensure!(
        path.exists(),
        "{} is missing; build it with `cargo build --profile dist -p kernels-export`, and name it with --library",
        escape_path(&path)
    );
    Ok(path)
}

/// An operating system by the names that Python has for it.
#[derive(Clone, Copy, Debug)]
struct System {
    /// The name in variants.
    name: &'static str,
    /// The end of the names of libraries.
    end: &'static str,
}

/// The kernels of one machine.
struct Library {
    bytes: Vec<u8>,
    /// The machine, in variants.
    machine: &'static str,
    system: System,
}

impl Library {
    fn open(path: &Path) -> anyhow::Result<Self> {
        let bytes = read(path, LIBRARY)?;
        let file = object::File::parse(&*bytes).context("the file must be a library")?;
        let machine = match file.architecture() {
            Architecture::X86_64 => "x86_64",
            Architecture::Aarch64 => "aarch64",
            other => bail!("libraries for {other:?} are not supported"),
        };
        let system = match file.format() {
            BinaryFormat::Elf => System {
                name: "linux",
                end: "so",
            },
            BinaryFormat::MachO => System {
                name: "darwin",
                end: "dylib",
            },
            BinaryFormat::Pe => System {
                name: "windows",
                end: "dll",
            },
            other => bail!("libraries in the format {other:?} are not supported"),
        };
        let exports = file.exports().context("the exports of the library")?;
        let is_list = |name: NameOrOrdinal<&[u8]>| {
            matches!(
                name,
                NameOrOrdinal::Name(b"burn_kernels_functions" | b"_burn_kernels_functions")
            )
        };
        ensure!(
            exports.flatten().any(|export| is_list(export.name())),
            "the library must be that of the crate kernels-export"
        );
        Ok(Self {
            machine,
            system,
            bytes,
        })
    }

    /// Returns the name of the file in the package, which has the machine as Python's `platform.machine()` says it.
    fn file(&self) -> String {
        let machine = match (self.machine, self.system.name) {
            ("aarch64", "darwin" | "windows") => "arm64",
            ("x86_64", "windows") => "amd64",
            (machine, _) => machine,
        };
        format!("_kernels_{machine}.{}", self.system.end)
    }
}

/// The modules in Python, by file.
const MODULES: [(&str, &str); 11] = [
    ("__init__.py", include_str!("python/__init__.py")),
    ("_apply.py", include_str!("python/_apply.py")),
    ("_forwards.py", include_str!("python/_forwards.py")),
    ("_library.py", include_str!("python/_library.py")),
    ("_losses.py", include_str!("python/_losses.py")),
    ("_mixture.py", include_str!("python/_mixture.py")),
    ("_operator.py", include_str!("python/_operator.py")),
    ("_operations.py", include_str!("python/_operations.py")),
    ("_transformers.py", include_str!("python/_transformers.py")),
    ("_verify.py", include_str!("python/_verify.py")),
    ("layers.py", include_str!("python/layers.py")),
];

/// Returns the files of a package with these libraries, in the order of their names.
fn files(libraries: &[Library]) -> Vec<(String, &[u8])> {
    let modules = MODULES.map(|(name, text)| (name.to_owned(), text.as_bytes()));
    let mut files = Vec::from(modules);
    files.extend(
        libraries
            .iter()
            .map(|library| (library.file(), &*library.bytes)),
    );
    files.sort();
    files
}

/// Writes a new file of a folder that is made for it.
fn put(folder: &Path, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| escape_path(folder))?;
    Ok(kernels_io::write_new(&folder.join(name), bytes)?)
}

#[cfg(test)]
mod tests;
