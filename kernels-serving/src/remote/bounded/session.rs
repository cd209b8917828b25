//! The session of a thread.
//!
//! Burn runs each session on its own thread, which does all operations of the session and ends with it. The thread
//! therefore keeps the session's account and its device, from the first operation on. The last action of Burn on the
//! thread is to clean up the memory.

use super::account::{Account, Limits};
use super::tensor::Served;
use crate::remote::Host;
use std::any::Any;
use std::cell::RefCell;
use std::sync::Arc;

struct Session {
    account: Arc<Account>,
    /// The backend's device in the form that the session uses.
    device: Box<dyn Any>,
}

thread_local! {
    static HERE: RefCell<Option<Session>> = const { RefCell::new(None) };
}

/// Returns the account of this thread's session, if it has one.
pub(super) fn account() -> Option<Arc<Account>> {
    HERE.with_borrow(|here| here.as_ref().map(|here| Arc::clone(&here.account)))
}

/// Returns the device in the form that this thread's session uses. The first call begins the session.
pub(in crate::remote) fn device<B: Host>(served: &Served<B::Device>) -> B::Device {
    let Some(limits) = &served.limits else {
        return served.device.clone();
    };
    let known = HERE.with_borrow(|here| {
        let here = here.as_ref()?;
        let device = here.device.downcast_ref::<B::Device>()?;
        here.account.is_of(limits).then(|| device.clone())
    });
    known.unwrap_or_else(|| begin::<B>(&served.device, limits))
}

fn begin<B: Host>(device: &B::Device, limits: &Arc<Limits>) -> B::Device {
    let device = B::begin(device);
    let session = Session {
        account: Account::new(limits),
        device: Box::new(device.clone()),
    };
    HERE.set(Some(session));
    device
}

/// Ends this thread's session. This is not left to the end of the thread, when things that a backend calls may be gone.
pub(super) fn end<B: Host>() {
    let session = HERE.take();
    if let Some(device) = session.and_then(|session| session.device.downcast::<B::Device>().ok()) {
        B::end(&device);
    }
}
