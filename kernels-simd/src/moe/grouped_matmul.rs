//! Grouped products. A task multiplies some rows of one expert, or computes the gradient of one
//! expert's weights.
//!
//! Rows are contiguous, and those of each expert follow those of the expert before, from the first row on. Weights are one
//! stacked tensor or one for each expert. Their strides are positive.

use super::in_place::{Gradients, Part, Round, Slab, Sum, matrices};
use crate::keys::ExpertLayout;
use crate::lanes::vectorize;
use crate::product::{Factors, Gemm, Matrix, Rows, load, product};
use crate::share::each;
use crate::{Element, Output, Values, View, with_type};
use std::ops::Range;

/// Returns the product of each expert's rows, `[R, K]`, with its weights, `[R, N]`. `groups` are the rows of each expert; other
/// rows of the result are zero.
///
/// # Panics
/// Panics if sizes or types don't go together, or if a tensor can't be read in place.
pub fn forward(
    x: &View<'_>,
    groups: &[Range<usize>],
    weights: &[View<'_>],
    layout: ExpertLayout,
) -> Values {
    with_type!(x.dtype(), T => rows_by_weights::<T>(x, groups, &matrices(weights, layout)))
}

/// Returns the gradient of the rows, `[R, K]`, from that of the result, `dy`, `[R, N]`.
///
/// # Panics
/// Panics under the conditions of [`forward`].
pub fn gradient_of_x(
    dy: &View<'_>,
    groups: &[Range<usize>],
    weights: &[View<'_>],
    layout: ExpertLayout,
) -> Values {
    with_type!(dy.dtype(), T => {
        let matrices = matrices::<T>(weights, layout).into_iter();
        let matrices: Vec<_> = matrices.map(Matrix::transposed).collect();
        rows_by_weights::<T>(dy, groups, &matrices)
    })
}

/// Returns the gradients of the weights. There is a flag for each, one if they are one stacked tensor; gradients that are not
/// wanted are `None`.
///
/// # Panics
/// Panics under the conditions of [`forward`], or if there are more or fewer flags.
pub fn gradients_of_weights(
    x: &View<'_>,
    dy: &View<'_>,
    groups: &[Range<usize>],
    layout: ExpertLayout,
    wanted: &[bool],
) -> Vec<Option<Values>> {
    with_type!(x.dtype(), T => weight_gradients::<T>([x, dy], groups, layout, wanted))
}

/// Returns the number of rows that experts have.
///
/// # Panics
/// Panics if the rows of an expert don't follow those of the expert before, or if there are fewer.
fn covered(groups: &[Range<usize>], rows: usize) -> usize {
    let end = groups.iter().try_fold(0, |end, group| {
        (group.start == end && group.end >= end).then_some(group.end)
    });
    match end {
        Some(end) if end <= rows => end,
        _ => panic!("grouped matmul: {groups:?} are not the groups of {rows} rows"),
    }
}

/// Returns the sizes of a matrix of rows.
///
/// # Panics
/// Panics if there are more or fewer axes.
fn sizes(rows: &View<'_>) -> [usize; 2] {
    let sizes = rows.sizes().try_into();
    sizes.unwrap_or_else(|_| {
        panic!(
            "grouped matmul: rows must have two axes, found {:?}",
            rows.sizes()
        )
    })
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
    x: &View<'_>,
    groups: &[Range<usize>],
    weights: &[Matrix<'_, T>],
) -> Values
where
    T::Acc: Gemm,
{
    let [rows, inputs] = sizes(x);
    let features = weights.first().map_or(0, |weights| weights.features);
    let fits = |weights: &Matrix<'_, T>| (weights.inputs, weights.features) == (inputs, features);
    assert!(
        weights.len() == groups.len() && weights.iter().all(fits),
        "grouped matmul: the weights of {} experts are not those of {} with {inputs} inputs and {features} features",
        weights.len(),
        groups.len()
    );
    let covered = covered(groups, rows);
    let mut out = Output::<T>::new([rows, features]);
    let mut left = out.rest();
    let x = x.contiguous::<T>();
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
        vectorize(Round { from: &y, to: out });
    });
    T::values(out.into_values())
}

fn weight_gradients<T: Element>(
    [x, dy]: [&View<'_>; 2],
    groups: &[Range<usize>],
    layout: ExpertLayout,
    wanted: &[bool],
) -> Vec<Option<Values>>
where
    T::Acc: Gemm,
{
    let ([rows, inputs], [same, features]) = (sizes(x), sizes(dy));
    assert!(
        same == rows,
        "grouped matmul: a gradient of {same} rows does not fit {rows} rows"
    );
    let covered = covered(groups, rows);
    let (x, dy) = (x.contiguous::<T>(), dy.contiguous::<T>());
    let size = inputs.checked_mul(features);
    let size = size.unwrap_or_else(|| panic!("grouped matmul: {inputs} inputs are too many"));
    let mut gradients = Gradients::<T>::new(wanted, groups.len(), size);
    let slabs = gradients.experts();
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
    gradients.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    const NUMBERS: [f32; 12] = [1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11., 12.];

    #[test]
    fn stacked_weights_are_those_of_a_list() {
        let x = View::whole(&[1.0_f32, 10.0, 1.0, 1.0, 2.0, 2.0], &[3, 2]);
        let groups = [0..1, 1..2];
        let stacked = [View::whole(&NUMBERS, &[2, 2, 3])];
        let list = [0, 6].map(|start| View::of(&NUMBERS, &[2, 3], &[3, 1], start));
        // The same matrices, in the other order of their axes.
        let turned = [View::of(&NUMBERS, &[2, 3, 2], &[6, 1, 3], 0)];
        let expected = Values::F32(vec![41., 52., 63., 17., 19., 21., 0., 0., 0.]);
        for (weights, layout) in [
            (&stacked[..], ExpertLayout::Matmul),
            (&list, ExpertLayout::Matmul),
            (&turned, ExpertLayout::Linear),
        ] {
            assert_eq!(forward(&x, &groups, weights, layout), expected);
        }
        let dy = View::whole(&[1.0_f32, 0.0, 0.0, 0.0, 1.0, 0.0, 9.0, 9.0, 9.0], &[3, 3]);
        let d_x = gradient_of_x(&dy, &groups, &list, ExpertLayout::Matmul);
        assert_eq!(d_x, Values::F32(vec![1., 4., 8., 11., 0., 0.]));
        let of =
            |wanted: &[bool]| gradients_of_weights(&x, &dy, &groups, ExpertLayout::Matmul, wanted);
        let [first, second] = [
            vec![1.0, 0.0, 0.0, 10.0, 0.0, 0.0],
            vec![0.0, 1.0, 0.0, 0.0, 1.0, 0.0],
        ];
        let both = Values::F32([&first[..], &second].concat());
        assert_eq!(of(&[true]), [Some(both)]);
        assert_eq!(of(&[false, true]), [None, Some(Values::F32(second))]);
    }

    #[test]
    #[allow(clippy::reversed_empty_ranges, clippy::single_range_in_vec_init)]
    fn tensors_that_do_not_go_together_are_refused() {
        let x = View::whole(&NUMBERS[..6], &[3, 2]);
        let stacked = [View::whole(&NUMBERS, &[2, 2, 3])];
        for groups in [
            &[0..1][..],
            &[0..1, 2..3],
            &[1..2, 2..3],
            &[0..2, 2..4],
            &[0..2, 2..1],
            &[0..1, 1..2, 2..3],
        ] {
            let found = catch_unwind(|| forward(&x, groups, &stacked, ExpertLayout::Matmul));
            assert!(found.is_err(), "{groups:?}");
        }
        let groups = [0..1, 1..3];
        let found = catch_unwind(|| forward(&x, &groups, &stacked, ExpertLayout::Linear));
        assert!(found.is_err());
        let dy = View::whole(&NUMBERS[..6], &[2, 3]);
        let wanted = |wanted: &[bool]| {
            _ = gradients_of_weights(&x, &x, &groups, ExpertLayout::Matmul, wanted);
        };
        wanted(&[true]);
        assert!(catch_unwind(|| wanted(&[true; 3])).is_err());
        let found =
            catch_unwind(|| gradients_of_weights(&x, &dy, &groups, ExpertLayout::Matmul, &[true]));
        assert!(found.is_err());
    }
}
