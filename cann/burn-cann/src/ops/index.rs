//! Selecting and scattering by indices, and embeddings.
//!
//! Indices are i64 or i32. They are not checked before the call. On the emulator, an index out of range is an error of
//! the stream; CANN does not document what a device does.

use super::aclnn::aclnn;
use super::check::{self, Named};
use super::shape;
use super::types::{FLOATS, INDICES, NUMBERS, USUAL};
use super::{Checked, Refusal};
use crate::call::{Constant, Scalar};
use crate::error::Result;
use crate::layout::Dimensions;
use crate::soc::Platform;
use crate::stream::Stream;
use crate::tensor::{Spec, Tensor};

/// The way in which [`scatter`] combines an element with a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scattered {
    /// The new element replaces it. If several new elements have one place, any of them stays.
    Replace,
    /// The sum. Several new elements are added in any order.
    Add,
    /// The product. Several new elements are multiplied in any order.
    Multiply,
}

/// Checks the operands of [`index_select`] and returns the spec of its result. `x` may have any dtype but u16, u32 and
/// u64; the index has one dimension.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check_index_select(
    platform: &Platform,
    x: &Spec,
    dim: usize,
    index: &Spec,
) -> Checked<Spec> {
    check::processor(platform, "IndexSelect")?;
    check::view(("x", x), USUAL)?;
    let shape = with_index(x, dim, index)?;
    Ok(Spec::contiguous(x.dtype, shape)?)
}

/// Checks the operands of [`gather`] and returns the spec of its result. `x` may have the dtypes of
/// [`check_index_select`]. The index has as many dimensions as `x` and is no larger than it, except along `dim`.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check_gather(platform: &Platform, x: &Spec, dim: usize, index: &Spec) -> Checked<Spec> {
    check::processor(platform, "Gather")?;
    check::view(("x", x), USUAL)?;
    check::rank(("x", x), 1, check::MOST_DIMENSIONS)?;
    check::dimension(x, dim)?;
    check::view(("index", index), INDICES)?;
    within(("index", index), x, Some(dim))?;
    Ok(Spec::contiguous(x.dtype, index.shape())?)
}

/// Checks the operands of [`scatter`] and returns the spec of its result. `x` has numbers, or booleans if they are
/// replaced. The index is no larger than `x`, except along `dim`. `source` has the dtype of `x` and is at least as
/// large as the index.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check_scatter(
    platform: &Platform,
    x: &Spec,
    dim: usize,
    index: &Spec,
    source: &Spec,
    how: Scattered,
) -> Checked<Spec> {
    check::processor(platform, "Scatter")?;
    check::view(
        ("x", x),
        if how == Scattered::Replace {
            USUAL
        } else {
            NUMBERS
        },
    )?;
    check::rank(("x", x), 1, check::MOST_DIMENSIONS)?;
    check::dimension(x, dim)?;
    check::view(("index", index), INDICES)?;
    check::view(("source", source), &[x.dtype])?;
    within(("index", index), x, Some(dim))?;
    within(("index", index), source, None)?;
    Ok(Spec::contiguous(x.dtype, x.shape())?)
}

/// Checks the operands of [`index_add`] and returns the spec of its result. `x` has numbers, and the index has one
/// dimension. `source` has the dtype and shape of `x`, except for the index's length along `dim`.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check_index_add(
    platform: &Platform,
    x: &Spec,
    dim: usize,
    index: &Spec,
    source: &Spec,
    factor: Scalar,
) -> Checked<Spec> {
    check::processor(platform, "IndexAdd")?;
    check::view(("x", x), NUMBERS)?;
    let shape = with_index(x, dim, index)?;
    check::view(("source", source), &[x.dtype])?;
    check::shape(("source", source), &shape)?;
    check::scalar("factor", factor, x.dtype)?;
    Ok(Spec::contiguous(x.dtype, x.shape())?)
}

/// Checks the operands of [`embedding`], a table of two dimensions and indices of any shape, and returns the spec of
/// its result.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check_embedding(platform: &Platform, table: &Spec, indices: &Spec) -> Checked<Spec> {
    check::processor(platform, "Embedding")?;
    check::view(("table", table), USUAL)?;
    check::rank(("table", table), 2, 2)?;
    check::view(("indices", indices), INDICES)?;
    let shape = [indices.shape(), &table.shape()[1..]].concat();
    let spec = Spec::contiguous(table.dtype, shape)?;
    check::rank(("the result", &spec), 1, check::MOST_DIMENSIONS)?;
    Ok(spec)
}

/// Checks the operands of [`embedding_backward`] and returns the spec of its result. `dy` is f32, f16 or bf16 and has
/// the shape of the indices with one more dimension.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check_embedding_backward(
    platform: &Platform,
    dy: &Spec,
    indices: &Spec,
    rows: usize,
) -> Checked<Spec> {
    check::processor(platform, "EmbeddingDenseBackward")?;
    check::view(("dy", dy), FLOATS)?;
    check::rank(("dy", dy), 1, check::MOST_DIMENSIONS)?;
    check::view(("indices", indices), INDICES)?;
    let (outer, width) = dy.shape().split_at(dy.rank() - 1);
    check::shape(("indices", indices), outer)?;
    Ok(Spec::contiguous(dy.dtype, [rows, width[0]])?)
}

/// Returns the shape of `x` with the length of a one-dimensional index along `dim`.
fn with_index(x: &Spec, dim: usize, index: &Spec) -> Checked<Dimensions> {
    check::rank(("x", x), 1, check::MOST_DIMENSIONS)?;
    check::dimension(x, dim)?;
    check::view(("index", index), INDICES)?;
    check::rank(("index", index), 1, 1)?;
    let mut shape = Dimensions::from(x.shape());
    shape[dim] = index.len();
    Ok(shape)
}

/// Checks that the tensor has as many dimensions as `outer` and is no larger, except along `free`.
fn within((name, inner): Named<'_>, outer: &Spec, free: Option<usize>) -> Checked<()> {
    let sizes = inner.shape().iter().zip(outer.shape()).enumerate();
    let fits = inner.rank() == outer.rank()
        && sizes
            .filter(|(dim, _)| Some(*dim) != free)
            .all(|(_, (inner, outer))| inner <= outer);
    if fits {
        return Ok(());
    }
    Err(Refusal::Shape {
        operand: name,
        found: inner.shape().to_vec(),
        expected: format!("one within {:?}", outer.shape()),
    })
}

/// Returns the rows of `x` along `dim` at `index`.
///
/// # Errors
///
/// Returns an error if [`check_index_select`] refuses the operands or a call fails.
pub fn index_select(stream: &Stream, x: &Tensor, dim: usize, index: &Tensor) -> Result<Tensor> {
    let device = stream.device();
    let spec = check_index_select(device.platform(), x.spec(), dim, index.spec())?;
    let out = Tensor::like(stream, &spec)?;
    if spec.is_empty() {
        return Ok(out);
    }
    let (y, axis) = (&out, dim as i64);
    aclnn!(
        stream, index.aclnnIndexSelectGetWorkspaceSize, aclnnIndexSelect,
        tensors [x, index, y], constants [], attributes [axis],
        call(x, axis, index, y), out.clone(),
    )
}

/// Returns the elements of `x` at `index` along `dim`. Along the other dimensions, their positions are those in the
/// index.
///
/// # Errors
///
/// Returns an error if [`check_gather`] refuses the operands or a call fails.
pub fn gather(stream: &Stream, x: &Tensor, dim: usize, index: &Tensor) -> Result<Tensor> {
    let spec = check_gather(stream.device().platform(), x.spec(), dim, index.spec())?;
    let out = Tensor::like(stream, &spec)?;
    if spec.is_empty() {
        return Ok(out);
    }
    let (y, axis) = (&out, dim as i64);
    aclnn!(
        stream, index.aclnnGatherGetWorkspaceSize, aclnnGather,
        tensors [x, index, y], constants [], attributes [axis],
        call(x, axis, index, y), out.clone(),
    )
}

/// Returns `x` with each element of `source` put where [`gather`] would take it from.
///
/// # Errors
///
/// Returns an error if [`check_scatter`] refuses the operands or a call fails.
pub fn scatter(
    stream: &Stream,
    x: &Tensor,
    dim: usize,
    index: &Tensor,
    source: &Tensor,
    how: Scattered,
) -> Result<Tensor> {
    let device = stream.device();
    let spec = check_scatter(
        device.platform(),
        x.spec(),
        dim,
        index.spec(),
        source.spec(),
        how,
    )?;
    let out = Tensor::like(stream, &spec)?;
    if spec.is_empty() {
        return Ok(out);
    }
    if index.spec().is_empty() {
        shape::copy(stream, &out, x)?;
        return Ok(out);
    }
    let (y, axis) = (&out, dim as i64);
    let reduction = match how {
        Scattered::Replace => 0,
        // Adding has an operator of its own, which takes more dtypes.
        Scattered::Add => {
            return aclnn!(
                stream, index.aclnnScatterAddGetWorkspaceSize, aclnnScatterAdd,
                tensors [x, index, source, y], constants [], attributes [axis],
                call(x, axis, index, source, y), out.clone(),
            );
        }
        Scattered::Multiply => 2,
    };
    aclnn!(
        stream, index.aclnnScatterGetWorkspaceSize, aclnnScatter,
        tensors [x, index, source, y], constants [], attributes [axis, reduction],
        call(x, axis, index, source, reduction, y), out.clone(),
    )
}

/// Returns `x` with each row of `source`, times `factor`, added to the row along `dim` at `index`.
///
/// # Errors
///
/// Returns an error if [`check_index_add`] refuses the operands or a call fails.
pub fn index_add(
    stream: &Stream,
    x: &Tensor,
    dim: usize,
    index: &Tensor,
    source: &Tensor,
    factor: impl Into<Scalar>,
) -> Result<Tensor> {
    let (device, factor) = (stream.device(), factor.into());
    let spec = check_index_add(
        device.platform(),
        x.spec(),
        dim,
        index.spec(),
        source.spec(),
        factor,
    )?;
    let out = Tensor::like(stream, &spec)?;
    if spec.is_empty() {
        return Ok(out);
    }
    if index.spec().is_empty() {
        shape::copy(stream, &out, x)?;
        return Ok(out);
    }
    let (y, axis) = (&out, dim as i64);
    aclnn!(
        stream, index.aclnnIndexAddGetWorkspaceSize, aclnnIndexAdd,
        tensors [x, index, source, y],
        constants [factor: scalar = Constant::Scalar(factor)], attributes [axis],
        call(x, axis, index, source, factor, y), out.clone(),
    )
}

/// Returns the rows of `table` at `indices`.
///
/// # Errors
///
/// Returns an error if [`check_embedding`] refuses the operands or a call fails.
pub fn embedding(stream: &Stream, table: &Tensor, indices: &Tensor) -> Result<Tensor> {
    let spec = check_embedding(stream.device().platform(), table.spec(), indices.spec())?;
    let out = Tensor::like(stream, &spec)?;
    if spec.is_empty() {
        return Ok(out);
    }
    let y = &out;
    aclnn!(
        stream, index.aclnnEmbeddingGetWorkspaceSize, aclnnEmbedding,
        tensors [table, indices, y], constants [], attributes [],
        call(table, indices, y), out.clone(),
    )
}

/// Returns the gradient of [`embedding`] for its table of `rows` rows. The rows of `dy` are added in any order. The
/// row `padding` gets none.
///
/// # Errors
///
/// Returns an error if [`check_embedding_backward`] refuses the operands or a call fails.
pub fn embedding_backward(
    stream: &Stream,
    dy: &Tensor,
    indices: &Tensor,
    rows: usize,
    padding: Option<usize>,
) -> Result<Tensor> {
    let device = stream.device();
    let spec = check_embedding_backward(device.platform(), dy.spec(), indices.spec(), rows)?;
    let out = Tensor::like(stream, &spec)?;
    if spec.is_empty() {
        return Ok(out);
    }
    if dy.spec().is_empty() {
        super::create::zero(stream, &out)?;
        return Ok(out);
    }
    let (dtable, count) = (&out, rows as u64);
    // -1, as an unsigned number, means no row.
    let padding = padding.map_or(u64::MAX, |row| row as u64);
    aclnn!(
        stream, index.aclnnEmbeddingDenseBackwardGetWorkspaceSize, aclnnEmbeddingDenseBackward,
        tensors [dy, indices, dtable], constants [],
        attributes [count.cast_signed(), padding.cast_signed()],
        call(dy, indices, count, padding, false, dtable), out.clone(),
    )
}
