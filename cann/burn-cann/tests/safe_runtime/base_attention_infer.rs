//! Tests of attention of an inference call against f64: the keys that are held, masks, sinks, and limits.

use crate::common::maths::{assert_close, noise, tensor, values, view};
use crate::common::{Scenario, device, platform, spec};
use burn_cann::ops::attention::{self, Axes, Held, Mask, Settings};
use burn_cann::ops::{Kind, create};
use burn_cann::{DType, Error, Layout, Platform, Spec, Stream, Tensor, Version};

const BATCH: usize = 2;
const HEADS: usize = 4;
const GROUPS: usize = 2;
const KEYS: usize = 9;
const SCALE: f64 = 0.6;

/// A call that is compared.
#[derive(Clone, Copy)]
struct Case<'a> {
    dtype: DType,
    axes: Axes,
    queries: usize,
    width: usize,
    held: Held<'a>,
    mask: Mask<&'a Tensor>,
    sinks: Option<&'a [f64]>,
}

fn all(lengths: &[usize]) -> Held<'_> {
    Held {
        lengths,
        behind: None,
    }
}

/// Returns numbers of this shape in the order of the axes, and their exact values as `[batch, heads, tokens, width]`.
fn put(
    stream: &Stream,
    case: Case<'_>,
    [heads, tokens]: [usize; 2],
    seed: u64,
) -> (Tensor, Vec<f64>) {
    let [shape, _] = shapes(case, heads, tokens);
    let x = noise(shape.iter().product(), seed);
    let (tensor, rounded) = tensor(stream, case.dtype, &x, &shape);
    (tensor, by_head(case, &rounded, heads, tokens))
}

/// Returns the shape in the order of the axes, and the order in which heads precede tokens.
fn shapes(case: Case<'_>, heads: usize, tokens: usize) -> [[usize; 4]; 2] {
    match case.axes {
        Axes::Bnsd => [[BATCH, heads, tokens, case.width], [0, 1, 2, 3]],
        _ => [[BATCH, tokens, heads, case.width], [0, 2, 1, 3]],
    }
}

fn by_head(case: Case<'_>, x: &[f64], heads: usize, tokens: usize) -> Vec<f64> {
    let [shape, order] = shapes(case, heads, tokens);
    let layout = Layout::contiguous(shape).unwrap().permute(&order).unwrap();
    view(x, &layout)
}

/// Compares a call with f64. `sees(sequence, query, key)` says which keys queries see.
fn compare(stream: &Stream, case: Case<'_>, sees: &dyn Fn(usize, usize, usize) -> bool) {
    let Case { queries, width, .. } = case;
    let (q, q64) = put(stream, case, [HEADS, queries], 1);
    let (k, k64) = put(stream, case, [GROUPS, KEYS], 2);
    let (v, v64) = put(stream, case, [GROUPS, KEYS], 3);
    let sinks = case
        .sinks
        .map(|sinks| tensor(stream, DType::BF16, sinks, &[HEADS]));
    let settings = Settings {
        axes: case.axes,
        heads: HEADS,
        scale: SCALE,
    };
    let with = sinks.as_ref().map(|(tensor, _)| tensor);
    let y = attention::infer(stream, [&q, &k, &v], with, case.mask, case.held, settings).unwrap();
    assert_eq!((y.shape(), y.dtype()), (q.shape(), case.dtype));
    let mut expected = vec![0.0; q64.len()];
    for (row, y) in expected.chunks_exact_mut(width).enumerate() {
        let (head, query) = (row / queries, row % queries);
        let (sequence, own) = (head / HEADS, head % HEADS);
        let group = sequence * GROUPS + own / (HEADS / GROUPS);
        let of = |x: &[f64], key: usize| x[(group * KEYS + key) * width..][..width].to_vec();
        let q = &q64[row * width..][..width];
        let powers: Vec<(usize, f64)> = (0..KEYS)
            .filter(|key| sees(sequence, query, *key))
            .map(|key| {
                let score: f64 = of(&k64, key).iter().zip(q).map(|(k, q)| k * q).sum();
                (key, (score * SCALE).exp())
            })
            .collect();
        let sink = sinks.as_ref().map_or(0.0, |(_, sinks)| sinks[own].exp());
        let sum = powers.iter().map(|(_, power)| power).sum::<f64>() + sink;
        for (key, power) in powers {
            for (y, v) in y.iter_mut().zip(of(&v64, key)) {
                *y += power / sum * v;
            }
        }
    }
    let found = by_head(case, &values(stream, &y), HEADS, queries);
    assert_close(&found, &expected, case.dtype, 1e-6);
}

#[test]
fn few_queries_see_the_keys_that_are_held() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        let causal = attention::causal_mask(&stream).unwrap();
        for dtype in [DType::F16, DType::BF16] {
            for axes in [Axes::Bnsd, Axes::Bsnd] {
                let plain = Case {
                    dtype,
                    axes,
                    queries: 1,
                    width: 16,
                    held: all(&[KEYS]),
                    mask: Mask::None,
                    sinks: None,
                };
                compare(&stream, plain, &|_, _, _| true);
                let lengths = [4, 7];
                let held = all(&lengths);
                compare(&stream, Case { held, ..plain }, &|at, _, key| {
                    key < lengths[at]
                });
                let padded = Held {
                    behind: Some(2),
                    ..held
                };
                let case = Case {
                    held: padded,
                    ..plain
                };
                compare(&stream, case, &|at, _, key| {
                    (7 - lengths[at]..7).contains(&key)
                });
                let several = Case {
                    queries: 3,
                    held,
                    ..plain
                };
                compare(&stream, several, &|at, _, key| key < lengths[at]);
                let mask = Mask::ToLast(&causal);
                compare(&stream, Case { mask, ..several }, &|at, query, key| {
                    key + 3 <= query + lengths[at]
                });
                let mask = Mask::FromFirst(&causal);
                compare(&stream, Case { mask, ..several }, &|at, query, key| {
                    key < lengths[at] && key <= query
                });
                let mask = Mask::Band {
                    mask: &causal,
                    before: 2,
                    behind: 0,
                };
                compare(&stream, Case { mask, ..several }, &|at, query, key| {
                    let diagonal = query + lengths[at] - 3;
                    key <= diagonal && key + 2 >= diagonal
                });
            }
        }
    });
}

#[test]
fn sinks_take_part_in_the_sum_of_their_head() {
    Scenario::new().run(|cann| {
        let (_device, stream) = device(cann);
        let causal = attention::causal_mask(&stream).unwrap();
        for (axes, width) in [(Axes::Bnsd, 64), (Axes::Bsnd, 128)] {
            let lengths = [4, 7];
            let plain = Case {
                dtype: DType::BF16,
                axes,
                queries: 1,
                width,
                held: all(&lengths),
                mask: Mask::None,
                // The last sink is above all scores.
                sinks: Some(&[-0.5, 0.0, 1.0, 9.0]),
            };
            compare(&stream, plain, &|at, _, key| key < lengths[at]);
            let case = Case {
                queries: 3,
                mask: Mask::ToLast(&causal),
                ..plain
            };
            compare(&stream, case, &|at, query, key| {
                key + 3 <= query + lengths[at]
            });
        }
    });
}

/// A toolkit without the operator is known before a call, and a call is an error that names the function.
#[test]
fn a_missing_function_is_known_and_named() {
    let hidden = [
        ("aclnnFusedInferAttentionScoreV3", [false, true]),
        (
            "aclnnFusedInferAttentionScoreV3GetWorkspaceSize",
            [false, true],
        ),
        ("aclnnFusedInferAttentionScoreV4", [true, false]),
        (
            "aclnnFusedInferAttentionScoreV4GetWorkspaceSize",
            [true, false],
        ),
    ];
    for (function, _) in hidden {
        Scenario::new().set("BURN_CANN_HIDDEN", function).run(|_| {
            let function = std::env::var("BURN_CANN_HIDDEN").unwrap();
            let (_, has) = hidden.iter().find(|(name, _)| *name == function).unwrap();
            let folder = std::env::var_os("CANN_LIB_DIR").unwrap();
            let search = cann_sys::Search::in_folder(folder).hide(&function);
            let cann = burn_cann::Cann::load_from(&search).unwrap();
            let (device, stream) = device(&cann);
            let (x, _) = tensor(&stream, DType::BF16, &noise(64 * 4, 1), &[1, 1, 4, 64]);
            let q = x.slice(2, 0..1).unwrap();
            let (sinks, _) = tensor(&stream, DType::BF16, &[0.5], &[1]);
            let settings = Settings {
                axes: Axes::Bnsd,
                heads: 1,
                scale: SCALE,
            };
            for (sinks, has) in [(None, has[0]), (Some(&sinks), has[1])] {
                assert_eq!(attention::has_infer(&device, sinks.is_some()), has);
                let held = all(&[4]);
                let made =
                    attention::infer(&stream, [&q, &x, &x], sinks, Mask::None, held, settings);
                match made {
                    Ok(_) => assert!(has, "{function}"),
                    Err(Error::Missing(error)) => {
                        assert!(!has && error.to_string().contains(&function), "{error}");
                    }
                    Err(other) => panic!("{other}"),
                }
            }
        });
        if crate::common::inside() {
            return;
        }
    }
}

#[test]
fn a_failing_call_is_an_error_and_nothing_is_left() {
    Scenario::new()
        .set(
            "CANN_EMULATOR_FAIL",
            "aclnnFusedInferAttentionScoreV3=561002",
        )
        .run(|cann| {
            let (_device, stream) = device(cann);
            let x = create::full(&stream, DType::F16, [1, 1, 4, 16], 0.5).unwrap();
            let settings = Settings {
                axes: Axes::Bnsd,
                heads: 1,
                scale: SCALE,
            };
            let q = x.slice(2, 0..1).unwrap();
            let held = Held {
                lengths: &[2],
                behind: Some(1),
            };
            let made = attention::infer(&stream, [&q, &x, &x], None, Mask::None, held, settings);
            let Err(Error::Call { function, code, .. }) = made else {
                panic!("it did not fail")
            };
            assert_eq!(
                (function, code.number()),
                ("aclnnFusedInferAttentionScoreV3", 561_002)
            );
        });
}

#[test]
fn limits_are_refused() {
    let a2 = Platform {
        version: Version::new("8.5.0"),
        ..platform("Ascend910B1")
    };
    let f16 = |shape: &[usize]| spec(DType::F16, shape);
    let of = |axes, heads| Settings {
        axes,
        heads,
        scale: 1.0,
    };
    let plain = of(Axes::Bnsd, 4);
    let (q, k) = (f16(&[2, 4, 3, 16]), f16(&[2, 2, 9, 16]));
    let one = f16(&[2, 4, 1, 16]);
    let found = |q: &Spec, k: &Spec, v: &Spec, mask: Mask<&Spec>, held: Held<'_>, settings| {
        attention::check_infer(&a2, [q, k, v], None, mask, held, settings)
            .map(|result| result.shape().to_vec())
            .map_err(|no| no.kind())
    };
    let of_shapes = |q: &Spec, k: &Spec, settings| found(q, k, k, Mask::None, all(&[1]), settings);
    assert_eq!(of_shapes(&q, &k, plain), Ok(vec![2, 4, 3, 16]));
    let long = 20_971_521;
    for (q, k, settings, kind) in [
        (
            spec(DType::F32, &[2, 4, 3, 16]),
            k.clone(),
            plain,
            Kind::Dtype,
        ),
        (
            q.clone(),
            spec(DType::BF16, &[2, 2, 9, 16]),
            plain,
            Kind::Dtype,
        ),
        (f16(&[2, 4, 0, 16]), k.clone(), plain, Kind::Shape),
        (f16(&[2, 4, 48]), k.clone(), plain, Kind::Shape),
        (q.clone(), k.clone(), of(Axes::Bsh, 4), Kind::Value),
        (q.clone(), k.clone(), of(Axes::Bnsd, 2), Kind::Value),
        (q.clone(), f16(&[1, 2, 9, 16]), plain, Kind::Shape),
        (q.clone(), f16(&[2, 3, 9, 16]), plain, Kind::Shape),
        (q.clone(), f16(&[2, 2, 9, 32]), plain, Kind::Shape),
        (f16(&[2, 4, 3, 8]), f16(&[2, 2, 9, 8]), plain, Kind::Shape),
        (
            f16(&[1, 1, 1, 528]),
            f16(&[1, 1, 2, 528]),
            of(Axes::Bnsd, 1),
            Kind::Shape,
        ),
        (
            f16(&[1, 257, 1, 16]),
            f16(&[1, 1, 2, 16]),
            of(Axes::Bnsd, 257),
            Kind::Shape,
        ),
        (
            f16(&[65_537, 1, 1, 16]),
            f16(&[65_537, 1, 2, 16]),
            of(Axes::Bnsd, 1),
            Kind::Shape,
        ),
        (
            f16(&[1, 1, 1, 16]),
            f16(&[1, 1, long, 16]),
            of(Axes::Bnsd, 1),
            Kind::Shape,
        ),
        (
            f16(&[1, 1, 128, 512]),
            f16(&[1, 2, 128, 512]),
            of(Axes::Bsnd, 128),
            Kind::Shape,
        ),
        (
            q.clone(),
            k.clone(),
            Settings {
                scale: f64::NAN,
                ..plain
            },
            Kind::Value,
        ),
    ] {
        assert_eq!(of_shapes(&q, &k, settings), Err(kind), "{q:?} {k:?}");
    }
    let narrow = f16(&[2, 2, 9, 8]);
    assert_eq!(
        found(&q, &k, &narrow, Mask::None, all(&[9]), plain),
        Err(Kind::Shape)
    );
    let turned = Layout::strided([2, 4, 3, 16], [192, 16, 64, 1], 0).unwrap();
    let turned = Spec {
        layout: turned,
        ..q.clone()
    };
    assert_eq!(of_shapes(&turned, &k, plain), Err(Kind::Layout));
    let held = |q: &Spec, lengths: &[usize], behind| {
        let held = Held { lengths, behind };
        found(q, &k, &k, Mask::None, held, plain).map(drop)
    };
    assert_eq!(held(&q, &[9, 1], None), Ok(()));
    assert_eq!(held(&one, &[7, 1], Some(2)), Ok(()));
    for (q, lengths, behind) in [
        (&q, &[][..], None),
        (&q, &[1, 1, 1], None),
        (&q, &[10], None),
        (&q, &[0, 9], None),
        (&q, &[1], Some(2)),
        (&one, &[8], Some(2)),
        (&one, &[1], Some(10)),
    ] {
        assert_eq!(
            held(q, lengths, behind),
            Err(Kind::Value),
            "{lengths:?} {behind:?}"
        );
    }
    let square = spec(DType::Bool, &[2048, 2048]);
    let masked =
        |q: &Spec, mask, lengths: &[usize]| found(q, &k, &k, mask, all(lengths), plain).map(drop);
    let full = spec(DType::Bool, &[3, 9]);
    assert_eq!(masked(&q, Mask::ToLast(&square), &[3, 9]), Ok(()));
    assert_eq!(masked(&q, Mask::ToLast(&square), &[2, 9]), Err(Kind::Value));
    assert_eq!(masked(&q, Mask::ToLast(&full), &[9]), Err(Kind::Shape));
    assert_eq!(masked(&q, Mask::Full(&full), &[9]), Err(Kind::Value));
    assert_eq!(masked(&one, Mask::ToLast(&square), &[9]), Err(Kind::Value));
    let band = Mask::Band {
        mask: &square,
        before: 8,
        behind: -3,
    };
    assert_eq!(masked(&q, band, &[9, 4]), Ok(()));
    assert_eq!(masked(&q, band, &[9, 3]), Err(Kind::Value));
}

#[test]
fn platforms_and_sinks_are_refused() {
    let on = |soc, version: &str| Platform {
        version: Version::new(version),
        ..platform(soc)
    };
    let kind = |platform: &Platform, dtype, width, sinks: Option<&Spec>, behind| {
        let q = spec(dtype, &[1, 4, 1, width]);
        let settings = Settings {
            axes: Axes::Bnsd,
            heads: 4,
            scale: 1.0,
        };
        let held = Held {
            lengths: &[1],
            behind,
        };
        attention::check_infer(platform, [&q, &q, &q], sinks, Mask::None, held, settings)
            .map(drop)
            .map_err(|no| no.kind())
    };
    let a2 = on("Ascend910B1", "8.1.RC1");
    assert_eq!(kind(&a2, DType::F16, 64, None, None), Ok(()));
    for (soc, version, kind_of) in [
        ("Ascend910_9391", "9.1.0", Ok(())),
        // Its documentation excludes Atlas A3.
        ("Ascend910_9391", "8.3.RC1", Err(Kind::Platform)),
        ("Ascend310P3", "9.1.0", Err(Kind::Platform)),
    ] {
        assert_eq!(
            kind(&on(soc, version), DType::F16, 64, None, None),
            kind_of,
            "{soc}"
        );
    }
    let newer = on("Ascend910B1", "8.5.0");
    let sinks = spec(DType::BF16, &[4]);
    let beside = |platform, dtype, width, sinks| kind(platform, dtype, width, Some(sinks), None);
    assert_eq!(beside(&newer, DType::BF16, 64, &sinks), Ok(()));
    assert_eq!(beside(&a2, DType::BF16, 64, &sinks), Err(Kind::Platform));
    assert_eq!(beside(&newer, DType::F16, 64, &sinks), Err(Kind::Dtype));
    assert_eq!(beside(&newer, DType::BF16, 32, &sinks), Err(Kind::Shape));
    let wide = spec(DType::F32, &[4]);
    assert_eq!(beside(&newer, DType::BF16, 64, &wide), Err(Kind::Dtype));
    let few = spec(DType::BF16, &[3]);
    assert_eq!(beside(&newer, DType::BF16, 64, &few), Err(Kind::Shape));
    let apart = Spec {
        layout: Layout::strided([4], [2], 0).unwrap(),
        ..sinks.clone()
    };
    assert_eq!(beside(&newer, DType::BF16, 64, &apart), Err(Kind::Layout));
    assert_eq!(
        kind(&newer, DType::BF16, 64, Some(&sinks), Some(0)),
        Err(Kind::Value)
    );
}
