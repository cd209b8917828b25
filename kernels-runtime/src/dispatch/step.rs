//! Steps: operations of this crate that no attribute names, such as [`route`](crate::ops::moe::route) or the products of
//! experts with adapters. They obey the policy and are counted like sites, but plans, patterns of sites and built files
//! don't have them, because a program calls them by itself.

use super::choose::Outcome;
use super::{DecisionCache, Query};
use crate::reason::Reason;
use crate::registry::{Form, KERNEL_OF_STEPS, KernelSpec, SiteSpec};
use crate::semantics::SemanticsKey;
use burn::backend::DispatchTensor;

/// A step, with the counts of its calls.
pub(crate) struct Step {
    spec: SiteSpec,
    cache: DecisionCache,
}

impl Step {
    /// Creates a step of the module `ops::moe`, `item`, which runs kernels like those for `key`.
    pub(crate) const fn of_moe(item: &'static str, key: SemanticsKey) -> Self {
        Self {
            spec: SiteSpec {
                kernel: KERNEL_OF_STEPS,
                item,
                path: None,
                module: "kernels_runtime::ops::moe",
                krate: env!("CARGO_PKG_NAME"),
                crate_version: env!("CARGO_PKG_VERSION"),
                file: file!(),
                line: line!(),
                form: Form::Function,
                key,
                layer: None,
                condition: None,
            },
            cache: DecisionCache::new(),
        }
    }

    pub(crate) const fn spec(&self) -> &SiteSpec {
        &self.spec
    }

    pub(crate) const fn cache(&self) -> &DecisionCache {
        &self.cache
    }

    /// Runs `fused`, or `reference` if the policy says so or the kernel does not take the tensors, and counts the call.
    ///
    /// # Panics
    /// Panics if the policy requires the kernel and it can't run.
    pub(crate) fn run<T>(
        &self,
        kernel: &'static KernelSpec,
        tensors: &[&DispatchTensor],
        fused: impl FnOnce() -> Result<T, Reason>,
        reference: impl FnOnce() -> T,
    ) -> T {
        let query = Query::of_one_dtype(tensors);
        if self.cache.is_off(&self.spec, query) {
            self.cache
                .told(&self.spec, query, Outcome::Reference(Reason::Policy));
            return reference();
        }
        match fused() {
            Ok(made) => {
                self.cache
                    .told(&self.spec, query, self.fused(kernel, query));
                made
            }
            Err(reason) => {
                self.cache
                    .told(&self.spec, query, Outcome::Reference(reason));
                reference()
            }
        }
    }

    /// Returns the implementation that is counted: the first one of the device for the step's key. It stands for those of
    /// the operations that the step runs.
    fn fused(&self, kernel: &'static KernelSpec, query: Query) -> Outcome {
        let mut all = kernel.implementations.iter();
        let one =
            all.find(|one| one.device.contains(query.device) && (one.accepts)(&self.spec.key));
        let one = one.unwrap_or_else(|| {
            panic!(
                "{}: a kernel ran that {} does not have",
                self.spec.item, kernel.id
            )
        });
        Outcome::Fused(kernel, one)
    }
}
