//! Every documented limit is refused with its reason. No device, no toolkit.

use burn_cann::ops::grouped_matmul::{self, check_each};
use burn_cann::ops::rotary::{Axes, Style};
use burn_cann::ops::{Kind, Refusal, moe, rms_norm, rotary, swi_glu};
use burn_cann::{DType, Platform, Soc, Spec, Version};

fn platform() -> Platform {
    Platform {
        soc: Soc::from_name("Ascend910B1"),
        version: Version::new("8.5.0"),
        vector_cores: Some(48),
    }
}

fn nine() -> Platform {
    Platform {
        version: Version::new("9.0.0"),
        ..platform()
    }
}

fn spec(dtype: DType, shape: &[usize]) -> Spec {
    Spec::contiguous(dtype, shape).unwrap()
}

fn f32(shape: &[usize]) -> Spec {
    spec(DType::F32, shape)
}

fn i32(shape: &[usize]) -> Spec {
    spec(DType::I32, shape)
}

fn turned(spec: Spec, one: usize, other: usize) -> Spec {
    let layout = spec.layout.transpose(one, other).unwrap();
    Spec {
        dtype: spec.dtype,
        layout,
    }
}

/// The reason, which must be of this kind and say this.
#[track_caller]
fn refused<T: std::fmt::Debug>(checked: Result<T, Refusal>, kind: Kind, text: &str) {
    let refusal = checked.expect_err("a limit is crossed");
    assert_eq!(refusal.kind(), kind, "{refusal}");
    assert!(refusal.to_string().contains(text), "{refusal}");
}

#[test]
fn other_processors() {
    for name in ["Ascend310P3", "Ascend910A", "Ascend950PR", "Unheard"] {
        let other = Platform {
            soc: Soc::from_name(name),
            ..platform()
        };
        let x = f32(&[2, 4]);
        refused(
            rms_norm::check(&other, &x, &f32(&[4]), 1e-6),
            Kind::Platform,
            name,
        );
        refused(
            rms_norm::check_add(&other, &x, &x, &f32(&[4]), 1e-6),
            Kind::Platform,
            name,
        );
        refused(
            rms_norm::check_gemma(&other, &x, &f32(&[4]), 1e-6),
            Kind::Platform,
            name,
        );
        let rstd = f32(&[2, 1]);
        refused(
            rms_norm::check_grad(&other, &x, &x, &rstd, &f32(&[4])),
            Kind::Platform,
            name,
        );
        refused(swi_glu::check(&other, &x, 1), Kind::Platform, name);
        refused(
            swi_glu::check_grad(&other, &f32(&[2, 2]), &x, 1),
            Kind::Platform,
            name,
        );
        refused(
            moe::check_permute(&other, &x, &i32(&[2]), None),
            Kind::Platform,
            name,
        );
        refused(moe::check_gating(&other, &x, None, 1), Kind::Platform, name);
        let (weight, list) = (f32(&[1, 4, 3]), spec(DType::I64, &[1]));
        refused(
            grouped_matmul::check(&other, &x, &weight, &list, None),
            Kind::Platform,
            name,
        );
    }
}

#[test]
fn gemma_rms_norm_s_limits() {
    let check = |x: &Spec, gamma: &Spec| rms_norm::check_gemma(&platform(), x, gamma, 1e-6);
    let outputs = check(&f32(&[2, 3, 4]), &f32(&[3, 4])).unwrap();
    assert_eq!(
        (outputs.y.shape(), outputs.rstd.shape()),
        (&[2, 3, 4][..], &[2, 1, 1][..])
    );
    let half = spec(DType::F16, &[2, 4]);
    assert_eq!(
        check(&half, &spec(DType::F16, &[4])).unwrap().rstd.dtype,
        DType::F32
    );
    refused(check(&half, &f32(&[4])), Kind::Dtype, "gamma is of type");
    refused(
        check(&f32(&[1; 9]), &f32(&[1])),
        Kind::Shape,
        "x has 9 dimensions",
    );
    refused(
        check(&f32(&[2, 4]), &f32(&[3])),
        Kind::Shape,
        "gamma has shape [3]",
    );
    refused(
        check(&f32(&[2, 0]), &f32(&[0])),
        Kind::Shape,
        "gamma has no elements",
    );
    for epsilon in [-1e-6, f64::NAN] {
        let checked = rms_norm::check_gemma(&platform(), &f32(&[2, 4]), &f32(&[4]), epsilon);
        refused(checked, Kind::Value, "epsilon");
    }
}

#[test]
fn rms_norm_s_limits() {
    let check = |x: &Spec, gamma: &Spec| rms_norm::check(&platform(), x, gamma, 1e-6);
    let outputs = check(&f32(&[2, 3, 4]), &f32(&[3, 4])).unwrap();
    assert_eq!(
        (outputs.y.shape(), outputs.rstd.shape()),
        (&[2, 3, 4][..], &[2, 1, 1][..])
    );
    assert_eq!(
        check(&spec(DType::F16, &[2, 4]), &f32(&[4]))
            .unwrap()
            .rstd
            .dtype,
        DType::F32
    );

    refused(check(&f32(&[]), &f32(&[])), Kind::Shape, "1 to 8");
    refused(
        check(&f32(&[1; 9]), &f32(&[1])),
        Kind::Shape,
        "x has 9 dimensions",
    );
    refused(
        check(&f32(&[2, 4]), &f32(&[3])),
        Kind::Shape,
        "gamma has shape [3]",
    );
    refused(
        check(&f32(&[4]), &f32(&[1, 4])),
        Kind::Shape,
        "gamma has 2 dimensions",
    );
    refused(
        check(&f32(&[2, 0]), &f32(&[0])),
        Kind::Shape,
        "gamma has no elements",
    );
    for dtype in [DType::F64, DType::I32, DType::Bool] {
        refused(
            check(&spec(dtype, &[2, 4]), &f32(&[4])),
            Kind::Dtype,
            "x is of type",
        );
    }
    let (f16, bf16) = (spec(DType::F16, &[4]), spec(DType::BF16, &[4]));
    refused(
        check(&f32(&[2, 4]), &f16),
        Kind::Dtype,
        "gamma is of type f16",
    );
    refused(
        check(&spec(DType::F16, &[2, 4]), &bf16),
        Kind::Dtype,
        "gamma is of type bf16",
    );
    for epsilon in [-1e-6, f64::NAN, f64::INFINITY] {
        let checked = rms_norm::check(&platform(), &f32(&[2, 4]), &f32(&[4]), epsilon);
        refused(checked, Kind::Value, "epsilon");
    }
}

#[test]
fn add_rms_norm_s_limits() {
    let check =
        |x1: &Spec, x2: &Spec, gamma: &Spec| rms_norm::check_add(&platform(), x1, x2, gamma, 1e-6);
    let (x, gamma) = (f32(&[4, 4]), f32(&[4]));
    check(&x, &x, &gamma).unwrap();
    refused(
        check(&x, &f32(&[2, 4]), &gamma),
        Kind::Shape,
        "x2 has shape [2, 4]",
    );
    let f16 = spec(DType::F16, &[4, 4]);
    refused(check(&x, &f16, &gamma), Kind::Dtype, "x2 is of type f16");
    refused(
        check(&f16, &f16, &gamma),
        Kind::Dtype,
        "gamma is of type f32",
    );
    refused(
        check(&turned(x.clone(), 0, 1), &x, &gamma),
        Kind::Layout,
        "x1 is not contiguous",
    );
    refused(
        check(&x, &turned(x.clone(), 0, 1), &gamma),
        Kind::Layout,
        "x2 is not contiguous",
    );
}

#[test]
fn rms_norm_grad_s_limits() {
    let check = |dy: &Spec, x: &Spec, rstd: &Spec, gamma: &Spec| {
        rms_norm::check_grad(&platform(), dy, x, rstd, gamma)
    };
    let (x, rstd, gamma) = (f32(&[2, 4]), f32(&[2, 1]), f32(&[4]));
    let (dx, dgamma) = check(&x, &x, &rstd, &gamma).unwrap();
    assert_eq!((dx.shape(), dgamma.shape()), (&[2, 4][..], &[4][..]));
    let flat = f32(&[4]);
    refused(
        check(&flat, &flat, &f32(&[1]), &flat),
        Kind::Shape,
        "2 to 8",
    );
    refused(
        check(&f32(&[4, 4]), &x, &rstd, &gamma),
        Kind::Shape,
        "dy has shape",
    );
    refused(
        check(&spec(DType::F16, &[2, 4]), &x, &rstd, &gamma),
        Kind::Dtype,
        "dy is of type",
    );
    refused(
        check(&x, &x, &f32(&[2]), &gamma),
        Kind::Shape,
        "rstd has shape [2]",
    );
    refused(
        check(&x, &x, &spec(DType::F16, &[2, 1]), &gamma),
        Kind::Dtype,
        "rstd is of type",
    );
    let none = f32(&[0, 4]);
    refused(
        check(&none, &none, &f32(&[0, 1]), &gamma),
        Kind::Shape,
        "x has no elements",
    );
}

#[test]
fn swi_glu_s_limits() {
    let check = |x: &Spec, dim| swi_glu::check(&platform(), x, dim);
    assert_eq!(check(&f32(&[2, 6]), 1).unwrap().shape(), [2, 3]);
    assert_eq!(check(&f32(&[0, 6]), 1).unwrap().shape(), [0, 3]);
    refused(
        check(&f32(&[2, 5]), 1),
        Kind::Shape,
        "an even size of dimension 1",
    );
    refused(check(&f32(&[2, 6]), 2), Kind::Value, "dim is 2");
    refused(check(&f32(&[]), 0), Kind::Shape, "1 to 8");
    refused(check(&f32(&[2; 9]), 0), Kind::Shape, "1 to 8");
    refused(
        check(&spec(DType::F64, &[2, 6]), 1),
        Kind::Dtype,
        "x is of type f64",
    );
    refused(
        check(&turned(f32(&[6, 2]), 0, 1), 1),
        Kind::Layout,
        "x is not contiguous",
    );

    let grad = |dy: &Spec, x: &Spec| swi_glu::check_grad(&platform(), dy, x, 1);
    let x = f32(&[4, 8]);
    grad(&f32(&[4, 4]), &turned(f32(&[8, 4]), 0, 1)).unwrap();
    refused(grad(&f32(&[4, 8]), &x), Kind::Shape, "dy has shape [4, 8]");
    refused(
        grad(&spec(DType::F16, &[4, 4]), &x),
        Kind::Dtype,
        "dy is of type f16",
    );
    refused(
        grad(&turned(f32(&[4, 4]), 0, 1), &x),
        Kind::Layout,
        "dy is not contiguous",
    );
    refused(
        grad(&f32(&[0, 4]), &f32(&[0, 8])),
        Kind::Shape,
        "no elements",
    );
}

fn rope(
    platform: &Platform,
    x: &[usize],
    cos: &[usize],
    style: Style,
    axes: Axes,
) -> Result<Spec, Refusal> {
    rotary::check(platform, &f32(x), &f32(cos), &f32(cos), style, axes)
}

#[test]
fn rotary_s_limits() {
    use Axes::{
        BatchHeadsSequence as Bnsd, BatchSequenceHeads as Bsnd, SequenceBatchHeads as Sbnd,
    };
    use Style::{Half, Interleaved};
    let p = platform();
    for (axes, x, shared, by_batch) in [
        (Bnsd, [2, 3, 5, 8], [1, 1, 5, 8], [2, 1, 5, 8]),
        (Bsnd, [2, 5, 3, 8], [1, 5, 1, 8], [2, 5, 1, 8]),
        (Sbnd, [5, 2, 3, 8], [5, 1, 1, 8], [5, 2, 1, 8]),
    ] {
        rope(&p, &x, &shared, Half, axes).unwrap();
        rope(&p, &x, &by_batch, Half, axes).unwrap();
        rope(&p, &x, &x, Half, axes).unwrap();
        rope(&p, &x, &shared, Interleaved, axes).unwrap();
        refused(
            rope(&p, &x, &by_batch, Interleaved, axes),
            Kind::Shape,
            "cos has shape",
        );
        refused(
            rope(&p, &x, &x, Interleaved, axes),
            Kind::Shape,
            "cos has shape",
        );
        refused(
            rope(&p, &x, &[1, 1, 1, 8], Half, axes),
            Kind::Shape,
            "cos has shape",
        );
    }
    let table = |width| [1, 1, 5, width];
    refused(
        rope(&p, &[2, 3, 5, 7], &table(7), Half, Bnsd),
        Kind::Shape,
        "an even last dimension",
    );
    rope(&p, &[2, 3, 5, 894], &table(894), Half, Bnsd).unwrap();
    refused(
        rope(&p, &[2, 3, 5, 896], &table(896), Half, Bnsd),
        Kind::Shape,
        "at most 895",
    );
    rope(&p, &[999, 999, 5, 8], &table(8), Half, Bnsd).unwrap();
    refused(
        rope(&p, &[1000, 1, 5, 8], &table(8), Half, Bnsd),
        Kind::Shape,
        "the batch is 1000",
    );
    refused(
        rope(&p, &[1, 1000, 5, 8], &table(8), Half, Bnsd),
        Kind::Shape,
        "heads is 1000",
    );
    rope(&p, &[27, 37, 5, 8], &table(8), Interleaved, Bnsd).unwrap();
    let many = rope(&p, &[40, 25, 5, 8], &table(8), Interleaved, Bnsd);
    refused(many, Kind::Shape, "batch times heads is 1000");
    refused(
        rope(&p, &[2, 5, 8], &[1, 5, 8], Half, Bnsd),
        Kind::Shape,
        "x has 3 dimensions",
    );

    let x = f32(&[2, 3, 5, 8]);
    let (cos, f16) = (f32(&table(8)), spec(DType::F16, &table(8)));
    let check = |cos: &Spec, sin: &Spec| rotary::check(&p, &x, cos, sin, Half, Bnsd);
    refused(check(&f16, &cos), Kind::Dtype, "cos is of type f16");
    refused(check(&cos, &f16), Kind::Dtype, "sin is of type f16");
    refused(
        check(&cos, &f32(&[2, 1, 5, 8])),
        Kind::Shape,
        "sin has shape",
    );
}

#[test]
fn rotary_s_limits_by_version() {
    use Axes::{BatchHeadsSequence as Bnsd, TokensHeads};
    let tokens =
        |platform: &Platform| rope(platform, &[5, 3, 8], &[5, 1, 8], Style::Half, TokensHeads);
    refused(
        tokens(&platform()),
        Kind::Platform,
        "needs CANN 9.0 or later; this is 8.5.0",
    );
    tokens(&nine()).unwrap();
    // Half of 16 is 32 bytes of f32: at most eight rows of heads a position.
    let rows = |platform: &Platform, heads, width| {
        rope(
            platform,
            &[1, heads, 2, width],
            &[1, 1, 2, width],
            Style::Half,
            Bnsd,
        )
    };
    rows(&platform(), 17, 16).unwrap();
    rows(&nine(), 16, 16).unwrap();
    refused(
        rows(&nine(), 17, 16),
        Kind::Shape,
        "batch times heads is 17",
    );
    let unknown = Platform {
        version: Version::unknown(),
        ..platform()
    };
    refused(
        rows(&unknown, 17, 16),
        Kind::Shape,
        "batch times heads is 17",
    );
    // Half of 18 is not: one position for 48 cores leaves no room, but wide heads are exempt.
    refused(rows(&nine(), 1, 18), Kind::Shape, "batch times heads is 1");
    rows(&nine(), 17, 82).unwrap();
}

#[test]
fn rotary_grad_s_limits() {
    use Axes::BatchHeadsSequence as Bnsd;
    let check = |platform: &Platform, dy: &[usize], cos: &[usize], with_x: bool| {
        let (dy, cos) = (f32(dy), f32(cos));
        let x = with_x.then_some(&dy);
        rotary::check_grad(platform, &dy, &cos, &cos, x, Style::Half, Bnsd)
    };
    check(&platform(), &[2, 3, 5, 8], &[2, 1, 5, 8], true).unwrap();
    check(&platform(), &[64, 17, 5, 8], &[1, 1, 5, 8], false).unwrap();
    let many = check(&platform(), &[64, 17, 5, 8], &[1, 1, 5, 8], true);
    refused(many, Kind::Shape, "at most 1024");
    refused(
        check(&platform(), &[0, 3, 5, 8], &[1, 1, 5, 8], true),
        Kind::Shape,
        "dy has no elements",
    );
    check(&platform(), &[5, 1, 5, 8], &[5, 1, 5, 8], true).unwrap();
    let by_batch = check(&nine(), &[5, 2, 5, 16], &[5, 1, 5, 16], true);
    refused(by_batch, Kind::Shape, "a batch less than the sequence");
    check(&nine(), &[4, 2, 5, 16], &[4, 1, 5, 16], true).unwrap();
    let (dy, cos) = (f32(&[2, 4, 4, 8]), f32(&[1, 1, 4, 8]));
    let strided = turned(dy.clone(), 1, 2);
    let (style, p) = (Style::Half, platform());
    let checked = rotary::check_grad(&p, &strided, &cos, &cos, None, style, Bnsd);
    refused(checked, Kind::Layout, "dy is not contiguous");
    let checked = rotary::check_grad(&p, &dy, &cos, &cos, Some(&strided), style, Bnsd);
    refused(checked, Kind::Layout, "x is not contiguous");
}

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

    let grad =
        |dout: &Spec| moe::check_unpermute_grad(&platform(), &permuted, dout, &map, Some(&probs));
    assert_eq!(grad(&f32(&[4, 5])).unwrap().shape(), [8, 5]);
    refused(grad(&f32(&[8, 5])), Kind::Shape, "dout has shape [8, 5]");
    refused(
        grad(&spec(DType::F16, &[4, 5])),
        Kind::Dtype,
        "dout is of type f16",
    );
    refused(
        grad(&turned(f32(&[5, 4]), 0, 1)),
        Kind::Layout,
        "dout is not contiguous",
    );
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
    check(&vec![&x; 128], &vec![&weight; 128], &[]).unwrap();
    refused(
        check(&vec![&x; 129], &vec![&weight; 129], &[]),
        Kind::Shape,
        "at most 128",
    );
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
        grouped_matmul::check_list(&platform(), x, weights, list)
    };
    let i64 = |count: usize| spec(DType::I64, &[count]);
    let (x, weight) = (f32(&[4, 6]), f32(&[6, 5]));
    let y = of(&x, &[&weight, &weight], &i64(2)).unwrap();
    assert_eq!(y.shape(), [4, 5]);
    refused(of(&x, &[], &i64(0)), Kind::Shape, "weight has no elements");
    let many = vec![&weight; 129];
    refused(of(&x, &many, &i64(129)), Kind::Shape, "at most 128");
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
