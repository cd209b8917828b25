//! Grouped products on Flex. A task multiplies some rows of one expert, or computes the gradient of one
//! expert's weights.

use super::super::in_place::{self, Part, Readable, Round, Slab, Sum};
use super::super::integers::read as ints;
use super::{Backward, Gradients, GroupedMatmulBackend, GroupedMatmulKernel, Tensors};
use crate::cpu::product::{Factors, Gemm, Matrix, Rows, load, product};
use crate::cpu::share::each;
use crate::cpu::{Element, Output, contiguous, dispatch_dtype};
use crate::ops::operands::checked;
use crate::semantics::ExpertLayout;
use burn::backend::flex::FlexTensor;
use burn::backend::{Flex, Shape};
use std::ops::Range;

impl GroupedMatmulBackend for Flex {
    fn grouped_matmul(operands: Tensors<Self>) -> FlexTensor {
        Self::grouped_matmul_forward(operands)
    }
}

impl GroupedMatmulKernel for Flex {
    fn grouped_matmul_forward(operands: Tensors<Self>) -> FlexTensor {
        dispatch_dtype!(checked(operands.dtype()), T => {
            let groups = groups(&operands);
            let readable = Readable::new(operands.weights());
            rows_by_weights(operands.x(), &groups, &readable.matrices::<T>(operands.layout()))
        })
    }

    fn grouped_matmul_backward(
        backward: Backward<FlexTensor, FlexTensor>,
    ) -> Gradients<FlexTensor> {
        let (operands, dy) = (backward.operands(), backward.dy());
        let (layout, wanted) = (operands.layout(), backward.wanted());
        dispatch_dtype!(checked(operands.dtype()), T => {
            let groups = groups(operands);
            let x = wanted.x.then(|| {
                let readable = Readable::new(operands.weights());
                let matrices = readable.matrices::<T>(layout);
                let matrices: Vec<_> = matrices.into_iter().map(Matrix::transposed).collect();
                rows_by_weights(dy, &groups, &matrices)
            });
            let mut weights = in_place::Gradients::<T>::new(operands.weights(), &wanted.weights);
            weight_gradients(operands.x(), dy, &groups, layout, &mut weights);
            Gradients {
                x,
                weights: weights.finish(),
            }
        })
    }
}

fn groups(operands: &Tensors<Flex>) -> Vec<Range<usize>> {
    super::groups(&ints(operands.counts()), operands.x().layout().shape()[0])
}

/// The number of rows of one expert that a task multiplies. The weights are read once for these rows.
const CHUNK: usize = 384;

fn chunks(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    range
        .clone()
        .step_by(CHUNK)
        .map(move |start| start..(start + CHUNK).min(range.end))
}

/// Returns whether a task is so large a part of all rows that threads share it.
fn spread(rows: usize, all: usize) -> bool {
    rows * 8 > all
}

fn rows_by_weights<T: Element>(
    x: &FlexTensor,
    groups: &[Range<usize>],
    weights: &[Matrix<'_, T>],
) -> FlexTensor
where
    T::Acc: Gemm,
{
    let x = x.to_contiguous();
    let [rows, inputs] = [0, 1].map(|axis| x.layout().shape()[axis]);
    let features = weights.first().map_or(0, |weights| weights.features);
    let mut out = Output::<T>::new(Shape::new([rows, features]));
    let mut left = out.rest();
    let x = contiguous::<T>(&x);
    let covered = groups.last().map_or(0, |group| group.end);
    let mut tasks = Vec::new();
    for (expert, group) in groups.iter().enumerate() {
        for rows in chunks(group.clone()) {
            let out = left.part(rows.len() * features);
            tasks.push((expert, rows, out));
        }
    }
    left.filled(T::round(Gemm::ZERO));
    each(tasks, |(expert, rows, out)| {
        let spread = spread(rows.len(), covered);
        let mut y = vec![<T::Acc as Gemm>::ZERO; out.len()];
        let x = load(&x[rows.start * inputs..rows.end * inputs]);
        let x = Rows::new(&x, rows.len(), inputs);
        product(&x, weights[expert], &mut y, false, spread);
        pulp::Arch::new().dispatch(Round { from: &y, to: out });
    });
    out.finish()
}

fn weight_gradients<T: Element>(
    x: &FlexTensor,
    dy: &FlexTensor,
    groups: &[Range<usize>],
    layout: ExpertLayout,
    gradients: &mut in_place::Gradients<T>,
) where
    T::Acc: Gemm,
{
    let (x, dy) = (x.to_contiguous(), dy.to_contiguous());
    let (inputs, features) = (x.layout().shape()[1], dy.layout().shape()[1]);
    let covered = groups.last().map_or(0, |group| group.end);
    let (x, dy) = (contiguous::<T>(&x), contiguous::<T>(&dy));
    let slabs = gradients.experts(groups.len(), inputs * features);
    let tasks: Vec<(&Range<usize>, Slab<'_, T>)> = groups.iter().zip(slabs).collect();
    each(tasks, |(group, slab)| {
        let Some(slab) = slab else { return };
        let mut sum = Sum::new(slab);
        let spread = spread(group.len(), covered);
        for rows in chunks(group.clone()) {
            let x = load(&x[rows.start * inputs..rows.end * inputs]);
            let dy = load(&dy[rows.start * features..rows.end * features]);
            let (x, dy) = ((&x[..], inputs), (&dy[..], features));
            let (left, right) = match layout {
                ExpertLayout::Linear => (dy, x),
                ExpertLayout::Matmul => (x, dy),
            };
            let whole = Part {
                factors: Factors {
                    count: rows.len(),
                    left,
                    right,
                },
                first: 0,
                line_stride: right.1,
                stride: 1,
            };
            sum.add(&[whole], false, spread);
        }
        sum.finish();
    });
}
