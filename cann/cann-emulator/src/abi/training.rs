//! AdamW, and the negative log likelihood and its gradient.

use crate::abi::prelude::*;
use crate::ops::sum;
use crate::ops::training::{AdamW, Moments};

operator! { training: aclnnApplyAdamWV2GetWorkspaceSize, aclnnApplyAdamWV2(
    var_inout, m_inout, v_inout, max_grad_norm_optional_inout, gradient, step, learning_rate, beta1,
    beta2, weight_decay, epsilon, amsgrad, maximise
) |operands|
    let var = operands.target("varRef", var_inout, FLOATS)?;
    let mut same = |name, tensor: *mut aclTensor| {
        let tensor = operands.target(name, tensor, &[var.dtype])?;
        check_size(name, &tensor, &var.shape)
    };
    same("mRef", m_inout)?;
    same("vRef", v_inout)?;
    if amsgrad {
        same("maxGradNormOptionalRef", max_grad_norm_optional_inout)?;
    }
    let gradient = operands.view("grad", gradient, &[var.dtype])?;
    check_size("grad", &gradient, &var.shape)?;
    let step = operands.view("step", step, &[ACL_INT64, ACL_FLOAT])?;
    ensure!(step.count() == 1; "step has the shape {:?}; one element is needed", step.shape);
    let adam = AdamW { learning_rate, beta1, beta2, weight_decay, epsilon, maximise };
    Ok(Arc::new(move |memory, operands| {
        let [targets @ .., gradient, step] = operands else {
            unreachable!("taken above")
        };
        let steps = step.values::<f32>(memory)?[0];
        adam_w(memory, adam, steps, targets, gradient)
    }))
}

/// Does one step for each element of the weight, the moments and, if it is among the targets, the largest moment.
fn adam_w(
    memory: &mut Memory,
    adam: AdamW,
    steps: f32,
    targets: &[Tensor],
    gradient: &Tensor,
) -> Outcome<()> {
    let mut state: Vec<Vec<f32>> = targets
        .iter()
        .map(|target| target.floats(memory))
        .collect::<Outcome<_>>()?;
    let seen = adam.seen(steps);
    for (place, gradient) in gradient.floats(memory)?.into_iter().enumerate() {
        let from = Moments {
            weight: state[0][place],
            first: state[1][place],
            second: state[2][place],
            largest: state.get(3).map(|largest| largest[place]),
        };
        let to = adam.step(seen, from, gradient);
        state[0][place] = to.weight;
        state[1][place] = to.first;
        state[2][place] = to.second;
        if let (Some(all), Some(largest)) = (state.get_mut(3), to.largest) {
            all[place] = largest;
        }
    }
    targets
        .iter()
        .zip(&state)
        .try_for_each(|(target, values)| target.store(memory, values))
}

/// Returns the numbers of rows and classes of log likelihoods.
fn classes(input: &Tensor, target: &Tensor, weight: &Tensor) -> Outcome<(usize, usize)> {
    let (rows, count) = match input.shape[..] {
        [rows, count] => (rows, count),
        [count] => (1, count),
        _ => fail!("self has {} axes; it takes one or two", input.rank()),
    };
    check_size("target", target, &[rows])?;
    check_size("weight", weight, &[count])?;
    Ok((rows, count))
}

/// Returns each row's class, or none if the row is ignored, and its weight.
fn chosen(
    memory: &Memory,
    target: &Tensor,
    weight: &[f32],
    ignored: i64,
) -> Outcome<Vec<Option<(usize, f32)>>> {
    let choose = |class: i64| match usize::try_from(class) {
        _ if class == ignored => Ok(None),
        Ok(place) if place < weight.len() => Ok(Some((place, weight[place]))),
        _ => fail!("the target {class} is not one of {} classes", weight.len()),
    };
    target
        .values::<i64>(memory)?
        .into_iter()
        .map(choose)
        .collect()
}

fn check_reduction(reduction: i64) -> Outcome<()> {
    ensure!((0..=2).contains(&reduction);
        "reduction is {reduction}; 0 means none, 1 the mean, 2 the sum");
    Ok(())
}

/// The dtypes of targets.
const TARGETS: &[aclDataType] = &[ACL_INT64, ACL_INT32, ACL_UINT8];

operator! { training: aclnnNLLLossGetWorkspaceSize, aclnnNLLLoss(
    input, target, weight, reduction, ignore_index, output, total_weight_out
) |operands|
    // 8.1's headers allow only f32. They are the stricter ones.
    let input = operands.view("self", input, &[ACL_FLOAT])?;
    let target = operands.view("target", target, TARGETS)?;
    let weight = operands.view("weight", weight, &[ACL_FLOAT])?;
    let (rows, count) = classes(&input, &target, &weight)?;
    check_reduction(reduction)?;
    let shape = if reduction == 0 {
        vec![rows]
    } else {
        Vec::new()
    };
    let output = operands.target("out", output, &[ACL_FLOAT])?;
    ensure!(output.shape == shape || reduction != 0 && output.shape == [1];
        "out has the shape {:?}; {shape:?} is needed", output.shape);
    let total = operands.target("totalWeightOut", total_weight_out, &[ACL_FLOAT])?;
    ensure!(total.count() == 1;
        "totalWeightOut has the shape {:?}; one element is needed", total.shape);
    Ok(Arc::new(move |memory, operands| {
        let [input, target, weight, out, total] = taken(operands);
        let (x, weight) = (input.floats(memory)?, weight.floats(memory)?);
        let chosen = chosen(memory, target, &weight, ignore_index)?;
        let loss = |(row, choice): (usize, &Option<(usize, f32)>)| {
            choice.map_or(0.0, |(class, weight)| -x[row * count + class] * weight)
        };
        let losses: Vec<f32> = chosen.iter().enumerate().map(loss).collect();
        let weights: Vec<f32> = chosen.iter().flatten().map(|(_, weight)| *weight).collect();
        total.store(memory, &[sum(&weights)])?;
        match reduction {
            0 => out.store(memory, &losses),
            1 => out.store(memory, &[sum(&losses) / sum(&weights)]),
            _ => out.store(memory, &[sum(&losses)]),
        }
    }))
}

operator! { training: aclnnNLLLossBackwardGetWorkspaceSize, aclnnNLLLossBackward(
    d_output, input, target, weight, reduction, ignore_index, total_weight, output
) |operands|
    let d_output = operands.view("gradOutput", d_output, &[ACL_FLOAT])?;
    let input = operands.view("self", input, &[ACL_FLOAT])?;
    let target = operands.view("target", target, TARGETS)?;
    let weight = operands.view("weight", weight, &[ACL_FLOAT])?;
    let (rows, count) = classes(&input, &target, &weight)?;
    check_reduction(reduction)?;
    let expected = if reduction == 0 { rows } else { 1 };
    let total = operands.view("totalWeight", total_weight, &[ACL_FLOAT])?;
    ensure!(d_output.count() == expected && total.count() == 1;
        "gradOutput has {} elements and totalWeight {}; {expected} and 1 are needed",
        d_output.count(), total.count());
    operands.result("out", output, ACL_FLOAT, &input.shape)?;
    Ok(Arc::new(move |memory, operands| {
        let [dy, _, target, weight, total, out] = taken(operands);
        let (dy, weight) = (dy.floats(memory)?, weight.floats(memory)?);
        let total = total.floats(memory)?[0];
        let mut dx = vec![0.0; rows * count];
        let chosen = chosen(memory, target, &weight, ignore_index)?;
        for (row, choice) in chosen.into_iter().enumerate() {
            let Some((class, weight)) = choice else {
                continue;
            };
            dx[row * count + class] = match reduction {
                0 => -dy[row] * weight,
                1 => -dy[0] * weight / total,
                _ => -dy[0] * weight,
            };
        }
        out.store(memory, &dx)
    }))
}
