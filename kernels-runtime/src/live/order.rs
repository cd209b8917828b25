//! The order in which a body rounds, for keys that state one.
//!
//! Two orders differ by a rounding, which is well within the tolerance of a body. But they differ in many elements. A
//! body that rounds in one of the orders gives exactly the numbers of that order, except where a neighbouring value in
//! f32 decides. A body is therefore taken to follow the other order if nine in ten of the elements in which the two
//! orders differ have the value of that order, and 49 in 50 of all elements. A body that also rounds elsewhere, for
//! example after every operation, agrees with neither.
//!
//! The order can't be found if both give the same results in f32: with weights of ones or of other powers of two.

use super::run::{Computed, Upstream, cut, run};
use super::tolerance::Miss;
use crate::kernel::erased::ErasedOperands;
use std::collections::BTreeSet;

/// The number of differing elements that is enough to distinguish the orders.
const ENOUGH: usize = 16;

/// Returns an error if the results of a body follow the other order. `own` are the reference's results.
pub(super) fn judge_order(
    operands: &dyn ErasedOperands,
    own: &Computed,
    body: &Computed,
) -> Result<(), Miss> {
    let Some((other, order)) = operands.in_other_order() else {
        return Ok(());
    };
    let other = run(cut(&*other), None, Upstream::None, |other| {
        other.reference()
    });
    let results = own.results.iter().zip(&other.results).zip(&body.results);
    for ((own, other), got) in results {
        let both = own.elements.iter().zip(&other.elements).zip(&got.elements);
        let differing = both.filter(|((own, other), _)| own != other);
        // Equal rows, such as those of one repeated token, tell the same several times.
        let bits =
            |((own, other), got): ((&f64, &f64), &f64)| [own, other, got].map(|x| x.to_bits());
        let differing: BTreeSet<_> = differing.map(bits).collect();
        let differ = differing.len();
        let agree = differing.iter().filter(|[_, other, got]| other == got);
        let agree = agree.count();
        let all = other.elements.iter().zip(&got.elements);
        let equal = all.filter(|(other, got)| other == got).count();
        let is_other = agree * 10 >= differ * 9 && equal * 50 >= got.elements.len() * 49;
        if differ >= ENOUGH && is_other {
            return Err(Miss::Order {
                result: got.name.clone(),
                order,
                agree,
                differ,
            });
        }
    }
    Ok(())
}
