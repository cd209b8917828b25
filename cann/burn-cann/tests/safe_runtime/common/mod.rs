//! Scenarios on the emulator, each in a process of its own. CANN's state belongs to the process, and only its end
//! shows what was not given back.

pub mod maths;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use burn_cann::{Cann, DType, Device, Platform, Soc, Spec, Stream, Version};
use cann_sys::Search;

/// The variable that marks a process as the scenario and not the test that starts it.
const INSIDE: &str = "BURN_CANN_SCENARIO";

/// The time limit of a scenario in seconds.
const LIMIT_S: &str = "300";

/// A run of the calling test's body in a process of its own, on an emulator with settings.
#[derive(Default)]
pub struct Scenario {
    settings: Vec<(&'static str, String)>,
    hidden: Vec<&'static str>,
    expected_leak: bool,
}

impl Scenario {
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets an environment variable, such as `CANN_EMULATOR_…`, to a value.
    pub fn set(mut self, setting: &'static str, value: impl ToString) -> Self {
        self.settings.push((setting, value.to_string()));
        self
    }

    /// Hides a function, as if an older CANN did not have it.
    pub fn hide(mut self, function: &'static str) -> Self {
        self.hidden.push(function);
        self
    }

    /// Allows something to stay behind.
    pub fn leaks(mut self) -> Self {
        self.expected_leak = true;
        self
    }

    /// Runs `body`, finalises CANN, and fails if the emulator reports something that was not given back.
    pub fn run(mut self, body: impl FnOnce(&Cann)) {
        let (hidden, leaks) = (std::mem::take(&mut self.hidden), self.expected_leak);
        self.alone(|| {
            let search = Search::in_folder(env::var_os("CANN_LIB_DIR").expect("set by the test"));
            let search = hidden.into_iter().fold(search, Search::hide);
            let cann = Cann::load_from(&search).expect("the emulator loads");
            body(&cann);
            if !leaks {
                finalise(&cann);
            }
        });
    }

    /// Runs `body`, which loads CANN itself or does without.
    pub fn alone(self, body: impl FnOnce()) {
        if inside() {
            body();
            println!("the scenario is at its end");
            return;
        }
        // A process that hangs is an error too.
        let mut process = Command::new("timeout");
        process
            .arg(LIMIT_S)
            .arg(env::current_exe().expect("a path"));
        process.args([&this_test(), "--exact", "--nocapture", "--include-ignored"]);
        // Tests of kernels set their policy themselves.
        process
            .env_remove("BURN_KERNELS")
            .env_remove("BURN_KERNELS_VERIFY")
            .env(INSIDE, "1")
            .env("CANN_LIB_DIR", library_folder());
        process.envs(self.settings.iter().cloned());
        let output = process.output().expect("the test's own program runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        let settings = &self.settings;
        assert!(
            output.status.code() != Some(124),
            "hung with {settings:?}: {text}"
        );
        assert!(output.status.success(), "{settings:?}: {text}");
        assert!(
            text.contains("the scenario is at its end"),
            "no test of this name ran: {text}"
        );
        assert!(!text.contains("not given back"), "{text}");
    }
}

/// Returns `true` if this process is a scenario. A loop over scenarios ends with the first one then.
pub fn inside() -> bool {
    env::var_os(INSIDE).is_some()
}

/// Returns the path of the calling test in this program. The harness gives it to the test's thread as a name.
pub fn this_test() -> String {
    let thread = std::thread::current();
    thread.name().expect("the thread of a test").to_owned()
}

/// Returns the path of the emulator's library. It is beside the tests, or, with newer versions of Cargo, in
/// `build/cann-emulator/HASH/out` beside the test's own `build/PACKAGE/HASH/out`.
fn emulator(program: &Path) -> Option<PathBuf> {
    const LIBRARY: &str = "libcann_emulator.so";
    let beside = program.ancestors().skip(1).take(2);
    let beside =
        beside.flat_map(|folder| [folder.join(LIBRARY), folder.join("deps").join(LIBRARY)]);
    if let Some(library) = beside.into_iter().find(|path| path.exists()) {
        return Some(library);
    }
    let packages = program.ancestors().nth(4)?;
    let builds = fs::read_dir(packages.join("cann-emulator")).ok()?.flatten();
    let libraries = builds.map(|build| build.path().join("out").join(LIBRARY));
    // Of several builds, the latest counts.
    libraries
        .filter(|path| path.exists())
        .max_by_key(|path| path.metadata().and_then(|data| data.modified()).ok())
}

/// Returns a folder with the emulator under CANN's names.
pub fn library_folder() -> PathBuf {
    let program = env::current_exe().expect("a path");
    let library = emulator(&program).expect("Cargo builds the emulator's library beside the tests");
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cann-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder for links");
    for name in [
        "libascendcl.so",
        "libnnopbase.so",
        "libopapi.so",
        "libhccl.so",
    ] {
        let link = folder.join(name);
        if !link.exists() {
            // Another test of this process may have made the link already.
            let _ = std::os::unix::fs::symlink(&library, link);
        }
    }
    folder
}

/// Opens device 0 and makes a stream on it.
pub fn device(cann: &Cann) -> (Device, Stream) {
    let device = Device::open(cann, 0).expect("device 0");
    let stream = device.stream().expect("a stream");
    (device, stream)
}

/// Returns the platform of a processor by its name.
pub fn platform(soc: &str) -> Platform {
    Platform {
        soc: Soc::from_name(soc),
        version: Version::new("8.5.0"),
        vector_cores: None,
    }
}

/// Returns the spec of a contiguous tensor.
pub fn spec(dtype: DType, shape: &[usize]) -> Spec {
    Spec::contiguous(dtype, shape).expect("a shape that can be addressed")
}

/// Ends CANN, for which everything must have been dropped. The threads of a server's sessions end a moment after the
/// server.
fn finalise(cann: &Cann) {
    let begun = std::time::Instant::now();
    while let Err(error) = cann.finalise() {
        assert!(
            begun.elapsed().as_secs() < 10,
            "everything was dropped: {error}"
        );
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}
