//! The message of a call that cannot run a required kernel.

use super::{Choice, Query};
use crate::context::Active;
use crate::reason::Reason;
use crate::registry::SiteSpec;
use kernels_io::Table;
use std::fmt;

/// A requirement that can't be met. Its text gives the site, the reason, the implementations considered and a remedy.
pub(crate) struct Unmet<'a> {
    pub(crate) site: &'a SiteSpec,
    pub(crate) active: &'a Active,
    pub(crate) query: Query,
    pub(crate) choice: &'a Choice,
    pub(crate) reason: Reason,
}

impl fmt::Display for Unmet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { choice, reason, .. } = self;
        let Query {
            device,
            tensors,
            mode,
            ..
        } = self.query;
        let purpose = self.site.key.purpose(mode);
        write!(
            f,
            "the policy `{}` asks for {} at {}, which can't run it on {device} with {tensors} \
             tensors for {purpose}: {reason}; {}",
            self.active.policy,
            choice.kernel,
            self.site.name(),
            reason.advice()
        )?;
        if choice.candidates.is_empty() {
            return Ok(());
        }
        let mut table = Table::new(["  implementation", "device", "refused because"]);
        for candidate in &choice.candidates {
            let one = candidate.implementation;
            let refused = candidate.refused.map(|reason| reason.to_string());
            table.row([
                format!("  {}", one.name),
                one.device.to_string(),
                refused.unwrap_or_else(|| "it can run".to_owned()),
            ]);
        }
        write!(f, "\n{}", table.to_string().trim_end())
    }
}
