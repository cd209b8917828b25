//! An executor and everything it refers to.

use cann_sys::PhaseTwo;
use cann_sys::types::{aclOpExecutor, aclrtStream};

use super::operand::{Handles, Operand};
use crate::cann::{Cann, call};
use crate::error::Result;

/// A planned call with its operands.
#[derive(Debug)]
pub(crate) struct Executor {
    // Declared before the handles that the plan refers to, so that it is dropped first.
    plan: Plan,
    workspace: u64,
    handles: Handles,
    repeatable: bool,
}

/// CANN's executor. It is destroyed when dropped, unless phase two has freed it.
#[derive(Debug)]
struct Plan {
    cann: Cann,
    /// NULL once phase two has freed it.
    pointer: *mut aclOpExecutor,
}

// SAFETY: plan and descriptors are records on CANN's heap that belong to a device, not to a thread. Only the call that
// has taken an executor out of the cache uses it.
unsafe impl Send for Executor {}

impl Executor {
    pub(crate) fn new(
        cann: &Cann,
        handles: Handles,
        pointer: *mut aclOpExecutor,
        workspace: u64,
        operator: &'static str,
    ) -> Result<Self> {
        if pointer.is_null() {
            return Err(cann.unusable(operator, "gave no executor in phase one"));
        }
        let cann = cann.clone();
        Ok(Self {
            plan: Plan { cann, pointer },
            workspace,
            handles,
            repeatable: false,
        })
    }

    /// Returns the size of phase two's workspace in bytes.
    pub(crate) fn workspace(&self) -> u64 {
        self.workspace
    }

    /// Tries to make the executor repeatable, so that it outlives phase two. Not every operator allows it, and only
    /// right after phase one.
    pub(crate) fn make_repeatable(&mut self) {
        let pointer = self.plan.pointer;
        // SAFETY: the executor lives and has not run yet.
        let made = unsafe { call!(self.plan.cann, meta.aclSetAclOpExecutorRepeatable(pointer)) };
        self.repeatable = made.is_ok();
    }

    /// Sets the addresses of other operands with the same specs.
    pub(crate) fn rebind(&mut self, operands: &[Operand]) -> Result<()> {
        for (place, operand) in operands.iter().enumerate() {
            let [tensor] = operand.tensors() else {
                unreachable!("only calls of tensors alone are kept")
            };
            let address = tensor
                .memory()
                .map_or(std::ptr::null_mut(), |memory| memory.address().pointer());
            let (pointer, handle) = (self.plan.pointer, self.handles.tensor(place));
            // SAFETY: the executor is repeatable, and the descriptor at this place is its own.
            unsafe {
                call!(
                    self.plan.cann,
                    meta.aclSetTensorAddr(pointer, place, handle, address)
                )
            }?;
        }
        Ok(())
    }

    /// Runs phase two. Returns the executor if it is repeatable. Otherwise CANN has freed it, even if the call failed.
    ///
    /// # Safety
    ///
    /// `phase_two` must belong to the phase one that made the executor. The operands' memory and a workspace of the
    /// size that the executor needs must stay until the stream has passed the call.
    pub(crate) unsafe fn run(
        mut self,
        operator: &'static str,
        phase_two: PhaseTwo,
        workspace: *mut std::ffi::c_void,
        stream: aclrtStream,
    ) -> (Result<()>, Option<Self>) {
        let _span = tracing::trace_span!("cann", function = operator, phase = 2).entered();
        // SAFETY: the caller guarantees memory and stream. The executor was not freed, since it is here.
        let code = unsafe { phase_two(workspace, self.workspace, self.plan.pointer, stream) };
        let result = self.plan.cann.check(operator, code);
        if self.repeatable {
            return (result, Some(self));
        }
        self.plan.pointer = std::ptr::null_mut();
        (result, None)
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        if self.pointer.is_null() {
            return;
        }
        // SAFETY: phase two has not freed the executor: it was not called, or the executor is repeatable.
        let freed = unsafe { call!(self.cann, meta.aclDestroyAclOpExecutor(self.pointer)) };
        if let Err(error) = freed {
            tracing::error!(%error, "an executor could not be destroyed");
        }
    }
}
