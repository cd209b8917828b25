//! Variants of a package: the folders of `build/`, one for each framework, backend and machine.
//!
//! | name | runs in a Rust program |
//! |---|---|
//! | `tvm-ffi<abi>-cpu-<cpu>-<os>` | yes |
//! | `tvm-ffi<abi>-cann<version>-<cpu>-<os>` | yes, on an Ascend NPU |
//! | `tvm-ffi<abi>-<other>-<cpu>-<os>` | no: CUDA, ROCm, XPU, Metal, Neuron, TPU |
//! | `torch…` | no: Python, or a library that links to PyTorch |
//!
//! `<abi>` is the major version of TVM-FFI in one digit, then the minor: `tvm-ffi01`. The last digit of `cann85` is
//! the minor version. A variant must have the very ABI, backend, processor and system that are wanted, as in Python's
//! loader.

use std::fmt;

/// The version of TVM-FFI whose C interface this crate has.
pub const ABI: (u32, u32) = (0, 1);

/// The hardware that a variant is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    /// The processor.
    Cpu,
    /// An Ascend NPU with this version of CANN.
    Cann {
        /// The major version.
        major: u32,
        /// The minor version, one digit.
        minor: u32,
    },
}

impl Backend {
    /// Returns the name in `metadata.json`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cann { .. } => "cann",
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cann { major, minor } => write!(f, "cann{major}{minor}"),
        }
    }
}

/// A variant that a Rust program can run, on the machine that it is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Variant {
    /// The version of TVM-FFI: major and minor.
    pub abi: (u32, u32),
    /// The hardware.
    pub backend: Backend,
    /// The processor: `x86_64`, `aarch64`.
    pub cpu: String,
    /// The system: `linux`, `darwin`, `windows`.
    pub os: String,
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.abi;
        let Self {
            backend, cpu, os, ..
        } = self;
        write!(f, "tvm-ffi{major}{minor}-{backend}-{cpu}-{os}")
    }
}

impl Variant {
    /// Returns the variant with these kernels for this machine.
    pub fn here(backend: Backend) -> Self {
        let os = match std::env::consts::OS {
            "macos" => "darwin",
            other => other,
        };
        Self {
            abi: ABI,
            backend,
            cpu: std::env::consts::ARCH.into(),
            os: os.into(),
        }
    }

    /// Reads the name of a folder.
    ///
    /// # Errors
    /// Returns the reason why a Rust program can't run the variant.
    pub fn parse(name: &str) -> Result<Self, String> {
        const NO_NAME: &str = "this is not the name of a variant";
        if name == "torch" || name.starts_with("torch-") || is_versioned_torch(name) {
            return Err(
                "it is for PyTorch: Python, which a Rust program can't run, or a library that links to PyTorch".into(),
            );
        }
        let parts: Vec<_> = name.split('-').collect();
        let ["tvm", ffi, backend, cpu, os] = parts[..] else {
            return Err(NO_NAME.into());
        };
        let abi = ffi.strip_prefix("ffi").and_then(|digits| {
            let (major, minor) = digits.split_at_checked(1)?;
            Some((number(major)?, number(minor)?))
        });
        let variant = Self {
            abi: abi.ok_or(NO_NAME)?,
            backend: read_backend(backend)?,
            cpu: cpu.into(),
            os: os.into(),
        };
        // Another spelling of the same numbers would be a second folder for one variant.
        match variant.to_string() == name {
            true => Ok(variant),
            false => Err(format!("the usual spelling of this variant is `{variant}`")),
        }
    }

    /// Returns the reason why this variant does not run where `wanted` does. `None` if it does.
    fn reason_against(&self, wanted: &Self) -> Option<String> {
        let [own, other] = [self, wanted];
        if own.cpu != other.cpu {
            return Some(format!(
                "it is for processors of {}, and not {}",
                own.cpu, other.cpu
            ));
        }
        if own.os != other.os {
            return Some(format!("it is for {}, and not {}", own.os, other.os));
        }
        if own.abi != other.abi {
            let [(a, b), (c, d)] = [own.abi, other.abi];
            return Some(format!(
                "it is for TVM-FFI {a}.{b}, whose interface is not that of {c}.{d}"
            ));
        }
        (own.backend != other.backend).then(|| {
            format!(
                "it is for the backend `{}`, and not `{}`",
                own.backend, other.backend
            )
        })
    }
}

/// Returns the number that digits spell, of which there are at most 4.
fn number(digits: &str) -> Option<u32> {
    let plain = (1..=4).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok()).flatten()
}

fn is_versioned_torch(name: &str) -> bool {
    let digit = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
    name.strip_prefix("torch").is_some_and(digit)
}

fn read_backend(text: &str) -> Result<Backend, String> {
    let others = ["cu", "rocm", "xpu", "metal", "neuron", "tpu"];
    if text == "cpu" {
        return Ok(Backend::Cpu);
    }
    if let Some(digits) = text.strip_prefix("cann") {
        let minor = digits.len().saturating_sub(1);
        let version = digits
            .split_at_checked(minor)
            .and_then(|(major, minor)| Some((number(major)?, number(minor)?)));
        let (major, minor) =
            version.ok_or_else(|| format!("`{text}` is not the name of a version of CANN"))?;
        return Ok(Backend::Cann { major, minor });
    }
    match others.iter().any(|other| text.starts_with(other)) {
        true => Err(format!(
            "it is for the backend `{text}`, whose kernels this library does not call"
        )),
        false => Err(format!("`{text}` is not the name of a backend")),
    }
}

/// A decision about a folder of `build/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The name of the folder.
    pub name: String,
    /// The reason why it does not run where the wanted variant does. `None` if it does.
    pub against: Option<String>,
}

/// Decides about each folder. Those that run come first, then by name.
pub fn decide<'a>(
    names: impl IntoIterator<Item = &'a str>,
    wanted: &Variant,
) -> Vec<(Decision, Option<Variant>)> {
    let mut decisions: Vec<_> = names
        .into_iter()
        .map(|name| {
            let (variant, against) = match Variant::parse(name) {
                Ok(variant) => match variant.reason_against(wanted) {
                    None => (Some(variant), None),
                    against => (None, against),
                },
                Err(reason) => (None, Some(reason)),
            };
            let name = name.to_owned();
            (Decision { name, against }, variant)
        })
        .collect();
    decisions.sort_by(|(a, _), (b, _)| {
        (a.against.is_some(), &a.name).cmp(&(b.against.is_some(), &b.name))
    });
    decisions
}
