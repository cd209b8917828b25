//! The losses of a weight in quantised form.

use super::{Checked, Operands, Wanted, Weight, forward_in};
use crate::cross_entropy::Settings;
use crate::keys::LossReduction;
use crate::product::{Gemm, load};
use crate::{Element, Values, View, with_type};
use kernels_quant::QuantizedWeight;

/// Returns the loss of each token, zero for ignored ones, for a weight `[classes, width]` in quantised form. If
/// `wanted`, also returns the gradient of the hidden states, `[tokens, width]`, for the gradient 1 of each loss. Both
/// are in f32, or in f64 for f64.
///
/// # Panics
/// Panics if sizes don't go together, if a target is not a class, or if the hidden states are not contiguous.
pub fn of_quantised(
    hidden: &View<'_>,
    weight: &QuantizedWeight<'_>,
    targets: &[Option<usize>],
    settings: Settings,
    wanted: bool,
) -> (Values, Option<Values>) {
    with_type!(hidden.dtype(), T => {
        of_type::<T>(hidden, weight, targets, settings, wanted)
    })
}

/// Computes in the type that decoded numbers have: half types are widened first, which products in them do as well.
fn of_type<T: Element>(
    hidden: &View<'_>,
    weight: &QuantizedWeight<'_>,
    targets: &[Option<usize>],
    settings: Settings,
    wanted: bool,
) -> (Values, Option<Values>)
where
    T::Acc: Gemm,
{
    let wide = load(hidden.contiguous::<T>());
    let operands = Operands {
        hidden: View::whole(&wide, hidden.sizes()),
        weight: Weight::Quantised(weight),
        bias: None,
        targets,
        settings,
        reduction: LossReduction::None,
    };
    let wanted = Wanted {
        hidden: wanted,
        ..Wanted::default()
    };
    let (losses, gradients) = forward_in::<T::Acc>(&Checked::new(&operands), wanted);
    (losses, gradients.hidden)
}
