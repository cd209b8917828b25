use super::product::{matrix, rows_times};
use crate::cpu::product::{Gemm, add_product, columns_times, readable};
use crate::cpu::{
    Context, Element, Kernel, Output, Real, Rows, Unwritten, contiguous, gradient_sum, is_half,
    run, total,
};
use crate::ops::linear::{Backward, Gradients};
use crate::semantics::OutputLayout;
use burn::backend::Shape;
use burn::backend::flex::FlexTensor;
use std::ops::Range;

/// Returns the wanted gradients, that of `x` with `before`.
pub(super) fn gradients<T: Element>(
    backward: &Backward<FlexTensor>,
    before: Option<FlexTensor>,
) -> Gradients<FlexTensor>
where
    T::Acc: Gemm,
{
    let wanted = *backward.wanted();
    let of_x = || match before {
        Some(before) => of_x_added::<T>(backward, before),
        None => of_x::<T>(backward),
    };
    let of_x = || wanted.x.then(of_x);
    let of_weight = || wanted.weight.then(|| of_weight::<T>(backward));
    // Half types are copied before threads share a product, and one copies while another multiplies. In f32 each product is
    // the threads' own, and two at once push each other's operands out of the caches.
    let (x, weight) = match is_half::<T>() {
        true => rayon::join(of_x, of_weight),
        false => (of_x(), of_weight()),
    };
    Gradients {
        x,
        weight,
        bias: wanted.bias.then(|| of_bias::<T>(backward.dy())),
    }
}

/// Returns `dy · wᵀ`.
fn of_x<T: Element>(backward: &Backward<FlexTensor>) -> FlexTensor
where
    T::Acc: Gemm,
{
    let operands = backward.operands();
    let weight = readable(operands.weight());
    let weight = matrix::<T>(&weight, operands.key().layout).transposed();
    let shape = operands.x().layout().shape().clone();
    rows_times(backward.dy(), weight, None, shape)
}

/// Returns `before + dy · wᵀ`. Products in a type that is not rounded are added in the memory of `before`.
fn of_x_added<T: Element>(backward: &Backward<FlexTensor>, mut before: FlexTensor) -> FlexTensor
where
    T::Acc: Gemm,
{
    let operands = backward.operands();
    let len = before.layout().shape().num_elements();
    if before.is_contiguous() && len > 0 {
        let start = before.layout().start_offset();
        if let Some(values) = before.try_storage_mut::<T>() {
            let weight = readable(operands.weight());
            let weight = matrix::<T>(&weight, operands.key().layout).transposed();
            let dy = backward.dy().to_contiguous();
            if add_product(contiguous::<T>(&dy), weight, &mut values[start..][..len]) {
                return before;
            }
        }
    }
    gradient_sum(of_x::<T>(backward), &before)
}

/// Returns `xᵀ · dy`, or its transpose, as the weight is laid out.
fn of_weight<T: Element>(backward: &Backward<FlexTensor>) -> FlexTensor
where
    T::Acc: Gemm,
{
    let operands = backward.operands();
    let sizes = operands.sizes();
    let (x, dy) = (operands.x().to_contiguous(), backward.dy().to_contiguous());
    let x = (contiguous::<T>(&x), sizes.inputs);
    let dy = (contiguous::<T>(&dy), sizes.outputs);
    let (left, right) = match operands.key().layout {
        OutputLayout::InputMajor => (x, dy),
        OutputLayout::OutputMajor => (dy, x),
    };
    let mut result = Output::<T>::new(Shape::new([left.1, right.1]));
    columns_times(sizes.rows, left, right, result.rest());
    result.finish()
}

/// Returns the sum of the rows of `dy`.
fn of_bias<T: Element>(dy: &FlexTensor) -> FlexTensor {
    let dy = Rows::<T>::readable(dy);
    let rows = Rows::<T>::new(&dy);
    let (count, width) = (rows.count(), rows.width());
    let nothing: [&mut Output<T>; 0] = [];
    let sums = run(
        &ColumnSums { rows },
        count,
        width,
        nothing,
        &mut Output::none(),
    );
    total::<T>(sums.iter().map(Vec::as_slice), width)
}

/// The sums of the columns of a range of rows.
struct ColumnSums<'a, T> {
    rows: Rows<'a, T>,
}

impl<T: Element> Kernel<0> for ColumnSums<'_, T> {
    type Out = T;
    type Acc = T::Acc;
    type PerRow = ();
    type Sum = Vec<T::Acc>;

    #[inline(always)]
    fn rows<C: Context>(
        &self,
        _: C,
        range: Range<usize>,
        _: [Unwritten<'_, T>; 0],
        _: Unwritten<'_, ()>,
    ) -> Vec<T::Acc> {
        let mut sums = vec![T::Acc::ZERO; self.rows.width()];
        for row in self.rows.range(range) {
            for (sum, value) in sums.iter_mut().zip(row) {
                *sum += value.load();
            }
        }
        sums
    }
}
