//! Groups of devices that reduce tensors together, over HCCL.
//!
//! Every device of a group calls the same reductions in the same order, each on a stream of its own. A reduction is work
//! on that stream: the call returns at once, later work on the stream has the result, and nothing waits on the host. One
//! thread may call for all devices in turn.
//!
//! # Lost devices
//!
//! A stream in a reduction waits on the device until all others are there. HCCL gives up after `HCCL_EXEC_TIMEOUT`, by
//! default half an hour. A host that waits for a stream with open reductions therefore looks at the others every 100 ms. It
//! gives up if the work of one failed, or if one ended before its part ([`Membership`]). The failure belongs to the whole
//! group: other waits for open reductions, and all later calls, return it.
//!
//! HCCL does not compare the calls of the devices. A group does, by their order, and refuses one that differs.

mod agreement;
mod communicator;
mod group;

pub use group::{Group, Membership};
pub(crate) use group::{Part, wait};
