//! The kernels of a device that another process or machine serves.

use crate::ops::operations;
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

const _: () = assert!(KernelOp::ALL.len() <= Set::BITS as usize);

impl KernelOp {
    /// Returns the version of the operation, which increases when its operands or numbers change. Server and client
    /// must agree on it.
    pub const fn version(self) -> u32 {
        1
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

    /// Returns the value for a served device with kernels for these operations.
    pub fn with(ops: impl IntoIterator<Item = KernelOp>) -> Self {
        let bits = ops.into_iter().fold(0, |bits, op| bits | op.bit());
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
        let two = Served::with([KernelOp::RmsNorm, KernelOp::MoeBlock]);
        for &op in KernelOp::ALL {
            assert!(Served::HERE.offers(op));
            let declared = matches!(op, KernelOp::RmsNorm | KernelOp::MoeBlock);
            assert_eq!(two.offers(op), declared, "{op:?}");
            assert!(!Served::with([]).offers(op));
            assert!(!Served::NOTHING.offers(op));
        }
        assert_eq!(two, Served::with([KernelOp::MoeBlock, KernelOp::RmsNorm]));
    }

    #[test]
    fn numbers_fit_a_key() {
        // Few, because the other tests of this process need numbers, too.
        for op in [KernelOp::Glu, KernelOp::Rope] {
            let served = Served::with([op]);
            assert!(served.is_served() && served.code() < 16);
            assert_eq!(Served::from_code(served.code()), served);
        }
    }
}
