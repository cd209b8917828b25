//! Selecting and scattering by indices, and embeddings.
//!
//! Indices are i64 or i32. They are not looked at before the call; one out of range is an error of the stream
//! on the emulator, and CANN does not say what it is on a device.

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

/// What [`scatter`] does with an element and a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scattered {
    /// The new one. Of several it is not said which.
    Replace,
    /// Their sum. Of several in any order.
    Add,
    /// Their product. Of several in any order.
    Multiply,
}

/// What [`index_select`] makes of `x`: any type but u16, u32 and u64, and an index of one dimension.
///
/// # Errors
///
/// Why CANN would refuse.
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

/// What [`gather`] makes of `x`, as for [`check_index_select`], and an index of as many dimensions that is
/// no larger but along `dim`.
///
/// # Errors
///
/// Why CANN would refuse.
pub fn check_gather(platform: &Platform, x: &Spec, dim: usize, index: &Spec) -> Checked<Spec> {
    check::processor(platform, "Gather")?;
    check::view(("x", x), USUAL)?;
    check::rank(("x", x), 1, check::MOST_DIMENSIONS)?;
    check::dimension(x, dim)?;
    check::view(("index", index), INDICES)?;
    within(("index", index), x, Some(dim))?;
    Ok(Spec::contiguous(x.dtype, index.shape())?)
}

/// What [`scatter`] makes of `x`: numbers, and bool unless it adds or multiplies; an index that is no larger
/// but along `dim`; and `source` of the same type, at least as large as the index.
///
/// # Errors
///
/// Why CANN would refuse.
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

/// What [`index_add`] makes of `x`: numbers, an index of one dimension, and `source` of the same type, shaped
/// like `x` with the index's length along `dim`.
///
/// # Errors
///
/// Why CANN would refuse.
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

/// What [`embedding`] makes of a table of two dimensions and indices of any shape.
///
/// # Errors
///
/// Why CANN would refuse.
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

/// What [`embedding_backward`] makes of `dy`, f32, f16 or bf16, of the indices' shape with one more dimension.
///
/// # Errors
///
/// Why CANN would refuse.
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

/// The shape of `x` with the length of an index of one dimension along `dim`.
fn with_index(x: &Spec, dim: usize, index: &Spec) -> Checked<Dimensions> {
    check::rank(("x", x), 1, check::MOST_DIMENSIONS)?;
    check::dimension(x, dim)?;
    check::view(("index", index), INDICES)?;
    check::rank(("index", index), 1, 1)?;
    let mut shape = Dimensions::from(x.shape());
    shape[dim] = index.len();
    Ok(shape)
}

/// Of as many dimensions as `outer`, and no larger but along `free`.
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

/// The rows of `x` along `dim` that `index` names.
///
/// # Errors
///
/// Refused by [`check_index_select`], or a call failed.
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

/// The elements of `x` that `index` names along `dim`; along the others they are those of the index.
///
/// # Errors
///
/// Refused by [`check_gather`], or a call failed.
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

/// `x` with each element of `source` put where [`gather`] would take it from.
///
/// # Errors
///
/// Refused by [`check_scatter`], or a call failed.
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
        // Has an operator of its own, which knows more types.
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

/// `x` with each row of `source`, times `factor`, added to the row along `dim` that `index` names.
///
/// # Errors
///
/// Refused by [`check_index_add`], or a call failed.
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

/// The rows of a table that indices name.
///
/// # Errors
///
/// Refused by [`check_embedding`], or a call failed.
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

/// The gradient of [`embedding`] by its table of `rows` rows: sums of the rows of `dy`, in any order. The row
/// `padding` has none.
///
/// # Errors
///
/// Refused by [`check_embedding_backward`], or a call failed.
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
    // -1 as CANN's unsigned number: no row.
    let padding = padding.map_or(u64::MAX, |row| row as u64);
    aclnn!(
        stream, index.aclnnEmbeddingDenseBackwardGetWorkspaceSize, aclnnEmbeddingDenseBackward,
        tensors [dy, indices, dtable], constants [],
        attributes [count.cast_signed(), padding.cast_signed()],
        call(dy, indices, count, padding, false, dtable), out.clone(),
    )
}
