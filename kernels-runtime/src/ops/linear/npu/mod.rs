//! A linear layer over CANN's operators.
//!
//! `M` is `aclnnMatmul`, and `A` is `aclnnInplaceAddmm`, which adds a product to its target. Both sum in f32 and round once.
//!
//! | call | forward | backward | why |
//! |---|---|---|---|
//! | without a bias | `M` | `M` for each of `x` and the weight | computes exactly this |
//! | with a bias | the bias copied to every row, and `A` | `M`, and `aclnnReduceSum` | `M` and a sum would round half types twice |
//! | a sum of half types | | cast, the sum in f32, cast back | `aclnnReduceSum` in a half type may round between |
//! | a weight `[outputs, inputs]` | a view | a view | both take strides |
//! | strided, with more than two axes | copied | copied | a product has two axes |
//! | f64, different types | refused | | CANN computes in f32 |
//! | no elements | nothing, the bias, or zeros | | CANN does not take them |

mod kernel;

pub(crate) use kernel::IMPLEMENTATION;

use super::{Each, Linear, Operands, Sizes};
use crate::npu::refused::one_float;
use crate::npu::views::reshaped;
use crate::npu::{OnNpu, Refused, Result, Seen, Specified, base};
use crate::ops::fused::{Backward, Made};
use crate::semantics::OutputLayout;
use burn_cann::ops::matmul;
use burn_cann::{DType, Platform, Spec, Stream, Tensor};

/// Checks that the operators compute these operands.
///
/// # Errors
/// Returns the reason if they don't.
pub fn decide<T: Specified>(
    platform: &Platform,
    operands: &Operands<Seen<T>>,
) -> Result<(), Refused> {
    let (x, weight) = (operands.x().spec(), operands.weight().spec());
    let bias = operands.bias().map(|bias| ("bias", bias.spec()));
    let others = std::iter::once(("weight", weight)).chain(bias);
    let dtype = one_float(("x", x), others)?;
    let Sizes {
        rows,
        inputs,
        outputs,
    } = operands.sizes();
    // An empty call runs no operator, but the device must have it.
    let [rows, inputs, outputs] = [rows, inputs, outputs].map(|size| size.max(1));
    let of = |shape: [usize; 2]| Spec::contiguous(dtype, shape);
    let (x, weight, y) = (
        of([rows, inputs])?,
        of([inputs, outputs])?,
        of([rows, outputs])?,
    );
    matmul::check(platform, &x, &weight)?;
    matmul::check_add_product(platform, &y, &x, &weight)?;
    Ok(())
}

impl OnNpu for Linear {
    fn forward(
        stream: &Stream,
        operands: &Operands<Seen<Tensor>>,
        _: Option<&Each<bool>>,
    ) -> Result<Made<Tensor>> {
        decide(stream.device().platform(), operands)?;
        let (sizes, shape) = (operands.sizes(), operands.result());
        let x = rows(stream, operands.x(), sizes.rows, sizes.inputs)?;
        let weight = inputs_first(operands)?;
        let y = match operands.bias() {
            None => base::product(stream, &x, &weight)?,
            Some(bias) => {
                let y = repeated(stream, bias, sizes.rows)?;
                base::add_product(stream, &y, &x, &weight)?;
                y
            }
        };
        Ok(Made::new(y.reshape(shape.as_slice())?))
    }

    fn backward(
        stream: &Stream,
        backward: &Backward<Self, Seen<Tensor>>,
    ) -> Result<Each<Option<Tensor>>> {
        let (operands, wanted) = (backward.operands(), backward.wanted());
        decide(stream.device().platform(), operands)?;
        let sizes = operands.sizes();
        let dy = rows(stream, backward.dy(), sizes.rows, sizes.outputs)?;
        let of_x = || -> Result<Tensor> {
            let weight = inputs_first(operands)?.transpose(0, 1)?;
            let dx = base::product(stream, &dy, &weight)?;
            Ok(dx.reshape(operands.x().shape())?)
        };
        let of_weight = || {
            let x = rows(stream, operands.x(), sizes.rows, sizes.inputs)?;
            let (left, right) = match operands.key().layout {
                OutputLayout::InputMajor => (&x, &dy),
                OutputLayout::OutputMajor => (&dy, &x),
            };
            base::product(stream, &left.transpose(0, 1)?, right)
        };
        Ok(Each {
            x: wanted.x.then(of_x).transpose()?,
            weight: wanted.weight.then(of_weight).transpose()?,
            bias: wanted.bias.then(|| column_sums(stream, &dy)).transpose()?,
        })
    }
}

/// Returns a tensor as rows of `width` elements.
fn rows(stream: &Stream, tensor: &Tensor, count: usize, width: usize) -> Result<Tensor> {
    match tensor.shape().len() {
        2 => Ok(tensor.clone()),
        _ => reshaped(stream, tensor, [count, width]),
    }
}

/// Returns the weight as `[inputs, outputs]`.
fn inputs_first(operands: &Operands<Seen<Tensor>>) -> Result<Tensor> {
    Ok(match operands.key().layout {
        OutputLayout::InputMajor => operands.weight().0.clone(),
        OutputLayout::OutputMajor => operands.weight().transpose(0, 1)?,
    })
}

/// Returns `count` rows that are copies of a vector.
fn repeated(stream: &Stream, vector: &Tensor, count: usize) -> Result<Tensor> {
    let [length] = vector.shape() else {
        unreachable!("the bias has one axis, as was checked")
    };
    base::copy(stream, &vector.expand([count, *length])?)
}

/// Returns the sum of the rows, which is computed in f32 and rounded once.
pub(in crate::ops) fn column_sums(stream: &Stream, dy: &Tensor) -> Result<Tensor> {
    if dy.spec().is_empty() {
        return base::filled(stream, dy.dtype(), &dy.shape()[1..], 0.0);
    }
    match dy.dtype() {
        DType::F32 => base::sum(stream, dy, &[0], false),
        half => {
            let wide = base::cast(stream, dy, DType::F32)?;
            base::cast(stream, &base::sum(stream, &wide, &[0], false)?, half)
        }
    }
}
