//! Tokens to rows and back over CANN's operators.
//!
//! `P` is `aclnnMoeTokenPermute`, which sorts slots by any numbers and copies tokens in that order; `U` is
//! `aclnnMoeTokenUnpermute`, `PG` `aclnnMoeTokenPermuteGrad`.
//!
//! | operation | what is done | why |
//! |---|---|---|
//! | `sort_slots` | `P` of one element a token, which gives the row of each slot; slots for nobody then point behind the rows | CANN has no sort by expert alone; one element keeps the copy small |
//! | counts | ones added up by expert, one place more for nobody | |
//! | `spread` | `P` with the row map for the experts, then rows of nobody cleared | sorting by rows is the order of the rows. `P` fills the rows of nobody with their tokens, and how many there are only the device knows |
//! | `sum_rows` | rows of nobody replaced by zeros, `PG` | CANN wants a permutation: slots of nobody get the rows behind those of the experts, by `P` of one element, and those may hold anything |
//! | `weigh_rows` | the same with `U` | probabilities in f32 are rounded to a half type, once, since CANN's have the type of the rows |
//! | gradient of the rows | `P`, times the slots' probabilities in the order of rows, rows of nobody cleared | `aclnnMoeTokenUnpermuteGrad` reads the rows, which only the other gradient needs |
//! | gradient of the probabilities | `P`, product and sum over each row, `U` of one element, slots of nobody cleared | it is what `aclnnMoeTokenUnpermuteGrad` does, with rows of nobody that may hold anything |
//! | an index beyond the experts' number, or below 0 | counts as nobody's | to refuse it, as the CPU does, the host would have to wait for the device |
//! | fewer rows than slots | refused | CANN says of `P` alone what it drops |
//! | more than 512 choices, 16,777,214 slots or more | refused | CANN's limits: it sorts numbers as f32 |

mod kernel;

pub(crate) use kernel::{takes_rows, takes_tokens};

use super::super::grouped_matmul::npu::integers;
use super::{Sort, Spread, SpreadWeighed, Sum, Weigh, WeighBackward};
use crate::npu::backend::ints;
use crate::npu::refused::one_float;
use crate::npu::views::reshaped;
use crate::npu::{Refused, Result, Seen, Specified, base};
use crate::ops::operands::array;
use crate::reason::Reason;
use burn_cann::ops::moe::{check_permute, check_permute_grad, permute, permute_grad, unpermute};
use burn_cann::{DType, Platform, Spec, Stream, Tensor};

/// Numbers that `P` sorts are less than this.
const LARGEST_NUMBER: usize = 16_777_215;

/// The tensors that move, as the decision sees them.
pub struct Move<'a> {
    /// Tokens or rows, of which type and width count.
    moved: &'a Spec,
    row_map: &'a Spec,
    probs: Option<&'a Spec>,
    rows: usize,
}

/// Defines what of an operation's operands is a [`Move`].
macro_rules! moves {
    ($($Name:ident $of:ident: $moved:ident by $probs:expr, $rows:expr;)+) => {$(
        impl<'a, T: Specified> From<&'a $Name<Seen<T>, Seen<T>>> for Move<'a> {
            fn from($of: &'a $Name<Seen<T>, Seen<T>>) -> Self {
                Self {
                    moved: $of.$moved().spec(),
                    row_map: $of.row_map().spec(),
                    probs: $probs,
                    rows: $rows,
                }
            }
        }
    )+};
}
moves! {
    Spread of: tokens by None, of.rows();
    Sum of: rows by None, of.rows().spec().shape()[0];
    Weigh of: rows by Some(of.probs().spec()), of.rows().spec().shape()[0];
    SpreadWeighed of: dy by Some(of.probs().spec()), of.rows();
    WeighBackward of: rows by Some(of.probs().spec()), of.rows().spec().shape()[0];
}

/// Whether CANN's operators sort these slots by expert.
///
/// # Errors
/// Why they don't.
pub fn decide_sort<T: Specified>(
    platform: &Platform,
    slots: &Sort<Seen<T>, Seen<T>>,
) -> Result<(), Refused> {
    let indices = slots.indices().spec();
    let [tokens, k] = array(indices.shape().iter().copied());
    integers("indices", indices)?;
    all_rows(slots.rows(), tokens * k)?;
    let one = Spec::contiguous(DType::F32, [tokens, 1])?;
    if k > 0 {
        check_permute(platform, &one, indices, None)?;
    }
    Ok(())
}

/// Whether CANN's operators move tokens to rows, or back.
///
/// # Errors
/// Why they don't.
pub fn decide_move<'a>(platform: &Platform, operands: impl Into<Move<'a>>) -> Result<(), Refused> {
    let Move {
        moved,
        row_map,
        probs,
        rows,
    } = operands.into();
    let [tokens, k] = array(row_map.shape().iter().copied());
    integers("the row map", row_map)?;
    all_rows(rows, tokens * k)?;
    let dtype = one_float(("rows", moved), [])?;
    if let Some(probs) = probs.filter(|probs| ![dtype, DType::F32].contains(&probs.dtype)) {
        let why = format!("probs are of type {}, the rows of {dtype}", probs.dtype);
        return Err(Refused::new(Reason::MixedDtypes, why));
    }
    let all = Spec::contiguous(dtype, [tokens, moved.shape()[1]])?;
    if k > 0 {
        let (permuted, map) = check_permute(platform, &all, row_map, None)?;
        check_permute_grad(platform, &permuted, &map, k)?;
    }
    Ok(())
}

fn all_rows(rows: usize, slots: usize) -> Result<(), Refused> {
    if rows != slots {
        let why = format!("{rows} of {slots} rows are kept; CANN's operators keep all");
        return Err(Refused::new(Reason::Shape, why));
    }
    // One more number stands for nobody.
    if slots + 1 < LARGEST_NUMBER {
        return Ok(());
    }
    let why = format!("{slots} slots; CANN sorts numbers below {LARGEST_NUMBER}");
    Err(Refused::new(Reason::Shape, why))
}

/// The row map, `[tokens, k]`, and how many rows each expert has, `[num_experts]`.
///
/// # Errors
/// Refused by [`decide_sort`], or CANN failed.
pub fn sort_slots(
    stream: &Stream,
    slots: &Sort<Seen<Tensor>, Seen<Tensor>>,
) -> Result<(Tensor, Tensor)> {
    decide_sort(stream.device().platform(), slots)?;
    let (indices, num_experts) = (slots.indices(), slots.num_experts());
    let (rows, ints) = (slots.rows(), ints(slots.integers()));
    if rows == 0 {
        let counts = base::filled(stream, ints, &[num_experts], 0.0)?;
        return Ok((Tensor::empty(stream, ints, indices.shape())?, counts));
    }
    let (tokens, none) = (indices.shape()[0], num_experts as f64);
    // A copy, since places of it are overwritten.
    let experts = base::copy(stream, indices)?;
    let nobody = outside(stream, indices, num_experts)?;
    base::masked_fill(stream, &experts, &nobody, none)?;
    let one = base::filled(stream, DType::F32, &[tokens, 1], 0.0)?;
    let map = permute(stream, &one, &experts, None)?.row_of_slot;
    let map = map.reshape(indices.shape())?;
    base::masked_fill(stream, &map, &nobody, rows as f64)?;
    let counts = counts(stream, &experts, num_experts)?;
    Ok((
        base::cast(stream, &map, ints)?,
        base::cast(stream, &counts, ints)?,
    ))
}

/// How many slots each expert has, i64; an index of `experts` is nobody's.
pub(crate) fn counts(stream: &Stream, indices: &Tensor, experts: usize) -> Result<Tensor> {
    let slots = indices.spec().len();
    let indices = reshaped(stream, indices, [slots])?;
    Ok(base::count(stream, &indices, experts + 1)?.slice(0, 0..experts)?)
}

/// Where an index is not that of an expert.
fn outside(stream: &Stream, indices: &Tensor, experts: usize) -> Result<Tensor> {
    let below = base::below(stream, indices, 0.0)?;
    let above = base::at_least(stream, indices, experts as f64)?;
    base::or(stream, &below, &above)
}

/// `[rows, H]` with `tokens[t]` in every row that `row_map[t]` names and zeros elsewhere.
///
/// # Errors
/// Refused by [`decide_move`], or CANN failed.
pub fn spread(stream: &Stream, operands: &Spread<Seen<Tensor>, Seen<Tensor>>) -> Result<Tensor> {
    decide_move(stream.device().platform(), operands)?;
    let (tokens, row_map) = (operands.tokens(), operands.row_map());
    let (rows, width) = (operands.rows(), tokens.shape()[1]);
    if rows * width == 0 {
        return Ok(Tensor::empty(stream, tokens.dtype(), [rows, width])?);
    }
    let spread = permute(stream, tokens, row_map, None)?.tokens;
    clear_nobody(stream, &spread, row_map)?;
    Ok(spread)
}

/// Writes zeros to the rows that no slot names.
fn clear_nobody(stream: &Stream, rows: &Tensor, row_map: &Tensor) -> Result<()> {
    base::masked_fill(stream, rows, &rows_of_nobody(stream, row_map)?, 0.0)
}

/// Which rows no slot names, `[rows, 1]`.
fn rows_of_nobody(stream: &Stream, row_map: &Tensor) -> Result<Tensor> {
    let nobody = base::cast(stream, &slots_of_nobody(stream, row_map)?, DType::F32)?;
    base::at_least(stream, &by_row(stream, &nobody, row_map)?, 0.5)
}

/// Which slots name no row.
fn slots_of_nobody(stream: &Stream, row_map: &Tensor) -> Result<Tensor> {
    base::at_least(stream, row_map, row_map.spec().len() as f64)
}

/// A number for each slot, `[tokens, k]`, in the order of the rows, `[rows, 1]`.
pub(crate) fn by_row(stream: &Stream, slots: &Tensor, row_map: &Tensor) -> Result<Tensor> {
    let count = slots.spec().len();
    let (slots, map) = (
        reshaped(stream, slots, [count, 1])?,
        reshaped(stream, row_map, [count])?,
    );
    Ok(permute(stream, &slots, &map, None)?.tokens)
}

/// A number for each row, `[rows, 1]`, in the order of the slots, which a permutation gives.
pub(crate) fn by_slot(stream: &Stream, rows: &Tensor, permutation: &Tensor) -> Result<Tensor> {
    Ok(unpermute(stream, rows, permutation, None)?)
}

/// The row map as CANN takes it, `[slots]`: slots of nobody get the rows behind those of the experts.
fn permutation(stream: &Stream, row_map: &Tensor) -> Result<Tensor> {
    let slots = row_map.spec().len();
    let one = base::filled(stream, DType::F32, &[slots, 1], 0.0)?;
    Ok(permute(stream, &one, &reshaped(stream, row_map, [slots])?, None)?.row_of_slot)
}

/// Contiguous rows with zeros where no slot names one.
fn of_somebody(stream: &Stream, rows: &Tensor, row_map: &Tensor) -> Result<Tensor> {
    let zero = base::filled(stream, rows.dtype(), &[1, 1], 0.0)?;
    base::select(stream, &rows_of_nobody(stream, row_map)?, &zero, rows)
}

/// `[tokens, H]`: for each token the sum of the rows that `row_map` names.
///
/// # Errors
/// As [`spread`].
pub fn sum_rows(stream: &Stream, operands: &Sum<Seen<Tensor>, Seen<Tensor>>) -> Result<Tensor> {
    decide_move(stream.device().platform(), operands)?;
    let (rows, row_map) = (operands.rows(), operands.row_map());
    let [count, width] = [rows.shape()[0], rows.shape()[1]];
    let [tokens, k] = [row_map.shape()[0], row_map.shape()[1]];
    if count * width == 0 {
        return base::filled(stream, rows.dtype(), &[tokens, width], 0.0);
    }
    let rows = of_somebody(stream, rows, row_map)?;
    Ok(permute_grad(
        stream,
        &rows,
        &permutation(stream, row_map)?,
        k,
    )?)
}

/// The same of rows times their slots' probabilities.
///
/// # Errors
/// As [`spread`].
pub fn weigh_rows(stream: &Stream, operands: &Weigh<Seen<Tensor>, Seen<Tensor>>) -> Result<Tensor> {
    decide_move(stream.device().platform(), operands)?;
    let (rows, row_map, probs) = (operands.rows(), operands.row_map(), operands.probs());
    let [count, width] = [rows.shape()[0], rows.shape()[1]];
    if count * width == 0 {
        return base::filled(stream, rows.dtype(), &[row_map.shape()[0], width], 0.0);
    }
    let probs = base::cast(stream, probs, rows.dtype())?;
    let rows = of_somebody(stream, rows, row_map)?;
    Ok(unpermute(
        stream,
        &rows,
        &permutation(stream, row_map)?,
        Some(&probs),
    )?)
}

/// The gradient of the rows of [`weigh_rows`].
///
/// # Errors
/// As [`spread`].
pub fn weigh_rows_d_rows(
    stream: &Stream,
    operands: &SpreadWeighed<Seen<Tensor>, Seen<Tensor>>,
) -> Result<Tensor> {
    decide_move(stream.device().platform(), operands)?;
    let (dy, row_map, probs) = (operands.dy(), operands.row_map(), operands.probs());
    let (rows, width) = (operands.rows(), dy.shape()[1]);
    if rows * width == 0 {
        return Ok(Tensor::empty(stream, dy.dtype(), [rows, width])?);
    }
    let dy = permute(stream, dy, row_map, None)?.tokens;
    weighed(stream, &dy, row_map, probs)
}

/// The gradients of the rows and of the probabilities of [`weigh_rows`].
///
/// # Errors
/// As [`spread`].
pub fn weigh_rows_backward(
    stream: &Stream,
    operands: &WeighBackward<Seen<Tensor>, Seen<Tensor>>,
) -> Result<(Tensor, Tensor)> {
    decide_move(stream.device().platform(), operands)?;
    let (dy, rows) = (operands.dy(), operands.rows());
    let (row_map, probs) = (operands.row_map(), operands.probs());
    let [count, width] = [rows.shape()[0], rows.shape()[1]];
    if count * width == 0 {
        let d_probs = base::filled(stream, probs.dtype(), probs.shape(), 0.0)?;
        return Ok((
            Tensor::empty(stream, rows.dtype(), [count, width])?,
            d_probs,
        ));
    }
    let dy = permute(stream, dy, row_map, None)?.tokens;
    let products = base::mul(stream, &dy, rows)?;
    let sums = base::sum(stream, &products, &[1], true)?;
    let d_probs = by_slot(stream, &sums, &permutation(stream, row_map)?)?;
    let d_probs = d_probs.reshape(row_map.shape())?;
    base::masked_fill(stream, &d_probs, &slots_of_nobody(stream, row_map)?, 0.0)?;
    let d_probs = base::cast(stream, &d_probs, probs.dtype())?;
    Ok((weighed(stream, &dy, row_map, probs)?, d_probs))
}

/// Rows times the probabilities of their slots; zeros where there is none.
fn weighed(stream: &Stream, rows: &Tensor, row_map: &Tensor, probs: &Tensor) -> Result<Tensor> {
    let probs = by_row(stream, &base::cast(stream, probs, rows.dtype())?, row_map)?;
    let weighed = base::mul(stream, rows, &probs)?;
    clear_nobody(stream, &weighed, row_map)?;
    Ok(weighed)
}
