//! Kernels of other crates: what one has to say to be named by `#[fused_kernel(my_crate::my_op)]`.
//!
//! Such a kernel is a module with three items, and a registration by [`declare_kernel!`]:
//!
//! * `pub const ID: &str`: the id, which policies and reports name;
//! * `pub const KEY: CustomKey`: the operation and every setting that changes its maths;
//! * `pub struct Operands`: the parameters of the annotated function, under the same names. It
//!   implements [`Tensors`], which lists its tensors, and [`Operands`], which computes: by the
//!   reference, the definition in plain tensor operations, and by the kernel.
//!
//! A site of such a kernel is a site like any other: it decides by device, dtype, mode and policy,
//! takes the user's own body where no implementation runs, is counted in the
//! [report](mod@crate::report), listed by `kernels list` and `inspect`, switched off by
//! `BURN_KERNELS=-id`, and compared with its reference by [live verification](crate::live).
//!
//! `examples/third-party` is a whole crate of this kind; `kernels new-kernel NAME` makes one.
//!
//! [`declare_kernel!`]: crate::declare_kernel

mod collect;
mod operands;
mod rows;

pub use crate::live::{VerifyError, verify};
pub(crate) use collect::Collect;
pub use operands::{Operands, Tensors, Visitor};
pub use rows::Rows;
pub(crate) use rows::picked;

pub use crate::declare_kernel;
pub use crate::dispatch::{DeviceKind, DeviceKinds, Reason};
pub use crate::registry::{
    CapabilityRange, FloatType, Gradient, Implementation, KernelSpec, Launch,
};
pub use crate::semantics::{CustomKey, SemanticsKey};

use crate::dispatch::At;
use crate::live;
use crate::once::once;

/// One call of a site of another crate's kernel: by an implementation if one can run, else by the
/// user's own body.
#[track_caller]
pub(crate) fn custom<O: Operands>(
    at: At,
    operands: O,
    body: impl FnOnce(O) -> O::Output,
) -> O::Output {
    either(&at, operands, live::Captured::Unknown, &mut once(body))
}

/// The same for a body that is lent. `captured` are the operands that it does not take from its
/// argument.
#[track_caller]
pub(crate) fn either<O: Operands>(
    at: &At,
    mut operands: O,
    captured: live::Captured,
    body: &mut dyn FnMut(O) -> O::Output,
) -> O::Output {
    let collected = Collect::of(&mut operands);
    let tensors = collected.tensors();
    assert!(
        !tensors.is_empty(),
        "the operands of {} hold no tensor that `Tensors::visit` lists, so there is no device to \
         choose a kernel for",
        at.site().spec().kernel
    );
    let decision = at.decide(&tensors);
    drop(collected);
    live::decided(at, decision, operands, captured, body)
}
