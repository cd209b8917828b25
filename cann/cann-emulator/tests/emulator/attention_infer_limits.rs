//! Tests of what attention of an inference call refuses, in both versions, with the same words.

use crate::common::infer::{Given, fourth, given, square, third};
use crate::common::*;

#[test]
fn each_version_refuses_what_is_not_documented() {
    let _session = Session::start();
    let tensor = |dtype, shape: &[usize]| Tensor::empty(dtype, shape);
    let x = |shape: &[usize]| tensor(F16, shape);
    let keys = |tensor| List::new(vec![tensor]);
    let query = x(&[2, 4, 3, 16]);
    let key = keys(x(&[2, 2, 9, 16]));
    let output = x(&[2, 4, 3, 16]);
    let plain = given(&query, [&key, &key], &output);
    let (one, one_out) = (x(&[2, 4, 1, 16]), x(&[2, 4, 1, 16]));
    let single = given(&one, [&key, &key], &one_out);
    let check = |given: Given<'_>, code: i32, text: &str| {
        let both = [
            (third(given), "aclnnFusedInferAttentionScoreV3"),
            (fourth(given), "aclnnFusedInferAttentionScoreV4"),
        ];
        for (status, operator) in both {
            let (found, message) = status.expect_err(text);
            assert_eq!(found, code, "{message}");
            assert!(
                message.contains(operator) && message.contains(text),
                "{message}"
            );
        }
    };
    let invalid = |given: Given<'_>, text: &str| check(given, ACLNN_ERR_PARAM_INVALID, text);
    let null_pointer = |given: Given<'_>, text: &str| check(given, ACLNN_ERR_PARAM_NULLPTR, text);
    for taken in [plain, single] {
        third(taken).expect("documented");
        fourth(taken).expect("documented");
    }
    let many = List::new(vec![x(&[1, 2, 9, 16]), x(&[1, 2, 9, 16])]);
    each! { invalid: Given { key: Some(&many), ..plain }, "key has 2 tensors" }
    each! { null_pointer:
        Given { query: None, ..plain }, "query";
        Given { key: None, ..plain }, "key";
        Given { value: None, ..plain }, "value";
        Given { output: None, ..plain }, "attentionOut";
        Given { layout: None, ..plain }, "inputLayout";
    }
    for layout in [c"BSH", c"TND", c"BNSD_BSND", c"bnsd"] {
        let layout = Some(layout);
        invalid(Given { layout, ..plain }, "inputLayout is");
    }
    let wide = tensor(F32, &[2, 4, 3, 16]);
    each! { invalid: Given { query: Some(&wide), ..plain }, "query is f32" }
    let other = keys(tensor(BF16, &[2, 2, 9, 16]));
    each! { invalid:
        Given { key: Some(&other), ..plain }, "key is bf16";
        Given { value: Some(&other), ..plain }, "value is bf16";
        Given { heads: 2, ..plain }, "numHeads is 2";
        Given { groups: 4, ..plain }, "numKeyValueHeads is 4";
        Given { groups: 0, ..plain }, "numKeyValueHeads is 0";
    }
    let shapes = |q: &[usize], k: &[usize], v: &[usize], layout, text| {
        let heads = if layout == c"BNSD" { q[1] } else { q[2] };
        let (q, k, v) = (x(q), keys(x(k)), keys(x(v)));
        let call = Given {
            heads: heads as i64,
            groups: 0,
            layout: Some(layout),
            ..given(&q, [&k, &v], &output)
        };
        invalid(call, text);
    };
    let like = |shape: &[usize], text| shapes(shape, shape, shape, c"BNSD", text);
    like(&[65_537, 1, 1, 1], "the batch is 65537");
    like(&[1, 257, 1, 16], "the number of heads is 257");
    like(&[1, 1, 20_971_521, 1], "the number of tokens is 20971521");
    like(&[1, 1, 1, 528], "the width of a head is 528");
    like(&[1, 1, 2, 8], "a multiple of 16");
    each! { shapes:
        &[1, 1, 128, 512], &[1, 1, 128, 512], &[1, 1, 128, 512], c"BSND", "with BSND";
        &[1, 1, 2, 16], &[2, 1, 2, 16], &[2, 1, 2, 16], c"BNSD", "do not fit";
        &[1, 1, 2, 16], &[1, 1, 2, 32], &[1, 1, 2, 32], c"BNSD", "do not fit";
        &[1, 1, 2, 32], &[1, 1, 2, 32], &[1, 1, 2, 16], c"BNSD", "equally wide";
        &[1, 1, 2, 16], &[1, 1, 2, 16], &[1, 1, 3, 16], c"BNSD", "do not fit";
        &[1, 1, 2, 16], &[1, 1, 0, 16], &[1, 1, 0, 16], c"BNSD", "without elements";
    }
    let turned = |shape: &[usize], strides: &[i64]| {
        Tensor::strided(F16, shape, Some(strides), 0, shape.iter().product())
    };
    let strided = turned(&[2, 4, 3, 16], &[192, 16, 64, 1]);
    each! { invalid:
        Given { query: Some(&strided), ..plain }, "query must be contiguous";
        Given { output: Some(&strided), ..plain }, "attentionOut must be contiguous";
    }
    let strided = keys(turned(&[2, 2, 9, 16], &[288, 16, 32, 1]));
    each! { invalid:
        Given { key: Some(&strided), ..plain }, "key must be contiguous";
        Given { value: Some(&strided), ..plain }, "value must be contiguous";
        Given { output: Some(&one_out), ..plain }, "attentionOut has the shape";
        Given { lse: Some(&wide), ..plain }, "softmaxLse has the shape";
        Given { pages: Some(&query), ..plain }, "blockTable is not emulated";
        Given { block: 128, ..plain }, "blockSize is 128";
    }
    for precision in [1, 3, 4, -1] {
        invalid(Given { precision, ..plain }, "innerPrecise is");
    }
    each! { invalid: Given { precision: 2, ..single }, "innerPrecise is 2" }
    for lengths in [&[9, 9][..], &[9, 9, 9]] {
        third(Given {
            lengths: Some(lengths),
            ..plain
        })
        .expect("documented");
    }
    for lengths in [&[10][..], &[9, 10], &[-1], &[]] {
        let lengths = Some(lengths);
        invalid(Given { lengths, ..plain }, "actualSeqLengthsKv");
    }
    let q_lengths = Some(&[4][..]);
    invalid(Given { q_lengths, ..plain }, "actualSeqLengths is");
    third(Given {
        q_lengths,
        ..single
    })
    .expect("ignored");
    for mode in [-1, 5, 6, 9] {
        invalid(Given { mode, ..plain }, "sparseMode");
    }
    for mode in [1, 2, 3, 4] {
        invalid(Given { mode, ..plain }, "attenMask is NULL");
    }
    let mask =
        |dtype, shape: &[usize]| Tensor::integers(dtype, shape, &vec![0; shape.iter().product()]);
    let full = mask(ACL_BOOL, &[3, 9]);
    each! { invalid:
        Given { mask: Some(&full), mode: 3, ..plain }, "attenMask has the shape";
        Given { mask: Some(&full), ..single }, "attenMask has the shape";
        Given { mask: Some(&wide), ..plain }, "attenMask is f32";
        Given { mask: Some(&full), band: [2, 2], ..plain }, "leave some of";
    }
    let large = square(&[2048, 2048]);
    each! { invalid:
        Given { mask: Some(&large), mode: 4, band: [-1, 0], ..plain }, "leave all of";
        Given { mask: Some(&large), mode: 0, ..plain }, "attenMask has the shape";
    }
    let behind = mask(ACL_INT64, &[1]);
    let lengths = Some(&[4][..]);
    let padded = Given {
        lengths,
        padding: Some(&behind),
        ..single
    };
    third(padded).expect("documented");
    each! { invalid:
        Given { lengths: None, ..padded }, "kvPaddingSize has an effect only";
        Given { lengths, padding: Some(&behind), ..plain }, "with 3 queries";
    }
    let few = mask(ACL_INT32, &[1]);
    each! { invalid: Given { padding: Some(&few), ..padded }, "kvPaddingSize is i32" }
    let few = mask(ACL_INT64, &[2]);
    each! { invalid: Given { padding: Some(&few), ..padded }, "kvPaddingSize has the shape" }
}

#[test]
fn sinks_have_limits_of_their_own() {
    let _session = Session::start();
    let x = |dtype, width| {
        [
            Tensor::empty(dtype, &[1, 4, 1, width]),
            Tensor::empty(dtype, &[1, 2, 9, width]),
            Tensor::empty(dtype, &[1, 4, 1, width]),
        ]
    };
    let keys = |tensor| List::new(vec![tensor]);
    let sinks = Tensor::floats(BF16, &[4], &[0.0; 4]);
    let [query, key, output] = x(BF16, 64);
    let key = keys(key);
    let plain = Given {
        sinks: Some(&sinks),
        ..given(&query, [&key, &key], &output)
    };
    fourth(plain).expect("documented");
    let invalid = |given: Given<'_>, text: &str| {
        refused(fourth(given), text);
    };
    let [q, k, y] = x(F16, 64);
    let k = keys(k);
    each! { invalid: Given { sinks: Some(&sinks), ..given(&q, [&k, &k], &y) }, "query is not bf16" }
    let [q, k, y] = x(BF16, 32);
    let k = keys(k);
    each! { invalid:
        Given { sinks: Some(&sinks), ..given(&q, [&k, &k], &y) },
            "values are 32 wide";
    }
    let half = Tensor::floats(F16, &[4], &[0.0; 4]);
    each! { invalid: Given { sinks: Some(&half), ..plain }, "learnableSink is f16" }
    let few = Tensor::floats(BF16, &[2], &[0.0; 2]);
    each! { invalid: Given { sinks: Some(&few), ..plain }, "learnableSink has the shape" }
    let lse = Tensor::empty(F32, &[1, 4, 1, 1]);
    each! { invalid: Given { lse: Some(&lse), ..plain }, "softmaxLse with learnableSink" }
    let behind = Tensor::integers(ACL_INT64, &[1], &[0]);
    each! { invalid:
        Given { padding: Some(&behind), lengths: Some(&[4]), ..plain },
            "do not go together";
    }
}
