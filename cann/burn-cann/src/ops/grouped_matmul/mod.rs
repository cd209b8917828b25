//! Matrix products by group (`aclnnGroupedMatmulV5`, or V4 if the toolkit has no V5).
//!
//! Only floats are supported. Sums are in f32 and rounded once. The group list stays on the device, so nothing waits
//! for the host.
//!
//! Calls with lists are planned every time: their executors are not kept.

mod limits;

pub use self::limits::*;

use self::limits::MOST_TENSORS;

use cann_sys::NewestGroupedMatmul;

use super::aclnn::aclnn;
use super::{check, reduce};
use crate::call::{Operand, Prepared};
use crate::error::Result;
use crate::layout::Layout;
use crate::stream::Stream;
use crate::tensor::{Spec, Tensor};
use std::ops::Range;

/// The meaning of a group list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Groups {
    /// The end of each group: sums that never decrease.
    Ends,
    /// The number of rows of each group.
    Counts,
}

impl Groups {
    fn code(self) -> i64 {
        match self {
            Self::Ends => 0,
            Self::Counts => 1,
        }
    }
}

/// Multiplies each group of rows of `x` by its weight.
///
/// Rows after the last group are **not written**: their contents are arbitrary.
///
/// # Errors
///
/// Returns an error if [`check`] refuses the operands or a call fails.
pub fn grouped_matmul(
    stream: &Stream,
    x: &Tensor,
    weight: &Tensor,
    groups: (&Tensor, Groups),
    bias: Option<&Tensor>,
) -> Result<Tensor> {
    let device = stream.device();
    let (list, kind) = groups;
    let y = check(
        device.platform(),
        x.spec(),
        weight.spec(),
        list.spec(),
        bias.map(Tensor::spec),
    )?;
    let y = Tensor::like(stream, &y)?;
    if y.spec().is_empty() {
        return Ok(y);
    }
    let one = |tensor: &Tensor| Operand::List(vec![tensor.clone()]);
    let product = Product {
        x: one(&in_order(x)?),
        weight: one(&in_order(weight)?),
        bias: bias.map_or(Operand::Absent, one),
        groups: Operand::from(list),
        output: one(&y),
        split_item: 2,
        group_type: 0,
        groups_code: kind.code(),
    };
    product.prepare(stream, y)?.launch()
}

/// Computes [`grouped_matmul`] into `y`. Rows after the last group **stay as they are**.
///
/// # Errors
///
/// Returns an error if [`check`] refuses the operands, if `y` has the wrong spec or is not contiguous, or if a call
/// fails.
pub fn grouped_matmul_into(
    stream: &Stream,
    x: &Tensor,
    weight: &Tensor,
    groups: (&Tensor, Groups),
    bias: Option<&Tensor>,
    y: &Tensor,
) -> Result<()> {
    let device = stream.device();
    let platform = device.platform();
    let of_bias = bias.map(Tensor::spec);
    let result = check(platform, x.spec(), weight.spec(), groups.0.spec(), of_bias)?;
    let (weights, bias) = (vec![weight.clone()], Vec::from_iter(bias.cloned()));
    by_rows(stream, x, [weights, bias], groups, &result, y)
}

/// Computes [`grouped_matmul_into`] with a weight `[K, N]` for each group, and with a bias `[N]` for each, or none.
///
/// CANN takes lists of 128 tensors. More weights take several calls, from the last weights to the first: the first group
/// of a call begins at the first row, so each call also writes the rows of the weights before its own, and the next call
/// writes them again. Two calls multiply one and a half times as many rows, three twice as many. In exchange the host
/// never waits for the ends of the groups, and neither rows nor weights are copied.
///
/// # Errors
///
/// Returns an error if [`check_list`] refuses the operands, if `y` has the wrong spec or is not contiguous, or if a
/// call fails.
pub fn grouped_matmul_of_list(
    stream: &Stream,
    x: &Tensor,
    weights: &[Tensor],
    groups: (&Tensor, Groups),
    bias: &[Tensor],
    y: &Tensor,
) -> Result<()> {
    let device = stream.device();
    let specs = |tensors: &[Tensor]| -> Vec<Spec> {
        tensors.iter().map(|tensor| tensor.spec().clone()).collect()
    };
    let (of_weights, of_bias) = (specs(weights), specs(bias));
    let result = check_list(
        device.platform(),
        x.spec(),
        &of_weights.iter().collect::<Vec<_>>(),
        groups.0.spec(),
        &of_bias.iter().collect::<Vec<_>>(),
    )?;
    let product = |part: Range<usize>, groups: (&Tensor, Groups)| {
        let bias = bias.get(part.clone()).unwrap_or_default();
        let lists = in_one_call(&weights[part], bias)?;
        by_rows(stream, x, lists, groups, &result, y)
    };
    let all = weights.len();
    if all <= MOST_TENSORS {
        return product(0..all, groups);
    }
    let ends = match groups {
        (ends, Groups::Ends) => ends.clone(),
        (counts, Groups::Counts) => reduce::cumsum(stream, counts, 0)?,
    };
    for start in (0..all).step_by(MOST_TENSORS).rev() {
        let part = start..all.min(start + MOST_TENSORS);
        let ends = ends.slice(0, part.clone())?;
        product(part, (&ends, Groups::Ends))?;
    }
    Ok(())
}

/// Returns weights and biases as CANN takes them: a single weight needs an axis for the groups.
fn in_one_call(weights: &[Tensor], bias: &[Tensor]) -> Result<[Vec<Tensor>; 2]> {
    let [weight] = weights else {
        return Ok([weights.to_vec(), bias.to_vec()]);
    };
    let bias = bias.iter().map(|bias| bias.unsqueeze(0));
    Ok([vec![of_one_group(weight)?], bias.collect::<Result<_>>()?])
}

fn by_rows(
    stream: &Stream,
    x: &Tensor,
    [weights, bias]: [Vec<Tensor>; 2],
    (list, kind): (&Tensor, Groups),
    result: &Spec,
    y: &Tensor,
) -> Result<()> {
    check::dtype(("y", y.spec()), &[result.dtype])?;
    check::shape(("y", y.spec()), result.shape())?;
    check::contiguous(("y", y.spec()))?;
    if result.is_empty() {
        return Ok(());
    }
    let weights = weights.iter().map(in_order).collect::<Result<_>>()?;
    let product = Product {
        x: Operand::List(vec![in_order(x)?]),
        weight: Operand::List(weights),
        bias: match bias.is_empty() {
            true => Operand::Absent,
            false => Operand::List(bias),
        },
        groups: Operand::from(list),
        output: Operand::List(vec![y.clone()]),
        split_item: 2,
        group_type: 0,
        groups_code: kind.code(),
    };
    product.prepare(stream, ())?.launch()
}

/// Multiplies each `x` by its weight. CANN takes lists of 128 tensors, so more products take a call for every 128 of them.
///
/// # Errors
///
/// Returns an error if [`check_each`] refuses the operands or a call fails.
pub fn grouped_matmul_each(
    stream: &Stream,
    xs: &[Tensor],
    weights: &[Tensor],
    bias: &[Tensor],
) -> Result<Vec<Tensor>> {
    let results = results_of_each(stream, xs, weights, bias)?;
    let ys = results.iter().map(|spec| Tensor::like(stream, spec));
    let ys: Vec<_> = ys.collect::<Result<_>>()?;
    products(stream, xs, weights, bias, &ys)?;
    Ok(ys)
}

/// Computes [`grouped_matmul_each`] into `ys`, which may be parts of one tensor.
///
/// # Errors
///
/// Returns an error if [`check_each`] refuses the operands, if `ys` are not like the results or not contiguous, or if a call
/// fails.
pub fn grouped_matmul_each_into(
    stream: &Stream,
    xs: &[Tensor],
    weights: &[Tensor],
    bias: &[Tensor],
    ys: &[Tensor],
) -> Result<()> {
    let results = results_of_each(stream, xs, weights, bias)?;
    check_results(&results, ys)?;
    products(stream, xs, weights, bias, ys)
}

fn results_of_each(
    stream: &Stream,
    xs: &[Tensor],
    weights: &[Tensor],
    bias: &[Tensor],
) -> Result<Vec<Spec>> {
    let specs = |tensors: &[Tensor]| -> Vec<Spec> {
        tensors.iter().map(|tensor| tensor.spec().clone()).collect()
    };
    let (of_x, of_weights, of_bias) = (specs(xs), specs(weights), specs(bias));
    Ok(check_each(
        stream.device().platform(),
        &of_x.iter().collect::<Vec<_>>(),
        &of_weights.iter().collect::<Vec<_>>(),
        &of_bias.iter().collect::<Vec<_>>(),
    )?)
}

/// Computes checked products.
fn products(
    stream: &Stream,
    xs: &[Tensor],
    weights: &[Tensor],
    bias: &[Tensor],
    ys: &[Tensor],
) -> Result<()> {
    let list = |tensors: &[Tensor]| -> Result<Operand> {
        Ok(Operand::List(
            tensors.iter().map(in_order).collect::<Result<_>>()?,
        ))
    };
    for start in (0..xs.len()).step_by(MOST_TENSORS) {
        let part = start..xs.len().min(start + MOST_TENSORS);
        let product = Product {
            x: list(&xs[part.clone()])?,
            weight: list(&weights[part.clone()])?,
            bias: match bias.get(part.clone()) {
                Some(bias) => list(bias)?,
                None => Operand::Absent,
            },
            groups: Operand::Absent,
            output: list(&ys[part])?,
            split_item: 0,
            group_type: -1,
            groups_code: 0,
        };
        product.prepare(stream, ())?.launch()?;
    }
    Ok(())
}

/// Returns the gradient of [`grouped_matmul`] for its weight, `[E, K, N]`: `xᵀ · dy` of the rows of each group. A
/// group without rows gets zeros.
///
/// # Errors
///
/// Returns an error if [`check_grad`] refuses the operands or a call fails.
pub fn grouped_matmul_grad(
    stream: &Stream,
    x: &Tensor,
    dy: &Tensor,
    groups: (&Tensor, Groups),
) -> Result<Tensor> {
    let device = stream.device();
    let (list, kind) = groups;
    let output = check_grad(device.platform(), x.spec(), dy.spec(), list.spec())?;
    let output = Tensor::like(stream, &output)?;
    let product = Product {
        // CANN needs x as the view with its dimensions exchanged.
        x: Operand::List(vec![in_order(x)?.transpose(0, 1)?]),
        weight: Operand::List(vec![in_order(dy)?]),
        bias: Operand::Absent,
        groups: Operand::from(list),
        output: Operand::List(vec![output.clone()]),
        split_item: 3,
        group_type: 2,
        groups_code: kind.code(),
    };
    product.prepare(stream, output)?.launch()
}

/// Returns a contiguous tensor with the strides that its shape has by default. Strides of dimensions of size 1 don't
/// matter, but CANN infers from the strides which dimensions are exchanged.
fn in_order(tensor: &Tensor) -> Result<Tensor> {
    if tensor.layout().is_contiguous() {
        return tensor.reshape(tensor.shape());
    }
    Ok(tensor.clone())
}

/// Returns a matrix as a stack of one.
fn of_one_group(weight: &Tensor) -> Result<Tensor> {
    let layout = weight.layout();
    let (mut shape, mut strides) = (vec![1], vec![layout.len()]);
    shape.extend(layout.shape());
    strides.extend(layout.strides());
    weight.with_layout(Layout::strided(shape, strides, layout.offset())?)
}

/// The parameters of V4 and V5 that float products have.
struct Product {
    x: Operand,
    weight: Operand,
    bias: Operand,
    groups: Operand,
    output: Operand,
    split_item: i64,
    group_type: i64,
    groups_code: i64,
}

impl Product {
    fn prepare<T>(self, stream: &Stream, result: T) -> Result<Prepared<T>> {
        let Self {
            x,
            weight,
            bias,
            groups,
            output,
            split_item,
            group_type,
            groups_code,
        } = self;
        let newest = stream.device().cann().sys().grouped_matmul.newest()?;
        // Only quantised products have these.
        let (no, none) = (std::ptr::null(), std::ptr::null_mut());
        let no_activation = 0;
        /// The versions differ only in V5's tuning settings, which are not used here.
        macro_rules! product {
            ($phases:tt as $operator:ident, [$($tuning:expr)?]) => {
                aclnn!(
                    prepare stream, $phases as $operator,
                    tensors [x: list, weight: list, bias: list, groups, output: list],
                    constants [], attributes [split_item, group_type, groups_code],
                    call(
                        x, weight, bias, no, no, no, no, no, groups, no, no, no, split_item, group_type,
                        groups_code, no_activation, $($tuning,)? output, none, none,
                    ),
                    result,
                )
            };
        }
        match newest {
            NewestGroupedMatmul::V5(one, two) => {
                product!((one, two) as aclnnGroupedMatmulV5, [std::ptr::null_mut()])
            }
            NewestGroupedMatmul::V4(one, two) => {
                product!((one, two) as aclnnGroupedMatmulV4, [])
            }
        }
    }
}
