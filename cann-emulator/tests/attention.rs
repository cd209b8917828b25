//! Tests that flash attention refuses the same in both directions, with the same words, and what version 3 refuses.

mod common;

use std::ffi::CStr;
use std::ptr::null;

use cann_emulator::abi::attention::*;
use cann_sys::meta::*;
use common::{F16, F32, Session, Tensor, noise, run};

type Status = Result<(), (i32, String)>;

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

fn handle(tensor: Option<&Tensor>) -> *const aclTensor {
    tensor.map_or(null(), |tensor| tensor.handle)
}

fn forward(query: &Tensor, given: Given<'_>) -> Status {
    run(
        // SAFETY: handles are checked, the places are variables, the text ends.
        |size, executor| unsafe {
            aclnnFlashAttentionScoreGetWorkspaceSize(
                query.handle,
                given.key.handle,
                given.value.handle,
                null(),
                handle(given.drop),
                null(),
                handle(given.mask),
                null(),
                1.0,
                given.keep,
                given.window,
                given.window,
                given.heads,
                given.layout.as_ptr().cast_mut(),
                0,
                given.mode,
                given.most.handle,
                given.most.handle,
                null(),
                given.attended.handle,
                size,
                executor,
            )
        },
        aclnnFlashAttentionScore,
    )
}

fn backward(query: &Tensor, given: Given<'_>) -> Status {
    let like = || Tensor::empty(F32, &QUERY);
    let (dq, dk, dv) = (like(), like(), like());
    run(
        // SAFETY: as above.
        |size, executor| unsafe {
            aclnnFlashAttentionScoreGradGetWorkspaceSize(
                query.handle,
                given.key.handle,
                given.value.handle,
                query.handle,
                null(),
                handle(given.drop),
                null(),
                handle(given.mask),
                given.most.handle,
                given.most.handle,
                null(),
                given.attended.handle,
                null(),
                1.0,
                given.keep,
                given.window,
                given.window,
                given.heads,
                given.layout.as_ptr().cast_mut(),
                0,
                given.mode,
                dq.handle,
                dk.handle,
                dv.handle,
                null(),
                size,
                executor,
            )
        },
        aclnnFlashAttentionScoreGrad,
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
    let (most, attended) = (
        Tensor::empty(F32, &[1, 1, 4, 8]),
        Tensor::empty(F32, &QUERY),
    );
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

    refused(
        &x,
        Given {
            window: 2,
            ..masked
        },
        "leave some",
    );
    refused(&x, Given { mode: 2, ..masked }, "attenMask has the shape");
    refused(&x, Given { mode: 4, ..masked }, "attenMask has the shape");
    refused(&x, Given { mode: 6, ..masked }, "attenMask has the shape");
    refused(&x, Given { mode: 7, ..masked }, "sparseMode 7");
    let square = Tensor::integers(ACL_BOOL, &[2048, 2048], &vec![0; 2048 * 2048]);
    refused(
        &x,
        Given {
            mask: Some(&square),
            mode: 4,
            window: -1,
            ..plain
        },
        "leave all of 4 × 4 scores out",
    );
    refused(
        &x,
        Given {
            mask: Some(&x),
            ..plain
        },
        "attenMask is f32",
    );
    refused(
        &x,
        Given {
            drop: Some(&mask),
            ..plain
        },
        "dropMask is not emulated",
    );
    refused(&x, Given { keep: 0.9, ..plain }, "keepProb is 0.9");
    refused(
        &x,
        Given {
            layout: c"TND",
            ..plain
        },
        "inputLayout is TND",
    );
    refused(
        &x,
        Given {
            layout: c"BSND",
            ..plain
        },
        "headNum is 1",
    );
    refused(&x, Given { heads: 2, ..plain }, "headNum is 2");

    let (half, wide) = (
        Tensor::empty(F16, &QUERY),
        Tensor::empty(F32, &[1, 1, 4, 9]),
    );
    refused(
        &x,
        Given {
            key: &half,
            ..plain
        },
        "key is f16",
    );
    refused(
        &x,
        Given {
            value: &wide,
            ..plain
        },
        "at most as wide as those of keys",
    );
    refused(
        &x,
        Given {
            key: &wide,
            value: &wide,
            ..plain
        },
        "do not fit",
    );
    refused(
        &x,
        Given {
            most: &wide,
            ..plain
        },
        "softmaxMax has the shape",
    );
    refused(
        &x,
        Given {
            most: &half,
            ..plain
        },
        "softmaxMax is f16",
    );
    refused(
        &x,
        Given {
            attended: &wide,
            ..plain
        },
        "attention",
    );
    // The keys have fewer axes than the layout.
    let (rows, line) = (Tensor::empty(F32, &[1, 4, 8]), Tensor::empty(F32, &[8]));
    let given = Given {
        key: &line,
        value: &line,
        layout: c"BSH",
        ..plain
    };
    refused(&rows, given, "key has 1 axes");
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
    run(
        // SAFETY: handles are checked, the places are variables, the text ends.
        |size, executor| unsafe {
            aclnnFlashAttentionScoreV3GetWorkspaceSize(
                x,
                x,
                x,
                null(),
                null(),
                null(),
                null(),
                handle(given.sinks),
                null(),
                null(),
                null(),
                1.0,
                1.0,
                0,
                0,
                1,
                c"BNSD".as_ptr().cast_mut(),
                0,
                0,
                given.shift,
                given.most.handle,
                given.most.handle,
                null(),
                given.attended.handle,
                size,
                executor,
            )
        },
        aclnnFlashAttentionScoreV3,
    )
}

fn backward_with_sinks(given: WithSinks<'_>) -> Status {
    let like = || Tensor::empty(given.x.dtype, &QUERY);
    let (dq, dk, dv, x) = (like(), like(), like(), given.x.handle);
    run(
        // SAFETY: as above.
        |size, executor| unsafe {
            aclnnFlashAttentionScoreGradV3GetWorkspaceSize(
                x,
                x,
                x,
                x,
                null(),
                null(),
                null(),
                null(),
                given.most.handle,
                given.most.handle,
                null(),
                given.attended.handle,
                handle(given.sinks),
                null(),
                null(),
                null(),
                1.0,
                1.0,
                0,
                0,
                1,
                c"BNSD".as_ptr().cast_mut(),
                0,
                0,
                given.shift,
                dq.handle,
                dk.handle,
                dv.handle,
                null(),
                handle(given.d_sinks),
                size,
                executor,
            )
        },
        aclnnFlashAttentionScoreGradV3,
    )
}

#[test]
fn sinks_need_half_types_and_one_number_a_head() {
    let _session = Session::start();
    let x = Tensor::floats(F16, &QUERY, &noise(32, 1));
    let (most, attended) = (
        Tensor::empty(F32, &[1, 1, 4, 8]),
        Tensor::empty(F16, &QUERY),
    );
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
    let refused = |status: Status, code, text: &str| {
        let (found, message) = status.expect_err(text);
        assert_eq!(found, code, "{message}");
        assert!(message.contains(text), "{message}");
    };
    let invalid = |given, text: &str| {
        refused(forward_with_sinks(given), ACLNN_ERR_PARAM_INVALID, text);
        refused(backward_with_sinks(given), ACLNN_ERR_PARAM_INVALID, text);
    };
    invalid(WithSinks { shift: 0, ..with }, "pseType is 0");
    let few = Tensor::empty(F16, &[1]);
    let given = WithSinks {
        sinks: Some(&few),
        ..with
    };
    invalid(given, "sink is f16");
    let few = Tensor::empty(F32, &[2]);
    let given = WithSinks {
        sinks: Some(&few),
        ..with
    };
    invalid(given, "sink has the shape");
    let given = WithSinks {
        d_sinks: None,
        ..with
    };
    refused(backward_with_sinks(given), ACLNN_ERR_PARAM_NULLPTR, "dsink");
    // The forward direction takes f32 without sinks, the backward direction never does.
    let wide = Tensor::floats(F32, &QUERY, &noise(32, 1));
    let attended = Tensor::empty(F32, &QUERY);
    let given = WithSinks {
        x: &wide,
        attended: &attended,
        ..plain
    };
    forward_with_sinks(given).expect("documented");
    refused(
        backward_with_sinks(given),
        ACLNN_ERR_PARAM_INVALID,
        "query is f32",
    );
    let given = WithSinks {
        sinks: Some(&sinks),
        ..given
    };
    refused(
        forward_with_sinks(given),
        ACLNN_ERR_PARAM_INVALID,
        "with sinks it must be f16 or bf16",
    );
}
