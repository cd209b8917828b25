//! The cross-entropy of logits and classes, and its gradient.
//!
//! CANN has parameters of a z-loss but does not compute one. A call that asks for it is refused here, and the outputs for
//! it, which CANN requires, are not written.

use std::ffi::{CStr, c_char};

use crate::abi::prelude::*;
use crate::ops::cross_entropy::{Choice, Reduction, gradients, log_probabilities, loss, reduce};

/// Returns the reduction. NULL is the mean.
///
/// # Safety
///
/// `text` must be NULL or end with a zero byte.
unsafe fn reduction(text: *const c_char) -> Outcome<Reduction> {
    if text.is_null() {
        return Ok(Reduction::Mean);
    }
    // SAFETY: the caller guarantees the text.
    match unsafe { CStr::from_ptr(text) }.to_bytes() {
        b"none" => Ok(Reduction::None),
        b"mean" => Ok(Reduction::Mean),
        b"sum" => Ok(Reduction::Sum),
        other => fail!(ACLNN_ERR_INNER_TILING_ERROR;
            "reduction is {:?}; none, mean and sum are taken", String::from_utf8_lossy(other)),
    }
}

/// Checks an operand whose documents name no strides.
fn check(name: &str, tensor: &Tensor, dtype: aclDataType, shape: &[usize]) -> Outcome<()> {
    check_dtype(name, tensor, &[dtype])?;
    check_shape(name, tensor, shape)?;
    check_contiguous(name, tensor)
}

/// Takes logits, or their logarithms of probabilities, and returns the numbers of rows and classes.
fn matrix(
    operands: &mut Operands,
    name: &str,
    tensor: *const aclTensor,
) -> Outcome<(aclDataType, [usize; 2])> {
    let tensor = operands.input(name, tensor)?;
    check_dtype(name, &tensor, FLOATS)?;
    let [rows, classes] = tensor.shape[..] else {
        fail!(ACLNN_ERR_INNER_TILING_ERROR; "{name} has {} axes; it takes two", tensor.rank())
    };
    ensure!(classes > 0, ACLNN_ERR_INNER_TILING_ERROR; "{name} has no classes");
    check_contiguous(name, &tensor)?;
    Ok((tensor.dtype, [rows, classes]))
}

/// Takes the targets and, if there are any, the weights of the classes.
fn chosen_by(
    operands: &mut Operands,
    target: *const aclTensor,
    weight: *const aclTensor,
    [rows, classes]: [usize; 2],
) -> Outcome<()> {
    let target = operands.input("target", target)?;
    check("target", &target, ACL_INT64, &[rows])?;
    match operands.optional("weightOptional", weight)? {
        Some(weight) => check("weightOptional", &weight, ACL_FLOAT, &[classes]),
        None => Ok(()),
    }
}

fn check_no_z_loss(scale: f64) -> Outcome<()> {
    ensure!(scale == 0.0; "lseSquareScaleForZloss is {scale}, but CANN computes no z-loss");
    Ok(())
}

/// Reads the weights of the classes, by default ones.
fn weights(memory: &Memory, weight: Option<&Tensor>, classes: usize) -> Outcome<Vec<f32>> {
    match weight {
        Some(weight) => weight.floats(memory),
        None => Ok(vec![1.0; classes]),
    }
}

/// Reads the choice of each row.
fn choices(
    memory: &Memory,
    target: &Tensor,
    weights: &[f32],
    is_ignored: impl Fn(i64) -> bool,
) -> Outcome<Vec<Choice>> {
    let choose = |class: i64| match usize::try_from(class) {
        _ if is_ignored(class) => Ok(None),
        Ok(place) if place < weights.len() => Ok(Some((place, weights[place]))),
        _ => fail!("the target {class} is not one of {} classes", weights.len()),
    };
    target.integers(memory)?.into_iter().map(choose).collect()
}

operator! { training: aclnnCrossEntropyLossGetWorkspaceSize, aclnnCrossEntropyLoss(
    input, target, weight, reduction_or_null, ignore_index, label_smoothing, lse_square_scale,
    return_z_loss, loss_out, log_prob_out, z_loss_out, lse_out
) |operands|
    let (dtype, sizes) = matrix(operands, "input", input)?;
    let [rows, classes] = sizes;
    chosen_by(operands, target, weight, sizes)?;
    // SAFETY: by the protocol the text ends with a zero byte.
    let reduction = unsafe { reduction(reduction_or_null) }?;
    ensure!((0.0..=1.0).contains(&label_smoothing);
        "labelSmoothing is {label_smoothing}; it is from 0 to 1");
    check_no_z_loss(lse_square_scale)?;
    ensure!(!return_z_loss; "returnZloss is true, but CANN computes no z-loss");
    let reduced = match reduction {
        Reduction::None => [rows],
        Reduction::Mean | Reduction::Sum => [1],
    };
    for (name, tensor, shape) in [
        ("lossOut", loss_out, &reduced[..]),
        ("logProbOut", log_prob_out, &sizes),
        ("zlossOut", z_loss_out, &reduced),
        ("lseForZlossOut", lse_out, &[rows]),
    ] {
        check(name, &operands.output(name, tensor)?, dtype, shape)?;
    }
    Ok(Arc::new(move |memory, operands| {
        let [input, target, weight @ .., loss_out, log_prob_out, _, _] = operands else {
            unreachable!("taken above")
        };
        let weights = weights(memory, weight.first(), classes)?;
        let choices = choices(memory, target, &weights, |class| class == ignore_index)?;
        let (mut losses, mut logs) = (Vec::new(), Vec::new());
        for (logits, choice) in input.floats(memory)?.chunks_exact(classes).zip(&choices) {
            let row = log_probabilities(logits);
            losses.push(loss(&row, &weights, *choice, label_smoothing as f32));
            logs.extend(row);
        }
        loss_out.store(memory, &reduce(losses, &choices, reduction))?;
        log_prob_out.store(memory, &logs)
    }))
}

operator! { training: aclnnCrossEntropyLossGradGetWorkspaceSize, aclnnCrossEntropyLossGrad(
    grad_loss, log_prob, target, weight, grad_z_loss, lse, reduction_or_null, ignore_index,
    label_smoothing, lse_square_scale, output
) |operands|
    let d_loss = operands.input("gradLoss", grad_loss)?;
    let (dtype, sizes) = matrix(operands, "logProb", log_prob)?;
    chosen_by(operands, target, weight, sizes)?;
    // SAFETY: by the protocol the text ends with a zero byte.
    let reduction = unsafe { reduction(reduction_or_null) }?;
    let reduced: &[usize] = match reduction {
        Reduction::None => &sizes[..1],
        Reduction::Mean | Reduction::Sum => &[],
    };
    check("gradLoss", &d_loss, dtype, reduced)?;
    ensure!(label_smoothing == 0.0;
        "labelSmoothing is {label_smoothing}; the gradient takes only 0");
    check_no_z_loss(lse_square_scale)?;
    ensure!(grad_z_loss.is_null() && lse.is_null();
        "gradZlossOptional and lseForZlossOptional are given, but CANN computes no z-loss");
    check("out", &operands.output("out", output)?, dtype, &sizes)?;
    Ok(Arc::new(move |memory, operands| {
        let [d_loss, log_prob, target, weight @ .., out] = operands else {
            unreachable!("taken above")
        };
        let weights = weights(memory, weight.first(), sizes[1])?;
        // The device compares in f32.
        let is_ignored = |class: i64| class as f32 == ignore_index as f32;
        let choices = choices(memory, target, &weights, is_ignored)?;
        let (d_loss, logs) = (d_loss.floats(memory)?, log_prob.floats(memory)?);
        out.store(memory, &gradients(&d_loss, &logs, &choices, reduction))
    }))
}
