//! Tests of loading, on libraries that the system's compiler makes for them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cann_sys::{Cann, Environment, LoadError, NewestGroupedMatmul, Outcome, Search};

/// A folder of libraries, removed at the end of the test.
struct Toolkit(PathBuf);

impl Toolkit {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("cann-sys-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }

    /// Makes `lib<name>.so` with functions that each return a number.
    fn library(self, name: &str, functions: &[(&str, i32)]) -> Self {
        let code: String = functions
            .iter()
            .map(|(function, number)| format!("int {function}(void) {{ return {number}; }}\n"))
            .collect();
        let library = self.0.join(name);
        fs::create_dir_all(library.parent().expect("a folder")).expect("a folder");
        let source = self.0.join("source.c");
        fs::write(&source, code).expect("a file");
        let made = Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .args([&library, &source])
            .status()
            .expect("a C compiler, as for linking Rust");
        assert!(made.success());
        self
    }

    fn load(&self) -> Cann {
        Cann::load_from(&Search::in_folder(&self.0)).expect("it has a runtime")
    }
}

impl Drop for Toolkit {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_function_is_called_in_the_library_that_has_it() {
    let toolkit = Toolkit::new("called").library("libascendcl.so", &[("aclInit", 42)]);
    let cann = toolkit.load();
    let init = cann.runtime.aclInit.get().expect("it is there");
    // SAFETY: the function ignores its arguments.
    assert_eq!(unsafe { init(std::ptr::null()) }, 42);
    assert!(cann.runtime.aclInit.is_present());
    assert_eq!(cann.folder(), toolkit.0);
}

#[test]
fn a_missing_function_names_itself_the_libraries_and_the_versions() {
    let toolkit = Toolkit::new("missing")
        .library("libascendcl.so", &[("aclInit", 0)])
        .library("libopapi.so", &[]);
    let cann = toolkit.load();
    let error = cann
        .grouped_matmul
        .aclnnGroupedMatmulV5
        .get()
        .expect_err("it is not there");
    let text = error.to_string();
    for part in [
        "aclnnGroupedMatmulV5 of CANN was not found",
        &format!(
            "Libraries tried: {}",
            toolkit.0.join("libopapi.so").display()
        ),
        "libaclnn_math.so (no such file)",
        "8.3 or 8.5 and later",
        "before, aclnnGroupedMatmulV4",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
    assert_eq!(cann.norm.missing().len(), cann_sys::Norm::NAMES.len());
}

#[test]
fn operators_by_area_win_over_the_umbrella_and_custom_ones_over_both() {
    let toolkit = Toolkit::new("order")
        .library("opp/../lib64/libascendcl.so", &[])
        .library("lib64/libopapi_nn.so", &[("aclnnRmsNorm", 2)])
        .library(
            "lib64/libopapi.so",
            &[("aclnnRmsNorm", 3), ("aclnnSwiGlu", 3), ("aclnnCat", 3)],
        )
        .library("custom/op_api/lib/libcust_opapi.so", &[("aclnnSwiGlu", 1)]);
    let (home, custom) = (toolkit.0.clone(), toolkit.0.join("custom"));
    let environment = Environment::from_variables(|name| match name {
        "ASCEND_HOME_PATH" => Some(home.clone().into()),
        "ASCEND_CUSTOM_OPP_PATH" => Some(custom.clone().into()),
        _ => None,
    });
    let cann = Cann::load_from(&Search::new(&environment)).expect("it has a runtime");
    let call = |symbol: &cann_sys::Symbol<cann_sys::PhaseTwo>| {
        let function = symbol.get().expect("it is there");
        // SAFETY: the functions ignore their arguments.
        unsafe {
            function(
                std::ptr::null_mut(),
                0,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        }
    };
    assert_eq!(call(&cann.activation.aclnnSwiGlu), 1);
    assert_eq!(call(&cann.norm.aclnnRmsNorm), 2);
    assert_eq!(call(&cann.shape.aclnnCat), 3);
}

#[test]
fn grouped_matmul_falls_from_v5_to_v4() {
    let phases = |version: &str| {
        [
            format!("aclnnGroupedMatmul{version}GetWorkspaceSize"),
            format!("aclnnGroupedMatmul{version}"),
        ]
    };
    let ([v4_one, v4_two], [v5_one, v5_two]) = (phases("V4"), phases("V5"));
    let toolkit = Toolkit::new("newest")
        .library("libascendcl.so", &[])
        .library(
            "libopapi.so",
            &[(&v4_one, 0), (&v4_two, 0), (&v5_one, 0), (&v5_two, 0)],
        );
    assert!(matches!(
        toolkit.load().grouped_matmul.newest(),
        Ok(NewestGroupedMatmul::V5(..))
    ));

    // A version with only one phase does not count.
    let search = Search::in_folder(&toolkit.0).hide(&v5_two);
    let cann = Cann::load_from(&search).expect("it has a runtime");
    assert!(matches!(
        cann.grouped_matmul.newest(),
        Ok(NewestGroupedMatmul::V4(..))
    ));

    let cann = Cann::load_from(&search.hide(&v4_one)).expect("it has a runtime");
    let error = cann.grouped_matmul.newest().expect_err("neither is there");
    assert_eq!(error.name(), v4_one);
}

#[test]
fn without_a_toolkit_the_error_says_what_was_tried_and_what_to_do() {
    let search = Search::in_folder("/nowhere/at/all");
    let Err(error) = Cann::load_from(&search) else {
        panic!("nothing is there")
    };
    let text = error.to_string();
    for part in [
        "/nowhere/at/all/libascendcl.so (no such file)",
        "set_env.sh",
        "CANN_LIB_DIR",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
}

#[test]
fn a_library_that_the_loader_refuses_is_reported_in_its_words() {
    let toolkit = Toolkit::new("refused");
    fs::write(toolkit.0.join("libascendcl.so"), "not a library").expect("a file");
    let Err(LoadError::NoRuntime { attempts }) = Cann::load_from(&Search::in_folder(&toolkit.0))
    else {
        panic!("it is not a library")
    };
    assert!(
        matches!(&attempts[0].outcome, Outcome::Refused(why) if !why.is_empty()),
        "{attempts:?}"
    );
}

#[test]
fn stub_libraries_are_refused() {
    let folder = Path::new("/opt/cann/devlib");
    let Err(error) = Cann::load_from(&Search::in_folder(folder)) else {
        panic!("stubs")
    };
    assert_eq!(
        error,
        LoadError::Stubs {
            folder: folder.to_path_buf()
        }
    );
}
