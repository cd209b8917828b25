//! CANN's calls in two phases. Phase one plans the call and returns the size of its workspace; phase two runs the
//! plan.
//!
//! Phase two frees the plan, an executor, even if it fails, so calling it twice would be a use after free.
//! [`Prepared::launch`] takes the call by value, which makes that impossible in safe code:
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
