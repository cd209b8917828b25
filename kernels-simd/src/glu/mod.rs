//! Gated linear units, `y = f(gate) · (up_offset + up)`: one pass over memory, without stored intermediate tensors.
//!
//! The loops over elements are compiled for every activation and type (`loops`), but not for
//! every variant. Variants differ in how a row is read, changed and written (`rows`), which happens
//! in the cache. Two contiguous rows that need no change go into the loop directly.

mod adjust;
mod backward;
mod forward;
mod loops;
mod rows;

use crate::keys::{Activation, Projections};
use crate::{Values, View, with_type};

/// The operands.
#[derive(Clone, Debug)]
pub struct Operands<'a> {
    /// The gate, `[.., n]`, or gate and up in one tensor, `[.., 2n]`, with contiguous rows.
    pub gate: View<'a>,
    /// The projection that the gate multiplies, `[.., n]`, with contiguous rows, if it is a separate tensor.
    pub up: Option<View<'a>>,
    /// The numbers of the call.
    pub settings: Settings,
}

/// The variant to compute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The function applied to the gate.
    pub activation: Activation,
    /// The layout of gate and up.
    pub projections: Projections,
    /// The limit of the clamp of gate and up, if there is one. Elements at or beyond it have no gradient.
    pub limit: Option<f64>,
    /// The constant that is added to up.
    pub up_offset: f64,
    /// The threshold below which the gates of a row are zero, above their mean in standard deviations, if there is one.
    pub threshold: Option<f64>,
}

/// The gradients, laid out as the operands.
#[derive(Clone, Debug)]
pub struct Gradients {
    /// The gradient of the gate, or of gate and up in one tensor.
    pub gate: Values,
    /// The gradient of up, if it is a separate tensor.
    pub up: Option<Values>,
}

/// Returns the result, `[.., n]`.
///
/// # Panics
/// Panics if sizes or types don't go together or are not those of the projections, or if a tensor can't be read in place.
pub fn forward(operands: &Operands<'_>) -> Values {
    with_type!(operands.gate.dtype(), T => forward::forward::<T>(operands))
}

/// Returns the gradients, from that of the result, `dy`, `[.., n]`, with contiguous rows.
///
/// # Panics
/// Panics under the conditions of [`forward`](forward()).
pub fn backward(operands: &Operands<'_>, dy: &View<'_>) -> Gradients {
    with_type!(operands.gate.dtype(), T => backward::backward::<T>(operands, dy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    const SETTINGS: Settings = Settings {
        activation: Activation::Relu,
        projections: Projections::Separate,
        limit: Some(3.0),
        up_offset: 1.0,
        threshold: None,
    };

    fn packed(gate_up: &View<'static>, projections: Projections) -> Operands<'static> {
        Operands {
            gate: gate_up.clone(),
            up: None,
            settings: Settings {
                projections,
                ..SETTINGS
            },
        }
    }

    #[test]
    fn every_layout_has_the_same_result() {
        static GATES: [f32; 4] = [1.0, -2.0, 0.5, 9.0];
        static UPS: [f32; 4] = [2.0, 1.0, -7.0, 0.0];
        static HALVES: [f32; 8] = [1.0, -2.0, 2.0, 1.0, 0.5, 9.0, -7.0, 0.0];
        static TURNS: [f32; 8] = [1.0, 2.0, -2.0, 1.0, 0.5, -7.0, 9.0, 0.0];
        let separate = Operands {
            gate: View::whole(&GATES, &[2, 2]),
            up: Some(View::whole(&UPS, &[2, 2])),
            settings: SETTINGS,
        };
        let dy = View::whole(&[1.0_f32, 1.0, 1.0, 1.0], &[2, 2]);
        let y = Values::F32(vec![3.0, 0.0, -1.0, 3.0]);
        assert_eq!(forward(&separate), y);
        let gradients = backward(&separate, &dy);
        assert_eq!(gradients.gate, Values::F32(vec![3.0, 0.0, -2.0, 0.0]));
        assert_eq!(gradients.up, Some(Values::F32(vec![1.0, 0.0, 0.0, 3.0])));
        for (gate_up, projections, expected) in [
            (
                &HALVES,
                Projections::Chunked,
                vec![3.0, 0.0, 1.0, 0.0, -2.0, 0.0, 0.0, 3.0],
            ),
            (
                &TURNS,
                Projections::Interleaved,
                vec![3.0, 1.0, 0.0, 0.0, -2.0, 0.0, 0.0, 3.0],
            ),
        ] {
            let operands = packed(&View::whole(gate_up, &[2, 4]), projections);
            assert_eq!(forward(&operands), y);
            let gradients = backward(&operands, &dy);
            assert_eq!(gradients.gate, Values::F32(expected));
            assert!(gradients.up.is_none());
        }
    }

    #[test]
    fn tensors_that_do_not_go_together_are_refused() {
        static NUMBERS: [f32; 12] = [1.0; 12];
        let view = |sizes: &[usize], strides: &[isize]| View::of(&NUMBERS, sizes, strides, 0);
        let separate = |up: View<'static>| Operands {
            gate: view(&[2, 3], &[3, 1]),
            up: Some(up),
            settings: SETTINGS,
        };
        let halves = half::bf16::ONE;
        let halves = [halves; 6];
        let other = Operands {
            up: Some(View::whole(&halves, &[2, 3])),
            ..separate(view(&[2, 3], &[3, 1]))
        };
        for operands in [
            other,
            separate(view(&[3, 2], &[2, 1])),
            separate(view(&[2, 3], &[1, 2])),
            packed(&view(&[2, 3], &[3, 1]), Projections::Chunked),
            packed(&view(&[2, 3], &[3, 1]), Projections::Interleaved),
            packed(&view(&[], &[]), Projections::Chunked),
            packed(&view(&[2, 4], &[4, 1]), Projections::Separate),
            Operands {
                up: Some(view(&[2, 4], &[4, 1])),
                ..packed(&view(&[2, 4], &[4, 1]), Projections::Chunked)
            },
        ] {
            assert!(catch_unwind(|| forward(&operands)).is_err(), "{operands:?}");
        }
        for dy in [
            view(&[3, 2], &[2, 1]),
            view(&[2, 2], &[2, 1]),
            view(&[6], &[1]),
        ] {
            let operands = separate(view(&[2, 3], &[3, 1]));
            assert!(catch_unwind(|| backward(&operands, &dy)).is_err(), "{dy:?}");
        }
    }
}
