//! The configuration of the emulated machine and its faults.

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;
use std::time::Duration;

use cann_sys::types::aclError;

/// The emulated machine. It is read from the environment at the first use of the library; [`configure`] replaces it.
///
/// | field | variable | default |
/// |---|---|---|
/// | `devices` | `CANN_EMULATOR_DEVICES` | 2 |
/// | `memory` | `CANN_EMULATOR_MEMORY`, bytes a device | 4 GiB |
/// | `soc` | `CANN_EMULATOR_SOC` | `Ascend910B1` |
/// | `version` | `CANN_EMULATOR_VERSION` | `8.5.0` |
/// | `delay` | `CANN_EMULATOR_DELAY_US`, before each task of a stream | 0 |
/// | `threads` | `CANN_EMULATOR_THREADS`, of an operator | the number of processors |
/// | `out_of_memory_at` | `CANN_EMULATOR_OOM_AT`, the number of an allocation, from 1 | none |
/// | `device_lost_at` | `CANN_EMULATOR_LOSE_DEVICE_AT`, the number of a task of a stream, from 1 | none |
/// | `operator_errors` | `CANN_EMULATOR_FAIL`, as `aclnnRmsNorm=361001,aclnnSwiGlu=561003` | none |
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The number of devices.
    pub devices: u32,
    /// The memory of each device in bytes.
    pub memory: usize,
    /// The name that `aclrtGetSocName` returns. Only chips from 910B on compute in bf16.
    pub soc: String,
    /// The version that the version queries return.
    pub version: String,
    /// The time that a stream waits before each task.
    pub delay: Duration,
    /// The most threads that compute an operator. Results do not depend on their number.
    pub threads: NonZero<usize>,
    /// The number of the allocation on a device, counted from 1, that finds no memory.
    pub out_of_memory_at: Option<u64>,
    /// The number of the task, counted from 1 over all streams, with which its device is lost. The task and every
    /// later use of the device fails with 507010, a lost heartbeat, until `aclFinalize`.
    pub device_lost_at: Option<u64>,
    /// The operators whose phase one fails, with their codes.
    pub operator_errors: HashMap<String, aclError>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            devices: 2,
            memory: 4 << 30,
            soc: "Ascend910B1".to_owned(),
            version: "8.5.0".to_owned(),
            delay: Duration::ZERO,
            threads: available_parallelism().unwrap_or(NonZero::<usize>::MIN),
            out_of_memory_at: None,
            device_lost_at: None,
            operator_errors: HashMap::new(),
        }
    }
}

impl Config {
    /// Reads the configuration from environment variables.
    ///
    /// # Errors
    ///
    /// Returns an error if a variable cannot be read. The text names it and its values.
    pub fn from_variables(read: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let mut config = Self::default();
        let number = |name: &str| -> Result<Option<u64>, String> {
            let Some(text) = read(name) else {
                return Ok(None);
            };
            text.parse()
                .map(Some)
                .map_err(|_| format!("{name}={text}: a whole number is needed"))
        };
        if let Some(devices) = number("CANN_EMULATOR_DEVICES")? {
            config.devices = u32::try_from(devices)
                .ok()
                .filter(|devices| *devices <= crate::memory::MAX_DEVICES)
                .ok_or_else(|| {
                    let most = crate::memory::MAX_DEVICES;
                    format!("CANN_EMULATOR_DEVICES={devices}: at most {most} can be emulated")
                })?;
        }
        if let Some(bytes) = number("CANN_EMULATOR_MEMORY")? {
            config.memory = bytes as usize;
        }
        if let Some(microseconds) = number("CANN_EMULATOR_DELAY_US")? {
            config.delay = Duration::from_micros(microseconds);
        }
        if let Some(threads) = number("CANN_EMULATOR_THREADS")? {
            config.threads = usize::try_from(threads)
                .ok()
                .and_then(NonZero::new)
                .ok_or_else(|| {
                    format!("CANN_EMULATOR_THREADS={threads}: at least one is needed")
                })?;
        }
        config.out_of_memory_at = number("CANN_EMULATOR_OOM_AT")?;
        config.device_lost_at = number("CANN_EMULATOR_LOSE_DEVICE_AT")?;
        if let Some(soc) = read("CANN_EMULATOR_SOC") {
            config.soc = soc;
        }
        if let Some(version) = read("CANN_EMULATOR_VERSION") {
            config.version = version;
        }
        for entry in read("CANN_EMULATOR_FAIL").unwrap_or_default().split(',') {
            if entry.is_empty() {
                continue;
            }
            let parsed = entry
                .split_once('=')
                .and_then(|(name, code)| Some((name.to_owned(), code.parse().ok()?)));
            let (name, code) = parsed.ok_or_else(|| {
                format!("CANN_EMULATOR_FAIL: {entry:?} is not an operator and a code, as in aclnnRmsNorm=361001")
            })?;
            config.operator_errors.insert(name, code);
        }
        Ok(config)
    }

    /// Returns the first number of the version, on which documented behaviour depends.
    pub fn major(&self) -> u32 {
        self.version
            .split('.')
            .next()
            .and_then(|major| major.parse().ok())
            .unwrap_or(0)
    }

    /// Returns `true` if the chip computes in bf16: 910B, the 910_93 family and 950.
    pub fn has_bf16(&self) -> bool {
        ["Ascend910B", "Ascend910_93", "Ascend950"]
            .iter()
            .any(|chip| self.soc.starts_with(chip))
    }
}

static CONFIG: Mutex<Option<Config>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<Config>> {
    CONFIG.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the configuration in use.
///
/// # Errors
///
/// Returns an error as [`Config::from_variables`] does.
pub(crate) fn current() -> Result<Config, String> {
    let mut config = lock();
    match &*config {
        Some(config) => Ok(config.clone()),
        None => {
            let read = Config::from_variables(|name| std::env::var(name).ok())?;
            Ok(config.insert(read).clone())
        }
    }
}

/// Replaces the configuration for later calls.
pub fn configure(config: Config) {
    *lock() = Some(config);
}
