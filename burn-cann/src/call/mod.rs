//! CANN's calls in two phases: the first plans and says what workspace it needs, the second runs the plan.
//!
//! The plan, an executor, is freed by the second phase, also when that fails; calling it twice would be a
//! use after free. [`Prepared::launch`] takes the call by value, so that safe code can't:
//!
//! ```compile_fail,E0382
//! # fn twice(prepared: burn_cann::Prepared<()>) -> burn_cann::Result<()> {
//! prepared.launch()?;
//! prepared.launch()?;
//! # Ok(())
//! # }
//! ```

mod cache;
mod constant;
mod executor;
mod operand;
mod prepared;

pub use cache::ExecutorStatistics;
pub(crate) use cache::{Attribute, ExecutorCache};
pub(crate) use constant::Constant;
pub use constant::Scalar;
pub(crate) use operand::Operand;
pub use prepared::Prepared;
pub(crate) use prepared::Request;
