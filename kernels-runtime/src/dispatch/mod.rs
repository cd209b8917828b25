//! One site, one decision: device, dtype, mode, policy and mapping in; an implementation or the
//! reason for the reference out.

mod at;
mod capability;
mod choose;
mod device;
mod kinds;
mod plan;
mod plan_file;
mod query;
mod reason;
mod served;
mod tally;
mod unmet;

pub use at::At;
pub use capability::{ascend_capability, cuda_capability, x86_64_level};
pub use choose::{Candidate, Decision};
pub(crate) use choose::{Choice, Outcome, best, choose};
pub use device::DeviceKind;
#[cfg(feature = "remote")]
pub(crate) use device::Place;
pub use kinds::DeviceKinds;
pub(crate) use plan::plan_under;
pub use plan::{Plan, PlanCandidate, PlanError, PlanRow, plan};
pub use plan_file::{Difference, PlanCheckError, PlanDifference};
pub use query::{Mode, Query, TensorType};
pub use reason::Reason;
pub use served::{KernelOp, Served};
pub(crate) use tally::Tally;

#[cfg(test)]
pub(crate) mod tests;
