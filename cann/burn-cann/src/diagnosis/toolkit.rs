//! Checks of the toolkit: its environment variables and its libraries.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cann_sys::{Attempt, Environment, LIB_DIR, Outcome};

use super::finding::{Area, Finding};
use crate::cann::Cann;
use crate::error::Error;

/// The environment variables that name folders of the toolkit.
const VARIABLES: [&str; 5] = [
    LIB_DIR,
    "ASCEND_HOME_PATH",
    "ASCEND_TOOLKIT_HOME",
    "ASCEND_OPP_PATH",
    "ASCEND_AICPU_PATH",
];

/// Returns findings of the variables that are set, whether or not they name a folder.
pub(super) fn variables(read: &dyn Fn(&str) -> Option<OsString>) -> Vec<Finding> {
    let set = VARIABLES.into_iter().filter_map(|name| {
        let value = read(name).filter(|value| !value.is_empty())?;
        Some((name, PathBuf::from(value)))
    });
    let mut findings: Vec<_> = set
        .map(|(name, folder)| {
            let text = format!("{name}={}", folder.display());
            if folder.is_dir() {
                Finding::good(Area::Toolkit, text)
            } else {
                let advice = format!("the folder does not exist: correct or unset {name}");
                Finding::missing(Area::Toolkit, text, advice)
            }
        })
        .collect();
    if findings.is_empty() {
        let text = format!(
            "the environment names no toolkit ({})",
            VARIABLES.join(", ")
        );
        findings.push(Finding::note(Area::Toolkit, text));
    }
    if let Some(visible) = read("ASCEND_RT_VISIBLE_DEVICES") {
        let text = format!("ASCEND_RT_VISIBLE_DEVICES={}", visible.display());
        findings.push(Finding::note(Area::Toolkit, text));
    }
    findings
}

/// Returns a finding if the variable is not set by which a real CANN finds the kernels of its operators. Without it
/// every operator fails.
pub(super) fn operators(environment: &Environment) -> Option<Finding> {
    if environment.opp.is_some() {
        return None; // whether the folder is there was said before
    }
    Some(Finding::missing(
        Area::Toolkit,
        "ASCEND_OPP_PATH is not set: operators will fail with 561107",
        "`source` the toolkit's set_env.sh in the shell that starts the program",
    ))
}

pub(super) fn loaded(cann: &Cann) -> Finding {
    let sys = cann.sys();
    let folder = match sys.folder() {
        folder if folder.as_os_str().is_empty() => Path::new("the loader's path"),
        folder => folder,
    };
    let (folder, version) = (folder.display(), cann.version());
    match sys.emulator() {
        Some(emulator) => Finding::note(
            Area::Toolkit,
            format!(
                "the emulator, version {emulator}, from {folder}, as CANN {version}: results are real, \
                 speed is not"
            ),
        ),
        None => Finding::good(Area::Toolkit, format!("CANN {version} from {folder}")),
    }
}

/// Returns the reasons why CANN could not be loaded. Folders that do not exist share one line.
pub(super) fn not_loaded(error: &Error, folders: &[PathBuf]) -> Finding {
    let Error::Load(cann_sys::LoadError::NoRuntime { attempts }) = error else {
        return Finding::missing(Area::Toolkit, error.to_string(), advice());
    };
    let refused: Vec<_> = attempts
        .iter()
        .filter(|attempt| is_telling(attempt))
        .map(|attempt| format!("\n  {attempt}"))
        .collect();
    let looked: Vec<_> = folders
        .iter()
        .map(|folder| match folder.as_os_str().is_empty() {
            true => "LD_LIBRARY_PATH".to_owned(),
            false => folder.display().to_string(),
        })
        .collect();
    let text = format!(
        "no libascendcl.so in {}{}",
        looked.join(", "),
        refused.concat()
    );
    Finding::missing(Area::Toolkit, text, advice())
}

/// Returns `true` if a library exists and can't be used. For a bare name the loader returns the same error when the
/// library does not exist.
fn is_telling(attempt: &Attempt) -> bool {
    let Outcome::Refused(why) = &attempt.outcome else {
        return false;
    };
    let nowhere = format!(
        "{}: cannot open shared object file",
        attempt.library.display()
    );
    !why.starts_with(&nowhere)
}

fn advice() -> String {
    format!(
        "install the CANN toolkit (8.1 or later) and its kernels package and `source` its set_env.sh, or set \
         {LIB_DIR} to the folder of its libraries. Without an NPU, lay out the emulator (`cann-emulator-install \
         FOLDER`) and set {LIB_DIR} to that folder"
    )
}
