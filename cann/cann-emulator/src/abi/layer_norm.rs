//! Layer norm and its gradient.

use crate::abi::prelude::*;
use crate::object;
use crate::ops::training::{layer_norm, layer_norm_grad};

/// Returns the number of elements of the normalised axes, and the shape of a statistic.
fn normalised(input: &Tensor, shape: &[i64]) -> Outcome<(usize, Vec<usize>)> {
    let lengths: Vec<usize> = shape.iter().map(|length| *length as usize).collect();
    ensure!(!lengths.is_empty() && input.shape.ends_with(&lengths) && !lengths.contains(&0);
        "normalizedShape is {shape:?}, which is not the end of the input's shape {:?}", input.shape);
    let mut statistic = input.shape.clone();
    statistic[input.rank() - lengths.len()..].fill(1);
    Ok((lengths.iter().product(), statistic))
}

/// Takes an optional parameter of a norm, with one of some dtypes and the normalised shape.
fn parameter(
    operands: &mut Operands,
    name: &str,
    tensor: *const aclTensor,
    dtypes: &[aclDataType],
    shape: &[i64],
) -> Outcome<bool> {
    let Some(tensor) = operands.optional(name, tensor)? else {
        return Ok(false);
    };
    check_dtype(name, &tensor, dtypes)?;
    let expected: Vec<usize> = shape.iter().map(|length| *length as usize).collect();
    check_size(name, &tensor, &expected)?;
    Ok(true)
}

/// Returns which of three gradients are requested.
pub(super) fn wanted(mask: *const aclBoolArray) -> Outcome<[bool; 3]> {
    let mask = object::bools(mask as usize)?;
    match mask[..] {
        [input, weight, bias] => Ok([input, weight, bias]),
        _ => fail!("outputMask has {} values; it takes three", mask.len()),
    }
}

/// The arguments of the forward operator.
struct Norm {
    input: *const aclTensor,
    shape: *const aclIntArray,
    weight: *const aclTensor,
    bias: *const aclTensor,
    eps: f64,
    output: *mut aclTensor,
    /// The mean and rstd. NULL is not wanted.
    statistics: [*mut aclTensor; 2],
}

impl Norm {
    /// Takes the operands. Parameters have the dtype of the input or f32, unless all are to be f16.
    fn take(&self, operands: &mut Operands, only_half: bool) -> Outcome<Work> {
        let half: &[aclDataType] = &[ACL_FLOAT16];
        let input = operands.view("input", self.input, if only_half { half } else { FLOATS })?;
        let either = [input.dtype, ACL_FLOAT];
        let dtypes = if only_half { half } else { &either };
        let shape = operands.ints("normalizedShape", self.shape)?;
        let (width, statistic) = normalised(&input, &shape)?;
        let weighted = parameter(operands, "weightOptional", self.weight, dtypes, &shape)?;
        let biased = parameter(operands, "biasOptional", self.bias, dtypes, &shape)?;
        operands.result("out", self.output, input.dtype, &input.shape)?;
        let mut statistics = [false; 2];
        for (place, tensor) in self.statistics.into_iter().enumerate() {
            if !tensor.is_null() {
                let name = ["meanOutOptional", "rstdOutOptional"][place];
                // The documentation names the input's dtype alone. PyTorch's extension for NPUs passes f32 for every
                // input.
                let tensor = operands.target(name, tensor, &[input.dtype, ACL_FLOAT])?;
                check_size(name, &tensor, &statistic)?;
                statistics[place] = true;
            }
        }
        let eps = self.eps as f32;
        Ok(Arc::new(move |memory, operands| {
            let mut operands = Present::of(operands);
            let Some(x) = operands.floats(memory, true)? else {
                unreachable!("taken above")
            };
            let weight = operands.floats(memory, weighted)?;
            let bias = operands.floats(memory, biased)?;
            let (weight, bias) = (weight.as_deref(), bias.as_deref());
            let (y, means, rstds) = layer_norm(&x, width, weight, bias, eps);
            for (present, values) in [(true, y), (statistics[0], means), (statistics[1], rstds)] {
                if let Some(output) = operands.next(present) {
                    output.store(memory, &values)?;
                }
            }
            Ok(())
        }))
    }
}

operator! { norm: aclnnLayerNormGetWorkspaceSize, aclnnLayerNorm(
    input, shape, weight, bias, eps, output, mean, rstd
) |operands|
    let norm = Norm { input, shape, weight, bias, eps, output, statistics: [mean, rstd] };
    norm.take(operands, false)
}

// The modes are 0 for precision, 1 for speed, and 2 to keep f16, which takes nothing but f16. CANN does not say by how
// much the faster ones are less precise; here all compute alike, in f32.
operator! { norm: aclnnLayerNormWithImplModeGetWorkspaceSize, aclnnLayerNormWithImplMode(
    input, shape, weight, bias, eps, output, mean, rstd, impl_mode
) |operands|
    ensure!((0..=2).contains(&impl_mode);
        "implMode is {impl_mode}; 0 is precise, 1 fast, 2 keeps f16");
    let norm = Norm { input, shape, weight, bias, eps, output, statistics: [mean, rstd] };
    norm.take(operands, impl_mode == 2)
}

operator! { norm: aclnnLayerNormBackwardGetWorkspaceSize, aclnnLayerNormBackward(
    d_output, input, normalized_shape, mean, rstd, weight, bias, output_mask, d_input, d_weight,
    d_bias
) |operands|
    let d_output = operands.view("gradOut", d_output, FLOATS)?;
    let input = operands.view("input", input, &[d_output.dtype])?;
    check_size("gradOut", &d_output, &input.shape)?;
    let shape = operands.ints("normalizedShape", normalized_shape)?;
    let (width, statistic) = normalised(&input, &shape)?;
    for (name, tensor) in [("mean", mean), ("rstd", rstd)] {
        let tensor = operands.view(name, tensor, &[input.dtype, ACL_FLOAT])?;
        check_size(name, &tensor, &statistic)?;
    }
    let either = [input.dtype, ACL_FLOAT];
    let weighted = parameter(operands, "weightOptional", weight, &either, &shape)?;
    let biased = parameter(operands, "biasOptional", bias, &either, &shape)?;
    let [wants_input, wants_weight, wants_bias] = wanted(output_mask)?;
    if wants_input {
        operands.result("gradInputOut", d_input, input.dtype, &input.shape)?;
    }
    for (name, tensor, wanted) in [
        ("gradWeightOut", d_weight, wants_weight),
        ("gradBiasOut", d_bias, wants_bias),
    ] {
        if wanted {
            let tensor = operands.target(name, tensor, &[input.dtype, ACL_FLOAT])?;
            let expected: Vec<usize> = shape.iter().map(|length| *length as usize).collect();
            check_size(name, &tensor, &expected)?;
            check_axes(name, &tensor)?;
        }
    }
    Ok(Arc::new(move |memory, operands| {
        let mut operands = Present::of(operands);
        let mut read = || operands.floats(memory, true).map(Option::unwrap_or_default);
        let (dy, x, means, rstds) = (read()?, read()?, read()?, read()?);
        let weight = operands.floats(memory, weighted)?;
        operands.next(biased);
        let (dx, dweight, dbias) =
            layer_norm_grad(&dy, &x, width, weight.as_deref(), &means, &rstds);
        for (wanted, values) in [(wants_input, dx), (wants_weight, dweight), (wants_bias, dbias)] {
            if let Some(output) = operands.next(wanted) {
                output.store(memory, &values)?;
            }
        }
        Ok(())
    }))
}
