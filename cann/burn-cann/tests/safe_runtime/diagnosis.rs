//! Tests of the diagnosis of machines that lack something.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::Scenario;
use burn_cann::diagnosis::{Area, Diagnosis, Finding, State};
use burn_cann::{Cann, Error};
use cann_sys::{Environment, LoadError, Search};

/// A folder that is removed after the test.
struct Root(PathBuf);

impl Root {
    fn new(name: &str) -> Self {
        let folder = format!("{name}-{}", std::process::id());
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
        fs::create_dir_all(&root).unwrap();
        Self(root)
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.0.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the diagnosis with these variables on a machine without CANN.
fn without_cann(root: &Root, variables: &[(&str, &str)]) -> Diagnosis {
    let read = |name: &str| {
        let found = variables.iter().find(|(other, _)| *other == name);
        found.map(|(_, value)| OsString::from(value))
    };
    Diagnosis::of(&root.0, &read, || Cann::load_from(&Search::in_folder("")))
}

fn of(diagnosis: &Diagnosis, area: Area) -> Vec<&Finding> {
    let findings = diagnosis.findings().iter();
    findings.filter(|finding| finding.area == area).collect()
}

#[test]
fn a_bare_machine_lacks_driver_and_toolkit() {
    let diagnosis = without_cann(&Root::new("bare"), &[]);
    assert!(diagnosis.devices().is_empty());
    assert_eq!(diagnosis.emulator(), None);
    let driver = of(&diagnosis, Area::Driver);
    assert_eq!(driver.len(), 3);
    assert!(driver.iter().all(|finding| finding.state == State::Missing));
    let toolkit = of(&diagnosis, Area::Toolkit);
    let [named, loaded] = toolkit.as_slice() else {
        panic!("{toolkit:?}");
    };
    assert_eq!(named.state, State::Note);
    assert_eq!(loaded.state, State::Missing);
    assert!(
        !loaded.text.contains('\n'),
        "no library is there: {loaded:?}"
    );
    for place in ["LD_LIBRARY_PATH", "/usr/local/Ascend/cann/lib64"] {
        assert!(loaded.text.contains(place), "{loaded:?}");
    }
    assert!(of(&diagnosis, Area::Functions).is_empty());
    assert!(of(&diagnosis, Area::Device).is_empty());
    for finding in diagnosis.findings() {
        assert_eq!(finding.state == State::Missing, finding.advice.is_some());
    }
}

#[test]
fn a_driver_alone_is_seen() {
    let root = Root::new("driver");
    root.write("usr/local/Ascend/driver/version.info", "Version=24.1.rc2\n");
    root.write("usr/local/Ascend/driver/lib64/driver/libascend_hal.so", "");
    root.write("dev/davinci_manager", "");
    root.write("dev/davinci0", "");
    let diagnosis = without_cann(&root, &[]);
    let driver = of(&diagnosis, Area::Driver);
    assert!(
        driver.iter().all(|finding| finding.state == State::Good),
        "{driver:?}"
    );
    assert_eq!(driver[0].text, "version 24.1.rc2");
}

#[test]
fn a_variable_that_names_no_folder_is_a_fault() {
    let variables = [("ASCEND_HOME_PATH", "/no/such/toolkit")];
    let diagnosis = without_cann(&Root::new("variable"), &variables);
    let toolkit = of(&diagnosis, Area::Toolkit);
    assert_eq!(toolkit[0].state, State::Missing);
    assert_eq!(toolkit[0].text, "ASCEND_HOME_PATH=/no/such/toolkit");
    let loaded = toolkit.last().unwrap();
    assert!(loaded.text.contains("/no/such/toolkit/lib64"), "{loaded:?}");
}

#[test]
fn a_file_that_is_no_library_is_quoted() {
    let root = Root::new("no-library");
    root.write("lib64/libascendcl.so", "not a library");
    let diagnosis = Diagnosis::of(&root.0, &|_| None, || {
        Cann::load_from(&Search::in_folder(root.0.join("lib64")))
    });
    let loaded = *of(&diagnosis, Area::Toolkit).last().unwrap();
    assert_eq!(loaded.state, State::Missing);
    assert!(loaded.text.contains("could not be opened"), "{loaded:?}");
}

#[test]
fn other_platforms_are_told_so() {
    let root = Root::new("platform");
    let diagnosis = Diagnosis::of(&root.0, &|_| None, || {
        Err(Error::from(LoadError::Platform { os: "plan9" }))
    });
    let loaded = *of(&diagnosis, Area::Toolkit).last().unwrap();
    assert!(loaded.text.contains("plan9"), "{loaded:?}");
}

#[test]
fn the_emulator_is_named_and_its_devices_are_tried() {
    Scenario::new().run(|cann| {
        let diagnosis = of_emulator(cann);
        assert_eq!(diagnosis.emulator(), Some(env!("CARGO_PKG_VERSION")));
        assert_eq!(diagnosis.devices(), [0, 1]);
        let toolkit = of(&diagnosis, Area::Toolkit);
        assert!(
            toolkit.last().unwrap().text.contains("emulator"),
            "{toolkit:?}"
        );
        assert!(of(&diagnosis, Area::Driver).is_empty());
        assert_eq!(of(&diagnosis, Area::Functions).len(), 16);
    });
}

#[test]
fn a_device_that_fails_says_what_failed() {
    Scenario::new()
        .set("CANN_EMULATOR_FAIL", "aclnnRmsNorm=361001")
        .run(|cann| {
            let diagnosis = of_emulator(cann);
            assert!(diagnosis.devices().is_empty());
            let devices = of(&diagnosis, Area::Device);
            assert!(devices[0].text.contains("361001"), "{devices:?}");
            assert!(devices[0].advice.is_some());
        });
}

#[test]
fn a_processor_without_fused_operators_is_told_so() {
    Scenario::new()
        .set("CANN_EMULATOR_SOC", "Ascend310P3")
        .run(|cann| {
            let diagnosis = of_emulator(cann);
            assert!(diagnosis.devices().is_empty());
            let devices = of(&diagnosis, Area::Device);
            assert!(devices[0].text.contains("Ascend310P3"), "{devices:?}");
        });
}

#[test]
fn functions_that_are_not_there_are_named() {
    Scenario::new().hide("aclnnSwiGluGrad").run(|cann| {
        let diagnosis = of_emulator(cann);
        let functions = of(&diagnosis, Area::Functions);
        let activation = functions
            .iter()
            .find(|found| found.text.starts_with("activation"));
        assert!(
            activation.unwrap().text.contains("aclnnSwiGluGrad"),
            "{functions:?}"
        );
    });
}

fn of_emulator(cann: &Cann) -> Diagnosis {
    let environment = Environment::of_process();
    let folder = environment.lib_dir.expect("set by the scenario");
    let read = |name: &str| (name == cann_sys::LIB_DIR).then(|| folder.clone().into_os_string());
    Diagnosis::of(Path::new("/nowhere"), &read, || Ok(cann.clone()))
}
