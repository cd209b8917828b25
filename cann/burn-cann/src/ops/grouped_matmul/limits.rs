//! The limits of grouped products.

use crate::dtype::DType;
use crate::ops::check;
use crate::ops::{Checked, Refusal};
use crate::soc::Platform;
use crate::tensor::{Spec, Tensor};

/// The most groups of one stacked weight.
const MOST_GROUPS: usize = 1024;

/// The most tensors of a list.
pub(super) const MOST_TENSORS: usize = 128;

/// The largest size of the dimension that is contiguous in memory.
const WIDEST: usize = 65_535;

/// Checks the operands of [`grouped_matmul`](super::grouped_matmul()) and returns the spec of its result. `x` is
/// `[M, K]`. `weight` is `[E, K, N]`, contiguous or a view with the last two dimensions exchanged. `groups` is i64
/// with one element per group, at most 1024. `bias` is `[E, N]` and has the dtype of `x`, or f32 if that is bf16.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check(
    platform: &Platform,
    x: &Spec,
    weight: &Spec,
    groups: &Spec,
    bias: Option<&Spec>,
) -> Checked<Spec> {
    check::processor(platform, "GroupedMatmul")?;
    check::one_float(&[("x", x), ("weight", weight)])?;
    matrix(("x", x))?;
    check::rank(("weight", weight), 3, 3)?;
    weights(weight)?;
    check::not_empty(("weight", weight))?;
    let [count, depth, width] = *weight.shape() else {
        unreachable!("checked above")
    };
    product(x, depth)?;
    check::at_most("the number of groups", count, MOST_GROUPS)?;
    group_list(groups, count)?;
    biases(x, bias, &[count, width])?;
    Ok(Spec::contiguous(x.dtype, [x.shape()[0], width])?)
}

/// Checks the operands of [`grouped_matmul_of_list`](super::grouped_matmul_of_list()) and returns the spec of its
/// result. `x` is `[M, K]`. There are up to 1024 weights `[K, N]`, all contiguous or all views with their dimensions
/// exchanged. `groups` is i64 with one element per weight. `bias` is empty, or has one `[N]` per weight as of [`check`].
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check_list(
    platform: &Platform,
    x: &Spec,
    all_weights: &[&Spec],
    groups: &Spec,
    bias: &[&Spec],
) -> Checked<Spec> {
    check::processor(platform, "GroupedMatmul")?;
    let Some(first) = all_weights.first() else {
        return Err(Refusal::Empty { operand: "weight" });
    };
    matrix(("x", x))?;
    check::at_most("the number of weights", all_weights.len(), MOST_GROUPS)?;
    for weight in all_weights {
        check::one_float(&[("x", x), ("weight", weight)])?;
        check::rank(("weight", weight), 2, 2)?;
        check::shape(("weight", weight), first.shape())?;
        weights(weight)?;
        check::not_empty(("weight", weight))?;
        if is_exchanged(weight) != is_exchanged(first) {
            return Err(Refusal::Strides {
                operand: "one weight of several",
            });
        }
    }
    product(x, first.shape()[0])?;
    if !bias.is_empty() {
        let (found, needed) = (bias.len(), all_weights.len());
        same_number(
            "the number of biases",
            found,
            needed,
            "one for each weight, or none",
        )?;
    }
    for bias in bias {
        biases(x, Some(bias), &first.shape()[1..])?;
    }
    group_list(groups, all_weights.len())?;
    Ok(Spec::contiguous(x.dtype, [x.shape()[0], first.shape()[1]])?)
}

/// Checks the operands of [`grouped_matmul_each`](super::grouped_matmul_each()) and returns the specs of its results.
/// There are pairs of `x` `[M, K]` and `weight` `[K, N]`, each with a bias `[N]` if there are any. The weights are all
/// contiguous or all views with their dimensions exchanged.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check_each(
    platform: &Platform,
    xs: &[&Spec],
    all_weights: &[&Spec],
    bias: &[&Spec],
) -> Checked<Vec<Spec>> {
    check::processor(platform, "GroupedMatmul")?;
    let Some(first) = all_weights.first() else {
        return Err(Refusal::Empty { operand: "weight" });
    };
    same_number(
        "the number of weights",
        all_weights.len(),
        xs.len(),
        "one for each x",
    )?;
    if !bias.is_empty() {
        same_number(
            "the number of biases",
            bias.len(),
            xs.len(),
            "one for each x, or none",
        )?;
    }
    let mut outputs = Vec::with_capacity(xs.len());
    for (place, (x, weight)) in xs.iter().zip(all_weights).enumerate() {
        check::one_float(&[("the first x", xs[0]), ("x", x), ("weight", weight)])?;
        matrix(("x", x))?;
        check::not_empty(("x", x))?;
        check::rank(("weight", weight), 2, 2)?;
        weights(weight)?;
        check::not_empty(("weight", weight))?;
        if is_exchanged(weight) != is_exchanged(first) {
            return Err(Refusal::Strides {
                operand: "one weight of several",
            });
        }
        let [depth, width] = *weight.shape() else {
            unreachable!("checked above")
        };
        product(x, depth)?;
        biases(x, bias.get(place).copied(), &[width])?;
        outputs.push(Spec::contiguous(x.dtype, [x.shape()[0], width])?);
    }
    Ok(outputs)
}

/// Checks that tensors are contiguous and like these results.
pub(super) fn check_results(results: &[Spec], ys: &[Tensor]) -> Checked<()> {
    same_number("the number of y", ys.len(), results.len(), "one for each x")?;
    for (result, y) in results.iter().zip(ys) {
        let y = ("y", y.spec());
        check::dtype(y, &[result.dtype])?;
        check::shape(y, result.shape())?;
        check::contiguous(y)?;
    }
    Ok(())
}

/// Checks the operands of [`grouped_matmul_grad`](super::grouped_matmul_grad()) and returns the spec of its result.
/// `x` is `[M, K]` and `dy` is `[M, N]`, both contiguous and not empty. `groups` is i64 with at most 1024 elements.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check_grad(platform: &Platform, x: &Spec, dy: &Spec, groups: &Spec) -> Checked<Spec> {
    check::processor(platform, "GroupedMatmul")?;
    check::one_float(&[("x", x), ("dy", dy)])?;
    for operand in [("x", x), ("dy", dy)] {
        matrix(operand)?;
        check::not_empty(operand)?;
    }
    if dy.shape()[0] != x.shape()[0] {
        return Err(check::wrong_shape(
            ("dy", dy),
            format!("{} rows", x.shape()[0]),
        ));
    }
    check::rank(("groups", groups), 1, 1)?;
    let count = groups.len();
    check::at_most("the number of groups", count, MOST_GROUPS)?;
    check::not_empty(("groups", groups))?;
    group_list(groups, count)?;
    Ok(Spec::contiguous(
        x.dtype,
        [count, x.shape()[1], dy.shape()[1]],
    )?)
}

/// Checks that the operand is a contiguous matrix and not too wide.
fn matrix((operand, spec): check::Named<'_>) -> Checked<()> {
    check::rank((operand, spec), 2, 2)?;
    check::contiguous((operand, spec))?;
    check::at_most("the last dimension in memory", spec.shape()[1], WIDEST)
}

/// Checks that a weight is contiguous, or a view of such with the last two dimensions exchanged, and not too wide in
/// memory.
fn weights(weight: &Spec) -> Checked<()> {
    let rank = weight.rank();
    let (rows, columns) = (weight.shape()[rank - 2], weight.shape()[rank - 1]);
    let last = if is_exchanged(weight) {
        rows
    } else {
        check::contiguous(("weight", weight))?;
        columns
    };
    check::at_most("the last dimension of weight in memory", last, WIDEST)
}

fn is_exchanged(weight: &Spec) -> bool {
    let rank = weight.rank();
    let back = weight.layout.clone().transpose(rank - 2, rank - 1);
    !weight.layout.is_contiguous() && back.is_ok_and(|layout| layout.is_contiguous())
}

fn product(x: &Spec, depth: usize) -> Checked<()> {
    if x.shape()[1] == depth {
        return Ok(());
    }
    Err(check::wrong_shape(
        ("x", x),
        format!("{depth} columns, the rows of weight"),
    ))
}

fn group_list(groups: &Spec, count: usize) -> Checked<()> {
    check::dtype(("groups", groups), &[DType::I64])?;
    check::shape(("groups", groups), &[count])?;
    check::contiguous(("groups", groups))
}

fn biases(x: &Spec, bias: Option<&Spec>, shape: &[usize]) -> Checked<()> {
    let Some(bias) = bias else { return Ok(()) };
    let dtype = if x.dtype == DType::BF16 {
        DType::F32
    } else {
        x.dtype
    };
    check::dtype(("bias", bias), &[dtype])?;
    check::shape(("bias", bias), shape)?;
    check::contiguous(("bias", bias))
}

fn same_number(
    what: &'static str,
    found: usize,
    needed: usize,
    expected: &'static str,
) -> Checked<()> {
    if found == needed {
        return Ok(());
    }
    Err(Refusal::Value {
        what,
        found: found.to_string(),
        expected,
    })
}
