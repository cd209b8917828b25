//! Grouped products on Flex: a task for some rows of one expert, or for the gradient of one
//! expert's weights.

use super::super::integers::read as ints;
use super::super::many::Many;
use super::super::product::{Destination, Factors, Gemm, Matrix, Rows, each, load, outer, product};
use super::super::slabs::{Gradients, Readable, Round, Slab, Sum, contiguous};
use super::{GroupedMatmulBackend, GroupedMatmulKernel};
use crate::cpu::{Element, Output, dispatch_dtype};
use crate::semantics::ExpertLayout;
use burn::backend::flex::FlexTensor;
use burn::backend::{Flex, Shape};
use std::mem::MaybeUninit;
use std::ops::Range;

impl GroupedMatmulBackend for Flex {
    fn grouped_matmul(
        x: FlexTensor,
        counts: FlexTensor,
        weights: Many<Self>,
        layout: ExpertLayout,
    ) -> FlexTensor {
        Self::grouped_matmul_forward(x, counts, weights, layout)
    }
}

impl GroupedMatmulKernel for Flex {
    fn grouped_matmul_forward(
        x: FlexTensor,
        counts: FlexTensor,
        weights: Many<Self>,
        layout: ExpertLayout,
    ) -> FlexTensor {
        dispatch_dtype!(x.dtype(), T => {
            let groups = groups(&x, &counts);
            let readable = Readable::new(&weights.0[0]);
            rows_by_weights(&x, &groups, &readable.matrices::<T>(layout))
        })
    }

    fn grouped_matmul_backward(
        dy: FlexTensor,
        x: FlexTensor,
        counts: FlexTensor,
        weights: Many<Self>,
        layout: ExpertLayout,
        x_gradient: bool,
        wanted: Vec<Vec<bool>>,
    ) -> (Option<FlexTensor>, Vec<Vec<Option<FlexTensor>>>) {
        dispatch_dtype!(x.dtype(), T => {
            let groups = groups(&x, &counts);
            let dx = x_gradient.then(|| {
                let readable = Readable::new(&weights.0[0]);
                let matrices = readable.matrices::<T>(layout);
                let matrices: Vec<_> = matrices.into_iter().map(Matrix::transposed).collect();
                rows_by_weights(&dy, &groups, &matrices)
            });
            let mut gradients = Gradients::<T>::new(&weights.0[0], &wanted[0]);
            weight_gradients(&x, &dy, &groups, layout, &mut gradients);
            // SAFETY: `weight_gradients` writes the slab of every expert.
            (dx, vec![unsafe { gradients.finish() }])
        })
    }
}

fn groups(x: &FlexTensor, counts: &FlexTensor) -> Vec<Range<usize>> {
    super::groups(&ints(counts), x.layout().shape()[0])
}

/// Rows of one expert that a task multiplies: its weights are read once for as many.
const CHUNK: usize = 384;

fn chunks(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    range
        .clone()
        .step_by(CHUNK)
        .map(move |start| start..(start + CHUNK).min(range.end))
}

/// Whether a task is such a part of the whole that threads share it.
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
    let mut left = out.places();
    let x = contiguous::<T>(&x);
    let covered = groups.last().map_or(0, |group| group.end);
    let mut tasks = Vec::new();
    for (expert, group) in groups.iter().enumerate() {
        for rows in chunks(group.clone()) {
            let (places, rest) = left.split_at_mut(rows.len() * features);
            left = rest;
            tasks.push((expert, rows, places));
        }
    }
    left.fill(MaybeUninit::new(T::round(Gemm::ZERO)));
    each(tasks, |(expert, rows, places)| {
        let spread = spread(rows.len(), covered);
        let mut y = vec![<T::Acc as Gemm>::ZERO; places.len()];
        let x = load(&x[rows.start * inputs..rows.end * inputs]);
        let x = Rows::new(&x, rows.len(), inputs);
        product(&x, weights[expert], &mut y, false, spread);
        pulp::Arch::new().dispatch(Round {
            from: &y,
            to: places,
        });
    });
    // SAFETY: the tasks and the rows left over, which are zero, are all places.
    unsafe { out.finish() }
}

fn weight_gradients<T: Element>(
    x: &FlexTensor,
    dy: &FlexTensor,
    groups: &[Range<usize>],
    layout: ExpertLayout,
    gradients: &mut Gradients<T>,
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
            let factors = Factors {
                count: rows.len(),
                left,
                right,
            };
            let add = sum.started();
            let out = Destination {
                data: sum.places(),
                line_stride: right.1,
                stride: 1,
            };
            // SAFETY: `add` says that a chunk before this has written all places, as this does.
            unsafe { outer::<T>(&factors, out, add, spread) };
        }
        // SAFETY: as above.
        unsafe { sum.finish() };
    });
}
