//! Moving tokens to rows and back over CANN's operators.
//!
//! `P` is `aclnnMoeTokenPermute`, which sorts slots by any numbers and copies tokens in that order. `U` is
//! `aclnnMoeTokenUnpermute`, `PG` is `aclnnMoeTokenPermuteGrad`. A free slot belongs to no expert and has no row. A
//! free row belongs to no slot.
//!
//! | operation | computation | why |
//! |---|---|---|
//! | `sort_slots` | `P` of one element for each token, which gives the row of each slot; entries of free slots are then set to a number after the rows | CANN has no sort by expert alone; one element keeps the copy small |
//! | counts | ones added by expert, with one more place for free slots | |
//! | `spread` | `P` with the row map for the experts, then free rows cleared | sorting by rows gives the order of the rows. `P` fills free rows with tokens, and only the device knows how many free rows there are |
//! | `sum_rows` | free rows replaced by zeros, `PG` | CANN takes a permutation: free slots get the rows after those of the experts, by `P` of one element, and these rows may hold anything |
//! | `weigh_rows` | the same with `U` | probabilities in f32 are rounded once to a half type, since CANN's have the type of the rows |
//! | gradient of the rows | `P`, times the slots' probabilities in the order of rows, free rows cleared | `aclnnMoeTokenUnpermuteGrad` reads the rows, which only the other gradient needs |
//! | gradient of the probabilities | `P`, product and sum over each row, `U` of one element, free slots cleared | this is what `aclnnMoeTokenUnpermuteGrad` does, except that free rows may hold anything |
//! | an index beyond the experts' number, or below 0 | its slot counts as free | to refuse it, as the CPU does, the host would have to wait for the device |
//! | a row map that `sort_slots` did not make | rows in the order of its entries; the next read of the session is an error (`npu/mistakes`) | as above |
//! | fewer rows than slots | refused | CANN documents dropped rows only for `P` |
//! | more than 512 choices, 16,777,214 slots or more | refused | CANN's limits: it sorts numbers as f32 |

mod kernel;

pub(crate) use kernel::{takes_rows, takes_tokens};

use super::super::grouped_matmul::npu::integers;
use super::{Sort, Spread, SpreadWeighed, Sum, Weigh, WeighBackward};
use crate::npu::backend::ints;
use crate::npu::mistakes::{Counts, Mistake, count, without_mistakes};
use crate::npu::refused::one_float;
use crate::npu::views::reshaped;
use crate::npu::{Refused, Result, Seen, Specified, base};
use crate::ops::operands::array;
use crate::reason::Reason;
use burn_cann::ops::moe::{check_permute, check_permute_grad, permute, permute_grad, unpermute};
use burn_cann::ops::{compare, elementwise};
use burn_cann::{DType, Platform, Spec, Stream, Tensor};

/// The numbers that `P` sorts must be below this.
const LARGEST_NUMBER: usize = 16_777_215;

/// The tensors of an operation that moves rows, as the decision needs them.
pub struct Move<'a> {
    /// The tokens or rows. Only their type and width matter.
    moved: &'a Spec,
    row_map: &'a Spec,
    probs: Option<&'a Spec>,
    rows: usize,
}

/// Defines the conversion of an operation's operands to a [`Move`].
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

/// Checks that CANN's operators sort these slots by expert.
///
/// # Errors
/// Returns the reason if they don't.
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

/// Checks that CANN's operators move tokens to rows, or back.
///
/// # Errors
/// Returns the reason if they don't.
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
    // One more number marks free slots.
    if slots + 1 < LARGEST_NUMBER {
        return Ok(());
    }
    let why = format!("{slots} slots; CANN sorts numbers below {LARGEST_NUMBER}");
    Err(Refused::new(Reason::Shape, why))
}

/// Returns the row map, `[tokens, k]`, and the number of rows of each expert, `[num_experts]`.
///
/// # Errors
/// Returns an error if [`decide_sort`] refuses the operands or CANN fails.
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
    let tokens = indices.shape()[0];
    let experts = without_mistakes(stream, indices, num_experts, Counts::Mistakes)?;
    let nobody = base::at_least(stream, &experts, num_experts as f64)?;
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

/// Returns the number of slots of each expert, in i64. An index equal to `experts` belongs to no expert.
pub(crate) fn counts(stream: &Stream, indices: &Tensor, experts: usize) -> Result<Tensor> {
    let slots = indices.spec().len();
    let indices = reshaped(stream, indices, [slots])?;
    Ok(base::count(stream, &indices, experts + 1)?.slice(0, 0..experts)?)
}

/// Returns `[rows, H]`, with `tokens[t]` in every row in `row_map[t]`, and zeros in other rows.
///
/// # Errors
/// Returns an error if [`decide_move`] refuses the operands or CANN fails.
pub fn spread(stream: &Stream, operands: &Spread<Seen<Tensor>, Seen<Tensor>>) -> Result<Tensor> {
    decide_move(stream.device().platform(), operands)?;
    let (tokens, row_map) = (operands.tokens(), operands.row_map());
    let (rows, width) = (operands.rows(), tokens.shape()[1]);
    if rows * width == 0 {
        return Ok(Tensor::empty(stream, tokens.dtype(), [rows, width])?);
    }
    let sorted = sortable(stream, row_map)?;
    let permuted = permute(stream, tokens, &sorted, None)?;
    count_changed(stream, row_map, &permuted.row_of_slot)?;
    clear_nobody(stream, &permuted.tokens, &sorted)?;
    Ok(permuted.tokens)
}

/// Writes zeros to the free rows.
fn clear_nobody(stream: &Stream, rows: &Tensor, row_map: &Tensor) -> Result<()> {
    base::masked_fill(stream, rows, &rows_of_nobody(stream, row_map)?, 0.0)
}

/// Returns a mask of the free rows, `[rows, 1]`.
fn rows_of_nobody(stream: &Stream, row_map: &Tensor) -> Result<Tensor> {
    let nobody = base::cast(stream, &slots_of_nobody(stream, row_map)?, DType::F32)?;
    base::at_least(stream, &by_row(stream, &nobody, row_map)?, 0.5)
}

/// Returns a mask of the free slots.
fn slots_of_nobody(stream: &Stream, row_map: &Tensor) -> Result<Tensor> {
    base::at_least(stream, row_map, row_map.spec().len() as f64)
}

/// Reorders a number for each slot, `[tokens, k]`, to the order of the rows, `[rows, 1]`.
pub(crate) fn by_row(stream: &Stream, slots: &Tensor, row_map: &Tensor) -> Result<Tensor> {
    let count = slots.spec().len();
    let (slots, map) = (
        reshaped(stream, slots, [count, 1])?,
        reshaped(stream, row_map, [count])?,
    );
    Ok(permute(stream, &slots, &map, None)?.tokens)
}

/// Reorders a number for each row, `[rows, 1]`, to the order of the slots, given as a permutation.
pub(crate) fn by_slot(stream: &Stream, rows: &Tensor, permutation: &Tensor) -> Result<Tensor> {
    Ok(unpermute(stream, rows, permutation, None)?)
}

/// Returns the row map with numbers that CANN sorts: 0 stands for numbers below it, the number of slots for all beyond the
/// rows.
fn sortable(stream: &Stream, row_map: &Tensor) -> Result<Tensor> {
    let slots = row_map.spec().len() as i64;
    Ok(elementwise::clamp(stream, row_map, 0_i64, slots)?)
}

/// Returns a [`sortable`] row map as CANN takes it, `[slots]`: free slots get the rows after those of the experts. Whatever
/// the map is, this is a permutation. It changes a map that moving tokens to rows did not make.
fn permutation(stream: &Stream, row_map: &Tensor) -> Result<Tensor> {
    let slots = row_map.spec().len();
    let one = base::filled(stream, DType::F32, &[slots, 1], 0.0)?;
    let map = reshaped(stream, row_map, [slots])?;
    Ok(permute(stream, &one, &map, None)?.row_of_slot)
}

/// Counts the entries of a caller's row map that its permutation changes.
fn count_changed(stream: &Stream, row_map: &Tensor, permutation: &Tensor) -> Result<()> {
    count(stream, Mistake::Row, || {
        let slots = row_map.spec().len();
        let map = reshaped(stream, row_map, [slots])?;
        let rows = base::cast(stream, permutation, map.dtype())?;
        let changed = compare::not_equal(stream, &rows, &map)?;
        base::and(stream, &changed, &base::below(stream, &map, slots as f64)?)
    })
}

/// Returns the rows, contiguous, with zeros in free rows.
fn of_somebody(stream: &Stream, rows: &Tensor, row_map: &Tensor) -> Result<Tensor> {
    let zero = base::filled(stream, rows.dtype(), &[1, 1], 0.0)?;
    base::select(stream, &rows_of_nobody(stream, row_map)?, &zero, rows)
}

/// Returns `[tokens, H]`: for each token, the sum of the rows in `row_map`.
///
/// # Errors
/// Returns an error as [`spread`] does.
pub fn sum_rows(stream: &Stream, operands: &Sum<Seen<Tensor>, Seen<Tensor>>) -> Result<Tensor> {
    decide_move(stream.device().platform(), operands)?;
    let (rows, row_map) = (operands.rows(), operands.row_map());
    let [count, width] = [rows.shape()[0], rows.shape()[1]];
    let [tokens, k] = [row_map.shape()[0], row_map.shape()[1]];
    if count * width == 0 {
        return base::filled(stream, rows.dtype(), &[tokens, width], 0.0);
    }
    let sorted = sortable(stream, row_map)?;
    let rows = of_somebody(stream, rows, &sorted)?;
    let permutation = permutation(stream, &sorted)?;
    count_changed(stream, row_map, &permutation)?;
    Ok(permute_grad(stream, &rows, &permutation, k)?)
}

/// Returns the same sums, with each row multiplied by its slot's probability.
///
/// # Errors
/// Returns an error as [`spread`] does.
pub fn weigh_rows(stream: &Stream, operands: &Weigh<Seen<Tensor>, Seen<Tensor>>) -> Result<Tensor> {
    decide_move(stream.device().platform(), operands)?;
    let (rows, row_map, probs) = (operands.rows(), operands.row_map(), operands.probs());
    let [count, width] = [rows.shape()[0], rows.shape()[1]];
    if count * width == 0 {
        return base::filled(stream, rows.dtype(), &[row_map.shape()[0], width], 0.0);
    }
    let probs = base::cast(stream, probs, rows.dtype())?;
    let sorted = sortable(stream, row_map)?;
    let rows = of_somebody(stream, rows, &sorted)?;
    let permutation = permutation(stream, &sorted)?;
    count_changed(stream, row_map, &permutation)?;
    Ok(unpermute(stream, &rows, &permutation, Some(&probs))?)
}

/// Returns the gradient of the rows of [`weigh_rows`].
///
/// # Errors
/// Returns an error as [`spread`] does.
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
    let row_map = &sortable(stream, row_map)?;
    let dy = permute(stream, dy, row_map, None)?.tokens;
    weighed(stream, &dy, row_map, probs)
}

/// Returns the gradients of the rows and of the probabilities of [`weigh_rows`].
///
/// # Errors
/// Returns an error as [`spread`] does.
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
    let row_map = &sortable(stream, row_map)?;
    let dy = permute(stream, dy, row_map, None)?.tokens;
    let products = base::mul(stream, &dy, rows)?;
    let sums = base::sum(stream, &products, &[1], true)?;
    let d_probs = by_slot(stream, &sums, &permutation(stream, row_map)?)?;
    let d_probs = d_probs.reshape(row_map.shape())?;
    base::masked_fill(stream, &d_probs, &slots_of_nobody(stream, row_map)?, 0.0)?;
    let d_probs = base::cast(stream, &d_probs, probs.dtype())?;
    Ok((weighed(stream, &dy, row_map, probs)?, d_probs))
}

/// Multiplies rows by the probabilities of their slots. Free rows become zeros.
fn weighed(stream: &Stream, rows: &Tensor, row_map: &Tensor, probs: &Tensor) -> Result<Tensor> {
    let probs = by_row(stream, &base::cast(stream, probs, rows.dtype())?, row_map)?;
    let weighed = base::mul(stream, rows, &probs)?;
    clear_nobody(stream, &weighed, row_map)?;
    Ok(weighed)
}
