//! Arguments that several commands share: device, dtype, mode and policy.

use crate::options;
use anyhow::Context;
use burn::tensor::{DType, Device, FloatDType};
use burn_kernels::attention;
use burn_kernels::dispatch::Mode;
use burn_kernels::policy::{self, Policy};
use std::fmt;
use std::str::FromStr;

/// A device as given to `--device`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceChoice {
    /// Burn's Flex backend.
    Cpu,
    /// A GPU of this machine.
    #[cfg(feature = "gpu")]
    Gpu(crate::gpu::Gpu),
    /// An Ascend NPU of this machine, by its number.
    #[cfg(feature = "npu")]
    Npu(usize),
    /// A device that `kernels serve` serves.
    #[cfg(feature = "remote")]
    Remote(crate::remote::Remote),
}

impl DeviceChoice {
    /// Returns the Burn device, without autodiff.
    ///
    /// # Errors
    /// Returns an error if the device can't be reached.
    pub fn device(&self) -> anyhow::Result<Device> {
        match self {
            Self::Cpu => Ok(Device::flex()),
            #[cfg(feature = "gpu")]
            Self::Gpu(gpu) => gpu.device(),
            #[cfg(feature = "npu")]
            Self::Npu(index) => crate::npu::device(*index),
            #[cfg(feature = "remote")]
            Self::Remote(served) => served.device(),
        }
    }

    /// Returns `true` if both are devices of one machine or server that can add up tensors together.
    #[cfg_attr(
        not(feature = "remote"),
        expect(unused_variables, reason = "there is only the CPU")
    )]
    pub fn is_beside(&self, other: &Self) -> bool {
        match self {
            Self::Cpu => false,
            #[cfg(feature = "gpu")]
            Self::Gpu(_) => false,
            #[cfg(feature = "npu")]
            Self::Npu(_) => matches!(other, Self::Npu(_)),
            #[cfg(feature = "remote")]
            Self::Remote(one) => matches!(other, Self::Remote(other) if one.is_beside(other)),
        }
    }

    /// Returns a remark on this device to print at the end of a command.
    pub fn remark(&self) -> Option<String> {
        match self {
            Self::Cpu => None,
            #[cfg(feature = "gpu")]
            Self::Gpu(_) => None,
            #[cfg(feature = "npu")]
            Self::Npu(_) => crate::npu::on_host(),
            #[cfg(feature = "remote")]
            Self::Remote(_) => None,
        }
    }

    /// Returns the cause of an error, if the device knows it.
    pub fn explain(&self) -> Option<String> {
        match self {
            Self::Cpu => None,
            #[cfg(feature = "gpu")]
            Self::Gpu(_) => None,
            #[cfg(feature = "npu")]
            Self::Npu(index) => crate::npu::failure(*index),
            #[cfg(feature = "remote")]
            Self::Remote(served) => served.failure(),
        }
    }
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if let Some(address) = name.strip_prefix("remote:") {
            #[cfg(feature = "remote")]
            return address.parse().map(Self::Remote);
            #[cfg(not(feature = "remote"))]
            return Err(format!(
                "`remote:{address}` needs a build with `--features remote` (or `npu`)"
            ));
        }
        #[cfg(feature = "npu")]
        if let Some(index) = numbered("npu", name) {
            return index.map(Self::Npu);
        }
        if name == "cpu" {
            return Ok(Self::Cpu);
        }
        #[cfg(feature = "gpu")]
        if let Some(gpu) = crate::gpu::Gpu::named(name) {
            return gpu.map(Self::Gpu);
        }
        if let Some(feature) = missing_feature(name) {
            return Err(format!(
                "`{name}` needs a build with `--features {feature}`"
            ));
        }
        let gpu = cfg!(feature = "gpu").then_some(", gpu");
        let cuda = cfg!(feature = "cuda").then_some(", cuda, cuda:N");
        let rocm = cfg!(feature = "rocm").then_some(", rocm, rocm:N");
        let npu = cfg!(feature = "npu").then_some(", npu, npu:N");
        let remote = cfg!(feature = "remote").then_some(", remote:ADDRESS");
        let others = [gpu, cuda, rocm, npu, remote].map(Option::unwrap_or_default);
        let others = others.concat();
        Err(format!(
            "no device `{name}` in this build; built in: cpu{others}"
        ))
    }
}

/// Returns the feature that a device with a number needs, or the GPU of wgpu, for a name that was not understood.
fn missing_feature(name: &str) -> Option<&'static str> {
    let of_numbered = ["npu", "cuda", "rocm"].into_iter();
    let mut of_numbered = of_numbered.filter(|kind| numbered(kind, name).is_some());
    of_numbered.next().or((name == "gpu").then_some("gpu"))
}

/// Returns the number in `KIND` (the first) or `KIND:N`, or `None` for other devices.
pub fn numbered(kind: &str, name: &str) -> Option<Result<usize, String>> {
    let number = match name.strip_prefix(kind)? {
        "" => return Some(Ok(0)),
        rest => rest.strip_prefix(':')?,
    };
    let wrong = |_| format!("`{number}` is not a device number; the first is `{kind}:0`");
    Some(number.parse().map_err(wrong))
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            #[cfg(feature = "gpu")]
            Self::Gpu(gpu) => gpu.fmt(f),
            #[cfg(feature = "npu")]
            Self::Npu(0) => f.write_str("npu"),
            #[cfg(feature = "npu")]
            Self::Npu(index) => write!(f, "npu:{index}"),
            #[cfg(feature = "remote")]
            Self::Remote(served) => write!(f, "remote:{served}"),
        }
    }
}

impl serde::Serialize for DeviceChoice {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A floating-point type as given to `--dtype`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DtypeChoice {
    /// 32-bit IEEE 754.
    F32,
    /// bfloat16.
    Bf16,
    /// 16-bit IEEE 754.
    F16,
    /// 64-bit IEEE 754.
    F64,
}

impl DtypeChoice {
    /// Returns the tensor dtype.
    pub fn dtype(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::Bf16 => DType::BF16,
            Self::F16 => DType::F16,
            Self::F64 => DType::F64,
        }
    }

    /// Returns the tensor dtype as a float dtype.
    pub fn float_dtype(self) -> FloatDType {
        self.dtype().into()
    }
}

/// A mode as given to `--mode`.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum ModeChoice {
    Training,
    Inference,
}

impl ModeChoice {
    /// Returns the mode of calls.
    pub fn mode(self) -> Mode {
        match self {
            Self::Training => Mode::Training,
            Self::Inference => Mode::Inference,
        }
    }
}

/// The kernel policy, as given to several commands.
#[derive(Clone, Debug, clap::Args, serde::Serialize)]
pub struct PolicyArgs {
    /// The kernel policy, in place of BURN_KERNELS.
    #[arg(long, value_name = "POLICY")]
    #[serde(serialize_with = "options::as_text")]
    kernels: Option<Policy>,
    /// The implementation of attention: its name, the id of a kernel, or reference. With PATTERN=NAME, that of the attention
    /// sites that match. Can be given several times.
    #[arg(long, value_name = "NAME")]
    #[serde(skip)]
    attn: Vec<String>,
}

impl PolicyArgs {
    /// Creates the arguments that stand for a policy.
    pub fn of(policy: &Policy) -> Self {
        Self {
            kernels: Some(policy.clone()),
            attn: Vec::new(),
        }
    }

    /// Installs the policy for the whole process.
    ///
    /// # Errors
    /// Returns an error if `--attn` names no implementation of attention, or if BURN_KERNELS holds no policy.
    pub fn install(&self) -> anyhow::Result<()> {
        self.install_preferring(None)
    }

    /// Installs the policy for the whole process, which also prefers an implementation.
    ///
    /// # Errors
    /// Returns an error as [`install`](Self::install) does, or if this build has no such implementation.
    pub fn install_preferring(&self, implementation: Option<&str>) -> anyhow::Result<()> {
        let policy = match (&self.kernels, implementation) {
            (Some(policy), _) => Some(policy.clone()),
            (None, Some(_)) => Some(policy::from_env()?.unwrap_or_default()),
            (None, None) => None,
        };
        if let Some(policy) = policy {
            policy::install(match implementation {
                Some(name) => policy.prefer(name)?,
                None => policy,
            });
        }
        for rule in &self.attn {
            attention::set_implementation(rule).context("--attn")?;
        }
        Ok(())
    }
}
