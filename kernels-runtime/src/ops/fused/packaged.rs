//! Functions of packages that sessions of this process run in place of the kernels of their device.
//!
//! The client names a function in its message, and the session finds it here. Names have random numbers of this process, so
//! that clients of other processes can't name a function.

// Only builds with packages and NPUs have such functions.
#![cfg_attr(not(all(feature = "packages", feature = "npu")), allow(dead_code))]

use super::{BackwardOn, FusedKernel, FusedOp, Gradients, MadeOn, Tensors};
use burn::backend::Backend;
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

/// A function of a package that computes an operation on a backend, with its gradient.
pub(crate) trait Packaged<O: FusedOp, B: Backend>: Send + Sync {
    /// Returns the result and the tensors that the backward pass needs.
    ///
    /// # Errors
    /// Returns an error if the function does not take the operands, or fails.
    fn forward(&self, operands: Tensors<O, B>) -> Result<MadeOn<B>, String>;

    /// Returns the wanted gradients.
    ///
    /// # Errors
    /// Returns an error as [`forward`](Self::forward) does, and if there is no function of the gradients.
    fn backward(&self, backward: BackwardOn<O, B>) -> Result<Gradients<O, B>, String>;
}

/// The functions by name, each a `&'static dyn Packaged<O, B>`.
static TABLE: RwLock<BTreeMap<String, Box<dyn Any + Send + Sync>>> = RwLock::new(BTreeMap::new());

/// Adds a function.
pub(crate) fn enter<O: FusedOp, B: Backend>(name: &str, function: &'static dyn Packaged<O, B>) {
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    table.insert(name.to_owned(), Box::new(function));
}

/// Returns the function of this name, if it computes the operation on the backend.
pub(crate) fn find<O: FusedOp, B: Backend>(name: &str) -> Option<&'static dyn Packaged<O, B>> {
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    let function = table.get(name)?;
    let function = function.downcast_ref::<&'static dyn Packaged<O, B>>();
    function.copied()
}

/// A backend that sends calls to a session, which can be asked for a function of a package.
pub(crate) trait ByName<O: FusedOp>: FusedKernel<O> {
    /// Computes [`FusedKernel::forward`] with the function of this name.
    fn forward_by(
        name: &'static str,
        operands: Tensors<O, Self>,
        wanted: Option<&O::Each<bool>>,
    ) -> MadeOn<Self>;

    /// Computes [`FusedKernel::backward`] with the function of this name.
    fn backward_by(name: &'static str, backward: BackwardOn<O, Self>) -> Gradients<O, Self>;
}
