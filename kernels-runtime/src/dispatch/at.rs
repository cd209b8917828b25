use super::{Decision, Query};
use crate::registry::Site;
use burn::backend::DispatchTensor;

/// One call of a site: what the expansion of the attribute hands to the operations.
#[derive(Clone, Copy, Debug)]
pub struct At {
    site: &'static Site,
    when: bool,
    opaque: bool,
}

impl At {
    /// A call of a site without a condition.
    #[inline]
    pub const fn new(site: &'static Site) -> Self {
        Self {
            site,
            when: true,
            opaque: false,
        }
    }

    /// A call of a site whose attribute says `when = …`, with the value of the condition.
    #[inline]
    pub const fn when(site: &'static Site, when: bool) -> Self {
        Self {
            site,
            when,
            opaque: false,
        }
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
