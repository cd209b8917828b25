//! Flash attention and its gradient, with the layouts BSH, SBH, BSND and BNSD. The sparse modes are 0 (a mask or
//! none), 1 (a full mask), and 2, 3 and 4 (causal and band, with a mask of 2048 × 2048). Values may be narrower than
//! keys. Dropout, shifts and prefixes are not emulated; a call with one is refused.

mod call;
mod layout;
mod mask;

use std::ffi::c_char;
use std::sync::Arc;

use cann_sys::meta::*;

use self::call::{Attributes, Call, Plan, Taken};
use self::layout::by_head;
use crate::abi::operators;
use crate::error::Outcome;
use crate::executor::phase_one;
use crate::memory::Memory;
use crate::ops::attention::{attention, attention_grad};
use crate::tensor::Tensor;

/// Repeats each row's statistic eight times.
fn eightfold(values: &[f32]) -> Vec<f32> {
    values.iter().flat_map(|value| [*value; 8]).collect()
}

/// Returns every eighth value, which undoes [`eightfold`].
fn once(values: Vec<f32>) -> Vec<f32> {
    values.into_iter().step_by(8).collect()
}

impl Plan {
    /// Returns a tensor's values in the order batch, heads, tokens, width.
    fn read(&self, memory: &Memory, tensor: &Tensor, heads: usize) -> Outcome<Vec<f32>> {
        by_head("", tensor, &self.layout, heads)?.floats(memory)
    }

    /// Writes values, undoing the order of [`Plan::read`].
    fn write(
        &self,
        memory: &mut Memory,
        tensor: &Tensor,
        heads: usize,
        values: &[f32],
    ) -> Outcome<()> {
        by_head("", tensor, &self.layout, heads)?.store(memory, values)
    }

    fn forward(&self, memory: &mut Memory, operands: &[Tensor]) -> Outcome<()> {
        let [query, key, value, rest @ ..] = operands else {
            unreachable!("taken in phase one")
        };
        let (mask, rest) = rest.split_at(usize::from(self.with_mask));
        let [most, total, output] = rest else {
            unreachable!("taken in phase one")
        };
        let sizes = self.sizes;
        let q = self.read(memory, query, sizes.heads)?;
        let k = self.read(memory, key, sizes.groups)?;
        let v = self.read(memory, value, sizes.groups)?;
        let masked = self.masked(memory, mask.first())?;
        let made = attention((&q, &k, &v), sizes, self.scale, masked);
        most.store(memory, &eightfold(&made.most))?;
        total.store(memory, &eightfold(&made.total))?;
        self.write(memory, output, sizes.heads, &made.output)
    }

    fn backward(&self, memory: &mut Memory, operands: &[Tensor]) -> Outcome<()> {
        let [query, key, value, dy, rest @ ..] = operands else {
            unreachable!("taken in phase one")
        };
        let (mask, rest) = rest.split_at(usize::from(self.with_mask));
        let [most, total, attended, dq, dk, dv] = rest else {
            unreachable!("taken in phase one")
        };
        let sizes = self.sizes;
        let q = self.read(memory, query, sizes.heads)?;
        let k = self.read(memory, key, sizes.groups)?;
        let v = self.read(memory, value, sizes.groups)?;
        let dy = self.read(memory, dy, sizes.heads)?;
        let y = self.read(memory, attended, sizes.heads)?;
        let (most, total) = (once(most.floats(memory)?), once(total.floats(memory)?));
        let masked = self.masked(memory, mask.first())?;
        let (by_q, by_k, by_v) = attention_grad(
            (&q, &k, &v),
            (&dy, &y),
            (&most, &total),
            sizes,
            self.scale,
            masked,
        );
        self.write(memory, dq, sizes.heads, &by_q)?;
        self.write(memory, dk, sizes.groups, &by_k)?;
        self.write(memory, dv, sizes.groups, &by_v)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnFlashAttentionScoreGetWorkspaceSize(
    query: *const aclTensor,
    key: *const aclTensor,
    fill: *const aclTensor,
    real_shift_or_null: *const aclTensor,
    drop_mask_or_null: *const aclTensor,
    padding_mask_or_null: *const aclTensor,
    atten_mask_or_null: *const aclTensor,
    prefix_or_null: *const aclIntArray,
    scale_value: f64,
    keep_prob: f64,
    pre_tokens: i64,
    next_tokens: i64,
    head_num: i64,
    input_layout: *mut c_char,
    _inner_precise: i64,
    sparse_mode: i64,
    softmax_max_out: *const aclTensor,
    softmax_sum_out: *const aclTensor,
    _softmax_out_out: *const aclTensor,
    attention_out_out: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    let call = Call {
        inputs: [query, key, fill],
        dy: None,
        absent: [
            ("realShift", !real_shift_or_null.is_null()),
            ("dropMask", !drop_mask_or_null.is_null()),
            ("paddingMask", !padding_mask_or_null.is_null()),
            ("prefix", !prefix_or_null.is_null()),
        ],
        mask: atten_mask_or_null,
        attended: [
            ("softmaxMax", softmax_max_out),
            ("softmaxSum", softmax_sum_out),
            ("attentionOut", attention_out_out),
        ],
        attributes: Attributes {
            scale: scale_value,
            keep: keep_prob,
            before: pre_tokens,
            behind: next_tokens,
            heads: head_num,
            layout: input_layout,
            mode: sparse_mode,
        },
    };
    phase_one(
        "aclnnFlashAttentionScore",
        workspace_size,
        executor,
        |operands| {
            // SAFETY: the caller guarantees the text.
            let Taken { plan, .. } = unsafe { call.take(operands) }?;
            Ok(Arc::new(move |memory, operands| {
                plan.forward(memory, operands)
            }))
        },
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclnnFlashAttentionScoreGradGetWorkspaceSize(
    query: *const aclTensor,
    key_in: *const aclTensor,
    fill: *const aclTensor,
    dy: *const aclTensor,
    pse_shift_or_null: *const aclTensor,
    drop_mask_or_null: *const aclTensor,
    padding_mask_or_null: *const aclTensor,
    atten_mask_or_null: *const aclTensor,
    softmax_max_or_null: *const aclTensor,
    softmax_sum_or_null: *const aclTensor,
    _softmax_in_or_null: *const aclTensor,
    attention_in_or_null: *const aclTensor,
    prefix_or_null: *const aclIntArray,
    scale_value: f64,
    keep_prob: f64,
    pre_tokens: i64,
    next_tokens: i64,
    head_num: i64,
    input_layout: *mut c_char,
    _inner_precise: i64,
    sparse_mode: i64,
    dq_out: *const aclTensor,
    dk_out: *const aclTensor,
    dv_out: *const aclTensor,
    _dpse_out: *const aclTensor,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> aclnnStatus {
    let call = Call {
        inputs: [query, key_in, fill],
        dy: Some(dy),
        absent: [
            ("pseShift", !pse_shift_or_null.is_null()),
            ("dropMask", !drop_mask_or_null.is_null()),
            ("paddingMask", !padding_mask_or_null.is_null()),
            ("prefix", !prefix_or_null.is_null()),
        ],
        mask: atten_mask_or_null,
        attended: [
            ("softmaxMax", softmax_max_or_null),
            ("softmaxSum", softmax_sum_or_null),
            ("attentionIn", attention_in_or_null),
        ],
        attributes: Attributes {
            scale: scale_value,
            keep: keep_prob,
            before: pre_tokens,
            behind: next_tokens,
            heads: head_num,
            layout: input_layout,
            mode: sparse_mode,
        },
    };
    phase_one(
        "aclnnFlashAttentionScoreGrad",
        workspace_size,
        executor,
        |operands| {
            // SAFETY: the caller guarantees the text.
            let Taken {
                query,
                key,
                value,
                plan,
            } = unsafe { call.take(operands) }?;
            operands.result("dq", dq_out, query.dtype, &query.shape)?;
            operands.result("dk", dk_out, query.dtype, &key.shape)?;
            operands.result("dv", dv_out, query.dtype, &value.shape)?;
            Ok(Arc::new(move |memory, operands| {
                plan.backward(memory, operands)
            }))
        },
    )
}

operators! { attention:
    aclnnFlashAttentionScoreGetWorkspaceSize, aclnnFlashAttentionScore;
    aclnnFlashAttentionScoreGradGetWorkspaceSize, aclnnFlashAttentionScoreGrad;
}
