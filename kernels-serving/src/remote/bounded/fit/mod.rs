//! Requirements of operations on their operands, which are checked before memory is reserved.
//!
//! Burn checks a program's tensors in the program, and backends trust these checks: a release build reads through
//! pointers without comparing sizes. A client that writes its own messages bypasses the checks and could read the
//! memory of others. Each operation that trusts its operands therefore has a line in `table` that states the
//! requirements.

mod layers;

pub(super) use layers::*;

use super::tensor::Held;
use burn::backend::{Shape, Slice, TensorMetadata};
use burn::tensor::DType;
use kernels_runtime::__serving::elements;
use std::fmt;

/// The reason why operands don't fit together, as one sentence.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(in super::super) struct Mismatch(String);

impl Mismatch {
    #[cold]
    fn new(sentence: impl fmt::Display) -> Self {
        Self(sentence.to_string())
    }
}

pub(super) type Fit = Result<(), Mismatch>;

/// The longest step of a slice.
const LONGEST: usize = 1 << 31;

/// Ends the session if operands don't fit together, as every failed operation does.
///
/// # Panics
/// Panics if the operands don't fit together.
pub(super) fn require(operation: &str, fit: Fit) {
    if let Err(why) = fit {
        panic!("`{operation}` got operands that don't go together: {why}");
    }
}

/// Returns an error with this reason unless the condition holds.
fn unless(holds: bool, why: fmt::Arguments<'_>) -> Fit {
    match holds {
        true => Ok(()),
        false => Err(Mismatch::new(why)),
    }
}

fn of_one_type(dtypes: impl IntoIterator<Item = DType>) -> Fit {
    let mut dtypes = dtypes.into_iter();
    let Some(first) = dtypes.next() else {
        return Ok(());
    };
    match dtypes.find(|dtype| *dtype != first) {
        Some(other) => Err(Mismatch::new(format_args!(
            "they are of types {first:?} and {other:?}"
        ))),
        None => Ok(()),
    }
}

/// Checks that a layer's operands have one type.
fn one_layer<T: TensorMetadata>(x: &Held<T>, weight: &Held<T>, bias: Option<&Held<T>>) -> Fit {
    let operands = [Some(x), Some(weight), bias].into_iter().flatten();
    of_one_type(operands.map(Held::dtype))
}

/// Checks that matrices can be multiplied, and that the dimensions before them can be broadcast.
pub(super) fn multiplied<T: TensorMetadata>(lhs: &Held<T>, rhs: &Held<T>) -> Fit {
    of_one_type([lhs.dtype(), rhs.dtype()])?;
    product(&lhs.sizes(), &rhs.sizes())
}

fn product(lhs: &[usize], rhs: &[usize]) -> Fit {
    let ([batch @ .., _, columns], [others @ .., rows, _]) = (lhs, rhs) else {
        let why = format!("shapes {lhs:?} and {rhs:?} are not both matrices");
        return Err(Mismatch::new(why));
    };
    unless(
        columns == rows,
        format_args!("shapes {lhs:?} and {rhs:?} have no product"),
    )?;
    let mut pairs = batch.iter().rev().zip(others.iter().rev());
    unless(
        pairs.all(|(one, other)| one == other || *one == 1 || *other == 1),
        format_args!("dimensions {batch:?} and {others:?} before the matrices can't be broadcast"),
    )
}

/// Checks that the tensor has these axes and that each is named once.
pub(super) fn axes<T: TensorMetadata>(tensor: &Held<T>, axes: &[usize]) -> Fit {
    each_once(tensor.rank(), axes)
}

fn each_once(rank: usize, axes: &[usize]) -> Fit {
    let is_first = |(at, axis): (usize, &usize)| !axes[..at].contains(axis);
    unless(
        axes.len() <= rank
            && axes.iter().all(|axis| *axis < rank)
            && axes.iter().enumerate().all(is_first),
        format_args!("axes {axes:?} are not axes of {rank} dimensions, each once"),
    )
}

/// Checks that these are all axes of the tensor, in any order.
pub(super) fn permuted<T: TensorMetadata>(tensor: &Held<T>, axes: &[usize]) -> Fit {
    let rank = tensor.rank();
    unless(
        axes.len() == rank,
        format_args!("{} axes are not those of {rank} dimensions", axes.len()),
    )?;
    each_once(rank, axes)
}

/// Checks that the tensor has these two dimensions.
pub(super) fn swapped<T: TensorMetadata>(tensor: &Held<T>, one: usize, other: usize) -> Fit {
    let rank = tensor.rank();
    unless(
        one < rank && other < rank,
        format_args!("dimensions {one} and {other} are not both of {rank}"),
    )
}

/// Checks that no more elements of a dimension are requested than it has, because each gets a place before it is
/// checked.
pub(super) fn chosen<T: TensorMetadata>(tensor: &Held<T>, dim: usize, count: usize) -> Fit {
    let sizes = tensor.sizes();
    unless(
        sizes.get(dim).is_some_and(|size| count <= *size),
        format_args!("{count} of dimension {dim} are more than shape {sizes:?} has"),
    )
}

/// Checks that the tensor has the sliced dimensions, and that the steps don't overflow.
pub(super) fn sliced<T: TensorMetadata>(tensor: &Held<T>, slices: &[Slice]) -> Fit {
    let rank = tensor.rank();
    unless(
        slices.len() <= rank,
        format_args!("{} slices are more than {rank} dimensions", slices.len()),
    )?;
    let mut steps = slices.iter().map(|slice| slice.step.unsigned_abs());
    unless(
        steps.all(|step| (1..=LONGEST).contains(&step)),
        format_args!("a slice's step is 0 or longer than {LONGEST}"),
    )
}

/// Checks that a shape has as many elements as the tensor. The check does not use a product that may have overflowed.
pub(super) fn reshaped<T: TensorMetadata>(tensor: &Held<T>, shape: &Shape) -> Fit {
    let (found, wanted) = (tensor.sizes(), shape.as_slice());
    unless(
        elements(&found) == elements(wanted),
        format_args!("shape {found:?} can't become {wanted:?}, which has other elements"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_have_a_product_and_broadcast_batches() {
        for (lhs, rhs) in [
            (&[2, 3][..], &[3, 4][..]),
            (&[5, 2, 3], &[3, 4]),
            (&[5, 1, 2, 3], &[7, 3, 4]),
            (&[0, 2, 0], &[1, 0, 4]),
        ] {
            product(lhs, rhs).unwrap();
            let turned: Vec<_> = [lhs, rhs].map(|sizes| sizes.to_vec()).into();
            assert!(product(&turned[0], &[9, 9]).is_err(), "{lhs:?}");
        }
        for (lhs, rhs) in [
            (&[3][..], &[3, 4][..]),
            (&[2, 3], &[4, 3]),
            (&[100_000, 1, 1], &[2, 1, 1024]),
            (&[3, 5, 1, 1], &[2, 5, 1, 1]),
        ] {
            product(lhs, rhs).unwrap_err();
        }
    }

    #[test]
    fn axes_are_there_once() {
        each_once(3, &[2, 0]).unwrap();
        each_once(0, &[]).unwrap();
        for wrong in [&[0, 0][..], &[3], &[0, 1, 2, 0]] {
            let said = each_once(3, wrong).unwrap_err().to_string();
            assert!(said.contains(&format!("{wrong:?}")), "{said}");
        }
    }

    #[test]
    #[should_panic = "`float_flip` got operands that don't go together: axes [1]"]
    fn a_refusal_names_the_operation() {
        require("float_flip", each_once(1, &[1]));
    }
}
