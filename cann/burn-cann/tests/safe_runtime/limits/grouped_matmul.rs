//! Tests of the limits of grouped products.

use super::*;
use burn_cann::ops::grouped_matmul::{self, check_each};

#[test]
fn grouped_products_limits() {
    let list = spec(DType::I64, &[4]);
    let check = |x: &Spec, weight: &Spec, bias: Option<&Spec>| {
        grouped_matmul::check(&platform(), x, weight, &list, bias)
    };
    let (x, weight) = (f32(&[9, 6]), f32(&[4, 6, 5]));
    assert_eq!(check(&x, &weight, None).unwrap().shape(), [9, 5]);
    check(&x, &turned(f32(&[4, 5, 6]), 1, 2), Some(&f32(&[4, 5]))).unwrap();
    refused(
        check(&f32(&[9, 7]), &weight, None),
        Kind::Shape,
        "6 columns",
    );
    refused(
        check(&f32(&[9]), &weight, None),
        Kind::Shape,
        "x has 1 dimensions",
    );
    refused(
        check(&x, &f32(&[6, 5]), None),
        Kind::Shape,
        "weight has 2 dimensions",
    );
    refused(
        check(&x, &turned(f32(&[6, 4, 5]), 0, 1), None),
        Kind::Layout,
        "weight is not",
    );
    refused(
        check(&turned(f32(&[6, 9]), 0, 1), &weight, None),
        Kind::Layout,
        "x is not contiguous",
    );
    refused(
        check(&x, &spec(DType::F16, &[4, 6, 5]), None),
        Kind::Dtype,
        "weight is of type f16",
    );
    refused(
        check(&x, &weight, Some(&f32(&[5]))),
        Kind::Shape,
        "bias has shape [5]",
    );
    let bf16 = (spec(DType::BF16, &[9, 6]), spec(DType::BF16, &[4, 6, 5]));
    let bias = spec(DType::BF16, &[4, 5]);
    refused(
        check(&bf16.0, &bf16.1, Some(&bias)),
        Kind::Dtype,
        "bias is of type bf16",
    );
    check(&bf16.0, &bf16.1, Some(&f32(&[4, 5]))).unwrap();
    let wide = f32(&[1, 6, 65_536]);
    refused(check(&x, &wide, None), Kind::Shape, "at most 65535");
    let deep = f32(&[9, 65_536]);
    refused(check(&deep, &weight, None), Kind::Shape, "at most 65535");

    let groups = |count: usize, list: &Spec| {
        grouped_matmul::check(&platform(), &x, &f32(&[count, 6, 5]), list, None)
    };
    groups(1024, &spec(DType::I64, &[1024])).unwrap();
    refused(
        groups(1025, &spec(DType::I64, &[1025])),
        Kind::Shape,
        "at most 1024",
    );
    refused(groups(4, &i32(&[4])), Kind::Dtype, "groups is of type i32");
    refused(
        groups(4, &spec(DType::I64, &[3])),
        Kind::Shape,
        "groups has shape [3]",
    );
    refused(
        groups(0, &spec(DType::I64, &[0])),
        Kind::Shape,
        "weight has no elements",
    );

    let grad =
        |x: &Spec, dy: &Spec, list: &Spec| grouped_matmul::check_grad(&platform(), x, dy, list);
    assert_eq!(grad(&x, &f32(&[9, 5]), &list).unwrap().shape(), [4, 6, 5]);
    refused(grad(&x, &f32(&[8, 5]), &list), Kind::Shape, "9 rows");
    refused(
        grad(&f32(&[0, 6]), &f32(&[0, 5]), &list),
        Kind::Shape,
        "x has no elements",
    );
    refused(
        grad(&x, &f32(&[9, 5]), &spec(DType::I64, &[0])),
        Kind::Shape,
        "groups has no elements",
    );
    refused(
        grad(&x, &f32(&[9, 5]), &spec(DType::I64, &[1025])),
        Kind::Shape,
        "at most 1024",
    );
}

#[test]
fn products_of_lists_limits() {
    let (x, weight, bias) = (f32(&[2, 3]), f32(&[3, 4]), f32(&[4]));
    let check = |xs: &[&Spec], weights: &[&Spec], bias: &[&Spec]| {
        check_each(&platform(), xs, weights, bias)
    };
    assert_eq!(
        check(&[&x, &x], &[&weight, &weight], &[&bias, &bias])
            .unwrap()
            .len(),
        2
    );
    // Several calls of CANN's lists of 128.
    check(&vec![&x; 129], &vec![&weight; 129], &[]).unwrap();
    refused(check(&[], &[], &[]), Kind::Shape, "no elements");
    refused(
        check(&[&x], &[&weight, &weight], &[]),
        Kind::Value,
        "one for each x",
    );
    refused(
        check(&[&x, &x], &[&weight, &weight], &[&bias]),
        Kind::Value,
        "one for each x, or none",
    );
    let exchanged = turned(f32(&[4, 3]), 0, 1);
    check(&[&x, &x], &[&exchanged, &exchanged], &[]).unwrap();
    refused(
        check(&[&x, &x], &[&weight, &exchanged], &[]),
        Kind::Layout,
        "one weight of several",
    );
    let f16 = (spec(DType::F16, &[2, 3]), spec(DType::F16, &[3, 4]));
    refused(
        check(&[&x, &f16.0], &[&weight, &f16.1], &[]),
        Kind::Dtype,
        "x is of type f16",
    );
}

#[test]
fn limits_of_products_with_a_list_of_weights() {
    let of = |x: &Spec, weights: &[&Spec], list: &Spec| {
        grouped_matmul::check_list(&platform(), x, weights, list, &[])
    };
    let i64 = |count: usize| spec(DType::I64, &[count]);
    let (x, weight) = (f32(&[4, 6]), f32(&[6, 5]));
    let y = of(&x, &[&weight, &weight], &i64(2)).unwrap();
    assert_eq!(y.shape(), [4, 5]);
    refused(of(&x, &[], &i64(0)), Kind::Shape, "weight has no elements");
    // Several calls of CANN's lists of 128.
    of(&x, &vec![&weight; 1024], &i64(1024)).unwrap();
    let many = vec![&weight; 1025];
    refused(of(&x, &many, &i64(1025)), Kind::Shape, "at most 1024");
    refused(
        of(&x, &[&weight, &weight], &i64(3)),
        Kind::Shape,
        "groups has shape",
    );
    refused(
        of(&x, &[&weight], &i32(&[1])),
        Kind::Dtype,
        "groups is of type i32",
    );
    let biased = |bias: &[&Spec]| {
        let weights = [&weight, &weight];
        grouped_matmul::check_list(&platform(), &x, &weights, &i64(2), bias)
    };
    let bias = f32(&[5]);
    assert!(biased(&[&bias, &bias]).is_ok());
    refused(biased(&[&bias]), Kind::Value, "number of biases");
    refused(biased(&[&bias, &f32(&[4])]), Kind::Shape, "bias has shape");
    let wide = spec(DType::F64, &[5]);
    refused(biased(&[&bias, &wide]), Kind::Dtype, "bias is of type");
    let other = f32(&[6, 4]);
    refused(
        of(&x, &[&weight, &other], &i64(2)),
        Kind::Shape,
        "weight has shape [6, 4]",
    );
    refused(
        of(&f32(&[4, 7]), &[&weight], &i64(1)),
        Kind::Shape,
        "6 columns",
    );
    let half = spec(DType::F16, &[6, 5]);
    refused(
        of(&x, &[&half], &i64(1)),
        Kind::Dtype,
        "weight is of type f16",
    );
    let turned = turned(f32(&[5, 6]), 0, 1);
    assert!(of(&x, &[&turned, &turned], &i64(2)).is_ok());
    refused(
        of(&x, &[&weight, &turned], &i64(2)),
        Kind::Layout,
        "one weight of several",
    );
    let strided = Spec {
        dtype: DType::F32,
        layout: f32(&[6, 7]).layout.slice(1, 0..5).unwrap(),
    };
    refused(
        of(&x, &[&strided], &i64(1)),
        Kind::Layout,
        "weight is not contiguous",
    );
}
