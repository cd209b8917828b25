//! The log of new decisions.

use super::{Choice, Outcome, Query, operators};
use crate::policy::Reaction;
use crate::registry::SiteSpec;
use crate::warning::warning;

/// Logs a new decision: a warning for each reason whose reaction is a warning, and the outcome at debug level.
pub(super) fn say(site: &SiteSpec, query: Query, choice: &Choice) {
    let Query {
        device,
        tensors,
        mode,
        ..
    } = query;
    let purpose = site.key.purpose(mode);
    let item = &*site.item_in_type();
    for (reason, reaction) in &choice.reactions {
        if *reaction == Reaction::Warn {
            warning!(
                site = item,
                module = site.module,
                kernel = choice.kernel,
                "{}::{} on {device} with {tensors} tensors for {purpose}: {reason}; {}",
                site.module,
                item,
                reason.advice()
            );
        }
    }
    match choice.outcome {
        Outcome::Fused(kernel, implementation) => tracing::debug!(
            site = item,
            module = site.module,
            kernel = kernel.id,
            implementation = implementation.name,
            ?query,
            "{}",
            operators::path(
                implementation.name,
                &operators::of(implementation, &site.key, query)
            )
        ),
        Outcome::Reference(reason) => tracing::debug!(
            site = item,
            module = site.module,
            kernel = choice.kernel,
            %reason,
            ?query,
            "reference"
        ),
    }
}
