//! Flash attention and its gradient: the layouts BSH, SBH, BSND and BNSD, and the sparse modes 0 (a mask or
//! none), 1 (a full mask), 2 and 3 (causal, with the mask of 2048 × 2048). Neither dropout, shifts nor
//! prefixes are emulated; a call with one is refused.

use std::ffi::{CStr, c_char};
use std::sync::Arc;

use cann_sys::meta::*;

use crate::abi::checks::{FLOATS, check_size};
use crate::abi::operators;
use crate::error::{Outcome, ensure, fail};
use crate::executor::{Operands, check_dtype, phase_one};
use crate::memory::Memory;
use crate::ops::attention::{Sizes, attention, attention_grad};
use crate::tensor::Tensor;

/// The side of the mask of causal modes.
const COMPRESSED: usize = 2048;

/// A layout's text.
///
/// # Safety
///
/// `text` is NULL or ends with a zero byte.
unsafe fn layout(text: *const c_char) -> Outcome<String> {
    ensure!(
        !text.is_null(),
        ACLNN_ERR_PARAM_NULLPTR,
        "inputLayout is NULL"
    );
    // SAFETY: the caller vouches for the text.
    let text = unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned();
    ensure!(
        ["BSH", "SBH", "BSND", "BNSD"].contains(&text.as_str()),
        ACLNN_ERR_PARAM_INVALID,
        "inputLayout is {text}; BSH, SBH, BSND and BNSD are taken"
    );
    Ok(text)
}

/// The tensor seen as [batch, heads, tokens, width]; of BSH and SBH with as many heads.
fn by_head(name: &str, tensor: &Tensor, layout: &str, heads: usize) -> Outcome<Tensor> {
    ensure!(
        tensor.rank() == layout.len(),
        ACLNN_ERR_PARAM_INVALID,
        "{name} has {} axes; {layout} has {}",
        tensor.rank(),
        layout.len()
    );
    if layout.len() == 4 {
        return Ok(tensor.permuted(if layout == "BNSD" {
            &[0, 1, 2, 3]
        } else {
            &[0, 2, 1, 3]
        }));
    }
    let hidden = tensor.shape[2];
    ensure!(
        heads > 0 && hidden.is_multiple_of(heads),
        ACLNN_ERR_PARAM_INVALID,
        "the last axis of {name} has {hidden} elements, which {heads} heads cannot share"
    );
    let width = hidden / heads;
    let (shape, strides) = (&tensor.shape, &tensor.strides);
    let split = Tensor {
        shape: vec![shape[0], shape[1], heads, width],
        strides: vec![
            strides[0],
            strides[1],
            strides[2] * width as i64,
            strides[2],
        ],
        ..tensor.clone()
    };
    Ok(split.permuted(if layout == "BSH" {
        &[0, 2, 1, 3]
    } else {
        &[1, 2, 0, 3]
    }))
}

/// How a call sees its operands.
#[derive(Clone)]
struct Plan {
    layout: String,
    sizes: Sizes,
    scale: f32,
    mode: i64,
    with_mask: bool,
}

/// Whether a head's query does not see a key.
type Unseen = Box<dyn Fn(usize, usize, usize) -> bool>;

/// The attributes of both directions.
struct Attributes {
    scale: f64,
    keep: f64,
    before: i64,
    behind: i64,
    heads: i64,
    layout: *const c_char,
    mode: i64,
}

/// Everything that is not emulated must be left out.
fn check_absent(optional: [(&str, usize); 4], attributes: &Attributes) -> Outcome<()> {
    for (name, pointer) in optional {
        ensure!(
            pointer == 0,
            ACLNN_ERR_PARAM_INVALID,
            "{name} is not emulated; it must be NULL"
        );
    }
    ensure!(
        attributes.keep == 1.0,
        ACLNN_ERR_PARAM_INVALID,
        "keepProb is {}; dropout is not emulated, so that it must be 1",
        attributes.keep
    );
    Ok(())
}

/// Takes query, key and value.
///
/// # Safety
///
/// The layout's text ends with a zero byte.
unsafe fn take(
    operands: &mut Operands,
    [query, key, value]: [*const aclTensor; 3],
    attributes: &Attributes,
) -> Outcome<(Tensor, Tensor, Plan)> {
    // SAFETY: the caller vouches for the text.
    let layout = unsafe { layout(attributes.layout) }?;
    let query = operands.view("query", query, FLOATS)?;
    let key = operands.view("key", key, &[query.dtype])?;
    let value = operands.view("value", value, &[query.dtype])?;
    check_size("value", &value, &key.shape)?;
    let heads = usize::try_from(attributes.heads).unwrap_or(0);
    let q = by_head("query", &query, &layout, heads)?;
    let [batch, found, queries, width] = q.shape[..] else {
        unreachable!("four axes")
    };
    ensure!(
        found == heads && (1..=256).contains(&heads) && (1..=768).contains(&width),
        ACLNN_ERR_PARAM_INVALID,
        "{found} heads of width {width} where headNum is {heads}; 1 to 256 of 1 to 768 are taken"
    );
    // Where the layout does not say how many heads keys have, their width does.
    let groups = if layout.len() == 3 {
        key.shape[2] / width
    } else {
        heads
    };
    let k = by_head("key", &key, &layout, groups)?;
    let [key_batch, groups, keys, key_width] = k.shape[..] else {
        unreachable!("four axes")
    };
    ensure!(
        key_batch == batch && key_width == width && groups > 0 && heads.is_multiple_of(groups),
        ACLNN_ERR_PARAM_INVALID,
        "query of {:?} and key of {:?} as batch, heads, tokens and width do not fit",
        q.shape,
        k.shape
    );
    ensure!(
        batch > 0 && queries > 0 && keys > 0,
        ACLNN_ERR_PARAM_INVALID,
        "an operand without elements is not emulated"
    );
    let sizes = Sizes {
        batch,
        heads,
        groups,
        queries,
        keys,
        width,
    };
    let plan = Plan {
        layout,
        sizes,
        scale: attributes.scale as f32,
        mode: attributes.mode,
        with_mask: false,
    };
    Ok((query, key, plan))
}

/// Takes the mask, of the shape that its mode needs.
fn take_mask(
    operands: &mut Operands,
    mask: *const aclTensor,
    attributes: &Attributes,
    plan: &mut Plan,
) -> Outcome<()> {
    let Some(mask) = operands.optional("attenMask", mask)? else {
        // Without a mask the mode does not count: everything is computed.
        return Ok(());
    };
    plan.with_mask = true;
    check_dtype("attenMask", &mask, &[ACL_BOOL, ACL_UINT8])?;
    let Sizes {
        batch,
        heads,
        queries,
        keys,
        ..
    } = plan.sizes;
    let shapes = match plan.mode {
        0 | 1 => vec![
            vec![batch, heads, queries, keys],
            vec![batch, 1, queries, keys],
            vec![1, 1, queries, keys],
            vec![queries, keys],
        ],
        2 | 3 => vec![vec![COMPRESSED; 2], vec![1, 1, COMPRESSED, COMPRESSED]],
        other => fail!(
            ACLNN_ERR_PARAM_INVALID,
            "sparseMode {other} is not emulated; 0 to 3 are"
        ),
    };
    ensure!(
        shapes.contains(&mask.shape),
        ACLNN_ERR_PARAM_INVALID,
        "attenMask has the shape {:?}; mode {} takes {shapes:?}",
        mask.shape,
        plan.mode
    );
    // Mode 0 reads only what the window holds: a smaller one must fit the mask, which is not emulated.
    ensure!(
        plan.mode != 0 || attributes.before >= queries as i64 && attributes.behind >= keys as i64,
        ACLNN_ERR_PARAM_INVALID,
        "preTokens {} and nextTokens {} leave some of {queries} × {keys} scores out",
        attributes.before,
        attributes.behind
    );
    Ok(())
}

impl Plan {
    /// A key that a query does not see.
    fn masked(&self, memory: &Memory, mask: Option<&Tensor>) -> Outcome<Unseen> {
        let Sizes {
            batch,
            heads,
            queries,
            keys,
            ..
        } = self.sizes;
        let Some(mask) = mask else {
            return Ok(Box::new(|_, _, _| false));
        };
        if self.mode >= 2 {
            check_causal(memory, mask)?;
            let ahead = if self.mode == 3 {
                keys as i64 - queries as i64
            } else {
                0
            };
            return Ok(Box::new(move |_, query, key| {
                key as i64 > query as i64 + ahead
            }));
        }
        let values = mask
            .expanded(&[batch, heads, queries, keys])
            .values::<i64>(memory)?;
        Ok(Box::new(move |head, query, key| {
            values[(head * queries + query) * keys + key] != 0
        }))
    }
}

/// The first row and column of the mask of causal modes: only the first key is seen first, and by all.
fn check_causal(memory: &Memory, mask: &Tensor) -> Outcome<()> {
    let mut edge = mask.clone();
    if edge.rank() == 4 {
        edge = Tensor {
            shape: mask.shape[2..].to_vec(),
            strides: mask.strides[2..].to_vec(),
            ..edge
        };
    }
    let row = Tensor {
        shape: vec![1, COMPRESSED],
        ..edge.clone()
    }
    .values::<i64>(memory)?;
    let column = Tensor {
        shape: vec![COMPRESSED, 1],
        ..edge
    }
    .values::<i64>(memory)?;
    ensure!(
        row[0] == 0 && row[1..].iter().all(|bit| *bit == 1) && column.iter().all(|bit| *bit == 0),
        ACLNN_ERR_PARAM_INVALID,
        "attenMask of a causal mode must be 1 above its diagonal and 0 elsewhere"
    );
    Ok(())
}

/// A statistic of rows, eight times each.
fn eightfold(values: &[f32]) -> Vec<f32> {
    values.iter().flat_map(|value| [*value; 8]).collect()
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
    let attributes = Attributes {
        scale: scale_value,
        keep: keep_prob,
        before: pre_tokens,
        behind: next_tokens,
        heads: head_num,
        layout: input_layout,
        mode: sparse_mode,
    };
    phase_one(
        "aclnnFlashAttentionScore",
        workspace_size,
        executor,
        |operands| {
            let optional = [
                ("realShift", real_shift_or_null as usize),
                ("dropMask", drop_mask_or_null as usize),
                ("paddingMask", padding_mask_or_null as usize),
                ("prefix", prefix_or_null as usize),
            ];
            check_absent(optional, &attributes)?;
            // SAFETY: the caller vouches for the text.
            let (query, _, mut plan) = unsafe { take(operands, [query, key, fill], &attributes) }?;
            take_mask(operands, atten_mask_or_null, &attributes, &mut plan)?;
            let Sizes {
                batch,
                heads,
                queries,
                ..
            } = plan.sizes;
            for (name, tensor) in [
                ("softmaxMax", softmax_max_out),
                ("softmaxSum", softmax_sum_out),
            ] {
                operands.result(name, tensor, ACL_FLOAT, &[batch, heads, queries, 8])?;
            }
            operands.result("attentionOut", attention_out_out, query.dtype, &query.shape)?;
            Ok(Arc::new(move |memory, operands| {
                let [query, key, value, rest @ ..] = operands else {
                    unreachable!("taken above")
                };
                let (mask, rest) = rest.split_at(usize::from(plan.with_mask));
                let [most, total, output] = rest else {
                    unreachable!("taken above")
                };
                let Plan {
                    ref layout,
                    sizes,
                    scale,
                    ..
                } = plan;
                let read =
                    |tensor: &Tensor, heads| by_head("", tensor, layout, heads)?.floats(memory);
                let q = read(query, sizes.heads)?;
                let (k, v) = (read(key, sizes.groups)?, read(value, sizes.groups)?);
                let masked = plan.masked(memory, mask.first())?;
                let made = attention((&q, &k, &v), sizes, scale, masked);
                most.store(memory, &eightfold(&made.most))?;
                total.store(memory, &eightfold(&made.total))?;
                by_head("", output, layout, sizes.heads)?.store(memory, &made.output)
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
    let attributes = Attributes {
        scale: scale_value,
        keep: keep_prob,
        before: pre_tokens,
        behind: next_tokens,
        heads: head_num,
        layout: input_layout,
        mode: sparse_mode,
    };
    phase_one(
        "aclnnFlashAttentionScoreGrad",
        workspace_size,
        executor,
        |operands| {
            let optional = [
                ("pseShift", pse_shift_or_null as usize),
                ("dropMask", drop_mask_or_null as usize),
                ("paddingMask", padding_mask_or_null as usize),
                ("prefix", prefix_or_null as usize),
            ];
            check_absent(optional, &attributes)?;
            // SAFETY: the caller vouches for the text.
            let (query, key, mut plan) =
                unsafe { take(operands, [query, key_in, fill], &attributes) }?;
            let dy = operands.view("dy", dy, &[query.dtype])?;
            check_size("dy", &dy, &query.shape)?;
            take_mask(operands, atten_mask_or_null, &attributes, &mut plan)?;
            let Sizes {
                batch,
                heads,
                queries,
                ..
            } = plan.sizes;
            for (name, tensor) in [
                ("softmaxMax", softmax_max_or_null),
                ("softmaxSum", softmax_sum_or_null),
            ] {
                let statistic = operands.view(name, tensor, &[ACL_FLOAT])?;
                check_size(name, &statistic, &[batch, heads, queries, 8])?;
            }
            let attended = operands.view("attentionIn", attention_in_or_null, &[query.dtype])?;
            check_size("attentionIn", &attended, &query.shape)?;
            operands.result("dq", dq_out, query.dtype, &query.shape)?;
            operands.result("dk", dk_out, query.dtype, &key.shape)?;
            operands.result("dv", dv_out, query.dtype, &key.shape)?;
            Ok(Arc::new(move |memory, operands| {
                let [query, key, value, dy, rest @ ..] = operands else {
                    unreachable!("taken above")
                };
                let (mask, rest) = rest.split_at(usize::from(plan.with_mask));
                let [most, total, attended, dq, dk, dv] = rest else {
                    unreachable!("taken above")
                };
                let Plan {
                    ref layout,
                    sizes,
                    scale,
                    ..
                } = plan;
                let read =
                    |tensor: &Tensor, heads| by_head("", tensor, layout, heads)?.floats(memory);
                let (q, dy) = (read(query, sizes.heads)?, read(dy, sizes.heads)?);
                let (k, v) = (read(key, sizes.groups)?, read(value, sizes.groups)?);
                let y = read(attended, sizes.heads)?;
                let first = |values: Vec<f32>| values.into_iter().step_by(8).collect::<Vec<f32>>();
                let (most, total) = (first(most.floats(memory)?), first(total.floats(memory)?));
                let masked = plan.masked(memory, mask.first())?;
                let (by_q, by_k, by_v) = attention_grad(
                    (&q, &k, &v),
                    (&dy, &y),
                    (&most, &total),
                    sizes,
                    scale,
                    masked,
                );
                for (output, heads, values) in [
                    (dq, sizes.heads, by_q),
                    (dk, sizes.groups, by_k),
                    (dv, sizes.groups, by_v),
                ] {
                    by_head("", output, layout, heads)?.store(memory, &values)?;
                }
                Ok(())
            }))
        },
    )
}

operators! { attention:
    aclnnFlashAttentionScoreGetWorkspaceSize, aclnnFlashAttentionScore;
    aclnnFlashAttentionScoreGradGetWorkspaceSize, aclnnFlashAttentionScoreGrad;
}
