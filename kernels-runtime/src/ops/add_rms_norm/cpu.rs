//! The sum and its RMSNorm on Flex: a row of the sum is normalised while it is in the first-level cache.

use super::autodiff::Tensors;
use super::{AddRmsNormBackend, AddRmsNormKernel, Normalised};
use crate::cpu::{
    BASE, Blocks, Context, Element, Kernel, LANES, Output, Read, Rows, Unwritten, block,
    dispatch_dtype, run,
};
use crate::ops::operands::checked;
use crate::ops::rms_norm::cpu::pass::{After, Before, Gate, Operands, Scratch};
use crate::ops::rms_norm::cpu::without::Without;
use crate::ops::rms_norm::cpu::{Axis, Once, Steps, Twice};
use crate::registry::{Implementation, Launch};
use crate::semantics::{Gating, Rounding, SemanticsKey};
use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use burn::tensor::{DType, bf16, f16};
use std::marker::PhantomData;
use std::ops::Range;

pub(super) const IMPLEMENTATION: Implementation = Implementation {
    launch: Launch::AddRmsNorm(super::launch),
    accepts: |key| matches!(key, SemanticsKey::AddRmsNorm(_)),
    ..BASE
};

impl AddRmsNormBackend for Flex {
    fn add_rms_norm(operands: Tensors<Self>) -> (FlexTensor, FlexTensor) {
        let Normalised { y, sum, .. } = Self::add_rms_norm_forward(operands);
        (y, sum)
    }
}

impl AddRmsNormKernel for Flex {
    fn add_rms_norm_forward(operands: Tensors<Self>) -> Normalised<FlexTensor> {
        match (checked(operands.dtype()), operands.key().rounding) {
            (DType::BF16, Rounding::Llama) => forward::<bf16, Twice>(&operands),
            (DType::F16, Rounding::Llama) => forward::<f16, Twice>(&operands),
            // f32 and f64 are not rounded, so one implementation serves both orders.
            (dtype, _) => dispatch_dtype!(dtype, T => forward::<T, Once>(&operands)),
        }
    }
}

fn forward<T: Element, R: Steps<T>>(operands: &Tensors<Flex>) -> Normalised<FlexTensor> {
    match operands.key().gating {
        Gating::AfterNorm => pass::<T, R, After, _>(operands),
        Gating::BeforeNorm => pass::<T, R, Before, _>(operands),
        Gating::None => pass::<T, R, Without, _>(operands),
    }
}

fn pass<T: Element, R: Steps<T>, P: Gate<T, N>, const N: usize>(
    operands: &Tensors<Flex>,
) -> Normalised<FlexTensor> {
    let residual = Rows::<T>::readable(operands.residual());
    let (x, gate) = (operands.x(), operands.gate());
    let (x, gate) = (Rows::<T>::readable(x), gate.map(Rows::<T>::readable));
    let like_norm = operands.clone().norm_of(|x, _| x);
    let axis = Axis::new(&like_norm);
    let shape = like_norm.x().layout().shape();
    let mut results = [(); 2].map(|()| Output::<T>::new(shape.clone()));
    let mut rstd = Output::<T::Acc>::new(axis.per_row(like_norm.x()));
    let kernel = Pass::<T, (R, P), N> {
        x: axis.rows(&x),
        residual: axis.rows(&residual),
        gate: axis.rows(gate.as_ref().unwrap_or(&x)),
        axis: &axis,
        variant: PhantomData,
    };
    let count = kernel.x.count();
    run(&kernel, count, axis.width, results.each_mut(), &mut rstd);
    let [y, sum] = results.map(Output::finish);
    let rstd = rstd.finish();
    Normalised { y, sum, rstd }
}

struct Pass<'a, T: Element, V, const N: usize> {
    x: Rows<'a, T>,
    residual: Rows<'a, T>,
    gate: Rows<'a, T>,
    axis: &'a Axis<T>,
    variant: PhantomData<V>,
}

impl<T: Element, R: Steps<T>, P: Gate<T, N>, const N: usize> Kernel<2> for Pass<'_, T, (R, P), N> {
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
        let width = self.axis.width;
        let mut scratch = Scratch::new::<N>(width);
        let terms = self.x.range(range.clone());
        let terms = terms.zip(self.residual.range(range.clone()));
        let rows = terms.zip(self.gate.range(range.clone()));
        for (row, ((x, residual), gate)) in range.zip(rows) {
            let x = sum.row(width).write_blocks(&Sums { x, residual, c });
            let gain = &self.axis.gain[self.axis.of_row(row)];
            let row = Operands { x, gate, gain, c };
            rstd.push(P::forward::<C, R>(
                row,
                self.axis,
                &mut scratch,
                y.row(width),
            ));
        }
    }
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
