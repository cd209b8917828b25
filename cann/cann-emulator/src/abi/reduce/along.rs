//! Operators along an axis with results of the operand's shape: running sums, softmax and their gradients.

use crate::abi::prelude::*;
use crate::ops::arithmetic::{Arithmetic, Float};
use crate::ops::reduce as maths;

/// Applies a function to the runs along `axis` of the inputs and writes values at the same positions.
fn along<T: Number>(
    axis: usize,
    apply: impl Fn(&[Vec<T>]) -> Vec<T> + Send + Sync + 'static,
) -> Work {
    Arc::new(move |memory, operands| {
        let Some((output, inputs)) = operands.split_last() else {
            unreachable!("taken above")
        };
        // In place, the only operand is also the output.
        let inputs = if inputs.is_empty() { operands } else { inputs };
        if output.count() == 0 {
            return Ok(());
        }
        let mut order: Vec<usize> = (0..output.rank()).collect();
        if output.rank() > 0 {
            order.remove(axis);
            order.push(axis);
        }
        let length = output.shape.get(axis).copied().unwrap_or(1);
        let inputs: Vec<Vec<T>> = inputs
            .iter()
            .map(|input| input.permuted(&order).values(memory))
            .collect::<Outcome<_>>()?;
        let mut values = Vec::with_capacity(output.count());
        for from in (0..output.count()).step_by(length) {
            let runs: Vec<Vec<T>> = inputs
                .iter()
                .map(|input| input[from..from + length].to_vec())
                .collect();
            values.extend(apply(&runs));
        }
        output.permuted(&order).store_values(memory, &values)
    })
}

/// Takes the operands of running sums or products.
fn running(
    operands: &mut Operands,
    (input, output): (*const aclTensor, *const aclTensor),
    at: i64,
    to_dtype: aclDataType,
    products: bool,
) -> Outcome<Work> {
    let input = operands.view("self", input, USUAL)?;
    let at = axis(&input, at)?;
    let output = operands.result("out", output, to_dtype, &input.shape)?;
    check_dtype("out", &output, NUMBERS)?;
    Ok(of_runs(to_dtype, at, products))
}

/// Returns the work of running sums or products along an axis.
fn of_runs(dtype: aclDataType, at: usize, products: bool) -> Work {
    by_number!(dtype, T => {
        let (from, combine): (T, fn(T, T) -> T) = if products {
            (T::from_i64(1), Arithmetic::mul)
        } else {
            (T::from_i64(0), Arithmetic::add)
        };
        along(at, move |runs: &[Vec<T>]| maths::running(&runs[0], from, combine))
    })
}

/// Reads the axis of products, an i32 or an i64, as torch_npu gives it.
fn axis_of_products(operands: &Operands, at: *const aclScalar) -> Outcome<i64> {
    let at = operands.scalar("dim", at)?;
    ensure!(INDICES.contains(&at.dtype);
        "dim is {}; i32 or i64 is needed", crate::tensor::name_of(at.dtype));
    Ok(at.to())
}

operator! { reduce: aclnnCumsumGetWorkspaceSize, aclnnCumsum(input, at, to_dtype, output) |operands|
    running(operands, (input, output), at, to_dtype, false)
}

// An exclusive sum leaves its own element out, and a reverse one begins at the end.
operator! { reduce: aclnnCumsumV2GetWorkspaceSize, aclnnCumsumV2(
    input, at, exclusive, reverse, output
) |operands|
    let input = operands.view("self", input, NUMBERS)?;
    let at = axis(&input, at)?;
    operands.result("out", output, input.dtype, &input.shape)?;
    Ok(by_number!(input.dtype, T => along(at, move |runs: &[Vec<T>]| {
        let mut run = runs[0].clone();
        if reverse {
            run.reverse();
        }
        let mut sums = maths::running(&run, T::from_i64(0), Arithmetic::add);
        if exclusive {
            sums.rotate_right(1);
            sums[0] = T::from_i64(0);
        }
        if reverse {
            sums.reverse();
        }
        sums
    })))
}

operator! { reduce: aclnnCumprodGetWorkspaceSize, aclnnCumprod(
    input, at, to_dtype, output
) |operands|
    let at = axis_of_products(operands, at)?;
    running(operands, (input, output), at, to_dtype, true)
}

operator! { reduce: aclnnInplaceCumprodGetWorkspaceSize, aclnnInplaceCumprod(target, at) |operands|
    let at = axis_of_products(operands, at)?;
    let target = operands.target("selfRef", target, NUMBERS)?;
    Ok(of_runs(target.dtype, axis(&target, at)?, true))
}

/// Defines the softmax along an axis, of one input, or of two for a gradient.
macro_rules! softmax {
    ($($one:ident, $two:ident($($input:ident),+) => $function:ident;)*) => {$(
        operator! { activation: $one, $two($($input,)+ at, output) |operands|
            let inputs = [$(operands.view(stringify!($input), $input, REALS)?),+];
            let first = &inputs[0];
            for input in &inputs {
                check_dtype("output", input, &[first.dtype])?;
                check_size("output", input, &first.shape)?;
                check_axes("output", input)?;
            }
            let at = axis(first, at)?;
            operands.result("out", output, first.dtype, &first.shape)?;
            Ok(if first.dtype == ACL_DOUBLE {
                along(at, apply::<f64, _>(maths::$function))
            } else {
                along(at, apply::<f32, _>(maths::$function))
            })
        }
    )*};
}

/// A function of one run or of two runs.
trait OfRuns<T, const N: usize> {
    fn of(&self, runs: &[Vec<T>]) -> Vec<T>;
}

impl<T, F: Fn(&[T]) -> Vec<T>> OfRuns<T, 1> for F {
    fn of(&self, runs: &[Vec<T>]) -> Vec<T> {
        self(&runs[0])
    }
}

impl<T, F: Fn(&[T], &[T]) -> Vec<T>> OfRuns<T, 2> for F {
    fn of(&self, runs: &[Vec<T>]) -> Vec<T> {
        self(&runs[0], &runs[1])
    }
}

fn apply<T: Number + Float, const N: usize>(
    function: impl OfRuns<T, N> + Send + Sync + 'static,
) -> impl Fn(&[Vec<T>]) -> Vec<T> + Send + Sync + 'static {
    move |runs| function.of(runs)
}

softmax! {
    aclnnSoftmaxGetWorkspaceSize, aclnnSoftmax(input) => softmax;
    aclnnLogSoftmaxGetWorkspaceSize, aclnnLogSoftmax(input) => log_softmax;
    aclnnSoftmaxBackwardGetWorkspaceSize, aclnnSoftmaxBackward(d_output, forward)
        => softmax_backward;
    aclnnLogSoftmaxBackwardGetWorkspaceSize, aclnnLogSoftmaxBackward(d_output, forward)
        => log_softmax_backward;
}
