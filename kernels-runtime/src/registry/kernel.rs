use super::{CapabilityRange, Gradient};
use crate::device::{DeviceKinds, KernelOp};
use crate::mode::Mode;
use crate::ops::operations;
use crate::reason::Reason;
use crate::semantics::SemanticsKey;
use burn::backend::DispatchTensor;
use burn::tensor::DType;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A kernel: an id that sites name, the operation it computes and its implementations.
#[derive(Debug, Serialize)]
pub struct KernelSpec {
    /// The id that `#[fused_kernel("…")]`, policies and mappings name: letters, digits, `_` and `-`. It does not start
    /// with `-`.
    pub id: &'static str,
    /// The name of the operation, as in [`SemanticsKey::op`].
    pub op: &'static str,
    /// The version, which increases when results change by more than rounding.
    pub version: u32,
    /// A summary of one line.
    pub summary: &'static str,
    /// The package that defines it.
    #[serde(rename = "crate")]
    pub krate: &'static str,
    /// That package's version.
    pub crate_version: &'static str,
    /// The package whose kernel of the same id this one replaces. Without it, a second kernel of the same id is an
    /// error.
    pub replaces: Option<&'static str>,
    /// The implementations, best first.
    pub implementations: &'static [Implementation],
}

/// One implementation of a kernel, on one or several kinds of device.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Implementation {
    /// The kinds of device that it runs on.
    pub device: DeviceKinds,
    /// Its name in reports, such as `cpu-simd`.
    pub name: &'static str,
    /// The floating-point types that it takes.
    pub dtypes: &'static [FloatType],
    /// Its gradients. Without any, it is never chosen for tensors with autodiff.
    pub gradient: Gradient,
    /// True if equal inputs give equal results, bit for bit, with any number of threads.
    pub deterministic: bool,
    /// True if it ends the stream of operations that Burn's fusion compiles together.
    pub fusion_barrier: bool,
    /// The capabilities of the devices that it runs on.
    pub capability: CapabilityRange,
    /// The function that returns `true` if the implementation computes the semantics of this key.
    #[serde(skip)]
    pub accepts: fn(&SemanticsKey) -> bool,
    /// A check of the tensors of one call, such as their sizes and layout, made before every call. `None` if it takes
    /// all tensors.
    #[serde(skip)]
    pub limits: Option<Limits>,
    /// The operators of the device's own library that compute a call, which plans and reports name. `None` if it is a
    /// kernel of its own.
    #[serde(skip)]
    pub operators: Option<Operators>,
    /// The function that runs it.
    #[serde(skip)]
    pub launch: Launch,
}

/// A function that checks whether an implementation takes the tensors of a call with these semantics. The tensors are
/// in the order of the operation's operands. It returns [`Reason::Shape`], [`Reason::Layout`] or another reason that
/// fits if it does not take them.
pub type Limits = fn(&SemanticsKey, &[&DispatchTensor]) -> Result<(), Reason>;

/// A function that returns the operators with which an implementation computes the forward pass of a call with this key,
/// in order, or what the device's library lacks for it. Operators over vectors, such as a weight or a number for each
/// row, are left out. The call has contiguous tensors of this type, within the limits of the operators.
pub type Operators = fn(&SemanticsKey, FloatType, Mode) -> Result<Vec<&'static str>, String>;

macro_rules! launches {
    (
        sites { $(
            #[doc = $doc:literal]
            $Op:ident {
                name: $name:ident, at: $($at:ident)::+, kernel: $Kernel:path, key: $Key:ident of $op:literal,
            }
        )+ }
        parts { $($parts:tt)+ }
    ) => {
        /// The function that runs an implementation. Its type depends on the operation.
        #[derive(Clone, Copy, Debug)]
        pub enum Launch {
            $(
                #[doc = $doc]
                $Op($crate::ops::$($at)::+::Launch),
            )+
            /// An operation of another crate, which runs the implementation itself.
            Custom,
        }

        impl Launch {
            /// The launch of each operation, for the error about a mismatch.
            pub(crate) const PAIRS: &str = concat!(
                "its `op` and the launch of an implementation don't go together: ",
                $("`", $op, "` has Launch::", stringify!($Op), ", ",)+
                "others have Launch::Custom"
            );

            /// Returns `true` if an implementation of operation `op` uses this launch: each built-in operation has its
            /// own launch, and every other one has [`Launch::Custom`].
            pub const fn belongs_to(&self, op: &str) -> bool {
                match self {
                    $(Self::$Op(_) => same(op, $op),)+
                    Self::Custom => !($(same(op, $op))||+),
                }
            }

            /// Returns the operation, which a server may declare. Returns `None` for operations of other crates, which
            /// no server has.
            pub(crate) const fn op(&self) -> Option<KernelOp> {
                match self {
                    $(Self::$Op(_) => Some(KernelOp::$Op),)+
                    Self::Custom => None,
                }
            }
        }

        $(
            impl Launched for $crate::ops::$($at)::+::Launch {
                const OP: &str = $op;

                fn of(launch: &Launch) -> Option<Self> {
                    match launch {
                        Launch::$Op(launch) => Some(*launch),
                        _ => None,
                    }
                }
            }
        )+
    };
}
operations!(launches);

/// The function that runs an operation, as [`Launch`] holds it.
pub(crate) trait Launched: Sized {
    /// The name of the operation, as kernels state it.
    const OP: &str;

    fn of(launch: &Launch) -> Option<Self>;
}

impl Launch {
    /// Returns the one key that the launch computes, if it runs a function of a package.
    pub(crate) const fn package_key(&self) -> Option<&'static SemanticsKey> {
        let launch = match self {
            Self::RmsNorm(launch) => &launch.0,
            Self::LayerNorm(launch) => &launch.0,
            Self::Glu(launch) => &launch.0,
            Self::Softcap(launch) => &launch.0,
            _ => return None,
        };
        launch.key()
    }
}

impl Implementation {
    /// Returns `true` if the implementation computes the semantics of this key.
    pub(crate) fn computes(&self, key: &SemanticsKey) -> bool {
        let only = self.launch.package_key();
        (self.accepts)(key) && only.is_none_or(|only| only == key)
    }

    /// Returns the function that runs this implementation. Dispatch chose it for an operation.
    ///
    /// # Panics
    /// Panics if it is registered for a kernel of another operation than the one it runs.
    pub(crate) fn launch<L: Launched>(&self) -> L {
        L::of(&self.launch).unwrap_or_else(|| {
            panic!(
                "the implementation `{}` belongs to a kernel of `{}`, but its launch is {:?}; its kernel's \
                 `op` and its `launch` must be of one operation",
                self.name,
                L::OP,
                self.launch
            )
        })
    }
}

impl KernelSpec {
    /// Returns the package and its version, such as `acme-kernels 1.2.0`.
    pub fn origin(&self) -> String {
        format!("{} {}", self.krate, self.crate_version)
    }
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

/// A floating-point type that kernels compute on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
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
    /// All types.
    pub const ALL: [Self; 4] = [Self::F64, Self::F32, Self::F16, Self::Bf16];

    /// Returns the kernel type of a tensor's dtype, or `None` for integers, quantised types and 8-bit floats.
    pub const fn from_dtype(dtype: DType) -> Option<Self> {
        match dtype {
            DType::F64 => Some(Self::F64),
            DType::F32 => Some(Self::F32),
            DType::F16 => Some(Self::F16),
            DType::BF16 => Some(Self::Bf16),
            _ => None,
        }
    }

    /// Returns the tensor dtype.
    pub const fn dtype(self) -> DType {
        match self {
            Self::F64 => DType::F64,
            Self::F32 => DType::F32,
            Self::F16 => DType::F16,
            Self::Bf16 => DType::BF16,
        }
    }

    /// Returns the short name, such as `bf16`.
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
