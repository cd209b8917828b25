//! Kernels of other crates, which are named by `#[fused_kernel(my_crate::my_op)]`.
//!
//! Such a kernel is a module with three items, and a registration by [`declare_kernel!`]:
//!
//! * `pub const ID: &str`: the id, which policies and reports name;
//! * `pub const KEY: CustomKey`: the operation and every setting that changes its maths;
//! * `pub struct Operands`: the parameters of the annotated function, under the same names. It implements [`Tensors`],
//!   which lists its tensors, and [`Operands`], which computes the result in two ways: by the reference, which is the
//!   definition in plain tensor operations, and by the kernel.
//!
//! A site of such a kernel behaves as any other site. It decides by device, dtype, mode and policy, and runs the user's
//! own body if no implementation can run. The [report](mod@crate::report) counts it, `kernels list` and `inspect` list
//! it, and `BURN_KERNELS=-id` switches it off. [Live verification](crate::live) compares it with its reference.
//!
//! `examples/third-party` is a complete crate of this kind. `kernels new-kernel NAME` creates one.
//!
//! [`declare_kernel!`]: crate::declare_kernel

pub(crate) mod any_rank;
mod collect;
pub(crate) mod erased;
mod operands;
mod rounding;
mod rows;

pub use crate::live::{VerifyError, verify};
pub(crate) use collect::Collect;
pub use operands::{Operands, Tensors, Visitor};
pub use rounding::rounded;
pub(crate) use rounding::{
    noise, noise_size, rounded_erased, rounded_scores, rounded_sum, softmax,
};
pub use rows::Rows;
pub(crate) use rows::{picked, picked_erased, prefix, prefix_erased, spread};

pub use crate::declare_kernel;
pub use crate::dispatch::{DeviceKind, DeviceKinds, Reason};
pub use crate::registry::{
    CapabilityRange, FloatType, Gradient, Implementation, KernelSpec, Launch,
};
pub use crate::semantics::{CustomKey, SemanticsKey};

use crate::call_once::once;
use crate::dispatch::At;
use crate::live;

/// Runs a call of a site of another crate's kernel: by an implementation if one can run, otherwise by the user's own
/// body.
#[track_caller]
pub(crate) fn custom<O: Operands>(
    at: At,
    operands: O,
    body: impl FnOnce(O) -> O::Output,
) -> O::Output {
    let _span = at.enter();
    either(&at, operands, live::Captured::Unknown, &mut once(body))
}

/// Runs a call as [`custom`] does, with a body that is passed by reference. `captured` are the operands that the body
/// does not take from its argument.
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
        "the operands of {} hold no tensor that `Tensors::visit` lists, so they have no device to \
         choose a kernel for",
        at.site().spec().kernel
    );
    let route = at.decide(&tensors);
    drop(collected);
    live::decided(at, route, operands, captured, body)
}
