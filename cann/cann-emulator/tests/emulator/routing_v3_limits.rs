//! Tests of the attributes of copies of tokens, version 3.

use crate::common::routing::{Call, PLAIN, experts, route};
use crate::common::*;

#[test]
fn attributes_and_shapes_are_checked_by_tiling() {
    let _session = Session::start();
    let t = |dtype, shape: &[usize]| Tensor::empty(dtype, shape);
    let (x, y, rows) = (t(F32, &[3, 2]), t(F32, &[6, 2]), t(ACL_INT32, &[6]));
    let (counted, scales) = (t(ACL_INT64, &[4]), t(F32, &[6]));
    let experts = experts();
    let plain = |call| {
        route(
            call,
            [&x, &experts],
            [None, None],
            [&y, &rows, &counted, &scales],
        )
    };
    plain(PLAIN).expect("documented");
    let failed = |status: Status, text: &str| {
        failed(status, ACLNN_ERR_INNER_TILING_ERROR, text);
    };
    for wrong in [
        Call {
            active: -2,
            ..PLAIN
        },
        Call { mode: 2, ..PLAIN },
        Call { counts: 3, ..PLAIN },
        Call {
            quantised: 2,
            ..PLAIN
        },
        Call {
            scatters: 2,
            ..PLAIN
        },
    ] {
        failed(plain(wrong), "is out of range");
    }
    for experts in [0, 10241] {
        failed(plain(Call { experts, ..PLAIN }), "expertNum is");
    }
    each! { failed: plain(Call { experts: 5121, counts: 2, ..PLAIN }), "it is 1 to 5120" }
    for range in [[-1, 2], [2, 2], [0, 5]] {
        each! { failed: plain(Call { range: Some(range), ..PLAIN }), "activeExpertRange is" }
    }
    for wrong in [
        Call {
            mode: 1,
            capacity: 4,
            ..PLAIN
        },
        Call {
            mode: 1,
            capacity: 1,
            range: Some([0, 2]),
            ..PLAIN
        },
        Call {
            mode: 1,
            capacity: 1,
            scatters: 1,
            ..PLAIN
        },
        Call {
            mode: 1,
            capacity: 1,
            counts: 0,
            ..PLAIN
        },
    ] {
        failed(plain(wrong), "with dropPadMode 1");
    }
    each! { failed:
        plain(Call { active: 4, ..PLAIN }), "expandedXOut has the shape";
        plain(Call { range: Some([0, 2]), ..PLAIN }), "expertTokensCountOrCumsumOut has the shape";
    }
    each! { refused: plain(Call { quantised: 1, ..PLAIN }), "expandedXOut is f32" }
    let (scale, offset) = (t(F32, &[3]), t(F32, &[1]));
    let given = |call, scale: Option<&Tensor>, offset: Option<&Tensor>| {
        route(
            call,
            [&x, &experts],
            [scale, offset],
            [&y, &rows, &counted, &scales],
        )
    };
    each! { failed:
        given(PLAIN, Some(&offset), None), "scale has the shape";
        given(PLAIN, Some(&scale), Some(&offset)), "only quantMode 0 takes an offset";
    }
    let fixed = Call {
        quantised: 0,
        ..PLAIN
    };
    each! { failed:
        given(fixed, None, Some(&offset)), "quantMode 0 needs scale";
        given(fixed, Some(&offset), None), "quantMode 0 needs offset";
    }
    refused(given(PLAIN, Some(&t(F16, &[3])), None), "scale is f16");
    let whole = bytes(ACL_UINT8, &[1; 6]);
    let (code, _) = route(
        PLAIN,
        [&whole, &experts],
        [None, None],
        [&y, &rows, &counted, &scales],
    )
    .expect_err("one axis");
    assert_eq!(code, ACLNN_ERR_INNER_TILING_ERROR);
    refused(
        route(
            PLAIN,
            [&t(ACL_UINT8, &[3, 2]), &experts],
            [None, None],
            [&y, &rows, &counted, &scales],
        ),
        "x is u8",
    );
    each! { broke:
        plain(Call { experts: 3, range: None, counted: false, ..PLAIN }),
            "not less than 3";
    }
}
