//! The operations of a server: the kernels of its backend, and those that every server has.

mod control;
mod source;

pub(super) use control::{declaration, failure};
pub(super) use source::{Source, load, look};

use super::Host;
use super::bounded::Bounded;
use super::call::{self, Call, Handled};
use super::files::Files;
use super::wire::Numbers;
use crate::device::KernelOp;
use crate::ops::operations;
use burn_remote::server::CustomOpRegistry;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// The kernels of a backend that a server offers. A backend adds the kernels that it has.
pub struct Kernels<B: Host> {
    registry: CustomOpRegistry<Bounded<B>>,
    offered: Vec<KernelOp>,
}

impl<B: Host> std::fmt::Debug for Kernels<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kernels")
            .field("offered", &self.offered)
            .finish_non_exhaustive()
    }
}

impl<B: Host> Kernels<B> {
    pub(super) fn new() -> Self {
        Self {
            registry: CustomOpRegistry::new(),
            offered: Vec::new(),
        }
    }

    /// Adds a handler. It receives a call and its numbers.
    pub(crate) fn handle<N: Numbers>(
        mut self,
        id: &'static str,
        handler: impl Fn(&mut Call<'_, B>, N) -> Handled + Send + Sync + 'static,
    ) -> Self {
        self.registry.register(id, move |handles, ir, device| {
            call::run(handles, ir, device, &handler);
        });
        self
    }

    /// Adds the operations that every server of this crate has: its description, the reason why a session ended, and
    /// the reading of weights.
    pub(super) fn finish(
        self,
        open: Arc<AtomicUsize>,
        files: Files,
    ) -> CustomOpRegistry<Bounded<B>> {
        source::handlers(control::handlers(self, open), files).registry
    }
}

macro_rules! builders {
    (
        sites { $( #[doc = $doc:literal]
            $Op:ident { name: $name:ident, at: $($at:ident)::+, kernel: $Kernel:ident, $($rest:tt)+ }
        )+ }
        parts { $( #[doc = $part_doc:literal]
            $Part:ident { name: $part:ident, at: $($part_at:ident)::+, kernel: $PartKernel:ident, }
        )+ }
    ) => {
        builders! {
            $([$doc $Op $name $Kernel $($at)::+])+
            $([$part_doc $Part $part $PartKernel $($part_at)::+])+
        }
    };
    ($([$doc:literal $Op:ident $name:ident $Kernel:ident $($at:ident)::+])+) => {
        impl<B: Host> Kernels<B> {
            $(
                #[doc = $doc]
                pub fn $name(mut self) -> Self
                where
                    B: crate::ops::$($at)::+::$Kernel,
                {
                    self.offered.push(KernelOp::$Op);
                    crate::ops::$($at)::+::remote::handlers(self)
                }
            )+

            /// Adds all kernels.
            pub fn all(self) -> Self
            where
                $(B: crate::ops::$($at)::+::$Kernel,)+
            {
                self$(.$name())+
            }
        }
    };
}
operations!(builders);
