//! The norm and rotation over CANN's operators: those of [RMSNorm](crate::ops::rms_norm::npu) and of the
//! [rotation](crate::ops::rope::npu), in one operation. The change of layout is a strided view that the rotation reads.
//!
//! A call is refused if either of the two refuses its part.

mod kernel;

pub(crate) use kernel::IMPLEMENTATION;

use super::Operands;
use crate::npu::{Refused, Seen};
use crate::ops::{rms_norm, rope};
use crate::semantics::{HeadLayout, QkNorm};
use burn_cann::{Platform, Spec};

/// Checks that CANN's operators compute a call of operands of these types and shapes.
///
/// # Errors
/// Returns the reason if they don't.
pub fn decide(platform: &Platform, operands: &Operands<Seen<Spec>>) -> Result<(), Refused> {
    let (x, key) = (operands.x(), operands.key());
    let &[b, s, heads, d] = x.shape() else {
        unreachable!("the shapes were checked")
    };
    let of = |shape: &[usize]| Ok::<_, Refused>(Seen(Spec::contiguous(x.dtype, shape)?));
    if let Some(eps) = operands.settings().eps {
        let rows = match key.norm {
            QkNorm::None | QkNorm::Head => x.clone(),
            QkNorm::Row => of(&[b, s, heads * d])?,
        };
        let group_size = None;
        let settings = rms_norm::Settings { eps, group_size };
        let weight = operands.weight().cloned();
        let norm = rms_norm::Operands::new(rows, weight, None, settings, key.rms_norm())?;
        rms_norm::npu::decide(platform, &norm)?;
    }
    let placed = match key.layout {
        HeadLayout::Bnsd => of(&[b, heads, s, d])?,
        HeadLayout::Bsnd => x.clone(),
    };
    let (cos, sin) = (operands.cos().clone(), operands.sin().clone());
    let rotation = rope::Operands::new(placed, cos, sin, key.rope())?;
    rope::npu::decide(platform, &rotation).map(|_| ())
}
