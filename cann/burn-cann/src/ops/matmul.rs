//! Matrix products (`aclnnMatmul`, `aclnnInplaceAddmm`). Sums are in f32, and the mode of the matrix unit keeps the
//! dtype.

use super::Checked;
use super::aclnn::aclnn;
use super::check;
use super::create;
use super::types::FLOATS;
use crate::call::Constant;
use crate::error::Result;
use crate::soc::Platform;
use crate::stream::Stream;
use crate::tensor::{Spec, Tensor};

/// CANN's mode 0, which keeps the dtype. In other modes f32 loses bits.
const KEEP_DTYPE: i8 = 0;

/// Checks the operands of [`matmul`] and returns the spec of its result. `a` and `b` are f32, f16 or bf16 and have two
/// to six dimensions. The last two are the matrix, and the others broadcast. Both may be views, so a transposed matrix
/// needs no copy.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check(platform: &Platform, a: &Spec, b: &Spec) -> Checked<Spec> {
    check::processor(platform, "Matmul")?;
    check::one_float(&[("a", a), ("b", b)])?;
    for operand in [("a", a), ("b", b)] {
        check::dtype(operand, FLOATS)?;
        check::rank(operand, 2, 6)?;
    }
    let (a_batch, [rows, depth]) = parts(a);
    let (b_batch, [inputs, columns]) = parts(b);
    if depth != inputs {
        let expected = format!("{depth} rows, as many as a has columns");
        return Err(check::wrong_shape(("b", b), expected));
    }
    let (one, other) = (
        Spec::contiguous(a.dtype, a_batch)?,
        Spec::contiguous(b.dtype, b_batch)?,
    );
    let mut shape = check::broadcast(("a's batch", &one), ("b's batch", &other))?;
    shape.extend([rows, columns]);
    Ok(Spec::contiguous(a.dtype, shape)?)
}

/// Returns the dimensions of the batch and those of the matrix.
fn parts(spec: &Spec) -> (&[usize], [usize; 2]) {
    let (batch, matrix) = spec.shape().split_at(spec.rank() - 2);
    (batch, [matrix[0], matrix[1]])
}

/// Computes `a · b` for each matrix of the batch.
///
/// # Errors
///
/// Returns an error if [`check`] refuses the operands or a call fails.
pub fn matmul(stream: &Stream, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let spec = check(stream.device().platform(), a.spec(), b.spec())?;
    let out = Tensor::like(stream, &spec)?;
    if spec.is_empty() {
        return Ok(out);
    }
    if a.spec().is_empty() {
        // The inner dimension is empty, so all sums are zero.
        create::zero(stream, &out)?;
        return Ok(out);
    }
    let y = &out;
    aclnn!(
        stream, matmul.aclnnMatmulGetWorkspaceSize, aclnnMatmul,
        tensors [a, b, y], constants [], attributes [i64::from(KEEP_DTYPE)],
        call(a, b, y, KEEP_DTYPE), out.clone(),
    )
}

/// Checks the operands of [`add_product`]. `a` and `b` are matrices as in [`check()`], and `target` is like their product;
/// its elements don't share memory.
///
/// # Errors
///
/// Returns a refusal if CANN does not take the operands.
pub fn check_add_product(platform: &Platform, target: &Spec, a: &Spec, b: &Spec) -> Checked<()> {
    for operand in [("a", a), ("b", b)] {
        check::rank(operand, 2, 2)?;
    }
    let product = check(platform, a, b)?;
    check::writable(("target", target), &[product.dtype])?;
    check::shape(("target", target), product.shape())
}

/// Adds `a · b` to `target`.
///
/// # Errors
///
/// Returns an error if [`check_add_product`] refuses the operands or a call fails.
pub fn add_product(stream: &Stream, target: &Tensor, a: &Tensor, b: &Tensor) -> Result<()> {
    let device = stream.device();
    check_add_product(device.platform(), target.spec(), a.spec(), b.spec())?;
    if target.spec().is_empty() || a.spec().is_empty() {
        return Ok(());
    }
    let one = || Constant::Scalar(1.0f32.into());
    aclnn!(
        stream, matmul.aclnnInplaceAddmmGetWorkspaceSize, aclnnInplaceAddmm,
        // The order is that of the signature; the target is an input too.
        tensors [target, a, b], constants [beta: scalar = one(), alpha: scalar = one()],
        attributes [i64::from(KEEP_DTYPE)],
        call(target, a, b, beta, alpha, KEEP_DTYPE), (),
    )
}
