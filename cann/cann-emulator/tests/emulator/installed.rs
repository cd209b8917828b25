//! Tests of the emulator as programs use it: libraries in a folder, loaded or linked under CANN's names.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use cann_sys::{Cann, NewestGroupedMatmul, Search};

/// A folder with the libraries, removed at the end of the test.
struct Installed(PathBuf);

impl Installed {
    fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("cann-emulator-{name}-{}", std::process::id()));
        let status = Command::new(env!("CARGO_BIN_EXE_cann-emulator-install"))
            .arg(&folder)
            .status()
            .expect("the installer runs");
        assert!(status.success());
        Self(folder)
    }

    /// Compiles and links a program of `tests/c`.
    fn compile(&self, compiler: &str, options: &[&str], source: &str) -> PathBuf {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let program = self.0.join(format!("{source}-{compiler}"));
        let output = Command::new(compiler)
            .args(options)
            .args(["-Wall", "-Wextra", "-Werror", "-Wno-unused-variable"])
            .arg("-I")
            .arg(root.join("../cann-sys/include"))
            .arg(root.join("tests/c").join(source))
            .arg("-o")
            .arg(&program)
            .arg("-L")
            .arg(&self.0)
            .args([
                "-Wl,--no-as-needed",
                "-lopapi",
                "-lnnopbase",
                "-lhccl",
                "-lascendcl",
                // What torch_npu links beside these.
                "-lacl_op_compiler",
                "-lacl_tdt_channel",
                "-lge_runner",
                "-lgraph",
                "-lm",
                "-pthread",
            ])
            .output()
            .expect("a compiler, as for linking Rust");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        program
    }

    fn run(&self, program: &Path, variables: &[(&str, &str)]) -> Output {
        let mut command = Command::new(program);
        command
            .env("LD_LIBRARY_PATH", &self.0)
            .envs(variables.iter().copied());
        command.output().expect("the program runs")
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_c_program_runs_an_operator_by_the_published_protocol() {
    let installed = Installed::new("c");
    for (compiler, options) in [
        ("cc", &["-std=c11"][..]),
        ("c++", &["-x", "c++", "-std=c++17"][..]),
    ] {
        if compiler == "c++" && Command::new(compiler).arg("--version").output().is_err() {
            eprintln!("not tested: no C++ compiler is installed");
            continue;
        }
        let program = installed.compile(compiler, options, "rms_norm.c");
        let output = installed.run(&program, &[]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(text(&output.stdout), "Ascend910B1\n");
        assert_eq!(text(&output.stderr), "", "nothing leaked");
    }
}

#[test]
fn a_c_program_sees_the_rest_of_the_runtime() {
    let installed = Installed::new("tour");
    let program = installed.compile("cc", &["-std=gnu11"], "runtime_tour.c");
    for delay in ["0", "3000"] {
        let output = installed.run(&program, &[("CANN_EMULATOR_DELAY_US", delay)]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(text(&output.stdout), "done\n");
        assert_eq!(text(&output.stderr), "", "nothing leaked");
    }
}

#[test]
fn a_c_program_calls_before_the_start_and_after_the_end() {
    let installed = Installed::new("exit");
    let program = installed.compile("cc", &["-std=c11"], "at_exit.c");
    let output = installed.run(&program, &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "done\nat exit\n");
    assert_eq!(text(&output.stderr), "", "nothing leaked");
    // A configuration that cannot be read is an error of the first call.
    let output = installed.run(&program, &[("CANN_EMULATOR_DEVICES", "many")]);
    assert!(!output.status.success());
}

#[test]
fn a_c_program_is_two_ranks_of_a_group() {
    let installed = Installed::new("hccl");
    let program = installed.compile("cc", &["-std=c11"], "all_reduce.c");
    let output = installed.run(&program, &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "done\n");
    assert_eq!(text(&output.stderr), "", "nothing leaked");
}

#[test]
fn c_programs_are_a_group_of_two_processes() {
    let installed = Installed::new("processes");
    let program = installed.compile("cc", &["-std=gnu11"], "two_processes.c");
    let output = installed.run(&program, &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "done\n");
    assert_eq!(text(&output.stderr), "", "nothing leaked");
}

/// Returns the names in `absent.md`.
fn absent() -> BTreeSet<&'static str> {
    let lines = include_str!("../../absent.md").lines();
    let names = lines.filter_map(|line| line.strip_prefix("* `")?.strip_suffix('`'));
    names.collect()
}

/// Checks that every function that `cann-sys` declares is exported or listed as absent. An operator stands for its
/// phases.
#[test]
fn what_is_not_exported_is_said() {
    let installed = Installed::new("symbols");
    let search = Search::in_folder(&installed.0);
    let cann = Cann::load_from(&search).expect("it is there");
    let names: Vec<_> = cann.missing().iter().map(|symbol| symbol.name()).collect();
    let missing: BTreeSet<&str> = names
        .iter()
        .map(|name| name.strip_suffix("GetWorkspaceSize").unwrap_or(name))
        .collect();
    let unsaid: Vec<_> = missing.difference(&absent()).copied().collect();
    let known = absent();
    let wrong: Vec<_> = known.difference(&missing).collect();
    assert!(
        unsaid.is_empty(),
        "not exported, and not in absent.md: {unsaid:?}"
    );
    assert!(
        wrong.is_empty(),
        "in absent.md, but exported or not declared: {wrong:?}"
    );
}

#[test]
fn faults_are_injected_by_the_environment() {
    let installed = Installed::new("faults");
    let program = installed.compile("cc", &["-std=c11"], "rms_norm.c");
    for (variable, value, expected) in [
        ("CANN_EMULATOR_FAIL", "aclnnRmsNorm=561003", "561003"),
        ("CANN_EMULATOR_OOM_AT", "5", "207001"),
        ("CANN_EMULATOR_LOSE_DEVICE_AT", "1", "507010"),
        ("CANN_EMULATOR_DEVICES", "0", "107001"),
        ("CANN_EMULATOR_DELAY_US", "soon", "a whole number is needed"),
    ] {
        let output = installed.run(&program, &[(variable, value)]);
        let text = text(&output.stderr);
        assert!(
            !output.status.success() && text.contains(expected),
            "{variable}: {text}"
        );
    }
    let output = installed.run(&program, &[("CANN_EMULATOR_DELAY_US", "20000")]);
    assert!(
        output.status.success(),
        "a slow stream is waited for: {}",
        text(&output.stderr)
    );
    let output = installed.run(&program, &[("CANN_EMULATOR_SOC", "Ascend310P3")]);
    assert_eq!(text(&output.stdout), "Ascend310P3\n");
}

#[test]
fn cann_sys_finds_the_functions_and_names_those_that_are_not_there() {
    let installed = Installed::new("loaded");
    let cann = Cann::load_from(&Search::in_folder(&installed.0)).expect("it is there");
    assert!(cann.runtime.aclInit.is_present() && cann.meta.aclCreateTensor.is_present());
    assert!(cann.norm.aclnnRmsNorm.is_present() && cann.moe.aclnnMoeTokenPermute.is_present());
    assert!(matches!(
        cann.grouped_matmul.newest(),
        Ok(NewestGroupedMatmul::V5(..))
    ));
    assert!(cann.hccl.HcclAllReduce.is_present());
    let error = cann
        .hccl
        .HcclCommSuspend
        .get()
        .expect_err("it is not emulated");
    assert!(error.to_string().contains("libhccl.so"), "{error}");

    let older = Search::in_folder(&installed.0).hide("aclnnGroupedMatmulV5");
    let cann = Cann::load_from(&older).expect("it is there");
    assert!(matches!(
        cann.grouped_matmul.newest(),
        Ok(NewestGroupedMatmul::V4(..))
    ));
}

#[test]
fn the_installer_spares_a_real_cann() {
    let folder = std::env::temp_dir().join(format!("cann-emulator-real-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let library = folder.join("libopapi.so");
    std::fs::write(&library, "real").expect("a file");
    let output = Command::new(env!("CARGO_BIN_EXE_cann-emulator-install"))
        .arg(&folder)
        .output()
        .expect("the installer runs");
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("is this a real CANN?"));
    assert_eq!(
        std::fs::read_to_string(&library).expect("it is there"),
        "real"
    );
    std::fs::remove_dir_all(folder).expect("the folder is ours");
}
