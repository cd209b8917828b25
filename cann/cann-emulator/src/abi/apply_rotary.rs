//! The rotary position embedding of queries and keys in place, with the limits of Ascend910B and 910_93.
//!
//! CANN does not say where f16 is rounded inside. Here all dtypes are computed in f32 and rounded once.

use std::ffi::{CStr, c_char};

use crate::abi::prelude::*;
use crate::ops::rotary::{Style, rotary, rotated};

/// The bytes of a core's memory for operands, the unified buffer.
const BUFFER: usize = 192 << 10;

/// The tensors of a call.
struct Call {
    query: *mut aclTensor,
    key: *mut aclTensor,
    cos: *const aclTensor,
    sin: *const aclTensor,
    layout: i64,
}

impl Call {
    fn take(&self, operands: &mut Operands) -> Outcome<Work> {
        let axes = match self.layout {
            1 => 4,
            4 => 3,
            other => {
                fail!("layout is {other}; 1 is BSND and 4 TND, and the others are Ascend950's")
            }
        };
        let query = operands.target("queryRef", self.query, FLOATS)?;
        let key = operands.target("keyRef", self.key, &[query.dtype])?;
        let cos = operands.view("cos", self.cos, &[query.dtype])?;
        let sin = operands.view("sin", self.sin, &[query.dtype])?;
        for (name, tensor) in [
            ("queryRef", &query),
            ("keyRef", &key),
            ("cos", &cos),
            ("sin", &sin),
        ] {
            ensure!(tensor.rank() == axes && tensor.count() > 0;
                "{name} is {:?}; layout {} has {axes} axes, and none is empty",
                tensor.shape, self.layout);
        }
        let heads = axes - 2;
        let with = |heads_of: usize| {
            let mut shape = query.shape.clone();
            shape[heads] = heads_of;
            shape
        };
        check_size("keyRef", &key, &with(key.shape[heads]))?;
        check_size("cos", &cos, &with(1))?;
        check_size("sin", &sin, &with(1))?;
        check_width(query.shape[axes - 1])?;
        check_buffer(&query, query.shape[heads] + key.shape[heads])?;
        Ok(Arc::new(|memory, operands| {
            let [query, key, cos, sin] = taken(operands);
            rotate(memory, query, cos, sin)?;
            rotate(memory, key, cos, sin)
        }))
    }
}

fn check_width(width: usize) -> Outcome<()> {
    let newer = state::config()?.major() >= 9;
    ensure!(width == 128 || width == 64 && newer;
        "a width of {width}; 128 is taken, and 64 from CANN 9 on");
    Ok(())
}

/// Checks that the rows of all heads fit a core's memory, by CANN's formula.
fn check_buffer(query: &Tensor, heads: usize) -> Outcome<()> {
    let width = query.shape[query.rank() - 1];
    let (element, computed, more) = match query.dtype {
        ACL_FLOAT => (4, 4, 0),
        ACL_BF16 => (2, 4, 8 * width),
        _ => (2, 2, 0),
    };
    let needed = heads * width * computed * 5 + width * element * 4 + more;
    ensure!(needed <= BUFFER;
        "{heads} heads of queries and keys need {needed} bytes of a core's {BUFFER}");
    Ok(())
}

fn rotate(memory: &mut Memory, x: &Tensor, cos: &Tensor, sin: &Tensor) -> Outcome<()> {
    let width = x.shape[x.rank() - 1];
    let values = x.floats(memory)?;
    let turned = rotated(&values, width, Style::Half);
    let cos = cos.expanded(&x.shape).floats(memory)?;
    let sin = sin.expanded(&x.shape).floats(memory)?;
    x.store(memory, &rotary(&values, &turned, &cos, &sin))
}

/// Checks the mode of version 2.
///
/// # Safety
///
/// `text` must be NULL or end with a zero byte.
unsafe fn check_mode(text: *const c_char) -> Outcome<()> {
    ensure!(!text.is_null(), ACLNN_ERR_PARAM_NULLPTR; "rotaryMode is NULL");
    // SAFETY: the caller guarantees the text.
    let mode = unsafe { CStr::from_ptr(text) };
    ensure!(mode.to_bytes() == b"half";
        "rotaryMode is {:?}; this processor has \"half\"", mode.to_string_lossy());
    Ok(())
}

operator! { rotary: aclnnApplyRotaryPosEmbGetWorkspaceSize, aclnnApplyRotaryPosEmb(
    query, key, cos, sin, layout
) |operands|
    let call = Call { query, key, cos, sin, layout };
    call.take(operands)
}

operator! { rotary: aclnnApplyRotaryPosEmbV2GetWorkspaceSize, aclnnApplyRotaryPosEmbV2(
    query, key, cos, sin, layout, rotary_mode
) |operands|
    let call = Call { query, key, cos, sin, layout };
    // SAFETY: by the protocol the text is NULL or ends with a zero byte.
    unsafe { check_mode(rotary_mode) }?;
    call.take(operands)
}
