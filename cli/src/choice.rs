//! Values that several commands take: the device, the dtype and the policy.

use burn::tensor::{DType, Device, FloatDType};
use burn_kernels::policy::{self, Policy};
use std::fmt;
use std::str::FromStr;

/// A device of this build, as `--device` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceChoice {
    /// Burn's Flex backend.
    Cpu,
}

impl DeviceChoice {
    /// The Burn device, without autodiff.
    pub fn device(self) -> Device {
        match self {
            Self::Cpu => Device::flex(),
        }
    }
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "cpu" => Ok(Self::Cpu),
            _ => Err(format!("no device `{name}` in this build; built in: cpu")),
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpu => "cpu",
        })
    }
}

/// A floating-point type, as `--dtype` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
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
    /// The tensor dtype.
    pub fn dtype(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::Bf16 => DType::BF16,
            Self::F16 => DType::F16,
            Self::F64 => DType::F64,
        }
    }

    /// The same, as the type that only floats have.
    pub fn float_dtype(self) -> FloatDType {
        self.dtype().into()
    }
}

/// Makes `--kernels` the policy of the whole process.
pub fn install(policy: Option<&Policy>) {
    if let Some(policy) = policy {
        policy::install(policy.clone());
    }
}
