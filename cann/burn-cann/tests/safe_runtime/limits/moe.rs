//! Tests of the limits of routing tokens to experts and of the choice of experts.

use super::*;
use burn_cann::ops::moe::{self, Gating, Groups, Scores};

#[test]
fn permute_s_limits() {
    let check = |tokens: &Spec, indices: &Spec, rows| {
        moe::check_permute(&platform(), tokens, indices, rows)
    };
    let (tokens, indices) = (f32(&[4, 8]), i32(&[4, 2]));
    let (permuted, map) = check(&tokens, &indices, None).unwrap();
    assert_eq!((permuted.shape(), map.shape()), (&[8, 8][..], &[8][..]));
    assert_eq!(check(&tokens, &indices, Some(3)).unwrap().0.shape(), [3, 8]);
    assert_eq!(
        check(&tokens, &indices, Some(99)).unwrap().0.shape(),
        [8, 8]
    );
    assert_eq!(
        check(&tokens, &spec(DType::I64, &[4]), None)
            .unwrap()
            .1
            .shape(),
        [4]
    );
    refused(check(&tokens, &indices, Some(0)), Kind::Value, "rows is 0");
    refused(
        check(&tokens, &f32(&[4, 2]), None),
        Kind::Dtype,
        "indices is of type f32",
    );
    refused(
        check(&spec(DType::F64, &[4, 8]), &indices, None),
        Kind::Dtype,
        "tokens is of type",
    );
    refused(
        check(&f32(&[4]), &indices, None),
        Kind::Shape,
        "tokens has 1 dimensions",
    );
    refused(
        check(&tokens, &i32(&[4, 2, 1]), None),
        Kind::Shape,
        "indices has 3 dimensions",
    );
    refused(
        check(&tokens, &i32(&[5, 2]), None),
        Kind::Shape,
        "4 tokens first",
    );
    check(&tokens, &i32(&[4, 512]), None).unwrap();
    refused(
        check(&tokens, &i32(&[4, 513]), None),
        Kind::Shape,
        "at most 512",
    );
    refused(
        check(&tokens, &i32(&[4, 0]), None),
        Kind::Value,
        "choices is 0",
    );

    let grad = |g: &Spec, map: &Spec, k| moe::check_permute_grad(&platform(), g, map, k);
    let g = f32(&[8, 8]);
    assert_eq!(grad(&g, &i32(&[8]), 2).unwrap().shape(), [4, 8]);
    refused(
        grad(&g, &i32(&[7]), 2),
        Kind::Shape,
        "row_of_slot has shape [7]",
    );
    refused(
        grad(&g, &spec(DType::I64, &[8]), 2),
        Kind::Dtype,
        "row_of_slot is of type i64",
    );
    refused(grad(&g, &i32(&[8]), 3), Kind::Shape, "a multiple of 3 rows");
    refused(grad(&g, &i32(&[8]), 513), Kind::Shape, "at most 512");
    refused(
        grad(&turned(g.clone(), 0, 1), &i32(&[8]), 2),
        Kind::Layout,
        "dpermuted",
    );
}

#[test]
fn unpermute_s_limits() {
    let check = |permuted: &Spec, map: &Spec, probs: Option<&Spec>| {
        moe::check_unpermute(&platform(), permuted, map, probs)
    };
    let (permuted, map, probs) = (f32(&[8, 5]), i32(&[8]), f32(&[4, 2]));
    assert_eq!(
        check(&permuted, &map, Some(&probs)).unwrap().shape(),
        [4, 5]
    );
    assert_eq!(check(&permuted, &map, None).unwrap().shape(), [8, 5]);
    let f16 = spec(DType::F16, &[4, 2]);
    refused(
        check(&permuted, &map, Some(&f16)),
        Kind::Dtype,
        "probs is of type f16",
    );
    refused(
        check(&permuted, &map, Some(&f32(&[8]))),
        Kind::Shape,
        "probs has 1 dimensions",
    );
    refused(
        check(&permuted, &map, Some(&f32(&[3, 2]))),
        Kind::Shape,
        "probs has shape [3, 2]",
    );
    refused(
        check(&permuted, &map, Some(&f32(&[1, 513]))),
        Kind::Shape,
        "at most 512",
    );
    refused(
        check(&permuted, &i32(&[9]), None),
        Kind::Shape,
        "row_of_slot has shape [9]",
    );
}

#[test]
fn limits_of_gating_by_scores() {
    let check = |x: &Spec, bias: Option<&Spec>, gating: Gating| {
        moe::check_gating_top_k(&platform(), x, bias, gating)
    };
    let of = |k: usize, [count, chosen]: [usize; 2], by_two: bool| Gating {
        k,
        scores: Scores::SigmoidShares,
        groups: Some(Groups {
            count,
            chosen,
            by_two,
        }),
    };
    let x = f32(&[3, 8]);
    let plain = Gating {
        groups: None,
        ..of(2, [1, 1], false)
    };
    assert_eq!(check(&x, None, plain).unwrap().shape(), [3, 2]);
    check(&x, Some(&f32(&[8])), of(4, [4, 2], true)).unwrap();
    for (gating, kind, says) in [
        (of(5, [4, 2], true), Kind::Shape, "k is 5"),
        (of(0, [4, 2], true), Kind::Value, "k is 0"),
        (of(2, [3, 2], true), Kind::Value, "number of groups is 3"),
        (of(2, [0, 0], true), Kind::Value, "number of groups is 0"),
        (of(2, [4, 5], true), Kind::Value, "chosen groups is 5"),
        (of(2, [4, 0], true), Kind::Value, "chosen groups is 0"),
        (of(2, [8, 4], true), Kind::Value, "size of a group is 1"),
    ] {
        refused(check(&x, None, gating), kind, says);
    }
    check(&x, None, of(2, [8, 4], false)).unwrap();
    refused(
        check(&f32(&[3, 256]), None, of(2, [128, 4], true)),
        Kind::Shape,
        "aligned groups is 4096",
    );
    refused(
        check(&f32(&[3, 2049]), None, plain),
        Kind::Shape,
        "experts is 2049",
    );
    for (x, bias, kind, says) in [
        (f32(&[3, 8]), f32(&[7]), Kind::Shape, "bias has shape [7]"),
        (
            spec(DType::BF16, &[3, 8]),
            f32(&[8]),
            Kind::Dtype,
            "bias is of type f32",
        ),
        (
            f32(&[2, 3, 8]),
            f32(&[8]),
            Kind::Shape,
            "x has 3 dimensions",
        ),
        (i32(&[3, 8]), f32(&[8]), Kind::Dtype, "x is of type i32"),
        (f32(&[0, 8]), f32(&[8]), Kind::Shape, "x has no elements"),
        (
            turned(f32(&[8, 8]), 0, 1),
            f32(&[8]),
            Kind::Layout,
            "x is not contiguous",
        ),
    ] {
        refused(check(&x, Some(&bias), plain), kind, says);
    }
}

#[test]
fn gating_s_limits() {
    let check =
        |x: &Spec, finished: Option<&Spec>, k| moe::check_gating(&platform(), x, finished, k);
    let x = f32(&[2, 3, 8]);
    assert_eq!(check(&x, None, 2).unwrap().shape(), [2, 3, 2]);
    let finished = spec(DType::Bool, &[2, 3]);
    check(&x, Some(&finished), 8).unwrap();
    refused(
        check(&x, Some(&i32(&[2, 3])), 2),
        Kind::Dtype,
        "finished is of type i32",
    );
    refused(
        check(&x, Some(&spec(DType::Bool, &[3])), 2),
        Kind::Shape,
        "finished has shape [3]",
    );
    refused(check(&x, None, 0), Kind::Value, "k is 0");
    refused(check(&x, None, 9), Kind::Shape, "k is 9");
    check(&f32(&[2, 2000]), None, 1024).unwrap();
    refused(
        check(&f32(&[2, 2000]), None, 1025),
        Kind::Shape,
        "at most 1024",
    );
    refused(
        check(&f32(&[8]), None, 2),
        Kind::Shape,
        "x has 1 dimensions",
    );
    refused(
        check(&spec(DType::I32, &[2, 8]), None, 2),
        Kind::Dtype,
        "x is of type i32",
    );
    refused(
        check(&turned(f32(&[8, 2]), 0, 1), None, 2),
        Kind::Layout,
        "x is not contiguous",
    );
}
