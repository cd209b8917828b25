use super::{Parts, placed};
use crate::cpu::{self, Context, Element, Kernel, Output, Real, Rows, Scratch, Unwritten, total};
use crate::ops::qk_norm_rope::Gradients;
use crate::ops::rms_norm::cpu::Axis;
use crate::ops::rms_norm::cpu::pass::{self, Gate};
use crate::ops::rms_norm::cpu::without::{self, Without};
use crate::ops::rope::cpu::{Direction, Places, turn};
use crate::semantics::HeadLayout;
use burn::backend::flex::FlexTensor;
use std::marker::PhantomData;
use std::ops::Range;

/// Reads pairs of the result's gradient and writes pairs in the order `P`.
pub(super) fn run<T: Element, U: Element<Acc = T::Acc>, P: Places>(
    parts: &Parts,
    dy: &FlexTensor,
    wanted: bool,
) -> Gradients<FlexTensor> {
    let axis = parts.axis::<T>();
    let shape = parts.x.layout().shape();
    let [cos, sin] = parts.angles::<U>();
    let x = Rows::<T>::readable(parts.norm.x());
    let readable = Rows::<T>::readable(dy);
    let dy = placed(&readable, parts.key);
    let kernel = Backward::<T, U, P> {
        dy: Rows::new(&dy),
        x: axis.rows(&x),
        cos: cos.per_head(shape, HeadLayout::Bsnd),
        sin: sin.per_head(shape, HeadLayout::Bsnd),
        pairs: cos.pairs(),
        axis: &axis,
        wanted,
        order: PhantomData,
    };
    let mut dx = Output::<T>::new(shape.clone());
    let count = kernel.x.count();
    let sums = cpu::run(&kernel, count, axis.width, [&mut dx], &mut Output::none());
    let sums = sums.iter().map(Vec::as_slice);
    Gradients {
        x: dx.finish(),
        weight: wanted.then(|| total::<T>(sums, axis.gain.len())),
    }
}

struct Backward<'a, T: Element, U, Order> {
    /// The heads of the result's gradient in the order of `x`.
    dy: Rows<'a, T>,
    /// The rows that are normalised, each of one head or of all heads of a token.
    x: Rows<'a, T>,
    cos: Rows<'a, U>,
    sin: Rows<'a, U>,
    /// The number of rotated pairs of a head.
    pairs: usize,
    axis: &'a Axis<T>,
    /// True if the gradient of the weight is wanted.
    wanted: bool,
    order: PhantomData<Order>,
}

impl<T: Element, U: Element<Acc = T::Acc>, P: Places> Kernel<1> for Backward<'_, T, U, P> {
    type Out = T;
    type Acc = T::Acc;
    type PerRow = ();
    /// The partial sum of the weight's gradient over the range.
    type Sum = Vec<T::Acc>;

    #[inline(always)]
    fn rows<C: Context>(
        &self,
        c: C,
        range: Range<usize>,
        [mut dx]: [Unwritten<'_, T>; 1],
        _: Unwritten<'_, ()>,
    ) -> Vec<T::Acc> {
        let (axis, width) = (self.axis, self.dy.width());
        let heads_of_row = axis.width / width;
        let heads = range.start * heads_of_row..range.end * heads_of_row;
        let [mut cos, mut sin] = [&self.cos, &self.sin].map(|table| table.range(heads.clone()));
        let mut heads = self.dy.range(heads);
        let mut dw = vec![T::Acc::ZERO; if self.wanted { axis.gain.len() } else { 0 }];
        let mut turned = Scratch::new();
        let mut unused = pass::Scratch::new::<1>(axis.width);
        for x in self.x.range(range) {
            let mut rest = turned.row(axis.width, T::round(T::Acc::ZERO));
            for _ in 0..heads_of_row {
                let (dy, angles) = (heads.row(), [cos.row(), sin.row()]);
                let (head, others) = rest.split_at(width);
                turn::<C, T, U, P, P>(c, dy, head, angles, self.pairs, Direction::Backward);
                rest = others;
            }
            let rstd = without::rstd(c, x, axis);
            let row = pass::Operands {
                x,
                gate: x,
                gain: &axis.gain,
                c,
            };
            let gradients = [dx.row(axis.width)];
            let dw = self.wanted.then_some(&mut dw[..]);
            <Without>::backward(turned.values(), row, rstd, axis, &mut unused, gradients, dw);
        }
        dw
    }
}
