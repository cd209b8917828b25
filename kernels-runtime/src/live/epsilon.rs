//! The epsilon of a body that computes a norm with another one than its attribute names.
//!
//! The reference runs once more with each epsilon that is in use. A body whose results and gradients are those of one
//! of them is told which one it is. Epsilons that are no power of ten are not found.

use super::check::{Expected, Look};
use super::run::Computed;
use super::tolerance::Miss;
use crate::kernel::erased::ErasedOperands;

/// The epsilons that layers use, and none.
const KNOWN: [f64; 12] = [
    0.0, 1e-12, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1,
];

/// Returns the deviation of a body, with the epsilon that explains it if there is one. `flows` returns true for the
/// operands whose gradients the body must have.
pub(super) fn explained(
    miss: Miss,
    operands: &dyn ErasedOperands,
    body: &Computed,
    flows: &dyn Fn(&str) -> bool,
    look: &Look,
) -> Miss {
    let (Miss::Norm { .. }, Some(own)) = (&miss, operands.epsilon()) else {
        return miss;
    };
    let error = |eps: f64| {
        let other = Expected::of(&*operands.with_epsilon(eps)?, look);
        let error = other.judge_body(body, flows, None).ok()?;
        other.is_finite().then_some((error, eps))
    };
    let others = KNOWN.into_iter().filter(|eps| *eps != own);
    let nearest = others.filter_map(error).min_by(|a, b| a.0.total_cmp(&b.0));
    match nearest {
        Some((_, eps)) => miss.by_epsilon(own, eps),
        None => miss,
    }
}
