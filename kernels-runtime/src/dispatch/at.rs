use super::{Decision, Query};
use crate::ops;
use crate::registry::Site;
use burn::backend::DispatchTensor;

/// One call of a site: what the expansion of the attribute hands to the operations.
#[derive(Clone, Copy, Debug)]
pub struct At {
    site: &'static Site,
    when: bool,
}

impl At {
    /// A call of a site without a condition.
    pub const fn new(site: &'static Site) -> Self {
        Self { site, when: true }
    }

    /// A call of a site whose attribute says `when = …`, with the value of the condition.
    pub const fn when(site: &'static Site, when: bool) -> Self {
        Self { site, when }
    }

    /// The site.
    pub const fn site(&self) -> &'static Site {
        self.site
    }

    /// Which path a call with these tensors takes, and counts it.
    pub(crate) fn decide<'a>(&self, tensors: impl AsRef<[&'a DispatchTensor]>) -> Decision {
        self.site.decide(self.query(tensors.as_ref()))
    }

    /// Which path a call with these tensors would take. It is not counted.
    pub(crate) fn peek<'a>(&self, tensors: impl AsRef<[&'a DispatchTensor]>) -> Decision {
        self.site.peek(self.query(tensors.as_ref()))
    }

    fn query(&self, tensors: &[&DispatchTensor]) -> Query {
        let mut query = ops::query(&self.site.spec().key, tensors);
        query.condition = self.when;
        query
    }
}
