//! Products of many rows, as of a prompt: the codes of sixteen outputs are reordered, so that each output has a lane.

use super::activations;
use super::quads::Quads;
use super::weights::{GROUP, GROUPS, Integers, PIECE, Piece};
use super::{Of, Part, TALL};
use crate::{LANES, Lanes, Number};
use std::ops::Range;

/// A piece of sixteen outputs.
#[derive(Clone, Copy)]
struct Panel {
    /// Four codes of each output, then the next four.
    codes: [[u8; 4 * LANES]; PIECE / 4],
    scales: [[f32; LANES]; GROUPS],
    terms: [[f32; LANES]; GROUPS],
}

impl Panel {
    const ZERO: Self = Self {
        codes: [[0; 4 * LANES]; PIECE / 4],
        scales: [[0.0; LANES]; GROUPS],
        terms: [[0.0; LANES]; GROUPS],
    };
}

impl Part<'_> {
    #[inline(always)]
    pub(super) fn many<Q: Quads>(self, q: Q) {
        let mut panels = vec![Panel::ZERO; self.weight.pieces()];
        let mut pieces = vec![Piece::ZERO; self.weight.pieces()];
        for start in (0..self.width).step_by(LANES) {
            let outputs = LANES.min(self.width - start);
            fill(
                &mut panels,
                &mut pieces,
                self.weight,
                self.first + start..self.first + start + outputs,
            );
            let mut rows = self.rows.rows();
            let mut sums = self.sums.chunks_exact_mut(self.width);
            while rows.len() >= TALL {
                let tile: [_; TALL] = std::array::from_fn(|_| rows.next().expect("as many"));
                for lanes in multiply(q, &panels, tile) {
                    put(lanes, start, outputs, sums.next());
                }
            }
            for row in rows {
                let [lanes] = multiply(q, &panels, [row]);
                put(lanes, start, outputs, sums.next());
            }
        }
    }
}

fn put(lanes: [f32; LANES], start: usize, outputs: usize, row: Option<&mut [f32]>) {
    let row = row.expect("each row has its sums");
    row[start..][..outputs].copy_from_slice(&lanes[..outputs]);
}

/// Decodes the pieces of outputs. Lanes without an output have scales of zero.
fn fill(panels: &mut [Panel], pieces: &mut [Piece], weight: Integers<'_>, outputs: Range<usize>) {
    if outputs.len() < LANES {
        panels.fill(Panel::ZERO);
    }
    for (lane, output) in outputs.enumerate() {
        weight.decode(output, pieces);
        for (piece, panel) in pieces.iter().zip(&mut *panels) {
            let quads = piece.codes.as_chunks::<4>().0;
            for (places, quad) in panel.codes.iter_mut().zip(quads) {
                places.as_chunks_mut::<4>().0[lane] = *quad;
            }
            for group in 0..GROUPS {
                panel.scales[group][lane] = piece.scales[group];
                panel.terms[group][lane] = piece.terms[group];
            }
        }
    }
}

/// Multiplies rows with sixteen outputs.
#[inline(always)]
fn multiply<Q: Quads, const R: usize>(
    q: Q,
    panels: &[Panel],
    rows: [&[activations::Piece]; R],
) -> [[f32; LANES]; R] {
    let c = q.lanes();
    let mut lanes = [Of::<Q>::splat(c, 0.0); R];
    for (piece, panel) in panels.iter().enumerate() {
        for group in 0..GROUPS {
            let mut integers = [[0; LANES]; R];
            for quad in 0..GROUP / 4 {
                let at = group * (GROUP / 4) + quad;
                for (integers, row) in integers.iter_mut().zip(&rows) {
                    let mut numbers = [0; 4 * LANES];
                    let quad = row[piece].codes.as_chunks::<4>().0[at];
                    numbers.as_chunks_mut::<4>().0.fill(quad);
                    *integers = q.add(*integers, &panel.codes[at], &numbers);
                }
            }
            let scales = Of::<Q>::read(c, &panel.scales[group]);
            let terms = Of::<Q>::read(c, &panel.terms[group]);
            for r in 0..R {
                let mut sums = [0.0; LANES];
                for (sum, integer) in sums.iter_mut().zip(integers[r]) {
                    *sum = integer as f32;
                }
                let sums = Of::<Q>::read(c, &sums);
                let scales = scales * Of::<Q>::splat(c, rows[r][piece].scales[group]);
                lanes[r] = sums.mul_add(scales, lanes[r]);
                lanes[r] = terms.mul_add(Of::<Q>::splat(c, rows[r][piece].sums[group]), lanes[r]);
            }
        }
    }
    let mut sums = [[0.0; LANES]; R];
    for (sums, lanes) in sums.iter_mut().zip(lanes) {
        *sums = lanes.values();
    }
    sums
}
