//! The layouts BSH, SBH, BSND, BNSD and TND.

use std::ffi::{CStr, c_char};

use cann_sys::meta::*;

use crate::error::{Outcome, ensure};
use crate::tensor::Tensor;

/// The layouts of sequences of one length.
pub(super) const DENSE: &[&str] = &["BSH", "SBH", "BSND", "BNSD"];
/// The layout of sequences of any lengths, one after the other.
pub(super) const JOINED: &[&str] = &["TND"];

/// Returns a layout's text, one of `allowed`.
///
/// # Safety
///
/// `text` must be NULL or end with a zero byte.
pub(super) unsafe fn layout(text: *const c_char, allowed: &[&str]) -> Outcome<String> {
    ensure!(!text.is_null(), ACLNN_ERR_PARAM_NULLPTR; "inputLayout is NULL");
    // SAFETY: the caller guarantees the text.
    let text = unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned();
    ensure!(allowed.contains(&text.as_str());
        "inputLayout is {text}; {} is taken", allowed.join(", "));
    Ok(text)
}

/// Returns the tensor as a view of [batch, heads, tokens, width]. BSH and SBH need the number of heads. The batch of TND
/// is 1: it holds the tokens of all sequences.
pub(super) fn by_head(name: &str, tensor: &Tensor, layout: &str, heads: usize) -> Outcome<Tensor> {
    ensure!(tensor.rank() == layout.len();
        "{name} has {} axes; {layout} has {}", tensor.rank(), layout.len());
    if layout.len() == 4 {
        return Ok(tensor.permuted(if layout == "BNSD" {
            &[0, 1, 2, 3]
        } else {
            &[0, 2, 1, 3]
        }));
    }
    let (shape, strides) = (&tensor.shape, &tensor.strides);
    if layout == "TND" {
        return Ok(Tensor {
            shape: vec![1, shape[1], shape[0], shape[2]],
            strides: vec![0, strides[1], strides[0], strides[2]],
            ..tensor.clone()
        });
    }
    let hidden = tensor.shape[2];
    ensure!(heads > 0 && hidden.is_multiple_of(heads);
        "the last axis of {name} has {hidden} elements, which {heads} heads cannot share");
    let width = hidden / heads;
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
