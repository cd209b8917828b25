//! Tests of flash attention of sequences of several lengths: the memory of the statistics, and refusals in both
//! directions, with the same words.

use crate::common::*;
use std::ffi::CStr;

use cann_emulator::abi::attention::*;

/// Tokens, heads and width.
const QUERY: [usize; 3] = [4, 2, 8];

/// The arguments of a call. All others are as documented.
#[derive(Clone, Copy)]
struct Given<'a> {
    query: &'a Tensor,
    key: &'a Tensor,
    mask: Option<&'a Tensor>,
    q_ends: Option<&'a [i64]>,
    k_ends: Option<&'a [i64]>,
    layout: &'static CStr,
    mode: i64,
    /// The window before and behind.
    window: [i64; 2],
    most: &'a Tensor,
    total: &'a Tensor,
    attended: &'a Tensor,
}

fn forward(given: Given<'_>) -> Status {
    let (q_ends, k_ends) = (Ints::some(given.q_ends), Ints::some(given.k_ends));
    call!(
        aclnnFlashAttentionVarLenScore: given.query, given.key, given.key, null(), null(), null(),
        given.mask, null(), q_ends, k_ends, 1.0, 1.0, given.window[0], given.window[1], 2,
        given.layout, 0, given.mode, given.most, given.total, null(),
        given.attended
    )
}

fn backward(given: Given<'_>, [dq, dk, dv]: [&Tensor; 3]) -> Status {
    let (q_ends, k_ends) = (Ints::some(given.q_ends), Ints::some(given.k_ends));
    call!(
        aclnnFlashAttentionUnpaddingScoreGrad: given.query, given.key, given.key, given.query,
        null(), null(), null(), given.mask, given.most, given.total, null(), given.attended,
        null(), q_ends, k_ends, 1.0, 1.0, given.window[0], given.window[1], 2,
        given.layout, 0, given.mode, dq, dk, dv, null()
    )
}

#[track_caller]
fn refused(given: Given<'_>, code: i32, text: &str) {
    let like = || Tensor::empty(F32, &QUERY);
    let (dq, dk, dv) = (like(), like(), like());
    for (status, operator) in [
        (forward(given), "aclnnFlashAttentionVarLenScore"),
        (
            backward(given, [&dq, &dk, &dv]),
            "aclnnFlashAttentionUnpaddingScoreGrad",
        ),
    ] {
        let (found, message) = status.expect_err(operator);
        assert_eq!(found, code, "{message}");
        assert!(message.contains(operator), "{message}");
        assert!(message.contains(text), "{message}");
    }
}

#[test]
fn both_directions_take_and_refuse_the_same() {
    let _session = Session::start();
    let x = Tensor::floats(F32, &QUERY, &noise(64, 1));
    let rows = || Tensor::floats(F32, &QUERY, &noise(64, 2));
    let (most, total, attended) = (rows(), rows(), Tensor::empty(F32, &QUERY));
    let plain = Given {
        query: &x,
        key: &x,
        mask: None,
        q_ends: Some(&[1, 1, 4]),
        k_ends: Some(&[1, 1, 4]),
        layout: c"TND",
        mode: 0,
        window: [1 << 30; 2],
        most: &most,
        total: &total,
        attended: &attended,
    };
    let mut triangle = vec![0; 2048 * 2048];
    for (row, bits) in triangle.chunks_exact_mut(2048).enumerate() {
        bits[row + 1..].fill(1);
    }
    let square = Tensor::integers(ACL_BOOL, &[2048, 2048], &triangle);
    let causal = Given {
        mask: Some(&square),
        mode: 3,
        ..plain
    };
    let like = || Tensor::empty(F32, &QUERY);
    let (dq, dk, dv) = (like(), like(), like());
    let shorter = Given {
        q_ends: Some(&[2, 4, 0, 0]),
        k_ends: Some(&[2, 4, 0, 0]),
        ..causal
    };
    let band = Given {
        mode: 4,
        window: [0, 0],
        ..causal
    };
    for taken in [plain, causal, shorter, band] {
        forward(taken).expect("documented");
        backward(taken, [&dq, &dk, &dv]).expect("documented");
    }

    let invalid = |given, text| refused(given, ACLNN_ERR_PARAM_INVALID, text);
    let missing = |given, text| refused(given, ACLNN_ERR_PARAM_NULLPTR, text);
    missing(
        Given {
            q_ends: None,
            ..plain
        },
        "actualSeqQLen is NULL",
    );
    missing(
        Given {
            k_ends: None,
            ..plain
        },
        "actualSeqKvLen is NULL",
    );
    let with = |q_ends, k_ends| Given {
        q_ends: Some(q_ends),
        k_ends: Some(k_ends),
        ..causal
    };
    invalid(with(&[1, 4], &[4]), "2 sequences and actualSeqKvLen 1");
    invalid(with(&[3, 1, 4], &[1, 3, 4]), "ends behind the one before");
    invalid(with(&[1, 3], &[1, 3]), "ends at 3");
    invalid(with(&[1, 5], &[1, 5]), "ends at 5");
    invalid(with(&[1, -1], &[1, 4]), "ends behind the one before");
    invalid(with(&[1, 1, 4], &[1, 2, 4]), "0 queries and 1 keys");
    invalid(with(&[2, 4], &[1, 4]), "2 queries and 1 keys; mode 3");
    each! { invalid: Given { window: [-2, 3], ..band }, "leave all of 1 × 1 scores out" }
    let many = vec![4; 2049];
    invalid(with(&many, &many), "2049 sequences");
    invalid(
        Given {
            layout: c"BSH",
            ..plain
        },
        "inputLayout is BSH",
    );
    for mode in [0, 1, 5, 7, 8] {
        each! { invalid: Given { mode, ..causal }, "is not emulated; 2 to 4 and 6 are" }
    }
    let full = Tensor::integers(ACL_BOOL, &[4, 4], &[0; 16]);
    each! { invalid: Given { mask: Some(&full), ..causal }, "attenMask has the shape" }
    let by_head = Tensor::empty(F32, &[2, 4, 8]);
    each! { invalid: Given { most: &by_head, ..plain }, "softmaxMax has the shape" }
    let turned = Tensor::strided(F32, &QUERY, Some(&[8, 32, 1]), 0, 64);
    each! { invalid: Given { total: &turned, ..plain }, "softmaxSum must be contiguous" }
    let half = Tensor::empty(BF16, &QUERY);
    each! { invalid: Given { key: &half, ..plain }, "key is bf16" }
    let joined = Tensor::empty(F32, &[4, 16]);
    each! { invalid: Given { query: &joined, ..plain }, "query has 2 axes" }
}

/// Each sequence has the result of a call by itself, and its statistics follow those of the sequence before.
#[test]
fn statistics_lie_sequence_by_sequence() {
    let _session = Session::start();
    let (q_noise, k_noise) = (noise(64, 3), noise(64, 4));
    let query = Tensor::floats(F32, &QUERY, &q_noise);
    let key = Tensor::floats(F32, &QUERY, &k_noise);
    let made = || Tensor::empty(F32, &QUERY);
    let (most, total, attended) = (made(), made(), made());
    let given = Given {
        query: &query,
        key: &key,
        mask: None,
        q_ends: Some(&[1, 4]),
        k_ends: Some(&[1, 4]),
        layout: c"TND",
        mode: 0,
        window: [0; 2],
        most: &most,
        total: &total,
        attended: &attended,
    };
    forward(given).expect("documented");
    let [mut mosts, mut totals, mut results] = [(); 3].map(|()| Vec::new());
    for tokens in [0..1, 1..4] {
        let count = tokens.len();
        let part = |x: &[f32]| {
            let own = &x[tokens.start * 16..tokens.end * 16];
            Tensor::floats(F32, &[1, count, 2, 8], own)
        };
        let (query, key) = (part(&q_noise), part(&k_noise));
        let rows = || Tensor::empty(F32, &[1, 2, count, 8]);
        let (most, total) = (rows(), rows());
        let attended = Tensor::empty(F32, &[1, count, 2, 8]);
        call!(
            aclnnFlashAttentionScore: query, key, key, null(), null(), null(), null(), null(), 1.0,
            1.0, 0, 0, 2, c"BSND".as_ptr().cast_mut(), 0, 0, most, total, null(), attended
        )
        .expect("documented");
        mosts.extend(most.read());
        totals.extend(total.read());
        results.extend(attended.read());
    }
    assert_eq!(most.read(), mosts);
    assert_eq!(total.read(), totals);
    assert_eq!(attended.read(), results);
}
