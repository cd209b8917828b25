//! The settings of a group.

use crate::{Error, ErrorKind};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The status that a process ends with after the loss of another rank, if [`Options::on_loss`] is not set. It is
/// `EX_TEMPFAIL` of `sysexits.h`: the same command may succeed later.
pub const LOSS_STATUS: i32 = 75;

/// A function that ends the process after the loss of another rank.
pub type OnLoss = Arc<dyn Fn(&Error) + Send + Sync>;

/// The settings of [`Group::from_environment`](crate::Group::from_environment). All ranks have the same `timeout` and
/// `deterministic`.
#[derive(Clone)]
pub struct Options {
    /// The time in which every rank ends after another one died, hangs or can't be reached. At least one second.
    pub timeout: Duration,
    /// Adds in the order of ranks, so that a number of ranks gives the same bits in every run.
    pub deterministic: bool,
    /// Called if the group still exists a quarter of the timeout after another rank was lost: the process waits
    /// somewhere else than in the group. It must end the process. `None` prints the error and ends with
    /// [`LOSS_STATUS`].
    pub on_loss: Option<OnLoss>,
}

impl Default for Options {
    /// Returns a timeout of 60 seconds, and sums in the order of the engine.
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(60),
            deterministic: false,
            on_loss: None,
        }
    }
}

impl Options {
    pub(crate) fn check(&self) -> Result<(), Error> {
        // Ranks send a sign of life eight times in this time. A busy machine delays threads by tens of milliseconds.
        if self.timeout < Duration::from_secs(1) || self.timeout > Duration::from_secs(24 * 3600) {
            let problem = format!(
                "a timeout of {:?} is not between 1 second and 1 day",
                self.timeout
            );
            return Err(Error::new(ErrorKind::Start, problem));
        }
        Ok(())
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("timeout", &self.timeout)
            .field("deterministic", &self.deterministic)
            .field("on_loss", &self.on_loss.is_some())
            .finish()
    }
}
