//! The message of a call that cannot run what was asked for.

use super::{Choice, Query};
use crate::active::Active;
use crate::reason::Reason;
use crate::registry::SiteSpec;
use crate::table::Table;
use std::fmt;

/// A wish that can't be met, for people: what, where, why, what was looked at, and what to do.
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
        write!(
            f,
            "the policy `{}` asks for {} at {}::{}, which can't run it on {device} with {tensors} \
             tensors for {mode}: {reason}; {}",
            self.active.policy,
            choice.kernel,
            self.site.module,
            self.site.item,
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
                &format!("  {}", one.name),
                &one.device.to_string(),
                refused.as_deref().unwrap_or("it can run"),
            ]);
        }
        write!(f, "\n{}", table.to_string().trim_end())
    }
}
