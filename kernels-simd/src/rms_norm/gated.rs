//! The norm with a gate `silu(z)` before it, or after it.

use super::Axis;
use crate::keys::Gating;
use crate::{Element, Number, Real, Row, sum_of, sum_of_squares};

/// Buffers for a row in the accumulation type.
pub(super) struct Buffers<A> {
    /// The gate's factor times the row, or times `dy`.
    gated: Vec<A>,
    /// `silu(z)` and its slope, kept so that each exponential is computed once.
    silus: Vec<A>,
    slopes: Vec<A>,
}

impl<A: Real> Buffers<A> {
    pub(super) fn new(width: usize) -> Self {
        let [gated, silus, slopes] = [(); 3].map(|()| vec![A::ZERO; width]);
        Self {
            gated,
            silus,
            slopes,
        }
    }
}

/// The operands of a row, and memory for it.
pub(super) struct Gated<'a, T: Element> {
    pub(super) x: &'a [T],
    pub(super) gate: &'a [T],
    pub(super) gain: &'a [T::Acc],
    pub(super) axis: &'a Axis<T>,
    pub(super) buffers: &'a mut Buffers<T::Acc>,
}

impl<T: Element> Gated<'_, T> {
    /// Writes the result and returns `rstd`.
    #[inline(always)]
    pub(super) fn forward(self, y: Row<'_, T>) -> T::Acc {
        match self.axis.gating {
            Gating::BeforeNorm => self.gate_and_norm(y),
            Gating::AfterNorm | Gating::None => self.norm_and_gate(y),
        }
    }

    /// Writes the gradients of the row and of its gate. Adds to the gradient of the weight, if it is wanted.
    #[inline(always)]
    pub(super) fn backward(
        self,
        dy: &[T],
        r: T::Acc,
        gradients: [Row<'_, T>; 2],
        dw: Option<&mut [T::Acc]>,
    ) {
        match self.axis.gating {
            Gating::BeforeNorm => self.gate_and_norm_backward(dy, r, gradients, dw),
            Gating::AfterNorm | Gating::None => self.norm_and_gate_backward(dy, r, gradients, dw),
        }
    }

    /// Computes `y = v̂ · g` with `v = x · silu(z)`.
    #[inline(always)]
    fn gate_and_norm(self, y: Row<'_, T>) -> T::Acc {
        let (axis, rounding) = (self.axis, self.axis.rounding);
        let gated = &mut self.buffers.gated;
        for ((v, x), z) in gated.iter_mut().zip(self.x).zip(self.gate) {
            let z = z.load();
            *v = x.load() * (z * z.sigmoid());
        }
        let r = axis.rstd(sum_of_squares(gated, |v| v));
        let scaled = gated.iter().zip(self.gain);
        y.write(scaled.map(|(v, g)| T::round(rounding.step::<T>(*v * r) * *g)));
        r
    }

    #[inline(always)]
    fn gate_and_norm_backward(
        self,
        dy: &[T],
        r: T::Acc,
        [dx, d_gate]: [Row<'_, T>; 2],
        dw: Option<&mut [T::Acc]>,
    ) {
        let Self {
            x,
            gate,
            gain,
            axis,
            buffers,
        } = self;
        let Buffers {
            gated,
            silus,
            slopes,
        } = buffers;
        let places = gated.iter_mut().zip(&mut *silus).zip(&mut *slopes);
        for (((v, silu), slope), (x, z)) in places.zip(x.iter().zip(gate)) {
            (*silu, *slope) = z.load().silu_with_slope();
            *v = x.load() * *silu;
        }
        let projection = sum_of(dy, gated, gain, |dy: T, v: T::Acc, g| dy.load() * v * g);
        let along = axis.along(projection, r);
        let norm = dy.iter().zip(&*gated).zip(gain);
        let gates = x.iter().zip(&*silus).zip(&*slopes);
        let gradients = norm.zip(gates).map(|(((dy, v), g), ((x, silu), slope))| {
            let dv = r * (dy.load() * *g - *v * along);
            let d_gate = dv * x.load() * *slope;
            (T::round(dv * *silu), T::round(d_gate))
        });
        dx.write_with(d_gate, gradients);
        if let Some(dw) = dw {
            for ((dw, dy), v) in dw.iter_mut().zip(dy).zip(&*gated) {
                *dw += dy.load() * (*v * r);
            }
        }
    }

    /// Computes `y = x̂ · g · silu(z)`.
    #[inline(always)]
    fn norm_and_gate(self, y: Row<'_, T>) -> T::Acc {
        let rounding = self.axis.rounding;
        let r = self.axis.rstd(sum_of_squares(self.x, T::load));
        let results = self.x.iter().zip(self.gate).zip(self.gain);
        y.write(results.map(|((x, z), g)| {
            let z = z.load();
            let scaled = rounding.step::<T>(rounding.step::<T>(x.load() * r) * *g);
            T::round(scaled * (z * z.sigmoid()))
        }));
        r
    }

    #[inline(always)]
    fn norm_and_gate_backward(
        self,
        dy: &[T],
        r: T::Acc,
        [dx, d_gate]: [Row<'_, T>; 2],
        dw: Option<&mut [T::Acc]>,
    ) {
        let Self { x, gate, gain, .. } = self;
        // `dy · silu(z)`, the input of the norm's own gradients.
        let gated = &mut self.buffers.gated;
        let given = dy.iter().zip(x).zip(gate).zip(gain).zip(&mut *gated);
        d_gate.write(given.map(|((((dy, x), z), g), gated)| {
            let dy = dy.load();
            let (silu, slope) = z.load().silu_with_slope();
            *gated = dy * silu;
            T::round(dy * (x.load() * r * *g) * slope)
        }));
        let projection = sum_of(gated, x, gain, |dy: T::Acc, x: T, g| dy * x.load() * g);
        let along = self.axis.along(projection, r);
        let gradients = gated.iter().zip(x).zip(gain);
        dx.write(gradients.map(|((dy, x), g)| T::round(r * (*dy * *g - x.load() * along))));
        if let Some(dw) = dw {
            for ((dw, dy), x) in dw.iter_mut().zip(&*gated).zip(x) {
                *dw += *dy * (x.load() * r);
            }
        }
    }
}
