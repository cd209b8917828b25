//! Tests that flash attention refuses the same in both directions, with the same words, and what version 3 refuses.

use crate::common::*;
use std::ffi::CStr;

use cann_emulator::abi::attention::*;

const QUERY: [usize; 4] = [1, 1, 4, 8];

/// The arguments of a call. All others are as documented.
#[derive(Clone, Copy)]
struct Given<'a> {
    key: &'a Tensor,
    value: &'a Tensor,
    mask: Option<&'a Tensor>,
    drop: Option<&'a Tensor>,
    keep: f64,
    heads: i64,
    layout: &'static CStr,
    mode: i64,
    /// The window to either side.
    window: i64,
    most: &'a Tensor,
    attended: &'a Tensor,
}

fn forward(query: &Tensor, given: Given<'_>) -> Status {
    call!(
        aclnnFlashAttentionScore: query, given.key, given.value, null(), given.drop, null(),
        given.mask, null(), 1.0, given.keep, given.window, given.window, given.heads,
        given.layout, 0, given.mode, given.most, given.most, null(),
        given.attended
    )
}

fn backward(query: &Tensor, given: Given<'_>) -> Status {
    let like = || Tensor::empty(F32, &QUERY);
    let (dq, dk, dv) = (like(), like(), like());
    call!(
        aclnnFlashAttentionScoreGrad: query, given.key, given.value, query, null(),
        given.drop, null(), given.mask, given.most, given.most, null(),
        given.attended, null(), 1.0, given.keep, given.window, given.window, given.heads,
        given.layout, 0, given.mode, dq, dk, dv, null()
    )
}

#[track_caller]
fn refused(query: &Tensor, given: Given<'_>, text: &str) {
    for (status, operator) in [
        (forward(query, given), "aclnnFlashAttentionScore"),
        (backward(query, given), "aclnnFlashAttentionScoreGrad"),
    ] {
        let (code, message) = status.expect_err(operator);
        assert_eq!(code, ACLNN_ERR_PARAM_INVALID, "{message}");
        assert!(message.contains(operator), "{message}");
        assert!(message.contains(text), "{message}");
    }
}

#[test]
fn both_directions_take_and_refuse_the_same() {
    let _session = Session::start();
    let x = Tensor::floats(F32, &QUERY, &noise(32, 1));
    let most = Tensor::empty(F32, &[1, 1, 4, 8]);
    let attended = Tensor::empty(F32, &QUERY);
    let mask = Tensor::integers(ACL_BOOL, &[4, 4], &[0; 16]);
    let plain = Given {
        key: &x,
        value: &x,
        mask: None,
        drop: None,
        keep: 1.0,
        heads: 1,
        layout: c"BNSD",
        mode: 0,
        window: 1 << 30,
        most: &most,
        attended: &attended,
    };
    let masked = Given {
        mask: Some(&mask),
        ..plain
    };
    let full = Given {
        mode: 1,
        window: 0,
        ..masked
    };
    for taken in [plain, masked, full] {
        forward(&x, taken).expect("documented");
        backward(&x, taken).expect("documented");
    }

    each! { refused:
        &x, Given { window: 2, ..masked }, "leave some";
        &x, Given { mode: 2, ..masked }, "attenMask has the shape";
        &x, Given { mode: 4, ..masked }, "attenMask has the shape";
        &x, Given { mode: 6, ..masked }, "attenMask has the shape";
        &x, Given { mode: 7, ..masked }, "sparseMode 7";
    }
    let square = Tensor::integers(ACL_BOOL, &[2048, 2048], &vec![0; 2048 * 2048]);
    each! { refused:
        &x, Given { mask: Some(&square), mode: 4, window: -1, ..plain },
            "leave all of 4 × 4 scores out";
        &x, Given { mask: Some(&x), ..plain }, "attenMask is f32";
        &x, Given { drop: Some(&mask), ..plain }, "dropMask is not emulated";
        &x, Given { keep: 0.9, ..plain }, "keepProb is 0.9";
        &x, Given { layout: c"TND", ..plain }, "inputLayout is TND";
        &x, Given { layout: c"BSND", ..plain }, "headNum is 1";
        &x, Given { heads: 2, ..plain }, "headNum is 2";
    }

    let half = Tensor::empty(F16, &QUERY);
    let wide = Tensor::empty(F32, &[1, 1, 4, 9]);
    each! { refused:
        &x, Given { key: &half, ..plain }, "key is f16";
        &x, Given { value: &wide, ..plain }, "at most as wide as those of keys";
        &x, Given { key: &wide, value: &wide, ..plain }, "do not fit";
        &x, Given { most: &wide, ..plain }, "softmaxMax has the shape";
        &x, Given { most: &half, ..plain }, "softmaxMax is f16";
        &x, Given { attended: &wide, ..plain }, "attention";
    }
    // The keys have fewer axes than the layout.
    let (rows, line) = (Tensor::empty(F32, &[1, 4, 8]), Tensor::empty(F32, &[8]));
    each! { refused:
        &rows, Given { key: &line, value: &line, layout: c"BSH", ..plain },
            "key has 1 axes";
    }
}

/// The arguments of version 3 that the first version lacks, and the tensors.
#[derive(Clone, Copy)]
struct WithSinks<'a> {
    x: &'a Tensor,
    sinks: Option<&'a Tensor>,
    shift: i64,
    most: &'a Tensor,
    attended: &'a Tensor,
    d_sinks: Option<&'a Tensor>,
}

fn forward_with_sinks(given: WithSinks<'_>) -> Status {
    let x = given.x.handle;
    call!(
        aclnnFlashAttentionScoreV3: x, x, x, null(), null(), null(), null(), given.sinks,
        null(), null(), null(), 1.0, 1.0, 0, 0, 1, c"BNSD", 0, 0, given.shift,
        given.most, given.most, null(), given.attended
    )
}

fn backward_with_sinks(given: WithSinks<'_>) -> Status {
    let like = || Tensor::empty(given.x.dtype, &QUERY);
    let (dq, dk, dv, x) = (like(), like(), like(), given.x.handle);
    call!(
        aclnnFlashAttentionScoreGradV3: x, x, x, x, null(), null(), null(), null(), given.most,
        given.most, null(), given.attended, given.sinks, null(), null(), null(), 1.0, 1.0,
        0, 0, 1, c"BNSD", 0, 0, given.shift, dq, dk, dv, null(),
        given.d_sinks
    )
}

#[test]
fn sinks_need_half_types_and_one_number_a_head() {
    let _session = Session::start();
    let x = Tensor::floats(F16, &QUERY, &noise(32, 1));
    let most = Tensor::empty(F32, &[1, 1, 4, 8]);
    let attended = Tensor::empty(F16, &QUERY);
    let (sinks, d_sinks) = (Tensor::floats(F32, &[1], &[0.5]), Tensor::empty(F32, &[1]));
    let plain = WithSinks {
        x: &x,
        sinks: None,
        shift: 1,
        most: &most,
        attended: &attended,
        d_sinks: None,
    };
    let with = WithSinks {
        sinks: Some(&sinks),
        d_sinks: Some(&d_sinks),
        ..plain
    };
    for taken in [plain, with] {
        forward_with_sinks(taken).expect("documented");
        backward_with_sinks(taken).expect("documented");
    }
    let invalid = |given, text: &str| {
        failed(forward_with_sinks(given), ACLNN_ERR_PARAM_INVALID, text);
        failed(backward_with_sinks(given), ACLNN_ERR_PARAM_INVALID, text);
    };
    invalid(WithSinks { shift: 0, ..with }, "pseType is 0");
    let few = Tensor::empty(F16, &[1]);
    invalid(
        WithSinks {
            sinks: Some(&few),
            ..with
        },
        "sink is f16",
    );
    let few = Tensor::empty(F32, &[2]);
    each! { invalid: WithSinks { sinks: Some(&few), ..with }, "sink has the shape" }
    let none = WithSinks {
        d_sinks: None,
        ..with
    };
    failed(backward_with_sinks(none), ACLNN_ERR_PARAM_NULLPTR, "dsink");
    // The forward direction takes f32 without sinks, the backward direction never does.
    let wide = Tensor::floats(F32, &QUERY, &noise(32, 1));
    let attended = Tensor::empty(F32, &QUERY);
    let given = WithSinks {
        x: &wide,
        attended: &attended,
        ..plain
    };
    forward_with_sinks(given).expect("documented");
    each! { failed: backward_with_sinks(given), ACLNN_ERR_PARAM_INVALID, "query is f32" }
    let given = WithSinks {
        sinks: Some(&sinks),
        ..given
    };
    each! { failed:
        forward_with_sinks(given), ACLNN_ERR_PARAM_INVALID, "with sinks it must be f16 or bf16";
    }
}
