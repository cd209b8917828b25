//! One site, one decision: device, dtype, mode and policy in; an implementation or the reason for
//! the reference out.

mod at;
mod choose;
mod device;
mod plan;
mod query;
mod reason;
mod tally;

pub use at::At;
pub use choose::{Candidate, Decision};
pub(crate) use choose::{best, choose};
pub use device::DeviceKind;
pub use plan::{Plan, PlanRow, plan};
pub use query::{Mode, Query, TensorType};
pub use reason::Reason;
pub(crate) use tally::{Outcome, Tally};
