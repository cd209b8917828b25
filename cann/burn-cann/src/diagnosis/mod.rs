//! A diagnosis of what a machine lacks for an Ascend NPU, in words for its owner.
//!
//! The layers are checked from the bottom up: platform, driver, toolkit, functions and devices. Last, a small RMSNorm
//! with a known result runs on each device. Everything that a layer lacks is a [`Finding`] with advice.
//!
//! The paths are those of CANN's installers for 8.1 to 9.x, as documented. They were not tried on an Ascend machine.

mod device;
mod driver;
mod finding;
mod functions;
mod toolkit;

use std::ffi::OsString;
use std::path::Path;

use cann_sys::{Environment, Search};

use crate::cann::Cann;
use crate::error::Result;

pub use finding::{Area, Finding, State};

/// All findings about a machine, from the platform up.
#[derive(Debug, Clone)]
pub struct Diagnosis {
    findings: Vec<Finding>,
    emulator: Option<String>,
    devices: Vec<u32>,
}

impl Diagnosis {
    /// Examines this machine and loads the CANN that [`Cann::load`] would load. Opens each device and uses it for a
    /// moment.
    pub fn of_process() -> Self {
        Self::of(Path::new("/"), &|name| std::env::var_os(name), Cann::load)
    }

    /// Examines a machine with its files below `root`, its environment variables and its CANN, as
    /// [`Diagnosis::of_process`] does for this one.
    pub fn of(
        root: &Path,
        read: &dyn Fn(&str) -> Option<OsString>,
        load: impl FnOnce() -> Result<Cann>,
    ) -> Self {
        let environment = Environment::from_variables(read);
        let mut findings = vec![platform()];
        let folders = Search::new(&environment).folders().to_vec();
        let mut toolkit = toolkit::variables(read);
        let mut devices = Vec::new();
        let mut emulator = None;
        match load() {
            Ok(cann) => {
                emulator = cann.sys().emulator().map(str::to_owned);
                if emulator.is_none() {
                    findings.extend(driver::findings(root));
                    toolkit.extend(toolkit::operators(&environment));
                }
                toolkit.push(toolkit::loaded(&cann));
                findings.append(&mut toolkit);
                findings.extend(functions::findings(&cann));
                let (of_devices, usable) = device::findings(&cann);
                findings.extend(of_devices);
                devices = usable;
            }
            Err(error) => {
                findings.extend(driver::findings(root));
                findings.append(&mut toolkit);
                findings.push(toolkit::not_loaded(&error, &folders));
            }
        }
        Self {
            findings,
            emulator,
            devices,
        }
    }

    /// Returns the findings, in the order of the checks.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Returns the version of the emulator, if the emulator was loaded in place of CANN. Only the emulator exports the
    /// function that reports it.
    pub fn emulator(&self) -> Option<&str> {
        self.emulator.as_deref()
    }

    /// Returns the devices on which the trial computed the right result. With an emulator, these are emulated devices.
    pub fn devices(&self) -> &[u32] {
        &self.devices
    }
}

fn platform() -> Finding {
    let (os, processor) = (std::env::consts::OS, std::env::consts::ARCH);
    let found = format!("{os} on {processor}");
    match (os, processor) {
        ("linux", "x86_64" | "aarch64") => Finding::good(Area::Platform, found),
        _ => Finding::missing(
            Area::Platform,
            found,
            "CANN exists for Linux on x86-64 and aarch64: use such a machine",
        ),
    }
}
