//! Installs the emulator under the names of CANN's libraries.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, io};

/// The libraries that programs load or link. Each is the whole emulator.
const NAMES: [&str; 14] = [
    "libascendcl.so",
    "libacl_rt.so",
    "libnnopbase.so",
    "libhccl.so",
    // The libraries of operators: a single one before CANN 8.5, and one per area since.
    "libopapi.so",
    "libopapi_math.so",
    "libopapi_nn.so",
    "libopapi_transformer.so",
    // The libraries of operators by name and of graphs, which torch_npu links.
    "libacl_op_compiler.so",
    "libacl_tdt_channel.so",
    "libge_runner.so",
    "libgraph.so",
    // The libraries of kernels as binaries and of the profiler.
    "libruntime.so",
    "libprofapi.so",
];

const LIBRARY: &str = "libcann_emulator.so";

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    let [folder] = arguments.as_slice() else {
        eprintln!("usage: cann-emulator-install FOLDER");
        return ExitCode::from(2);
    };
    match install(Path::new(folder)) {
        Ok(()) => {
            println!(
                "Point programs at it: CANN_LIB_DIR={0} or LD_LIBRARY_PATH={0}",
                folder.display()
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("cann-emulator-install: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Copies the library once and links the names to the copy, so that a process loads it only once.
fn install(folder: &Path) -> io::Result<()> {
    let library = find_library()?;
    fs::create_dir_all(folder)?;
    for link in NAMES.map(|name| folder.join(name)) {
        if fs::symlink_metadata(&link).is_ok_and(|found| !found.is_symlink()) {
            let text = format!(
                "{} is not a link of an emulator: is this a real CANN?",
                link.display()
            );
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
    }
    // The copy is renamed into place, so that a program that has loaded the old file keeps it.
    let staged = folder.join(format!("{LIBRARY}.{}", std::process::id()));
    fs::copy(&library, &staged)?;
    fs::rename(&staged, folder.join(LIBRARY))?;
    for name in NAMES {
        let link = folder.join(name);
        let _ = fs::remove_file(&link);
        symlink(&link)?;
    }
    Ok(())
}

/// Returns the library that Cargo builds with this program, in `deps`. The one beside the program may be older.
fn find_library() -> io::Result<PathBuf> {
    let program = env::current_exe()?;
    let beside = program.parent().unwrap_or(Path::new("."));
    let places = [beside.join("deps").join(LIBRARY), beside.join(LIBRARY)];
    places
        .into_iter()
        .find(|place| place.is_file())
        .ok_or_else(|| {
            let text = format!(
                "{LIBRARY} is missing beside {}; build it with `cargo build -p cann-emulator`",
                program.display()
            );
            io::Error::new(io::ErrorKind::NotFound, text)
        })
}

#[cfg(unix)]
fn symlink(link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(LIBRARY, link)
}

#[cfg(not(unix))]
fn symlink(_: &Path) -> io::Result<()> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "the emulator is for Linux, as CANN is",
    ))
}
