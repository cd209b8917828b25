//! The kernels of a device that another process or machine serves.

use crate::ops::operations;
use burn::tensor::DType;
use std::sync::{PoisonError, RwLock};

macro_rules! kernel_ops {
    (
        sites { $( #[doc = $doc:literal] $Op:ident { name: $name:ident, $($rest:tt)+ } )+ }
        parts { $( #[doc = $part_doc:literal] $Part:ident { name: $part:ident, $($part_rest:tt)+ } )+ }
    ) => {
        /// An operation that a backend may have kernels for. A server declares the operations that it has.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum KernelOp {
            $(#[doc = $doc] $Op,)+
            $(#[doc = $part_doc] $Part,)+
        }

        impl KernelOp {
            /// All operations.
            pub const ALL: &[Self] = &[$(Self::$Op,)+ $(Self::$Part,)+];

            /// Returns the name that servers declare.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$Op => stringify!($name),)+
                    $(Self::$Part => stringify!($part),)+
                }
            }
        }
    };
}
operations!(kernel_ops);

/// A set of operations, with one bit each.
type Set = u64;

/// The bit of f64 as a type that the kernels compute in.
const F64: Set = 1 << (Set::BITS - 1);

const _: () = assert!(KernelOp::ALL.len() < Set::BITS as usize);

impl KernelOp {
    /// Returns the version of the operation, which increases when its operands or numbers change. Server and client
    /// must agree on it.
    pub const fn version(self) -> u32 {
        match self {
            // The second has a bias. The gradient of a sum and its norm is that of RMSNorm.
            Self::RmsNorm | Self::AddRmsNorm => 2,
            _ => 1,
        }
    }

    const fn bit(self) -> Set {
        1 << self as u8
    }
}

/// The operations that run as kernels where the tensors of a call are. On devices of this process, these are the ones
/// that are compiled in. On a served device, these are the ones that its server declares.
///
/// The value is a number, small enough for the key of a cached decision: 0 is this process, and the others identify the
/// distinct declarations seen so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Served(u8);

/// The declarations that the numbers of [`Served`] from 1 identify.
static DECLARED: RwLock<Vec<Set>> = RwLock::new(Vec::new());

impl Served {
    /// A device of this process.
    pub const HERE: Self = Self(0);

    /// A served device whose kernels are not used, because there are more distinct declarations than numbers.
    const NOTHING: Self = Self(15);

    /// Returns the value for a served device with kernels for these operations. `f64` is true if they compute in f64 too.
    pub fn with(ops: impl IntoIterator<Item = KernelOp>, f64: bool) -> Self {
        let start = if f64 { F64 } else { 0 };
        let bits = ops.into_iter().fold(start, |bits, op| bits | op.bit());
        let mut declared = DECLARED.write().unwrap_or_else(PoisonError::into_inner);
        let known = declared.iter().position(|known| *known == bits);
        let at = known.unwrap_or_else(|| {
            declared.push(bits);
            declared.len() - 1
        });
        match u8::try_from(at + 1) {
            Ok(number) if number < Self::NOTHING.0 => Self(number),
            _ => Self::NOTHING,
        }
    }

    /// Returns `true` if the device is served.
    pub const fn is_served(self) -> bool {
        self.0 != 0
    }

    /// Returns `true` if the operation runs as a kernel there.
    pub fn offers(self, op: KernelOp) -> bool {
        !self.is_served() || self.bits() & op.bit() != 0
    }

    /// Returns `false` if the device is served and its kernels don't compute in a type, which can only be f64.
    pub(crate) fn computes_in(self, dtype: DType) -> bool {
        dtype != DType::F64 || !self.is_served() || self.bits() & F64 != 0
    }

    fn bits(self) -> Set {
        let declared = DECLARED.read().unwrap_or_else(PoisonError::into_inner);
        let at = usize::from(self.0).wrapping_sub(1);
        match self {
            Self::NOTHING => 0,
            _ => declared.get(at).copied().unwrap_or(0),
        }
    }

    #[inline]
    pub(crate) const fn code(self) -> u8 {
        self.0
    }

    pub(crate) const fn from_code(code: u8) -> Self {
        Self(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_served_device_offers_what_it_declares() {
        let two = Served::with([KernelOp::RmsNorm, KernelOp::MoeBlock], false);
        for &op in KernelOp::ALL {
            assert!(Served::HERE.offers(op));
            let declared = matches!(op, KernelOp::RmsNorm | KernelOp::MoeBlock);
            assert_eq!(two.offers(op), declared, "{op:?}");
            assert!(!Served::with([], true).offers(op));
            assert!(!Served::NOTHING.offers(op));
        }
        assert_eq!(
            two,
            Served::with([KernelOp::MoeBlock, KernelOp::RmsNorm], false)
        );
    }

    #[test]
    fn a_served_device_computes_in_f64_if_it_says_so() {
        for dtype in [DType::F64, DType::F32, DType::BF16, DType::F16] {
            let [without, with] =
                [false, true].map(|f64| Served::with([KernelOp::Rope], f64).computes_in(dtype));
            assert_eq!(without, dtype != DType::F64);
            assert!(with && Served::HERE.computes_in(dtype));
        }
    }

    #[test]
    fn numbers_fit_a_key() {
        // Few, because the other tests of this process need numbers, too.
        for op in [KernelOp::Glu, KernelOp::Rope] {
            let served = Served::with([op], false);
            assert!(served.is_served() && served.code() < 16);
            assert_eq!(Served::from_code(served.code()), served);
        }
    }
}
