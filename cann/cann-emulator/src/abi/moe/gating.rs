//! The choice of experts.

use super::FLOATS;
use crate::abi::prelude::*;
use crate::ops::moe;

/// Checks the operands that both versions share. Returns the numbers of tokens and experts.
fn check_gating(
    x: &Tensor,
    finished: Option<&Tensor>,
    k: i64,
    y: &Tensor,
) -> Outcome<(usize, usize)> {
    let config = state::config()?;
    ensure!(!config.soc.starts_with("Ascend950"), ACLNN_ERR_INNER_FIND_KERNEL_ERROR;
        "{} does not have this operator", config.soc);
    check_dtype("x", x, &FLOATS)?;
    ensure!(x.rank() == 2 || x.rank() == 3, ACLNN_ERR_INNER_TILING_ERROR;
        "x has {} axes; it takes 2 or 3", x.rank());
    let experts = x.shape[x.rank() - 1];
    ensure!((0..=1024).contains(&k) && k as usize <= experts, ACLNN_ERR_INNER_TILING_ERROR;
        "k is {k}, of {experts} experts; it is at most 1024 and at most their number");
    if let Some(finished) = finished {
        check_dtype("finished", finished, &[ACL_BOOL])?;
        check_shape("finished", finished, &x.shape[..x.rank() - 1])?;
    }
    check_dtype("y", y, &[x.dtype])?;
    Ok((x.count() / experts.max(1), experts))
}

fn chosen_shape(x: &Tensor, k: i64) -> Vec<usize> {
    let mut shape = x.shape.clone();
    shape[x.rank() - 1] = k as usize;
    shape
}

/// Makes finished tokens choose the expert after the last.
fn drop_finished(places: &mut [i64], finished: Option<&[i64]>, k: usize, experts: usize) {
    let Some(finished) = finished else { return };
    if k == 0 {
        return;
    }
    for (places, finished) in places.chunks_exact_mut(k).zip(finished) {
        if *finished != 0 {
            places.fill(experts as i64);
        }
    }
}

operator! { moe: aclnnMoeGatingTopKSoftmaxGetWorkspaceSize, aclnnMoeGatingTopKSoftmax(
    x, finished, k, y, expert_idx, row_idx
) |operands|
    let x = operands.input("x", x)?;
    let finished = operands.optional("finished", finished)?;
    let y = operands.output("y", y)?;
    let places = operands.output("expertIdx", expert_idx)?;
    let rows = operands.output("rowIdx", row_idx)?;
    let (tokens, experts) = check_gating(&x, finished.as_ref(), k, &y)?;
    let shape = chosen_shape(&x, k);
    check_shape("y", &y, &shape)?;
    for (name, tensor) in [("expertIdx", &places), ("rowIdx", &rows)] {
        check_dtype(name, tensor, &[ACL_INT32])?;
        check_shape(name, tensor, &shape)?;
    }
    Ok(Arc::new(move |memory, operands| {
        let (x, finished, [y, places, rows]) = split(operands);
        let k = k as usize;
        let finished = finished.map(|finished| finished.integers(memory)).transpose()?;
        let all = moe::softmax(&x.floats(memory)?, experts);
        let (values, mut found) = moe::top_k(&all, experts, k);
        drop_finished(&mut found, finished.as_deref(), k, experts);
        y.store(memory, &values)?;
        places.store_integers(memory, &found)?;
        // The choices are numbered along the tokens first.
        let numbers = (0..tokens * k).map(|slot| (slot % k * tokens + slot / k) as i64);
        rows.store_integers(memory, &numbers.collect::<Vec<_>>())
    }))
}

operator! { moe: aclnnMoeGatingTopKSoftmaxV2GetWorkspaceSize, aclnnMoeGatingTopKSoftmaxV2(
    x, finished, k, renorm, output_softmax, y, expert_idx, softmax
) |operands|
    let x = operands.input("x", x)?;
    let finished = operands.optional("finished", finished)?;
    let y = operands.output("y", y)?;
    let places = operands.output("expertIdx", expert_idx)?;
    let (_, experts) = check_gating(&x, finished.as_ref(), k, &y)?;
    ensure!(renorm == 0 || renorm == 1, ACLNN_ERR_INNER_TILING_ERROR;
        "renorm is {renorm}; 0 chooses after the softmax, 1 before");
    let shape = chosen_shape(&x, k);
    check_shape("y", &y, &shape)?;
    check_dtype("expertIdx", &places, &[ACL_INT32])?;
    check_shape("expertIdx", &places, &shape)?;
    // Only a choice after the softmax can return all of the softmax.
    let whole = output_softmax && renorm == 0;
    if whole {
        let softmax = operands.output("softmaxResult", softmax)?;
        ensure!(softmax.dtype == ACL_FLOAT, ACLNN_ERR_INNER_TILING_ERROR;
            "softmaxResult is {}; it takes f32", tensor::name_of(softmax.dtype));
        check_shape("softmaxResult", &softmax, &x.shape)?;
    }
    let choice = Choice {
        k: k as usize,
        experts,
        before_softmax: renorm == 1,
        has_finished: finished.is_some(),
        whole,
    };
    Ok(Arc::new(move |memory, operands| {
        choice.run(memory, operands)
    }))
}

/// The settings of version 2.
struct Choice {
    k: usize,
    experts: usize,
    before_softmax: bool,
    has_finished: bool,
    /// True if all of the softmax is a result.
    whole: bool,
}

impl Choice {
    fn run(&self, memory: &mut Memory, operands: &[Tensor]) -> Outcome<()> {
        let (x, rest) = (&operands[0], &operands[1..]);
        let (finished, outputs) = rest.split_at(usize::from(self.has_finished));
        let finished = finished
            .first()
            .map(|finished| finished.integers(memory))
            .transpose()?;
        let mut all = x.floats(memory)?;
        if !self.before_softmax {
            all = moe::softmax(&all, self.experts);
        }
        let (mut values, mut found) = moe::top_k(&all, self.experts, self.k);
        if self.before_softmax {
            values = moe::softmax(&values, self.k);
        }
        drop_finished(&mut found, finished.as_deref(), self.k, self.experts);
        outputs[0].store(memory, &values)?;
        outputs[1].store_integers(memory, &found)?;
        if self.whole {
            outputs[2].store(memory, &all)?;
        }
        Ok(())
    }
}

/// Returns the input, the optional input, and the three outputs.
fn split(operands: &[Tensor]) -> (&Tensor, Option<&Tensor>, [&Tensor; 3]) {
    match operands {
        [x, finished, y, places, rows] => (x, Some(finished), [y, places, rows]),
        [x, y, places, rows] => (x, None, [y, places, rows]),
        _ => unreachable!("taken in phase one"),
    }
}
