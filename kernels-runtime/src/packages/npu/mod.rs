//! Functions on the NPUs of this process.
//!
//! A client of such an NPU sends a call with the name of the function, and the session of the NPU runs it: the client's side
//! is [`client`], and the session's [`session`].

mod client;
mod session;

use super::call::Slot;
use super::operations::Bindable;
use super::run::Functions;
use crate::ops::fused::{Held, packaged};
use crate::reason::Reason;
use crate::registry::Limits;
use crate::remote::{credential::unique, is_own};
use crate::semantics::SemanticsKey;
use burn_cann::backend::CannBackend;
use session::Session;

/// The limits of the implementations: the tensors are on an NPU of this process.
pub(super) const LIMITS: Limits = |_, tensors| match tensors.iter().all(|tensor| is_own(tensor)) {
    true => Ok(()),
    false => Err(Reason::NotServed),
};

/// Returns the function that runs those of a binding, which compute `key`.
///
/// # Errors
/// Returns an error if a function has an argument that calls on NPUs don't have.
pub(super) fn held<O: Bindable>(
    functions: &'static Functions,
    key: &'static SemanticsKey,
) -> Result<Held<O>, String> {
    if let Some(backward) = &functions.backward
        && backward.has(&Slot::Result)
    {
        return Err(format!(
            "`{}` reads the result `y`, which backward functions on NPUs don't get; let the forward function save what is \
             needed",
            backward.name()
        ));
    }
    // No other process can guess the numbers.
    let name = format!("{} {:016x}{:016x}", functions.name, unique(), unique());
    let session: &'static Session = Box::leak(Box::new(Session { functions, key }));
    packaged::enter::<O, CannBackend>(&name, session);
    let name: &'static str = name.leak();
    Ok(Box::new(move |operands| {
        client::run::<O>(functions, name, operands)
    }))
}
