//! Tests of version 2 of flash attention: it equals the first version, and refuses shifts.

use crate::common::*;
use std::ffi::CStr;

use cann_emulator::abi::attention::*;

/// Tokens, heads and width.
const SIZES: [usize; 3] = [6, 2, 4];

struct Tensors {
    /// Query, key, value and the gradient of the result.
    inputs: [Tensor; 4],
    mask: Tensor,
    most: Tensor,
    total: Tensor,
    result: Tensor,
    gradients: [Tensor; 3],
}

/// Makes the tensors of a layout with a shape of tokens and a shape of statistics.
fn tensors(shape: &[usize], rows: &[usize]) -> Tensors {
    let count = shape.iter().product();
    let bits: Vec<i64> = (0..2048 * 2048)
        .map(|at| i64::from(at % 2048 > at / 2048))
        .collect();
    Tensors {
        inputs: [1, 2, 3, 4].map(|seed| Tensor::floats(F32, shape, &noise(count, seed))),
        mask: Tensor::integers(ACL_BOOL, &[2048, 2048], &bits),
        most: Tensor::empty(F32, rows),
        total: Tensor::empty(F32, rows),
        result: Tensor::empty(F32, shape),
        gradients: [(); 3].map(|()| Tensor::empty(F32, shape)),
    }
}

impl Tensors {
    /// Returns all that a call wrote.
    fn written(&self) -> Vec<Vec<f32>> {
        let outputs = [&self.most, &self.total, &self.result];
        outputs
            .into_iter()
            .chain(&self.gradients)
            .map(Tensor::read)
            .collect()
    }

    fn overwrite(&self) {
        let outputs = [&self.most, &self.total, &self.result];
        for output in outputs.into_iter().chain(&self.gradients) {
            output.fill(&vec![9.0; output.storage]);
        }
    }
}

/// The arguments that version 2 adds.
struct Added {
    shift: i64,
    start: Ints,
}

fn layout(text: &'static CStr) -> *mut std::ffi::c_char {
    text.as_ptr().cast_mut()
}

/// Calls both directions of the version for sequences of one length.
fn dense(t: &Tensors, added: Option<&Added>) -> Status {
    let [q, k, v, dy] = [0, 1, 2, 3].map(|at| t.inputs[at].handle);
    let mask = t.mask.handle;
    let most = t.most.handle;
    let total = t.total.handle;
    let y = t.result.handle;
    let [dq, dk, dv] = [0, 1, 2].map(|at| t.gradients[at].handle);
    let (heads, bsnd, none) = (SIZES[1] as i64, layout(c"BSND"), null::<aclTensor>());
    let Some(Added { shift, start }) = added else {
        call!(
            aclnnFlashAttentionScore: q, k, v, none, none, none, mask, null(), 0.5, 1.0, 0, 0,
            heads, bsnd, 0, 3, most, total, none, y
        )?;
        return call!(
            aclnnFlashAttentionScoreGrad: q, k, v, dy, none, none, none, mask, most, total, none, y,
            null(), 0.5, 1.0, 0, 0, heads, bsnd, 0, 3, dq, dk, dv, none
        );
    };
    call!(
        aclnnFlashAttentionScoreV2: q, k, v, none, none, none, mask, null(), start, null(), 0.5,
        1.0, 0, 0, heads, bsnd, 0, 3, *shift, most, total, none, y
    )?;
    call!(
        aclnnFlashAttentionScoreGradV2: q, k, v, dy, none, none, none, mask, most, total, none, y,
        null(), null(), start, 0.5, 1.0, 0, 0, heads, bsnd, 0, 3, *shift, dq, dk, dv, none
    )
}

/// Calls both directions of the version for sequences of several lengths.
fn joined(t: &Tensors, added: Option<&Added>) -> Status {
    let [q, k, v, dy] = [0, 1, 2, 3].map(|at| t.inputs[at].handle);
    let mask = t.mask.handle;
    let most = t.most.handle;
    let total = t.total.handle;
    let y = t.result.handle;
    let [dq, dk, dv] = [0, 1, 2].map(|at| t.gradients[at].handle);
    let (heads, tnd, none) = (SIZES[1] as i64, layout(c"TND"), null::<aclTensor>());
    let ends = Ints::new(&[2, 6]);
    let Some(Added { shift, start }) = added else {
        call!(
            aclnnFlashAttentionVarLenScore: q, k, v, none, none, none, mask, null(), ends, ends,
            0.5, 1.0, 0, 0, heads, tnd, 0, 3, most, total, none, y
        )?;
        return call!(
            aclnnFlashAttentionUnpaddingScoreGrad: q, k, v, dy, none, none, none, mask, most, total,
            none, y, null(), ends, ends, 0.5, 1.0, 0, 0, heads, tnd, 0, 3, dq, dk, dv, none
        );
    };
    call!(
        aclnnFlashAttentionVarLenScoreV2: q, k, v, none, none, none, mask, null(), ends, ends,
        start, null(), 0.5, 1.0, 0, 0, heads, tnd, 0, 3, *shift, most, total, none, y
    )?;
    call!(
        aclnnFlashAttentionUnpaddingScoreGradV2: q, k, v, dy, none, none, none, mask, most, total,
        none, y, null(), ends, ends, null(), start, 0.5, 1.0, 0, 0, heads, tnd, 0, 3, *shift, dq,
        dk, dv, none
    )
}

#[test]
fn version_2_equals_the_first_and_refuses_shifts() {
    let _session = Session::start();
    let [tokens, heads, width] = SIZES;
    type Both = fn(&Tensors, Option<&Added>) -> Status;
    let table: [(Both, Tensors); 2] = [
        (
            dense,
            tensors(&[1, tokens, heads, width], &[1, heads, tokens, 8]),
        ),
        (
            joined,
            tensors(&[tokens, heads, width], &[tokens, heads, 8]),
        ),
    ];
    for (call, t) in table {
        call(&t, None).expect("documented");
        let first = t.written();
        t.overwrite();
        let plain = Added {
            shift: 1,
            start: Ints(null_mut()),
        };
        call(&t, Some(&plain)).expect("documented");
        assert_eq!(t.written(), first);
        let shifted = Added { shift: 2, ..plain };
        refused(call(&t, Some(&shifted)), "pseType is 2");
        each! { refused:
            call(&t, Some(&Added { shift: 1, start: Ints::new(&[0]) })),
                "StartIdx is not emulated";
        }
    }
}
