//! Reductions over axes, running sums, and softmax.
//!
//! The values of each element of the result form a run: the reduced axes are moved behind the others, which needs no
//! copy.

mod along;
mod counts;
mod extremes;
mod moments;

pub use self::along::*;
pub use self::counts::*;
pub use self::extremes::*;
pub use self::moments::*;

use crate::abi::prelude::*;
use crate::ops::arithmetic::Arithmetic;
use crate::ops::reduce as maths;

/// The reduced axes and the shape of the result.
struct Reduced {
    /// The axes that stay, then the reduced ones.
    order: Vec<usize>,
    kept: usize,
    /// The shape of the result.
    shape: Vec<usize>,
}

/// Returns the division of the axes. Empty `axes` stand for all axes.
fn reduced(tensor: &Tensor, axes: &[i64], keep: bool) -> Outcome<Reduced> {
    let mut gone = vec![axes.is_empty(); tensor.rank()];
    for at in axes {
        let at = axis(tensor, *at)?;
        if tensor.rank() > 0 {
            ensure!(!gone[at]; "axis {at} is named twice");
            gone[at] = true;
        }
    }
    let all = || 0..tensor.rank();
    let stays: Vec<usize> = all().filter(|at| !gone[*at]).collect();
    let shape = all().filter(|at| keep || !gone[*at]);
    Ok(Reduced {
        kept: stays.len(),
        order: stays
            .into_iter()
            .chain(all().filter(|at| gone[*at]))
            .collect(),
        shape: shape
            .map(|at| if gone[at] { 1 } else { tensor.shape[at] })
            .collect(),
    })
}

impl Reduced {
    /// Returns the runs of `tensor`'s converted values, one for each element of the result.
    fn runs<T: Number, U>(
        &self,
        memory: &Memory,
        tensor: &Tensor,
        reduce: impl Fn(&[T]) -> U,
    ) -> Outcome<Vec<U>> {
        let tensor = tensor.permuted(&self.order);
        let values = tensor.values::<T>(memory)?;
        let length: usize = tensor.shape[self.kept..].iter().product();
        if length == 0 {
            let count = tensor.shape[..self.kept].iter().product();
            return Ok((0..count).map(|_| reduce(&[])).collect());
        }
        Ok(values.chunks_exact(length).map(reduce).collect())
    }

    /// Returns the work that reduces each run to one value of a dtype.
    fn work<T: Number, U: Number>(
        self,
        gives: aclDataType,
        reduce: impl Fn(&[T]) -> U + Send + Sync + 'static,
    ) -> Work {
        Arc::new(move |memory, operands| {
            let values = self.runs(memory, &operands[0], &reduce)?;
            operands[1].store_values_of(memory, &values, gives)
        })
    }
}

/// The dtypes that the output of a reduction may have.
enum Gives {
    /// That of the input.
    Same,
    One(aclDataType),
    Any(&'static [aclDataType]),
    /// Those to which results of a dtype are converted.
    Converted(aclDataType),
}

/// Takes an input, its axes, and the result. One element may be given as a tensor of one axis or of none.
fn take(
    operands: &mut Operands,
    (input, dtypes): (*const aclTensor, &[aclDataType]),
    (axes, keep): (&[i64], bool),
    output: *const aclTensor,
    gives: Gives,
) -> Outcome<(Tensor, Reduced)> {
    let input = operands.view("self", input, dtypes)?;
    let reduced = reduced(&input, axes, keep)?;
    let output = match gives {
        Gives::Same => operands.target("out", output, &[input.dtype])?,
        Gives::One(dtype) => operands.target("out", output, &[dtype])?,
        Gives::Any(dtypes) => operands.target("out", output, dtypes)?,
        Gives::Converted(from) => {
            let output = operands.target("out", output, ALL)?;
            check_castable("out", from, output.dtype)?;
            output
        }
    };
    if !(reduced.shape.is_empty() && output.shape == [1]) {
        check_size("out", &output, &reduced.shape)?;
    }
    Ok((input, reduced))
}

/// Defines reductions over axes, with a dtype to which they convert first.
macro_rules! converted {
    ($($one:ident, $two:ident: $inputs:expr, $gives:ident => |$values:ident: $number:ident| $work:expr;)*) => {$(
        operator! { reduce: $one, $two(input, axes, keep, to_dtype, output) |operands|
            let axes = operands.ints("dim", axes)?;
            let gives = Gives::$gives(to_dtype);
            let (input, reduced) =
                take(operands, (input, $inputs), (&axes, keep), output, gives)?;
            ensure!(
                NUMBERS.contains(&to_dtype);
                "{} has no results of {}",
                stringify!($two),
                crate::tensor::name_of(to_dtype)
            );
            if matches!(Gives::$gives(to_dtype), Gives::Converted(_)) {
                check_castable("dtype", input.dtype, to_dtype)?;
            }
            Ok(by_number!(to_dtype, $number => reduced.work(to_dtype, |$values: &[$number]| $work)))
        }
    )*};
}

converted! {
    aclnnReduceSumGetWorkspaceSize, aclnnReduceSum: USUAL, One
        => |values: T| maths::total(values);
    aclnnMeanGetWorkspaceSize, aclnnMean: NUMBERS, Converted => |values: T| mean(values);
}

// Without axes the result is the mean of all elements, or, as the argument says, the elements themselves.
operator! { reduce: aclnnMeanV2GetWorkspaceSize, aclnnMeanV2(
    input, axes, keep, noop_with_empty_axes, output
) |operands|
    let axes = operands.ints("dim", axes)?;
    if axes.is_empty() && noop_with_empty_axes {
        let input = operands.view("self", input, NUMBERS)?;
        operands.result("out", output, input.dtype, &input.shape)?;
        return Ok(Arc::new(|memory, operands| {
            super::copy::copy(memory, &operands[0], &operands[1])
        }));
    }
    let (x, reduced) = take(operands, (input, NUMBERS), (&axes, keep), output, Gives::Same)?;
    Ok(by_number!(x.dtype, T => reduced.work(x.dtype, |values: &[T]| mean(values))))
}

trait Mean: Sized {
    fn over(self, count: usize) -> Self;
}

impl Mean for f32 {
    fn over(self, count: usize) -> Self {
        self / count as f32
    }
}

impl Mean for f64 {
    fn over(self, count: usize) -> Self {
        self / count as f64
    }
}

impl Mean for i64 {
    /// Returns the whole part, and 0 for the mean of nothing.
    fn over(self, count: usize) -> Self {
        self.checked_div(count as i64).unwrap_or(0)
    }
}

fn mean<T: Number + Arithmetic + Mean>(values: &[T]) -> T {
    maths::total(values).over(values.len())
}

operator! { reduce: aclnnProdGetWorkspaceSize, aclnnProd(input, to_dtype, output) |operands|
    let (_, reduced) = take(operands, (input, USUAL), (&[], false), output, Gives::One(to_dtype))?;
    Ok(by_number!(to_dtype, T => reduced.work(to_dtype, maths::product::<T>)))
}

operator! { reduce: aclnnProdDimGetWorkspaceSize, aclnnProdDim(
    input, axis, keep, to_dtype, output
) |operands|
    let (_, reduced) = take(
        operands,
        (input, USUAL),
        (&[axis], keep),
        output,
        Gives::One(to_dtype),
    )?;
    Ok(by_number!(to_dtype, T => reduced.work(to_dtype, maths::product::<T>)))
}
