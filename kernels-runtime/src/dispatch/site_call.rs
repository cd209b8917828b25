use super::entered::{self, Entered};
use super::{Decision, Query, Route, Site, span};
use crate::mode::Mode;
use crate::semantics::OperationKey;
use burn::backend::DispatchTensor;
use std::panic::Location;

/// A call of a site, as the expansion of the attribute passes it to the operations.
#[derive(Clone, Copy, Debug)]
pub struct At {
    site: &'static Site,
    caller: &'static Location<'static>,
    when: bool,
    opaque: bool,
    adapted: bool,
    body_first: bool,
    once: bool,
    /// The place of the name of the instance of a generic item, or 0.
    instance: usize,
}

impl At {
    /// Creates a call of a site without a condition.
    #[inline]
    #[track_caller]
    pub const fn new(site: &'static Site) -> Self {
        Self::when(site, true)
    }

    /// Creates a call of a site whose attribute has `when = …`. `when` is the value of the condition.
    #[inline]
    #[track_caller]
    pub const fn when(site: &'static Site, when: bool) -> Self {
        Self {
            site,
            caller: Location::caller(),
            when,
            opaque: false,
            adapted: false,
            body_first: false,
            once: false,
            instance: 0,
        }
    }

    /// Tells the instances of a generic item apart, by the type of a closure in its body. Live verification checks each,
    /// because a body may compute something else for another type.
    #[inline]
    #[must_use]
    pub fn instance<F: Fn()>(self, _: &F) -> Self {
        Self {
            // Equal names may have several places, so that an instance is checked more than once.
            instance: std::any::type_name::<F>().as_ptr().addr(),
            ..self
        }
    }

    /// Marks the call as one whose body alone determines the order in which it first uses its parameters. If one of
    /// them is not yet initialised (`is_lazy`), the body runs before the kernel.
    #[inline]
    #[must_use]
    pub const fn body_first(mut self, is_lazy: bool) -> Self {
        self.body_first = is_lazy;
        self
    }

    /// Marks the call as one whose body moves its captured variables, so it can run only once.
    #[inline]
    #[must_use]
    pub const fn once(mut self) -> Self {
        self.once = true;
        self
    }

    /// Marks the call as one whose layers have to be called through their own `forward`.
    pub(crate) const fn opaque(self) -> Self {
        Self {
            opaque: true,
            ..self
        }
    }

    /// Marks the call as one of experts with adapters, which grouped kernels compute.
    pub(crate) const fn adapted(self) -> Self {
        Self {
            adapted: true,
            ..self
        }
    }

    /// Returns the site.
    #[inline]
    pub const fn site(&self) -> &'static Site {
        self.site
    }

    /// Returns a number that differs between the instances of a generic item.
    #[inline]
    pub(crate) const fn instance_number(&self) -> u64 {
        self.instance as u64
    }

    /// Returns the key of the site, which is a key of this operation.
    #[inline]
    pub(crate) fn key<K: OperationKey>(&self) -> K {
        self.site.spec().key.known()
    }

    /// Returns `true` if the body runs before the kernel.
    #[inline]
    pub(crate) const fn runs_body_first(&self) -> bool {
        self.body_first
    }

    /// Returns `true` if the body may run more than once.
    #[inline]
    pub(crate) const fn may_repeat(&self) -> bool {
        !self.once
    }

    /// Enters the call, which ends when the result is dropped: messages about operands name it, and it is a span.
    #[inline]
    pub(crate) fn enter(&self) -> entered::Open {
        let (site, caller) = (self.site, self.caller);
        Entered { site, caller }.open()
    }

    /// Decides the path of a call with these tensors, and counts it. The tensors are the operands of the operation, in
    /// its order, because the limits of implementations are checked on them, and a policy that tunes chooses by their
    /// sizes.
    #[inline]
    pub(crate) fn decide<'a>(&self, tensors: impl AsRef<[&'a DispatchTensor]>) -> Route {
        let tensors = tensors.as_ref();
        let query = self.query(tensors);
        let route = self.site.decide_call(query, tensors);
        span::decided(self.site, route.decision());
        route.of_mode(query.mode == Mode::Training)
    }

    /// Returns the path that a call of this kind would take. It does not count the call, does not check limits and does not
    /// know what is measured, so the tensors need not be the operands of the operation.
    #[inline]
    pub(crate) fn peek<'a>(&self, tensors: impl AsRef<[&'a DispatchTensor]>) -> Decision {
        self.site.peek(self.query(tensors.as_ref()))
    }

    #[inline]
    fn query(&self, tensors: &[&DispatchTensor]) -> Query {
        let mut query = Query::of_tensors(&self.site.spec().key, tensors);
        query.condition = self.when;
        query.opaque = self.opaque;
        query.adapted = self.adapted;
        query
    }
}
