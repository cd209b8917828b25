//! AdamW over CANN's operators.
//!
//! `aclnnApplyAdamWV2` is the whole step: 7 reads and writes of a tensor like the parameter, where the composition
//! has some 30. It writes over the parameter and the moments. What somebody else holds too, or what lies in
//! overlapping places, is copied first, 2 more for each; in an ordinary training loop nothing is.
//!
//! | tensors | operators | why |
//! |---|---|---|
//! | f32, f16, bf16, all of one type | a number for the step, `aclnnApplyAdamWV2` | it is that; the step is a tensor of one element |
//! | f64, different types | refused | CANN computes in f32 |
//!
//! The powers of the betas are taken in f32 on the device: `1 − β₂ᵗ` of the second step has an error of 10⁻⁵ for
//! β₂ = 0.999, which is 10⁻⁵ of what the step changes.

mod kernel;

pub(crate) use kernel::IMPLEMENTATION;

use super::{Operands, State};
use crate::npu::refused::one_float;
use crate::npu::{Refused, Result, Seen, Specified, base};
use burn_cann::ops::adam::{self, AdamW, adam_w};
use burn_cann::{DType, Platform, Spec, Stream, Tensor};

/// The operators of a step of tensors that nobody else holds.
pub const OPERATORS: [&str; 2] = ["aclnnInplaceFillScalar", "aclnnApplyAdamWV2"];

/// Whether the operators compute a step of these operands.
///
/// # Errors
/// Why they don't.
pub fn decide<T: Specified>(
    platform: &Platform,
    operands: &Operands<Seen<T>>,
) -> Result<(), Refused> {
    let (parameter, gradient) = (operands.parameter().spec(), operands.gradient().spec());
    let others = [
        ("moment_1", operands.moment_1().spec()),
        ("moment_2", operands.moment_2().spec()),
        ("gradient", gradient),
    ];
    let dtype = one_float(("parameter", parameter), others)?;
    // What is written lies one element after the other, or is copied so.
    let written = Spec::contiguous(dtype, parameter.shape())?;
    let steps = Spec::contiguous(DType::I64, [1])?;
    adam::check(platform, &written, &[&written, &written], gradient, &steps)?;
    Ok(())
}

/// A step. Tensors of the state that nobody else holds are written over.
///
/// # Errors
/// [`decide`] refused it, or a call failed.
pub fn step(stream: &Stream, operands: Operands<Seen<Tensor>>) -> Result<State<Tensor>> {
    decide(stream.device().platform(), &operands)?;
    let settings = operands.settings();
    let (state, gradient) = operands.into_parts();
    let State {
        parameter,
        moment_1,
        moment_2,
    } = state.map(|Seen(tensor)| tensor);
    let own = |tensor| owned(stream, tensor);
    let (parameter, moment_1, moment_2) = (own(parameter)?, own(moment_1)?, own(moment_2)?);
    // The operator counts the steps before this one.
    let steps = base::filled(stream, DType::I64, &[1], (settings.step - 1) as f64)?;
    let operands = adam::State {
        parameter: &parameter,
        first: &moment_1,
        second: &moment_2,
        largest: None,
    };
    let numbers = AdamW {
        learning_rate: settings.learning_rate as f32,
        beta1: settings.beta_1 as f32,
        beta2: settings.beta_2 as f32,
        weight_decay: settings.weight_decay as f32,
        epsilon: settings.epsilon as f32,
    };
    adam_w(stream, operands, &gradient, &steps, numbers)?;
    Ok(State {
        parameter,
        moment_1,
        moment_2,
    })
}

/// The tensor if it may be written over, else a copy.
fn owned(stream: &Stream, mut tensor: Tensor) -> Result<Tensor> {
    if tensor.layout().is_contiguous() && tensor.is_exclusive() {
        return Ok(tensor);
    }
    base::copy(stream, &tensor)
}
