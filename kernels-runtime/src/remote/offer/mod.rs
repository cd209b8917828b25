//! The operations that servers offer: the kernels of their backends, and the questions that every server answers.

mod control;
mod source;

pub use control::{DECLARE, ENDING};
pub(super) use control::{declaration, failure};
pub use source::{Answer, LOAD, LOOK};
pub(super) use source::{Source, load, look};

use super::call::{Call, Handled, Handler};
use super::wire::{self, Numbers};
use crate::device::KernelOp;
use crate::ops::fused::FusedKernel;
use crate::ops::operations;
use burn::backend::ir::{BackendIr, ScalarIr};

/// The kernels of a backend that a server offers. A backend adds the kernels that it has.
pub struct Kernels<B: BackendIr> {
    handlers: Vec<(&'static str, Handler<B>)>,
    offered: Vec<KernelOp>,
}

impl<B: BackendIr> std::fmt::Debug for Kernels<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kernels")
            .field("offered", &self.offered)
            .finish_non_exhaustive()
    }
}

#[doc(hidden)] // For `kernels-serving` and the operations of this crate.
impl<B: BackendIr> Kernels<B> {
    /// Creates an empty list.
    #[allow(clippy::new_without_default)] // Servers alone make one.
    pub fn new() -> Self {
        Self {
            handlers: Vec::new(),
            offered: Vec::new(),
        }
    }

    /// Adds a handler. It receives a call and its numbers.
    pub fn handle<N: Numbers>(
        mut self,
        id: &'static str,
        handler: impl Fn(&mut Call<'_, B>, N) -> Handled + Send + Sync + 'static,
    ) -> Self {
        let read =
            move |call: &mut Call<'_, B>, numbers: &[ScalarIr]| handler(call, wire::read(numbers)?);
        self.handlers.push((id, Box::new(read)));
        self
    }

    /// Returns the operations that were added.
    pub fn offered(&self) -> &[KernelOp] {
        &self.offered
    }

    /// Returns the handlers by the ids of their operations.
    pub fn into_handlers(self) -> Vec<(&'static str, Handler<B>)> {
        self.handlers
    }
}

macro_rules! builders {
    (
        sites { $( #[doc = $doc:literal]
            $Op:ident { name: $name:ident, at: $($at:ident)::+, kernel: $Kernel:path, $($rest:tt)+ }
        )+ }
        parts { $( #[doc = $part_doc:literal]
            $Part:ident { name: $part:ident, at: $($part_at:ident)::+, kernel: $PartKernel:path, }
        )+ }
    ) => {
        builders! {
            $([$doc $Op $name $($at)::+ = $Kernel])+
            $([$part_doc $Part $part $($part_at)::+ = $PartKernel])+
        }
    };
    ($([$doc:literal $Op:ident $name:ident $($at:ident)::+ = $Kernel:path])+) => {
        impl<B: BackendIr> Kernels<B> {
            $(
                #[doc = $doc]
                pub fn $name(mut self) -> Self
                where
                    B: $Kernel,
                {
                    self.offered.push(KernelOp::$Op);
                    crate::ops::$($at)::+::remote::handlers(self)
                }
            )+

            /// Adds all kernels.
            pub fn all(self) -> Self
            where
                $(B: $Kernel,)+
            {
                self$(.$name())+
            }
        }
    };
}
operations!(builders);

/// Defines the kernels that NPUs have.
macro_rules! builder_of_npus {
    (
        sites { $( #[doc = $doc:literal]
            $Op:ident { name: $name:ident, at: $($at:ident)::+, kernel: $Kernel:path, $($rest:tt)+ }
        )+ }
        parts { $( #[doc = $part_doc:literal]
            $Part:ident { name: $part:ident, at: $($part_at:ident)::+, kernel: $PartKernel:path, }
        )+ }
    ) => {
        impl<B: BackendIr> Kernels<B> {
            /// Adds all kernels that NPUs have.
            pub fn all_of_npus(self) -> Self
            where
                $(B: $Kernel,)+
                $(B: $PartKernel,)+
            {
                self$(.$name())+$(.$part())+
            }
        }
    };
}
operations!(of_npus builder_of_npus);
