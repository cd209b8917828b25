//! AdamW over CANN's operators.
//!
//! `aclnnApplyAdamWV2` computes the whole step: 7 reads and writes of a tensor of the parameter's size, where the
//! composition has about 30. It overwrites the parameter and the moments. A tensor that is shared or not contiguous is
//! copied first, which takes 2 more each. An ordinary training loop copies nothing.
//!
//! | tensors | operators | why |
//! |---|---|---|
//! | f32, f16, bf16, all of one type | a number for the step, `aclnnApplyAdamWV2` | computes exactly this; the step is a tensor of one element |
//! | f64, different types | refused | CANN computes in f32 |
//!
//! The device computes the powers of the betas in f32. For β₂ = 0.999, `1 − β₂ᵗ` has a relative error of 10⁻⁵ at the
//! second step, which is 10⁻⁵ of the change that the step makes.

mod kernel;

pub(crate) use kernel::IMPLEMENTATION;

use super::{AdamW, Each, Operands, State};
use crate::npu::refused::one_float;
use crate::npu::{OnNpu, Refused, Result, Seen, Specified, base};
use crate::ops::fused::Made;
use burn_cann::ops::adam::{self, adam_w};
use burn_cann::{DType, Platform, Spec, Stream, Tensor};

/// The operators of a step on tensors that are not shared.
pub const OPERATORS: [&str; 2] = ["aclnnInplaceFillScalar", "aclnnApplyAdamWV2"];

/// Checks that the operators compute a step of these operands.
///
/// # Errors
/// Returns the reason if they don't.
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
    // Written tensors are contiguous, or are copied to contiguous ones.
    let written = Spec::contiguous(dtype, parameter.shape())?;
    let steps = Spec::contiguous(DType::I64, [1])?;
    adam::check(platform, &written, &[&written, &written], gradient, &steps)?;
    Ok(())
}

impl OnNpu for AdamW {
    fn forward(
        stream: &Stream,
        operands: &Operands<Seen<Tensor>>,
        wanted: Option<&Each<bool>>,
    ) -> Result<Made<Tensor>> {
        Self::forward_owned(stream, operands.clone(), wanted)
    }

    fn forward_owned(
        stream: &Stream,
        operands: Operands<Seen<Tensor>>,
        _: Option<&Each<bool>>,
    ) -> Result<Made<Tensor>> {
        let after = step(stream, operands)?;
        Ok(Made::new(after.parameter).and([after.moment_1, after.moment_2]))
    }
}

/// Runs a step. Overwrites the tensors of the state that are contiguous and not shared.
///
/// # Errors
/// Returns an error if [`decide`] refuses the operands or a call fails.
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
    // The operator takes the number of steps before this one.
    let steps = base::filled(stream, DType::I64, &[1], (settings.step - 1) as f64)?;
    let operands = adam::State {
        parameter: &parameter,
        first: &moment_1,
        second: &moment_2,
        largest: None,
    };
    let numbers = adam::AdamW {
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

/// Returns the tensor if it may be overwritten, a copy otherwise.
fn owned(stream: &Stream, mut tensor: Tensor) -> Result<Tensor> {
    if tensor.layout().is_contiguous() && tensor.is_exclusive() {
        return Ok(tensor);
    }
    base::copy(stream, &tensor)
}
