//! The order in which a body rounds, for keys that say one.
//!
//! Two orders differ by a rounding, which is far within what a body may be off. But they differ in
//! many elements, and a body that rounds in one of them gives its numbers exactly, save where a
//! neighbouring value in f32 decides. So a body is held to be of the other order if it gives nine
//! in ten of the elements in which the two differ as that order does. A body that rounds elsewhere
//! too, after every operation for instance, agrees with neither.
//!
//! No order is told where both give the same in f32: with weights of ones or of other powers of two.

use super::run::{Computed, Upstream, cut, run};
use super::tolerance::Miss;
use crate::kernel::Operands;

/// So many elements in which orders differ tell them apart.
const ENOUGH: usize = 16;

/// Refuses a body whose results are those of the other order. `own` are the reference's.
pub(super) fn judge_order<O: Operands>(
    operands: &O,
    own: &Computed,
    body: &Computed,
) -> Result<(), Miss> {
    let Some((other, order)) = operands.in_other_order() else {
        return Ok(());
    };
    let other = run(cut(&other), None, Upstream::None, O::reference);
    let results = own.results.iter().zip(&other.results).zip(&body.results);
    for ((own, other), got) in results {
        let both = own.elements.iter().zip(&other.elements).zip(&got.elements);
        let differing = both.filter(|((own, other), _)| own != other);
        let (mut differ, mut agree) = (0, 0);
        for ((_, other), got) in differing {
            differ += 1;
            agree += usize::from(other == got);
        }
        if differ >= ENOUGH && agree * 10 >= differ * 9 {
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
