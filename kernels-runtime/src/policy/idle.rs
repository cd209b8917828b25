//! Parts of a policy that have no effect in this program, so that each can be reported.

use super::Policy;
use crate::context;
use crate::mapping::{Mapping, Target};
use crate::registry::{KERNEL_OF_STEPS, SPECS, SiteSpec};

impl Policy {
    /// Returns the rules for layers as they are written, such as `-first:2`.
    fn layer_words(&self) -> String {
        let sign = |on: bool| if on { '+' } else { '-' };
        let words = self.layers.iter();
        let words = words.map(|(layers, on)| format!("`{}{layers}`", sign(*on)));
        words.collect::<Vec<_>>().join(", ")
    }

    /// Returns the kernels that the policy asks for explicitly.
    pub(crate) fn asked_for(&self) -> impl Iterator<Item = &'static str> {
        let kernels = self.kernels.iter();
        kernels.filter_map(|(id, on)| on.then_some(*id))
    }

    /// Returns the kernels that the policy asks for and that no site of this program can call, nor an operation without
    /// a site.
    pub(crate) fn never_called(&self, mapping: &Mapping) -> Vec<&'static str> {
        let can_call = |id: &str| {
            id == KERNEL_OF_STEPS || SPECS.iter().any(|site| may_call(site, id, mapping))
        };
        self.asked_for().filter(|id| !can_call(id)).collect()
    }

    /// Returns a warning that the rules for layers have no effect, if no layer was entered yet.
    pub(crate) fn without_layers(&self) -> Option<String> {
        let idle = self.speaks_of_layers() && !context::any_layer_was_entered();
        idle.then(|| {
            format!(
                "the policy `{self}` has rules for layers ({}), which did nothing: no call so far \
                 came from a layer of a stack. A model says which one it computes with \
                 `policy::layer(index, count)`",
                self.layer_words()
            )
        })
    }

    /// Returns a warning that a plan does not include the effect of the rules for layers.
    pub(crate) fn layers_in_a_plan(&self) -> Option<String> {
        self.speaks_of_layers().then(|| {
            format!(
                "a plan does not know of layers: {} may change what is planned in the layers \
                 that the model enters with `policy::layer`",
                self.layer_words()
            )
        })
    }
}

/// Returns `true` if the attribute or the mapping lets a site run the kernel.
pub(crate) fn may_call(site: &SiteSpec, id: &str, mapping: &Mapping) -> bool {
    site.kernel == id
        || mapping.rules().any(|rule| {
            site.layer == Some(rule.layer.as_str())
                && matches!(&rule.target, Target::Kernel(target) if target == id)
        })
}

/// Returns a warning that no site of this program can call these requested kernels.
pub(crate) fn no_site(policy: &Policy, ids: &[&str]) -> String {
    let ids: Vec<String> = ids.iter().map(|id| format!("`+{id}`")).collect();
    format!(
        "the policy `{policy}` asks for {}, which no site of this program can call: it has no \
         annotated item of that kind",
        ids.join(", ")
    )
}
