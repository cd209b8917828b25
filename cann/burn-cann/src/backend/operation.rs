//! The list of Burn's operations, each with the path that it takes.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// The place where an operation runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Path {
    /// On the device. If the operator refuses the operands (because of a dtype, a limit or an old toolkit), the
    /// operation runs on the host. Attention is then composed of other operations.
    Native,
    /// Nowhere: the result is another view of the same memory. If strides can't express it, the device copies.
    View,
    /// As a sequence of other operations.
    Composed,
    /// As the copy from or to the host that the operation asks for.
    Data,
    /// On the host: copied there, computed by Flex and copied back.
    Host,
}

impl Path {
    /// Returns the name of the path: `native`, `view`, `composed`, `data` or `host`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::View => "view",
            Self::Composed => "composed",
            Self::Data => "data",
            Self::Host => "host",
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// An operation of Burn's backend traits.
///
/// The macro that makes the methods also makes this list, so each entry agrees with its method.
#[derive(Debug)]
pub struct Operation {
    family: &'static str,
    name: &'static str,
    path: Path,
    on_host: AtomicU64,
}

impl Operation {
    pub(super) const fn new(family: &'static str, name: &'static str, path: Path) -> Self {
        let on_host = AtomicU64::new(0);
        Self {
            family,
            name,
            path,
            on_host,
        }
    }

    /// Returns the kind of tensors or of operation: `float`, `int`, `bool`, `module`, `activation`, `quantised` or
    /// `transaction`.
    pub fn family(&self) -> &'static str {
        self.family
    }

    /// Returns the name of the method.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the path that it takes.
    pub fn path(&self) -> Path {
        self.path
    }

    /// Returns its number of runs on the host since the start or [`reset_fallbacks`](super::reset_fallbacks).
    pub fn times_on_host(&self) -> u64 {
        self.on_host.load(Ordering::Relaxed)
    }

    /// Counts a run on the host. Returns `true` if it was the first.
    pub(super) fn count(&self) -> bool {
        self.on_host.fetch_add(1, Ordering::Relaxed) == 0
    }

    pub(super) fn forget(&self) {
        self.on_host.store(0, Ordering::Relaxed);
    }
}

/// Defines the methods of one of Burn's traits, and the list of them.
///
/// Each line has a signature and a path:
///
/// * `native(f)` and `view(f)`: `f` gets the arguments, tensors by reference, and may decline.
/// * `host`: Flex's method of the same name runs.
/// * `data { … }` and `composed { … }`: the body is written out.
/// * `native { … }` and `host { … }`: the same, for operations that are not a plain call.
///
/// The trait itself composes the methods after `composed:` of others.
macro_rules! operations {
    (
        $trait:ident, $family:literal;

        $(fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $output:ty
            = $path:ident $(($native:expr))? $({ $($body:tt)* })?;)*

        composed: $($composed:ident),* $(,)?;
    ) => {
        #[allow(non_upper_case_globals)] // named like the methods
        mod statics {
            use super::super::super::operation::{Operation, Path};

            $(pub(super) static $name: Operation =
                Operation::new($family, stringify!($name), path!($path));)*
            $(pub(super) static $composed: Operation =
                Operation::new($family, stringify!($composed), Path::Composed);)*
        }

        /// The operations of this file.
        pub(in super::super) static TABLE: &[&Operation] =
            &[$(&statics::$name,)* $(&statics::$composed,)*];

        impl $trait<CannBackend> for CannBackend {
            $(method! {
                $trait, $path $(($native))? $({ $($body)* })?,
                fn $name($($argument: $type),*) -> $output
            })*
        }

        // The trait must have the methods that are left to it.
        const _: () = {
            $(let _ = <CannBackend as $trait<CannBackend>>::$composed;)*
        };
    };
}

macro_rules! path {
    (native) => {
        Path::Native
    };
    (view) => {
        Path::View
    };
    (composed) => {
        Path::Composed
    };
    (data) => {
        Path::Data
    };
    (host) => {
        Path::Host
    };
}

macro_rules! method {
    (
        $trait:ident, $path:ident { $($body:tt)* },
        fn $name:ident($($argument:ident: $type:ty),*) -> $output:ty
    ) => {
        fn $name($($argument: $type),*) -> $output {
            $($body)*
        }
    };
    (
        $trait:ident, host,
        fn $name:ident($($argument:ident: $type:ty),*) -> $output:ty
    ) => {
        fn $name($($argument: $type),*) -> $output {
            fallback::on_host(
                &statics::$name,
                fallback::NO_OPERATOR,
                fallback::first_place(&[$(&|| Operand::place(&$argument)),*]),
                || Ok(<Flex as $trait<Flex>>::$name($(Operand::host(&$argument)?),*)),
            )
        }
    };
    (
        $trait:ident, $path:ident($native:expr),
        fn $name:ident($($argument:ident: $type:ty),*) -> $output:ty
    ) => {
        fn $name($($argument: $type),*) -> $output {
            match fallback::accepted(&statics::$name, ($native)($(Operand::lend(&$argument)),*)) {
                Ok(output) => output,
                Err(reason) => fallback::on_host(
                    &statics::$name,
                    &reason,
                    fallback::first_place(&[$(&|| Operand::place(&$argument)),*]),
                    || Ok(<Flex as $trait<Flex>>::$name($(Operand::host(&$argument)?),*)),
                ),
            }
        }
    };
}
