use super::{Decision, Query, Site};
use crate::semantics::OperationKey;
use burn::backend::DispatchTensor;

/// One call of a site: what the expansion of the attribute hands to the operations.
#[derive(Clone, Copy, Debug)]
pub struct At {
    site: &'static Site,
    when: bool,
    opaque: bool,
    body_first: bool,
    once: bool,
}

impl At {
    /// A call of a site without a condition.
    #[inline]
    pub const fn new(site: &'static Site) -> Self {
        Self::when(site, true)
    }

    /// A call of a site whose attribute says `when = …`, with the value of the condition.
    #[inline]
    pub const fn when(site: &'static Site, when: bool) -> Self {
        Self {
            site,
            when,
            opaque: false,
            body_first: false,
            once: false,
        }
    }

    /// A call of which only the body can tell in what order it uses its parameters first. If one of
    /// them `is_lazy`, not yet initialised, the body runs before the kernel.
    #[inline]
    #[must_use]
    pub const fn body_first(mut self, is_lazy: bool) -> Self {
        self.body_first = is_lazy;
        self
    }

    /// A call whose body moves what it captures, so that it can run once at most.
    #[inline]
    #[must_use]
    pub const fn once(mut self) -> Self {
        self.once = true;
        self
    }

    /// The same call, of which it is known that layers have to be called through their own
    /// `forward`.
    pub(crate) const fn opaque(self) -> Self {
        Self {
            opaque: true,
            ..self
        }
    }

    /// The site.
    #[inline]
    pub const fn site(&self) -> &'static Site {
        self.site
    }

    /// The key of the site, which is one of this operation.
    #[inline]
    pub(crate) fn key<K: OperationKey>(&self) -> K {
        self.site.spec().key.known()
    }

    /// Whether the body runs before the kernel.
    #[inline]
    pub(crate) const fn runs_body_first(&self) -> bool {
        self.body_first
    }

    /// Whether the body may run more than once.
    #[inline]
    pub(crate) const fn may_repeat(&self) -> bool {
        !self.once
    }

    /// Which path a call with these tensors takes, and counts it. The tensors are those that the
    /// operation takes, in its order: an implementation's limits are asked about them.
    #[inline]
    pub(crate) fn decide<'a>(&self, tensors: impl AsRef<[&'a DispatchTensor]>) -> Decision {
        let tensors = tensors.as_ref();
        self.site.decide_call(self.query(tensors), tensors)
    }

    /// Which path a call of this kind would take. It is not counted, and no limits are asked: the
    /// tensors need not be those of the operation.
    #[inline]
    pub(crate) fn peek<'a>(&self, tensors: impl AsRef<[&'a DispatchTensor]>) -> Decision {
        self.site.peek(self.query(tensors.as_ref()))
    }

    #[inline]
    fn query(&self, tensors: &[&DispatchTensor]) -> Query {
        let mut query = Query::of_tensors(&self.site.spec().key, tensors);
        query.condition = self.when;
        query.opaque = self.opaque;
        query
    }
}
