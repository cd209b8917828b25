//! Operators of lists: one function for the elements of every tensor of a list, as optimisers use them.
//!
//! The tensors at one position of the lists have one shape. All tensors of a call have one dtype. The result may be
//! the first list itself.

use crate::abi::prelude::*;
use crate::object;
use crate::ops::reduce::norm;

/// Takes lists of inputs and the list of results. `shape` returns that of a result. Returns the number of tensors in a
/// list.
fn take(
    operands: &mut Operands,
    inputs: &[*const aclTensorList],
    output: *const aclTensorList,
    shape: fn(&Tensor) -> Vec<usize>,
) -> Outcome<usize> {
    let lists = inputs
        .iter()
        .map(|list| operands.list("x", *list, false))
        .collect::<Outcome<Vec<_>>>()?;
    let outputs = operands.list("out", output, true)?;
    let first = &lists[0];
    ensure!(
        !first.is_empty() && lists.iter().chain([&outputs]).all(|list| list.len() == first.len());
        "lists of {:?} tensors with {} results",
        lists.iter().map(Vec::len).collect::<Vec<_>>(), outputs.len()
    );
    check_dtype("x", &first[0], FLOATS)?;
    for (at, own) in first.iter().enumerate() {
        check_axes("x", own)?;
        for other in &lists {
            check_dtype("x", &other[at], &[first[0].dtype])?;
            check_size("x", &other[at], &own.shape)?;
        }
        check_dtype("out", &outputs[at], &[first[0].dtype])?;
        check_size("out", &outputs[at], &shape(own))?;
    }
    Ok(first.len())
}

fn same(tensor: &Tensor) -> Vec<usize> {
    tensor.shape.clone()
}

/// Returns the work of a function of the elements at one place of `N` lists. It gets the position in the lists, too.
fn work<const N: usize>(
    count: usize,
    apply: impl Fn(usize, [f32; N]) -> f32 + Send + Sync + 'static,
) -> Work {
    Arc::new(move |memory, operands| {
        for at in 0..count {
            let lists = (0..N).map(|list| operands[list * count + at].floats(memory));
            let lists = lists.collect::<Outcome<Vec<_>>>()?;
            let values: Vec<f32> = (0..lists[0].len())
                .map(|place| apply(at, std::array::from_fn(|list| lists[list][place])))
                .collect();
            operands[N * count + at].store(memory, &values)?;
        }
        Ok(())
    })
}

/// Returns a number for each tensor of a list.
fn scalars(operands: &Operands, list: *const aclScalarList, count: usize) -> Outcome<Vec<f32>> {
    let list = object::scalar_list(list as usize)?;
    ensure!(list.len() == count; "{} scalars for {count} tensors", list.len());
    let each = list
        .iter()
        .map(|handle| operands.scalar("scalars", *handle as *const aclScalar));
    each.map(|scalar| Ok(scalar?.to())).collect()
}

/// Defines operators of one or more lists with one number.
macro_rules! with_scalar {
    ($($one:ident, $two:ident($($input:ident),+) => |$values:pat_param, $scalar:ident| $apply:expr;)*) => {$(
        operator! { training: $one, $two($($input,)+ scalar, output) |operands|
            let count = take(operands, &[$($input),+], output, same)?;
            let $scalar: f32 = operands.scalar("scalar", scalar)?.to();
            Ok(work(count, move |_, $values| $apply))
        }
    )*};
}

with_scalar! {
    aclnnForeachAddScalarV2GetWorkspaceSize, aclnnForeachAddScalarV2(x) => |[x], scalar| x + scalar;
    aclnnForeachMulScalarV2GetWorkspaceSize, aclnnForeachMulScalarV2(x) => |[x], scalar| x * scalar;
    aclnnForeachDivScalarV2GetWorkspaceSize, aclnnForeachDivScalarV2(x) => |[x], scalar| x / scalar;
    aclnnForeachLerpScalarGetWorkspaceSize, aclnnForeachLerpScalar(x1, x2)
        => |[x, y], scalar| x + scalar * (y - x);
    aclnnForeachAddListV2GetWorkspaceSize, aclnnForeachAddListV2(x1, x2) => |[x, y], scalar| x + scalar * y;
    aclnnForeachAddcmulScalarV2GetWorkspaceSize, aclnnForeachAddcmulScalarV2(x1, x2, x3)
        => |[x, y, z], scalar| x + scalar * y * z;
    aclnnForeachAddcdivScalarV2GetWorkspaceSize, aclnnForeachAddcdivScalarV2(x1, x2, x3)
        => |[x, y, z], scalar| x + scalar * y / z;
}

/// Defines operators of one or more lists with a number for each tensor.
macro_rules! with_scalars {
    ($($one:ident, $two:ident($($input:ident),+) => |$values:pat_param, $scalar:ident| $apply:expr;)*) => {$(
        operator! { training: $one, $two($($input,)+ scalars_given, output) |operands|
            let count = take(operands, &[$($input),+], output, same)?;
            let numbers = scalars(operands, scalars_given, count)?;
            Ok(work(count, move |at, $values| {
                let $scalar = numbers[at];
                $apply
            }))
        }
    )*};
}

with_scalars! {
    aclnnForeachMulScalarListGetWorkspaceSize, aclnnForeachMulScalarList(x) => |[x], scalar| x * scalar;
    aclnnForeachDivScalarListGetWorkspaceSize, aclnnForeachDivScalarList(x) => |[x], scalar| x / scalar;
    aclnnForeachAddcdivScalarListGetWorkspaceSize, aclnnForeachAddcdivScalarList(x1, x2, x3)
        => |[x, y, z], scalar| x + scalar * y / z;
}

/// Defines operators of lists without numbers.
macro_rules! of_lists {
    ($($one:ident, $two:ident($($input:ident),+) => |$values:pat_param| $apply:expr;)*) => {$(
        operator! { training: $one, $two($($input,)+ output) |operands|
            let count = take(operands, &[$($input),+], output, same)?;
            Ok(work(count, |_, $values| $apply))
        }
    )*};
}

of_lists! {
    aclnnForeachSqrtGetWorkspaceSize, aclnnForeachSqrt(x) => |[x]| x.sqrt();
    aclnnForeachMulListGetWorkspaceSize, aclnnForeachMulList(x1, x2) => |[x, y]| x * y;
    aclnnForeachDivListGetWorkspaceSize, aclnnForeachDivList(x1, x2) => |[x, y]| x / y;
}

// The results are tensors without axes.
operator! { training: aclnnForeachNormGetWorkspaceSize, aclnnForeachNorm(
    x, order, output
) |operands|
    let count = take(operands, &[x], output, |_| Vec::new())?;
    let order: f32 = operands.scalar("scalar", order)?.to();
    ensure!([1.0, 2.0, f32::INFINITY].contains(&order);
        "scalar is {order}; there are norms of order 1, 2 and infinity");
    Ok(Arc::new(move |memory, operands| {
        for at in 0..count {
            let values = operands[at].floats(memory)?;
            let found = if values.is_empty() {
                0.0
            } else {
                norm(&values, order)
            };
            operands[count + at].store(memory, &[found])?;
        }
        Ok(())
    }))
}
