//! Products of few rows, as in decoding: each row of a weight is decoded to the first-level cache, and
//! multiplied with all rows.

use super::quads::Quads;
use super::weights::Piece;
use super::{Of, Part};
use crate::{LANES, Lanes, Number};

/// The number of elements that are multiplied together.
const QUADS: usize = 4 * LANES;

impl Part<'_> {
    #[inline(always)]
    pub(super) fn few<Q: Quads>(self, q: Q) {
        let zero = Of::<Q>::splat(q.lanes(), 0.0);
        let mut pieces = vec![Piece::ZERO; self.weight.pieces()];
        for output in 0..self.width {
            self.weight.decode(self.first + output, &mut pieces);
            let sums = self.sums.iter_mut().skip(output).step_by(self.width);
            for (row, sum) in self.rows.rows().zip(sums) {
                let mut lanes = [zero; 3];
                for (piece, x) in pieces.iter().zip(row) {
                    lanes = multiply(q, piece, x, lanes);
                }
                let [a, b, terms] = lanes;
                *sum = ((a + b) + terms).total();
            }
        }
    }
}

/// Adds the product of two pieces to sums, the last of which is that of the terms.
#[inline(always)]
fn multiply<Q: Quads>(
    q: Q,
    weight: &Piece,
    x: &super::activations::Piece,
    mut lanes: [Of<Q>; 3],
) -> [Of<Q>; 3] {
    let c = q.lanes();
    let terms = Of::<Q>::read(c, &weight.terms);
    lanes[2] = terms.mul_add(Of::<Q>::read(c, &x.sums), lanes[2]);
    let scales = Of::<Q>::read(c, &weight.scales) * Of::<Q>::read(c, &x.scales);
    let scales = scales.values();
    let codes = weight.codes.as_chunks::<QUADS>().0;
    let numbers = x.codes.as_chunks::<QUADS>().0;
    for (at, (codes, numbers)) in codes.iter().zip(numbers).enumerate() {
        let mut sums = [0.0; LANES];
        let integers = q.add([0; LANES], codes, numbers);
        for (sum, integer) in sums.iter_mut().zip(integers) {
            *sum = integer as f32;
        }
        // Each group has four sums of four.
        let mut of_groups = [0.0; LANES];
        for (lane, scale) in of_groups.iter_mut().enumerate() {
            *scale = scales[4 * at + lane / 4];
        }
        let sums = Of::<Q>::read(c, &sums);
        lanes[at % 2] = sums.mul_add(Of::<Q>::read(c, &of_groups), lanes[at % 2]);
    }
    lanes
}
