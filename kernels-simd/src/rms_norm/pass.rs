//! The passes over rows, forward and backward. A kernel is compiled once for each dtype: the order of rounding, a gate and a
//! residual are values, which each row asks for once.

use super::gated::{Buffers, Gated};
use super::{Axis, Gradients, Normalised, Operands, without};
use crate::{
    Blocks, Context, Element, Kernel, LANES, Output, Read, Real, Rows, Unwritten, View, block, run,
    total,
};
use std::ops::Range;

/// The operands of one row.
#[derive(Clone, Copy)]
pub(crate) struct RowOperands<'a, T: Element, C> {
    pub(crate) x: &'a [T],
    pub(crate) gain: &'a [T::Acc],
    /// The instructions to compute with.
    pub(crate) c: C,
}

/// Normalises `x`, or the sum of `x` and a residual.
pub(super) fn forward<T: Element>(
    operands: &Operands<'_>,
    residual: Option<&View<'_>>,
) -> Normalised {
    let axis = &Axis::<T>::new(&operands.x, operands.weight.as_ref(), &operands.settings);
    let bias = operands.bias.as_ref().map(|bias| bias.contiguous::<T>());
    let kernel = Forward {
        x: axis.rows(&operands.x),
        residual: residual.map(|residual| axis.rows(residual)),
        gate: operands.gate.as_ref().map(|gate| axis.rows(gate)),
        bias: bias.map(|bias| bias.iter().map(|b| b.load()).collect()),
        axis,
    };
    let (count, width) = (kernel.x.count(), axis.width);
    let mut y = Output::<T>::new([count, width]);
    let mut sum = match kernel.residual {
        Some(_) => Output::new([count, width]),
        None => Output::none(),
    };
    let mut rstd = Output::new([count]);
    run(&kernel, count, width, [&mut y, &mut sum], &mut rstd);
    Normalised {
        y: T::values(y.into_values()),
        rstd: T::Acc::values(rstd.into_values()),
        sum: residual.map(|_| T::values(sum.into_values())),
    }
}

struct Forward<'a, T: Element> {
    x: Rows<'a, T>,
    residual: Option<Rows<'a, T>>,
    gate: Option<Rows<'a, T>>,
    /// One value for each element of the axis.
    bias: Option<Vec<T::Acc>>,
    axis: &'a Axis<T>,
}

impl<T: Element> Kernel<2> for Forward<'_, T> {
    type Out = T;
    type Acc = T::Acc;
    type PerRow = T::Acc;
    type Sum = ();

    #[inline(always)]
    fn rows<C: Context>(
        &self,
        c: C,
        range: Range<usize>,
        [mut y, mut sum]: [Unwritten<'_, T>; 2],
        mut rstd: Unwritten<'_, T::Acc>,
    ) {
        let (axis, width) = (self.axis, self.axis.width);
        let mut xs = self.x.range(range.clone());
        let residuals = self.residual.as_ref();
        let mut residuals = residuals.map(|rows| rows.range(range.clone()));
        let mut gates = self.gate.as_ref().map(|rows| rows.range(range.clone()));
        let mut buffers = Buffers::new(if gates.is_some() { width } else { 0 });
        for row in range {
            let mut x = xs.row();
            if let Some(residuals) = &mut residuals {
                let residual = residuals.row();
                x = sum.row(width).write_blocks(&Sums { x, residual, c });
            }
            let (gain, y) = (&axis.gain[axis.of_row(row)], y.row(width));
            rstd.push(match &mut gates {
                None => {
                    let bias = self.bias.as_ref();
                    let bias = bias.map(|bias| &bias[of_axis(row, width, bias.len())]);
                    without::forward(RowOperands { x, gain, c }, axis, bias, y)
                }
                Some(gates) => {
                    let (gate, buffers) = (gates.row(), &mut buffers);
                    let row = Gated {
                        x,
                        gate,
                        gain,
                        axis,
                        buffers,
                    };
                    row.forward(y)
                }
            });
        }
    }
}

/// Returns the range of a row in the `n` elements of the whole axis, of which the row is a group.
#[inline(always)]
fn of_axis(row: usize, width: usize, n: usize) -> Range<usize> {
    let start = (row * width) % n.max(1);
    start..start + width
}

/// The sums of a row and its residual.
struct Sums<'a, T, C> {
    x: &'a [T],
    residual: &'a [T],
    c: C,
}

impl<T: Element, C: Context> Blocks<T> for Sums<'_, T, C> {
    #[inline(always)]
    fn at<B: Read>(&self, at: usize) -> [T; LANES] {
        let x = block::<C, T, B>(self.c, self.x, at);
        T::rounded(self.c, x + block::<C, T, B>(self.c, self.residual, at))
    }
}

/// Returns the gradients.
pub(super) fn backward<T: Element>(given: &super::Backward<'_>) -> Gradients {
    let operands = &given.operands;
    let axis = &Axis::<T>::new(&operands.x, operands.weight.as_ref(), &operands.settings);
    let kernel = Backward {
        dy: axis.rows(&given.dy),
        x: axis.rows(&operands.x),
        gate: operands.gate.as_ref().map(|gate| axis.rows(gate)),
        before: given.before.as_ref().map(|before| axis.rows(before)),
        rstd: given.rstd.contiguous(),
        axis,
        wanted: given.wants_weight,
        biases: match &operands.bias {
            Some(bias) if given.wants_bias => bias.len(),
            _ => 0,
        },
    };
    let (count, width) = (kernel.x.count(), axis.width);
    assert!(
        kernel.rstd.len() == count,
        "{} values of rstd are not those of {count} rows",
        kernel.rstd.len()
    );
    let mut dx = Output::<T>::new([count, width]);
    let mut d_gate = match kernel.gate {
        Some(_) => Output::new([count, width]),
        None => Output::none(),
    };
    let (outputs, nothing) = ([&mut dx, &mut d_gate], &mut Output::none());
    let sums = run(&kernel, count, width, outputs, nothing);
    let weights = kernel.weights();
    let [of_weight, of_bias] = [0..weights, weights..weights + kernel.biases].map(|part| {
        let parts = sums.iter().map(|sum| &sum[part.clone()]);
        T::values(total::<T>(parts, part.len()))
    });
    Gradients {
        weight: given.wants_weight.then_some(of_weight),
        bias: given.wants_bias.then_some(of_bias),
        gate: (operands.gate.is_some()).then(|| T::values(d_gate.into_values())),
        x: T::values(dx.into_values()),
    }
}

struct Backward<'a, T: Element> {
    dy: Rows<'a, T>,
    x: Rows<'a, T>,
    gate: Option<Rows<'a, T>>,
    before: Option<Rows<'a, T>>,
    /// One value for each row.
    rstd: &'a [T::Acc],
    axis: &'a Axis<T>,
    /// True if the gradient of the weight is wanted.
    wanted: bool,
    /// The number of elements of the bias, 0 if its gradient is not wanted.
    biases: usize,
}

impl<T: Element> Backward<'_, T> {
    /// Returns the number of elements of the weight, 0 if its gradient is not wanted.
    #[inline(always)]
    fn weights(&self) -> usize {
        if self.wanted { self.axis.gain.len() } else { 0 }
    }
}

impl<T: Element> Kernel<2> for Backward<'_, T> {
    type Out = T;
    type Acc = T::Acc;
    type PerRow = ();
    /// The partial sums of the gradients of the weight and of the bias over the range, as far as they are wanted.
    type Sum = Vec<T::Acc>;

    #[inline(always)]
    fn rows<C: Context>(
        &self,
        c: C,
        range: Range<usize>,
        [mut dx, mut d_gate]: [Unwritten<'_, T>; 2],
        _: Unwritten<'_, ()>,
    ) -> Vec<T::Acc> {
        let (axis, width) = (self.axis, self.axis.width);
        let mut sums = vec![T::Acc::ZERO; self.weights() + self.biases];
        let (dw, db) = sums.split_at_mut(self.weights());
        let (mut dys, mut xs) = (self.dy.range(range.clone()), self.x.range(range.clone()));
        let mut gates = self.gate.as_ref().map(|rows| rows.range(range.clone()));
        let mut others = self.before.as_ref().map(|rows| rows.range(range.clone()));
        let mut buffers = Buffers::new(if gates.is_some() { width } else { 0 });
        for row in range {
            let (r, place) = (self.rstd[row], axis.of_row(row));
            let gain = &axis.gain[place.clone()];
            let (dy, x) = (dys.row(), xs.row());
            let (dx, dw) = (dx.row(width), dw.get_mut(place));
            if let Some(db) = db.get_mut(of_axis(row, width, self.biases)) {
                for (db, dy) in db.iter_mut().zip(dy) {
                    *db += dy.load();
                }
            }
            match &mut gates {
                None => {
                    let before = others.as_mut().map(|rows| rows.row());
                    without::backward(dy, RowOperands { x, gain, c }, r, axis, before, dx, dw);
                }
                Some(gates) => {
                    let (gate, buffers) = (gates.row(), &mut buffers);
                    let row = Gated {
                        x,
                        gate,
                        gain,
                        axis,
                        buffers,
                    };
                    row.backward(dy, r, [dx, d_gate.row(width)], dw);
                }
            }
        }
        sums
    }
}
