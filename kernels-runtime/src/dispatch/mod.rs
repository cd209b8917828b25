//! The decision of one site. Its inputs are device, dtype, mode, policy and mapping. Its result is an implementation,
//! or the reference with a reason.

mod choose;
mod decision_cache;
mod entered;
mod log;
pub(crate) mod operators;
mod plan;
mod plan_file;
mod query;
mod route;
mod site;
mod site_call;
pub(crate) mod span;
mod step;
mod tuned;
mod unmet;

pub use crate::device::{
    DeviceKind, DeviceKinds, KernelOp, Served, ascend_capability, cuda_capability, x86_64_level,
};
pub use crate::mode::Mode;
pub use crate::reason::Reason;
pub use choose::{Candidate, Decision};
pub(crate) use choose::{Choice, Outcome, best, choose, entry};
pub(crate) use decision_cache::DecisionCache;
pub(crate) use entered::Entered;
pub(crate) use plan::plan_under;
pub use plan::{Plan, PlanCandidate, PlanError, PlanRow, plan, plan_for, plan_sites};
pub use plan_file::{Difference, PlanCheckError, PlanDifference};
pub use query::{Query, TensorType};
pub(crate) use route::Route;
pub use site::{SITES, Site, sites};
pub use site_call::At;
pub use span::SPAN_TARGET;
pub(crate) use step::Step;

#[cfg(test)]
pub(crate) mod tests;
