//! One site, one decision: device, dtype, mode, policy and mapping in; an implementation or the
//! reason for the reference out.

mod at;
mod choose;
mod plan;
mod plan_file;
mod query;
mod site;
mod tally;
mod unmet;

pub use crate::device::{
    DeviceKind, DeviceKinds, KernelOp, Served, ascend_capability, cuda_capability, x86_64_level,
};
pub use crate::mode::Mode;
pub use crate::reason::Reason;
pub use at::At;
pub use choose::{Candidate, Decision};
pub(crate) use choose::{Choice, Outcome, best, choose};
pub(crate) use plan::plan_under;
pub use plan::{Plan, PlanCandidate, PlanError, PlanRow, plan};
pub use plan_file::{Difference, PlanCheckError, PlanDifference};
pub use query::{Query, TensorType};
pub use site::{SITES, Site, sites};
pub(crate) use tally::Tally;

#[cfg(test)]
pub(crate) mod tests;
