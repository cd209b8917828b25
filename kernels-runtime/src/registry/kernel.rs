use super::CapabilityRange;
use crate::dispatch::{DeviceKind, Reason};
use crate::ops::{glu, rms_norm, rope};
use crate::semantics::SemanticsKey;
use burn::backend::DispatchTensor;
use burn::tensor::DType;
use serde::Serialize;
use std::fmt;

/// A kernel: an id that sites name, the operation it computes and its implementations.
#[derive(Debug, Serialize)]
pub struct KernelSpec {
    /// The id that `#[fused_kernel("…")]` and policies name.
    pub id: &'static str,
    /// The operation, as in [`SemanticsKey::op`].
    pub op: &'static str,
    /// Raised when results change by more than rounding.
    pub version: u32,
    /// One line for people.
    pub summary: &'static str,
    /// The candidates, best first.
    pub implementations: &'static [Implementation],
}

/// One implementation of a kernel on one kind of device.
#[derive(Debug, Serialize)]
pub struct Implementation {
    /// Where it runs.
    pub device: DeviceKind,
    /// Its name in reports, such as `cpu-simd`.
    pub name: &'static str,
    /// The floating-point types it takes.
    pub dtypes: &'static [FloatType],
    /// Whether it has a gradient. Without one it is never chosen for tensors with autodiff.
    pub gradient: bool,
    /// Whether equal inputs give equal results, bit for bit, whatever the number of threads.
    pub deterministic: bool,
    /// Which devices of the kind it runs on.
    pub capability: CapabilityRange,
    /// Whether it computes what this key says.
    #[serde(skip)]
    pub accepts: fn(&SemanticsKey) -> bool,
    /// What it does not take of the tensors of one call, such as a size or a layout; asked before
    /// every call. `None`: it takes all.
    #[serde(skip)]
    pub limits: Option<fn(&[&DispatchTensor]) -> Result<(), Reason>>,
    /// How it is run.
    #[serde(skip)]
    pub launch: Launch,
}

/// How an implementation is run. It has the shape that its operation needs.
#[derive(Clone, Copy, Debug)]
pub enum Launch {
    /// An RMSNorm.
    RmsNorm(fn(rms_norm::Call) -> DispatchTensor),
    /// A gated linear unit.
    Glu(fn(glu::Call) -> DispatchTensor),
    /// A rotary position embedding of queries and keys.
    Rope(fn(rope::Call) -> (DispatchTensor, DispatchTensor)),
    /// An operation of another crate, which runs it itself.
    Custom,
}

/// A floating-point type that kernels compute on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum FloatType {
    /// 64-bit IEEE 754.
    F64 = 1,
    /// 32-bit IEEE 754.
    F32,
    /// 16-bit IEEE 754.
    F16,
    /// bfloat16.
    Bf16,
}

impl FloatType {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::F64, Self::F32, Self::F16, Self::Bf16];

    /// The kernel type of a tensor's dtype; `None` for integers, quantised and 8-bit floats.
    pub const fn from_dtype(dtype: DType) -> Option<Self> {
        match dtype {
            DType::F64 => Some(Self::F64),
            DType::F32 => Some(Self::F32),
            DType::F16 => Some(Self::F16),
            DType::BF16 => Some(Self::Bf16),
            _ => None,
        }
    }

    /// The tensor dtype.
    pub const fn dtype(self) -> DType {
        match self {
            Self::F64 => DType::F64,
            Self::F32 => DType::F32,
            Self::F16 => DType::F16,
            Self::Bf16 => DType::BF16,
        }
    }

    /// The short name, such as `bf16`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F64 => "f64",
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        }
    }
}

impl fmt::Display for FloatType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Defines a kernel: registers it and writes its record into the link section.
macro_rules! declare_kernel {
    ($(#[$attr:meta])* $vis:vis static $name:ident = $spec:expr;) => {
        $(#[$attr])*
        #[::linkme::distributed_slice($crate::registry::KERNELS)]
        $vis static $name: &$crate::registry::KernelSpec = {
            const SPEC: $crate::registry::KernelSpec = $spec;
            static STORED: $crate::registry::KernelSpec = SPEC;
            const LEN: usize = $crate::registry::section::kernel_record::<0>(&SPEC).1;
            $crate::__in_link_section! {
                static RECORD: [u8; LEN] = $crate::registry::section::kernel_record::<LEN>(&SPEC).0;
            }
            &STORED
        };
    };
}
pub(crate) use declare_kernel;
