//! Spans of `tracing` around the calls of sites, for profiles and traces.

use super::{Decision, Site};
use std::cell::RefCell;
use tracing::level_filters::{LevelFilter, STATIC_MAX_LEVEL};
use tracing::span::EnteredSpan;
use tracing::{Span, field, trace_span};

/// The target of the spans that sites open, at level `TRACE`.
///
/// A call of a site is a span with the fields `site`, `kernel` (that of the attribute), `pass` (`forward`) and, once
/// dispatch has decided, `path`, as the report writes it. The gradient of a kernel is a span with the `pass` `backward`
/// and the site whose call recorded it. Burn's own operations have none, so a site on its reference has a span for its
/// forward pass only. A device that computes in the background is not waited for: its spans are the time of the host.
///
/// Without a listener at that level, a span costs one relaxed load and allocates nothing.
pub const SPAN_TARGET: &str = "burn_kernels::site";

thread_local! {
    /// The calls that this thread is in, innermost last. Empty without a subscriber.
    static CALLS: RefCell<Vec<(&'static Site, Span)>> = const { RefCell::new(Vec::new()) };
}

/// A span that ends when this is dropped.
#[must_use]
pub(crate) struct Open {
    _span: EnteredSpan,
    is_call: bool,
}

impl Drop for Open {
    fn drop(&mut self) {
        if self.is_call {
            CALLS.with_borrow_mut(Vec::pop);
        }
    }
}

/// Returns whether a listener may want spans. `tracing` would otherwise also ask `log`.
#[inline]
fn is_heard() -> bool {
    LevelFilter::TRACE <= STATIC_MAX_LEVEL && LevelFilter::TRACE <= LevelFilter::current()
}

/// Opens the span of a call.
#[inline]
pub(super) fn call(site: &'static Site) -> Option<Open> {
    is_heard().then(|| open_call(site))
}

#[cold]
fn open_call(site: &'static Site) -> Open {
    let span = trace_span!(
        target: SPAN_TARGET,
        "site",
        site = site.name(),
        kernel = site.spec().kernel,
        pass = "forward",
        path = field::Empty
    );
    CALLS.with_borrow_mut(|calls| calls.push((site, span.clone())));
    Open {
        _span: span.entered(),
        is_call: true,
    }
}

/// Records the path of the call that this thread is in.
#[inline]
pub(super) fn decided(site: &'static Site, decision: Decision) {
    if is_heard() {
        record(site, decision);
    }
}

#[cold]
fn record(site: &'static Site, decision: Decision) {
    let call = CALLS.with_borrow(|calls| calls.last().cloned());
    if let Some((_, span)) = call.filter(|(of, _)| std::ptr::eq(*of, site)) {
        span.record("path", field::display(decision));
    }
}

/// Returns the site whose call this thread is in, if somebody listens.
#[inline]
pub(crate) fn site() -> Option<&'static Site> {
    if !is_heard() {
        return None;
    }
    CALLS.with_borrow(|calls| calls.last().map(|(site, _)| *site))
}

/// Opens the span of a kernel's gradient. `site` is the one whose call recorded it; a direct call has none.
#[inline]
pub(crate) fn gradient(kernel: &'static str, site: Option<&'static Site>) -> Option<Open> {
    is_heard().then(|| open_gradient(kernel, site))
}

#[cold]
fn open_gradient(kernel: &'static str, site: Option<&'static Site>) -> Open {
    // The steps of a kernel may be those of another one, such as the norm of a sum.
    let kernel = site.map_or(kernel, |site| site.spec().kernel);
    let span = trace_span!(
        target: SPAN_TARGET,
        "site",
        site = site.map(Site::name),
        kernel,
        pass = "backward"
    );
    Open {
        _span: span.entered(),
        is_call: false,
    }
}
