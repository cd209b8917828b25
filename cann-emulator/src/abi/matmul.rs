//! Matrix products. Sums are in f32 and rounded once. Of the matrix unit's modes, only the one that keeps the dtype is
//! emulated.

use std::sync::Arc;

use cann_sys::meta::*;

use crate::abi::checks::{FLOATS, broadcast, check_size};
use crate::abi::operators;
use crate::error::{Outcome, ensure, fail};
use crate::executor::{Operands, Work, phase_one};
use crate::ops::matmul::product;
use crate::tensor::Tensor;

/// Returns the last two axes of a matrix or of a batch of matrices.
fn matrix(tensor: &Tensor) -> (usize, usize) {
    let [.., rows, columns] = tensor.shape[..] else {
        unreachable!("has two axes, as was checked")
    };
    (rows, columns)
}

fn check_mode(cube_math: i8) -> Outcome<()> {
    ensure!(
        cube_math == 0,
        ACLNN_ERR_PARAM_INVALID,
        "cubeMathType {cube_math} is not emulated; 0 keeps the dtype"
    );
    Ok(())
}

fn take(
    operands: &mut Operands,
    [input, right]: [*const aclTensor; 2],
    output: *const aclTensor,
    cube_math: i8,
    axes: std::ops::RangeInclusive<usize>,
) -> Outcome<Work> {
    let input = operands.view("self", input, FLOATS)?;
    let right = operands.view("mat2", right, &[input.dtype])?;
    check_mode(cube_math)?;
    for (name, tensor) in [("self", &input), ("mat2", &right)] {
        ensure!(
            axes.contains(&tensor.rank()),
            ACLNN_ERR_PARAM_INVALID,
            "{name} has {} axes; {axes:?} are taken",
            tensor.rank()
        );
    }
    let ((rows, depth), (inputs, columns)) = (matrix(&input), matrix(&right));
    ensure!(
        depth == inputs,
        ACLNN_ERR_PARAM_INVALID,
        "rows of {depth} by columns of {inputs}"
    );
    let batches = |tensor: &Tensor| tensor.shape[..tensor.rank() - 2].to_vec();
    let batch = broadcast(&batches(&input), &batches(&right))?;
    let with = |rows, columns| [&batch[..], &[rows, columns]].concat();
    operands.result("out", output, input.dtype, &with(rows, columns))?;
    let (left_shape, right_shape) = (with(rows, depth), with(depth, columns));
    let one_right = batches(&right).iter().all(|count| *count == 1);
    Ok(Arc::new(move |memory, operands| {
        let [input, right, out] = operands else {
            unreachable!("taken above")
        };
        if out.count() == 0 {
            return Ok(());
        }
        let left = input.expanded(&left_shape).floats(memory)?;
        if one_right {
            // The rows of all batches are multiplied by a single matrix.
            let right = right.floats(memory)?;
            let rows = out.count() / columns;
            return out.store(memory, &product(&left, &right, rows, depth, columns));
        }
        let right = right.expanded(&right_shape).floats(memory)?;
        let mut values = Vec::with_capacity(out.count());
        for at in 0..out.count() / (rows * columns) {
            let left = &left[at * rows * depth..][..rows * depth];
            let right = &right[at * depth * columns..][..depth * columns];
            values.extend(product(left, right, rows, depth, columns));
        }
        out.store(memory, &values)
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnInplaceAddmmGetWorkspaceSize(
    target: *const aclTensor,
    left: *const aclTensor,
    right: *const aclTensor,
    beta: *const aclScalar,
    alpha: *const aclScalar,
    cube_math: i8,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    phase_one("aclnnInplaceAddmm", workspace_size, executor, |operands| {
        let target = operands.target("selfRef", target, FLOATS)?;
        let left = operands.view("mat1", left, &[target.dtype])?;
        let right = operands.view("mat2", right, &[target.dtype])?;
        check_mode(cube_math)?;
        let sizes = match (&left.shape[..], &right.shape[..]) {
            (&[rows, depth], &[inputs, columns]) if depth == inputs => [rows, depth, columns],
            (left, right) => fail!(
                ACLNN_ERR_PARAM_INVALID,
                "mat1 is {left:?} and mat2 {right:?}; matrices with a common size are taken"
            ),
        };
        let [rows, depth, columns] = sizes;
        // CANN broadcasts selfRef forward, where the result is a tensor of its own.
        check_size("selfRef", &target, &[rows, columns])?;
        let factor = |name, scalar| operands.scalar_for(name, scalar, &target);
        let (beta, alpha) = (factor("beta", beta)?, factor("alpha", alpha)?);
        let (beta, alpha): (f32, f32) = (beta.to(), alpha.to());
        Ok(Arc::new(move |memory, operands| {
            let [target, left, right] = operands else {
                unreachable!("taken above")
            };
            let (left, right) = (left.floats(memory)?, right.floats(memory)?);
            let products = product(&left, &right, rows, depth, columns);
            let pairs = target.floats(memory)?.into_iter().zip(products);
            let sums: Vec<f32> = pairs
                .map(|(before, product)| beta * before + alpha * product)
                .collect();
            target.store(memory, &sums)
        }))
    })
}

/// Defines operators with the numbers of axes that their operands may have.
macro_rules! products {
    ($($one:ident, $two:ident: $axes:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $one(
            input: *const aclTensor,
            right: *const aclTensor,
            output: *mut aclTensor,
            cube_math: i8,
            workspace_size: *mut u64,
            executor: *mut *mut aclOpExecutor,
        ) -> aclnnStatus {
            phase_one(stringify!($two), workspace_size, executor, |operands| {
                take(operands, [input, right], output, cube_math, $axes)
            })
        }
    )*
    operators! {
        matmul: $($one, $two;)*
        aclnnInplaceAddmmGetWorkspaceSize, aclnnInplaceAddmm;
    }};
}

products! {
    aclnnMatmulGetWorkspaceSize, aclnnMatmul: 2..=6;
    aclnnMmGetWorkspaceSize, aclnnMm: 2..=2;
    aclnnBatchMatMulGetWorkspaceSize, aclnnBatchMatMul: 3..=3;
}
