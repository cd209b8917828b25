//! Compares mixtures of experts over CANN's operators with their references in f64: rows and tokens, grouped products,
//! and experts.

use crate::npu::common::Scenario;
use crate::npu::*;
use burn::tensor::{Device, IntDType, Tensor as Exact, TensorData};
use burn_cann::{DType, Spec, Stream, Tensor, backend};
use kernels_runtime::dispatch::{Mode, Reason};
use kernels_runtime::npu::{OnNpu, Refused, Seen, Specified};
use kernels_runtime::ops::Mismatch;
use kernels_runtime::ops::fused::{Backward, Given};
use kernels_runtime::ops::moe::experts::{self, Experts, Projection, Settings, Weights};
use kernels_runtime::ops::moe::{Stack, grouped_matmul, permute, unpermute};
use kernels_runtime::semantics::*;

const INTS: [DType; 2] = [DType::I32, DType::I64];
const LAYOUTS: [ExpertLayout; 2] = [ExpertLayout::Linear, ExpertLayout::Matmul];

/// The experts that tokens chose, and the number of experts.
struct Choice {
    name: &'static str,
    tokens: usize,
    k: usize,
    experts: usize,
    indices: Vec<i64>,
}

/// Returns choices: experts with many, one and no rows; experts elsewhere; one token; equal choices.
fn choices() -> Vec<Choice> {
    let choice = |name, tokens, k, experts, indices: &[i64]| Choice {
        name,
        tokens,
        k,
        experts,
        indices: indices.to_vec(),
    };
    let many: Vec<i64> = (0..34).map(|slot| (slot * slot * 7 + slot) % 8).collect();
    vec![
        choice("spread", 17, 2, 8, &many),
        choice("skewed", 5, 2, 4, &[3, 1, 3, 1, 3, 1, 3, 0, 3, 1]),
        choice("one token", 1, 3, 4, &[2, 0, 3]),
        choice("one choice", 4, 1, 3, &[1, 1, 0, 1]),
        choice("some elsewhere", 4, 2, 3, &[3, 0, 2, 3, 3, 3, 1, 0]),
        choice("all elsewhere", 2, 2, 3, &[3, 3, 3, 3]),
        choice("no tokens", 0, 2, 3, &[]),
    ]
}

impl Choice {
    fn slots(&self) -> usize {
        self.tokens * self.k
    }

    fn on_device(&self, stream: &Stream, dtype: DType) -> Tensor {
        integers(stream, dtype, &self.indices, &[self.tokens, self.k])
    }

    fn exact(&self) -> Exact<2, burn::tensor::Int> {
        exact_integers(&self.indices, [self.tokens, self.k])
    }
}

fn seen<T: Clone>(tensor: &T) -> Seen<T> {
    Seen(tensor.clone())
}

/// Returns the integers of a Burn tensor.
fn whole<const D: usize>(tensor: Exact<D, burn::tensor::Int>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

mod rows {
    use super::*;
    use permute::npu::{
        decide_move, decide_sort, spread, sum_rows, weigh_rows, weigh_rows_backward,
        weigh_rows_d_rows,
    };
    use permute::{Sort, Spread, SpreadWeighed, Sum, Weigh, WeighBackward};

    fn slots<T: Specified + Clone>(
        indices: &T,
        experts: usize,
        rows: usize,
        ints: IntDType,
    ) -> Result<Sort<Seen<T>, Seen<T>>, Mismatch> {
        Sort::new(seen(indices), experts, rows, ints)
    }

    fn sort_slots(
        stream: &Stream,
        indices: &Tensor,
        experts: usize,
        rows: usize,
        ints: DType,
    ) -> (Tensor, Tensor) {
        let ints = match ints {
            DType::I32 => IntDType::I32,
            _ => IntDType::I64,
        };
        let slots = slots(indices, experts, rows, ints).unwrap();
        permute::npu::sort_slots(stream, &slots).unwrap()
    }

    #[test]
    fn slots_are_sorted_as_the_reference_sorts_them() {
        on_the_emulator(|_, stream| {
            for choice in choices() {
                for (ints, to) in [(DType::I32, DType::I64), (DType::I64, DType::I32)] {
                    let indices = choice.on_device(stream, ints);
                    let ((map, counts), _) = without_waiting(|| {
                        sort_slots(stream, &indices, choice.experts, choice.slots(), to)
                    });
                    let tokens =
                        Exact::<2>::zeros([choice.tokens, 1], &burn::tensor::Device::flex());
                    let indices = exact_integers(&choice.indices, [choice.tokens, choice.k]);
                    let expected =
                        permute::reference(tokens, indices.inner(), choice.experts, None);
                    assert_eq!((map.dtype(), counts.dtype()), (to, to));
                    assert_eq!(map.shape(), [choice.tokens, choice.k], "{}", choice.name);
                    assert_eq!(
                        read(stream, &map),
                        whole(expected.row_map),
                        "{}",
                        choice.name
                    );
                    assert_eq!(
                        read(stream, &counts),
                        whole(expected.counts),
                        "{}",
                        choice.name
                    );
                }
            }
        });
    }

    /// The CPU refuses such indices. The NPU sorts them as those of no expert, because they are found too late.
    #[test]
    fn indices_of_no_expert_are_nobodys() {
        on_the_emulator(|_, stream| {
            let sorted = |indices: &[i64]| {
                let indices = integers(stream, DType::I64, indices, &[3, 2]);
                let (map, counts) = sort_slots(stream, &indices, 2, 6, DType::I64);
                (read(stream, &map), read(stream, &counts))
            };
            assert_eq!(sorted(&[-1, 1, 7, 0, -5, 1]), sorted(&[2, 1, 2, 0, 2, 1]));
        });
    }

    /// Compares both directions and their gradients, with the row maps that sorting creates.
    #[test]
    fn tokens_go_to_rows_and_back() {
        on_the_emulator(|_, stream| {
            for choice in choices() {
                for dtype in FLOATS {
                    for lie in LIES {
                        for ints in INTS {
                            there_and_back(stream, &choice, dtype, ints, lie);
                        }
                    }
                }
            }
        });
    }

    fn there_and_back(stream: &Stream, choice: &Choice, dtype: DType, ints: DType, lie: Lie) {
        const WIDTH: usize = 12;
        let what = (choice.name, lie);
        let (count, rows) = (choice.tokens, choice.slots());
        let near = |tensor: &Tensor, shape: [usize; 2], expected: &[f64]| {
            assert_near(what, stream, tensor, dtype, &shape, expected);
        };
        let indices = choice.on_device(stream, ints);
        let (map, _) = sort_slots(stream, &indices, choice.experts, rows, ints);
        let exact_map = || {
            let map = permute::reference(
                Exact::<2>::zeros([count, 1], &burn::tensor::Device::flex()),
                choice.exact().inner(),
                choice.experts,
                None,
            );
            map.row_map
        };
        let mapped = || Exact::from_inner(exact_map());

        let (tokens, tokens_held) = put(stream, dtype, &[count, WIDTH], 1, lie);
        let operands = Spread::new(Seen(tokens), seen(&map), rows).unwrap();
        let (found, _) = without_waiting(|| spread(stream, &operands).unwrap());
        let exact = tokens_held.exact::<2>();
        let expected = permute::reference(exact.clone(), choice.exact(), choice.experts, None);
        near(&found, [rows, WIDTH], &elements(expected.rows.clone()));

        let (d_rows, d_rows_held) = put(stream, dtype, &[rows, WIDTH], 2, lie);
        let operands = Sum::new(Seen(d_rows), seen(&map)).unwrap();
        let (d_tokens, _) = without_waiting(|| sum_rows(stream, &operands).unwrap());
        if rows > 0 {
            let loss = (expected.rows * d_rows_held.plain()).sum().backward();
            near(&d_tokens, [count, WIDTH], &gradient(&exact, &loss));
        }

        let (from, from_held) = put(stream, dtype, &[rows, WIDTH], 3, lie);
        let (dy, dy_held) = put(stream, dtype, &[count, WIDTH], 4, lie);
        for probs_type in [dtype, DType::F32] {
            let (probs, probs_held) = put(stream, probs_type, &[count, choice.k], 5, lie);
            let [from, dy, map, probs] = [&from, &dy, &map, &probs].map(seen);
            let operands = Weigh::new(from.clone(), map.clone(), probs.clone()).unwrap();
            let (y, _) = without_waiting(|| weigh_rows(stream, &operands).unwrap());
            let both = WeighBackward::new(dy.clone(), from, map.clone(), probs.clone()).unwrap();
            let ((d_from, d_probs), _) =
                without_waiting(|| weigh_rows_backward(stream, &both).unwrap());
            let one = SpreadWeighed::new(dy, map, probs, rows).unwrap();
            let (alone, _) = without_waiting(|| weigh_rows_d_rows(stream, &one).unwrap());
            if rows == 0 {
                continue;
            }
            let (from, probs) = (from_held.exact::<2>(), probs_held.exact::<2>());
            let expected = unpermute::reference(from.clone(), mapped(), Some(probs.clone()));
            near(&y, [count, WIDTH], &elements(expected.clone()));
            let loss = (expected * dy_held.plain()).sum().backward();
            near(&d_from, [rows, WIDTH], &gradient(&from, &loss));
            near(&alone, [rows, WIDTH], &gradient(&from, &loss));
            // It is a sum over the whole width of rounded products.
            assert_eq!(d_probs.dtype(), probs_type);
            let found = read(stream, &d_probs);
            assert_close(what, &found, &gradient(&probs, &loss), dtype);
        }
    }

    #[test]
    fn what_rows_of_nobody_hold_goes_nowhere() {
        on_the_emulator(|_, stream| {
            let indices = integers(stream, DType::I32, &[0, 2, 1, 2], &[2, 2]);
            let (map, _) = sort_slots(stream, &indices, 2, 4, DType::I32);
            let nan = f64::NAN;
            let rows = [1.0, 2.0, 3.0, 4.0, nan, nan, nan, nan];
            let (rows, _) = put_values(stream, DType::F32, &rows, &[4, 2], Lie::Contiguous);
            let (probs, _) = put_values(stream, DType::F32, &[2.0; 4], &[2, 2], Lie::Contiguous);
            let [rows, map, probs] = [rows, map, probs].map(Seen);
            let sum = Sum::new(rows.clone(), map.clone()).unwrap();
            assert_eq!(
                read(stream, &sum_rows(stream, &sum).unwrap()),
                [1.0, 2.0, 3.0, 4.0]
            );
            let weighed = Weigh::new(rows.clone(), map.clone(), probs.clone()).unwrap();
            let y = weigh_rows(stream, &weighed).unwrap();
            assert_eq!(read(stream, &y), [2.0, 4.0, 6.0, 8.0]);
            let (dy, _) = put_values(stream, DType::F32, &[1.0; 4], &[2, 2], Lie::Contiguous);
            let both = WeighBackward::new(Seen(dy), rows, map, probs).unwrap();
            let (_, d_probs) = weigh_rows_backward(stream, &both).unwrap();
            assert_eq!(read(stream, &d_probs), [3.0, 0.0, 7.0, 0.0]);
        });
    }

    #[test]
    fn decisions_and_their_reasons() {
        let here = platform();
        let indices = spec(DType::I32, &[4, 2]);
        let checked = |indices: &Spec, experts, rows| slots(indices, experts, rows, IntDType::I64);
        let sorted = |indices: &Spec, experts, rows| {
            decide_sort(&here, &checked(indices, experts, rows).unwrap())
        };
        assert!(sorted(&indices, 8, 8).is_ok());
        refused(sorted(&indices, 8, 7), Reason::Shape, "7 of 8 rows");
        let small = spec(DType::I16, &[4, 2]);
        refused(sorted(&small, 8, 8), Reason::Dtype, "i32 and i64");
        let floats = spec(DType::F32, &[4, 2]);
        mismatched(checked(&floats, 8, 8), "must be integers");
        mismatched(checked(&spec(DType::I32, &[4]), 8, 4), "1 axes and not 2");
        let wide = spec(DType::I32, &[1, 513]);
        refused(sorted(&wide, 600, 513), Reason::Shape, "at most 512");
        mismatched(checked(&indices, 16_777_214, 8), "experts are more than");
        let most = spec(DType::I32, &[1 << 23, 2]);
        let most = sorted(&most, 8, 1 << 24);
        refused(most, Reason::Shape, "sorts numbers below");
        let elsewhere = decide_sort(&other_processor(), &checked(&indices, 8, 8).unwrap());
        refused(elsewhere, Reason::Capability, "910B");

        let (rows, map) = (|dtype| Seen(spec(dtype, &[8, 16])), seen(&indices));
        let spread = |dtype, rows| {
            let operands = Spread::new(Seen(spec(dtype, &[4, 16])), map.clone(), rows);
            decide_move(&here, &operands.unwrap())
        };
        let weighed = |probs: &Spec| Weigh::new(rows(DType::BF16), map.clone(), seen(probs));
        assert!(spread(DType::BF16, 8).is_ok());
        let wide = spec(DType::F32, &[4, 2]);
        assert!(decide_move(&here, &weighed(&wide).unwrap()).is_ok());
        refused(spread(DType::F64, 8), Reason::Dtype, "f64");
        refused(spread(DType::BF16, 7), Reason::Shape, "7 of 8 rows");
        let probs = spec(DType::F16, &[4, 2]);
        refused(
            decide_move(&here, &weighed(&probs).unwrap()),
            Reason::MixedDtypes,
            "probs are of type f16",
        );
        let probs = spec(DType::BF16, &[4, 3]);
        mismatched(weighed(&probs), "probabilities are [4, 3]");
        let (tokens, map) = (
            Seen(spec(DType::BF16, &[1 << 23, 1])),
            Seen(spec(DType::I32, &[1 << 23, 2])),
        );
        let many = Spread::new(tokens, map, 1 << 24).unwrap();
        let many = decide_move(&here, &many);
        refused(many, Reason::Shape, "sorts numbers below");
    }
}

mod products {
    use super::*;
    use grouped_matmul::npu::decide;
    use grouped_matmul::{Each, GroupedMatmul, Operands};

    /// The rows of each expert, and the number of rows of no expert after them.
    const GROUPS: [(&[i64], usize); 6] = [
        (&[3, 0, 5, 1], 0),
        (&[2, 1], 4),
        (&[1], 0),
        (&[0, 0, 0], 2),
        (&[0, 7], 0),
        (&[0, 0], 0),
    ];

    #[test]
    fn products_and_gradients_beside_the_reference() {
        on_the_emulator(|_, stream| {
            for (counts, behind) in GROUPS {
                for dtype in FLOATS {
                    for layout in LAYOUTS {
                        for (listed, known) in FORMS {
                            for lie in LIES {
                                // The host knows the counts of all rows.
                                if known && behind > 0 {
                                    continue;
                                }
                                let form = (listed, known, lie);
                                compare(stream, counts, behind, dtype, layout, form);
                            }
                        }
                    }
                }
            }
        });
    }

    /// Whether weights are a list, and whether the host knows the counts.
    const FORMS: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (true, true)];

    #[test]
    fn lists_of_more_than_128_experts() {
        on_the_emulator(|_, stream| {
            let counts: Vec<i64> = (0..300).map(|expert| expert % 3).collect();
            for dtype in FLOATS {
                for (layout, known) in [
                    (ExpertLayout::Linear, true),
                    (ExpertLayout::Matmul, true),
                    (ExpertLayout::Linear, false),
                ] {
                    compare(
                        stream,
                        &counts,
                        0,
                        dtype,
                        layout,
                        (true, known, Lie::Contiguous),
                    );
                }
            }
        });
    }

    /// Lists of rows and weights as Burn's tensors, one without rows, with gradients by Burn's autodiff.
    #[test]
    fn lists_on_an_npu() {
        Scenario::new().run(|cann| {
            backend::install(cann.clone());
            let npu = kernels_serving::npu::device(0).unwrap();
            for layout in LAYOUTS {
                let on = |device: &Device, is_fused: bool| {
                    let device = device.clone().autodiff();
                    let leaf = |shape: [usize; 2], seed| {
                        let data = TensorData::new(noise(shape[0] * shape[1], seed), shape);
                        let leaf = Exact::<2>::from_data(data.convert::<f32>(), &device);
                        leaf.require_grad()
                    };
                    let axes = match layout {
                        ExpertLayout::Linear => [6, 9],
                        ExpertLayout::Matmul => [9, 6],
                    };
                    let rows = [3, 0, 1, 4];
                    let xs: Vec<_> = (0..4).map(|at| leaf([rows[at], 9], at as u64)).collect();
                    let weights: Vec<_> = (0..4).map(|at| leaf(axes, 9 + at)).collect();
                    let (given, of) = (xs.clone(), weights.clone());
                    let ys = match is_fused {
                        true => grouped_matmul::fused_each(given, of, layout).expect("a kernel"),
                        false => {
                            let pairs = given.into_iter().zip(of);
                            let product = |(x, weight): (Exact<2>, Exact<2>)| match layout {
                                ExpertLayout::Linear => x.matmul(weight.transpose()),
                                ExpertLayout::Matmul => x.matmul(weight),
                            };
                            pairs.map(product).collect()
                        }
                    };
                    let shapes: Vec<_> = ys.iter().map(|y| y.dims()).collect();
                    assert_eq!(shapes, rows.map(|rows| [rows, 6]));
                    let full = ys.iter().zip(rows).filter(|(_, rows)| *rows > 0);
                    let losses = full.map(|(y, _)| y.clone().powi_scalar(2).sum());
                    let gradients = losses.reduce(|a, b| a + b).unwrap().backward();
                    let leaves = xs.into_iter().chain(weights);
                    let found = leaves.map(|leaf| leaf.grad(&gradients).map(elements));
                    let found: Vec<_> = found.map(Option::unwrap_or_default).collect();
                    (ys.into_iter().map(elements).collect::<Vec<_>>(), found)
                };
                let (ys, found) = on(&npu, true);
                let (exact, expected) = on(&Device::flex(), false);
                let found = ys.iter().chain(&found).zip(exact.iter().chain(&expected));
                for (at, (found, expected)) in found.enumerate() {
                    // Without rows there is no gradient, or one of zeros.
                    match expected.is_empty() {
                        true => assert!(found.iter().all(|x| *x == 0.0), "{at}"),
                        false => assert_close(at, found, expected, DType::F32),
                    }
                }
            }
            kernels_serving::npu::close();
            backend::close();
        });
    }

    fn compare(
        stream: &Stream,
        counts: &[i64],
        behind: usize,
        dtype: DType,
        layout: ExpertLayout,
        (listed, known, lie): (bool, bool, Lie),
    ) {
        const INPUTS: usize = 9;
        const FEATURES: usize = 6;
        let what = (counts, behind, layout, listed, known, lie);
        let experts = counts.len();
        let rows = counts.iter().sum::<i64>() as usize + behind;
        let (x, x_held) = put(stream, dtype, &[rows, INPUTS], 1, lie);
        let (dy, dy_held) = put(stream, dtype, &[rows, FEATURES], 2, lie);
        let [a, b] = match layout {
            ExpertLayout::Linear => [FEATURES, INPUTS],
            ExpertLayout::Matmul => [INPUTS, FEATURES],
        };
        let (stacked, held) = put(stream, dtype, &[experts, a, b], 3, Lie::Contiguous);
        let weights: Vec<_> = match listed {
            false => vec![Seen(stacked)],
            true => (0..experts)
                .map(|expert| {
                    let one = stacked.slice(0, expert..expert + 1).unwrap();
                    Seen(one.reshape([a, b]).unwrap())
                })
                .collect(),
        };
        let on_device = integers(stream, DType::I32, counts, &[experts]);
        let count = weights.len();
        let rows_of = |count: &i64| *count as usize;
        let known = known.then(|| counts.iter().map(rows_of).collect());
        let are_lists = known.is_some() && listed;
        let operands = Operands::new(Seen(x), weights, Seen(on_device), layout, known).unwrap();
        let forward = || GroupedMatmul::forward(stream, &operands, None).unwrap();
        let (y, made) = without_waiting(|| forward().y);
        if are_lists {
            // The rows, where they are strided, and a product for every 128 experts that have some.
            let full = counts.iter().filter(|count| **count > 0).count();
            let products = made.iter().filter(|call| *call != "aclnnInplaceCopy");
            assert_eq!(products.count(), full.div_ceil(128), "{made:?}");
        }
        let gradients = |all: bool| {
            let given = Given {
                others: Default::default(),
                dy: seen(&dy),
                saved: [].into_iter().collect(),
                ints: [].into_iter().collect(),
            };
            let wanted = vec![all; 1 + count];
            let operands = operands.clone();
            let backward = Backward::<GroupedMatmul, _>::new(operands, given, &wanted);
            GroupedMatmul::backward(stream, &backward.unwrap()).unwrap()
        };
        let (found, _) = without_waiting(|| gradients(true));
        let Each {
            x: d_x,
            weights: d_weights,
        } = found;
        let exact = (x_held.exact::<2>(), held.exact::<3>());
        let expected = grouped_matmul::reference(
            exact.0.clone(),
            exact_integers(counts, [experts]),
            Stack::from(exact.1.clone()),
            layout,
        );
        assert_near(
            what,
            stream,
            &y,
            dtype,
            &[rows, FEATURES],
            &elements(expected.clone()),
        );
        // Without rows nothing would be tracked.
        let tracked = exact.0.clone().sum() * 0.0 + exact.1.clone().sum() * 0.0;
        let loss = ((expected * dy_held.plain()).sum() + tracked).backward();
        let d_x = d_x.expect("it was wanted");
        assert_near(
            what,
            stream,
            &d_x,
            dtype,
            &[rows, INPUTS],
            &gradient(&exact.0, &loss),
        );
        let d_weight = gradient(&exact.1, &loss);
        let one = if listed { a * b } else { experts * a * b };
        for (expert, found) in d_weights.iter().enumerate() {
            let found = found.as_ref().expect("it was wanted");
            let shape: &[usize] = if listed { &[a, b] } else { &[experts, a, b] };
            assert_near(
                what,
                stream,
                found,
                dtype,
                shape,
                &d_weight[expert * one..][..one],
            );
        }
        let none = gradients(false);
        assert!(none.x.is_none() && none.weights.iter().all(Option::is_none));
    }

    #[test]
    fn decisions_and_their_reasons() {
        let here = platform();
        let (x, counts) = (spec(DType::BF16, &[8, 16]), spec(DType::I64, &[4]));
        let weight = spec(DType::BF16, &[4, 32, 16]);
        let checked = |x: &Spec, counts: &Spec, weights: &[&Spec], layout| {
            let weights = weights.iter().map(|weight| seen(*weight)).collect();
            Operands::new(seen(x), weights, seen(counts), layout, None)
        };
        let of = |x: &Spec, counts: &Spec, weights: &[&Spec], layout| {
            decide(&here, &checked(x, counts, weights, layout).unwrap())
        };
        let linear = ExpertLayout::Linear;
        assert!(of(&x, &counts, &[&weight], linear).is_ok());
        mismatched(
            checked(&x, &counts, &[&weight], ExpertLayout::Matmul),
            "rows have 16 elements",
        );
        for (known, words) in [
            (vec![8], "1 numbers of rows, but 4 experts"),
            (vec![3, 0, 4, 2], "don't add up to the 8 rows"),
            (vec![usize::MAX, 1, 4, 4], "don't add up to the 8 rows"),
        ] {
            let (x, weight, counts) = (seen(&x), seen(&weight), seen(&counts));
            let operands = Operands::new(x, vec![weight], counts, linear, Some(known));
            mismatched(operands, words);
        }
        let f64s = spec(DType::F64, &[8, 16]);
        refused(of(&f64s, &counts, &[&weight], linear), Reason::Dtype, "f64");
        let half = spec(DType::F16, &[4, 32, 16]);
        refused(
            of(&x, &counts, &[&half], linear),
            Reason::MixedDtypes,
            "weight is of type f16",
        );
        let floats = spec(DType::F32, &[4]);
        mismatched(checked(&x, &floats, &[&weight], linear), "must be integers");
        let small = spec(DType::I16, &[4]);
        refused(
            of(&x, &small, &[&weight], linear),
            Reason::Dtype,
            "i32 and i64",
        );
        let few = spec(DType::I64, &[3]);
        mismatched(checked(&x, &few, &[&weight], linear), "[3] counts");
        let mut strided = spec(DType::BF16, &[4, 32, 20]);
        strided.layout = strided.layout.slice(2, 0..16).unwrap();
        refused(
            of(&x, &counts, &[&strided], linear),
            Reason::Layout,
            "not contiguous",
        );
        let (many, their_counts) = (spec(DType::BF16, &[1025, 2, 16]), spec(DType::I64, &[1025]));
        refused(
            of(&x, &their_counts, &[&many], linear),
            Reason::Shape,
            "at most 1024",
        );
        let one = spec(DType::BF16, &[2, 16]);
        let listed = |count: usize| {
            let counts = spec(DType::I64, &[count]);
            of(&x, &counts, &vec![&one; count], linear)
        };
        assert!(listed(1024).is_ok());
        refused(listed(1025), Reason::Shape, "at most 1024");
        let wide = spec(DType::BF16, &[4, 65_536, 16]);
        refused(
            of(&x, &counts, &[&wide], linear),
            Reason::Shape,
            "at most 65535",
        );
        let operands = checked(&x, &counts, &[&weight], linear).unwrap();
        let elsewhere = decide(&other_processor(), &operands);
        refused(elsewhere, Reason::Capability, "910B or later");
    }
}

mod of_experts {
    use super::*;
    use experts::npu::{Plan, decide};
    use experts::{Each, Operands};

    const HIDDEN: usize = 10;
    const WIDTH: usize = 6;

    fn keys() -> impl Iterator<Item = MoeExpertsKey> {
        let activations = [Activation::Silu, Activation::GeluTanh, Activation::Identity];
        let projections = [
            Projections::Chunked,
            Projections::Interleaved,
            Projections::Separate,
        ];
        let plain = activations.into_iter().flat_map(move |activation| {
            projections.into_iter().flat_map(move |projections| {
                LAYOUTS.into_iter().map(move |layout| MoeExpertsKey {
                    activation,
                    projections,
                    layout,
                    ..MoeExpertsKey::QWEN3
                })
            })
        });
        // Biases in every layout, with gpt-oss's unit and with SwiGLU.
        let biased = projections
            .into_iter()
            .zip([0, 1, 0])
            .flat_map(|(projections, layout)| {
                [MoeExpertsKey::GPT_OSS, MoeExpertsKey::QWEN3].map(|of| MoeExpertsKey {
                    projections,
                    layout: LAYOUTS[layout],
                    bias: ExpertBias::All,
                    ..of
                })
            });
        plain.chain(biased)
    }

    /// The numbers of tokens and weights.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Numbers {
        /// Any between -1 and 1.
        Any,
        /// Whole numbers and quarters between -1 and 1. The sums of their products are quarters, which every type
        /// holds.
        Quarters,
    }

    impl Numbers {
        /// Returns a tensor as [`put`] does, of multiples of a step unless any number will do.
        fn put(
            self,
            stream: &Stream,
            dtype: DType,
            shape: &[usize],
            (seed, step): (u64, f64),
            lie: Lie,
        ) -> (Tensor, Held) {
            let values = noise(shape.iter().product(), seed).into_iter();
            let values: Vec<f64> = match self {
                Self::Any => values.collect(),
                Self::Quarters => values.map(|value| (value / step).round() * step).collect(),
            };
            put_values(stream, dtype, &values, shape, lie)
        }
    }

    /// Returns a limit that changes gate and up of these experts in f32 and of quarters, none of which is as large. In
    /// half types, other sums could be rounded to the other side of it, and have another gradient.
    fn limit_of(key: MoeExpertsKey, dtype: DType, numbers: Numbers) -> Option<f64> {
        let limit = match (dtype, numbers) {
            (DType::F32, _) | (_, Numbers::Quarters) => 0.7,
            (_, Numbers::Any) => 7.0,
        };
        (key.clamp == Clamp::Limit).then_some(limit)
    }

    /// Returns the groups of weights on the device, and their exact values.
    fn weights(
        stream: &Stream,
        dtype: DType,
        key: MoeExpertsKey,
        experts: usize,
        (listed, numbers): (bool, Numbers),
    ) -> (Vec<Vec<Seen<Tensor>>>, Vec<Option<Held>>) {
        let separate = key.projections == Projections::Separate;
        let both = if separate { WIDTH } else { 2 * WIDTH };
        let shape = |inputs: usize, features: usize| match key.layout {
            ExpertLayout::Linear => [experts, features, inputs],
            ExpertLayout::Matmul => [experts, inputs, features],
        };
        let biased = key.bias == ExpertBias::All;
        let shapes = [
            Some(shape(HIDDEN, both).to_vec()),
            separate.then(|| shape(HIDDEN, WIDTH).to_vec()),
            Some(shape(WIDTH, HIDDEN).to_vec()),
            biased.then(|| vec![experts, both]),
            (biased && separate).then(|| vec![experts, WIDTH]),
            biased.then(|| vec![experts, HIDDEN]),
        ];
        let mut groups = Vec::new();
        let mut held = Vec::new();
        for (group, shape) in shapes.into_iter().enumerate() {
            let Some(shape) = shape else {
                groups.push(Vec::new());
                held.push(None);
                continue;
            };
            let drawn = (10 + group as u64, 0.25);
            let (stacked, values) = numbers.put(stream, dtype, &shape, drawn, Lie::Contiguous);
            held.push(Some(values));
            groups.push(match listed {
                false => vec![Seen(stacked)],
                true => (0..experts)
                    .map(|expert| {
                        let one = stacked.slice(0, expert..expert + 1).unwrap();
                        Seen(one.reshape(&shape[1..]).unwrap())
                    })
                    .collect(),
            });
        }
        (groups, held)
    }

    fn compare(
        stream: &Stream,
        choice: &Choice,
        types: [DType; 3],
        key: MoeExpertsKey,
        listed: bool,
        lie: Lie,
    ) {
        compare_numbers(stream, choice, types, key, (listed, Numbers::Any), lie);
    }

    fn compare_numbers(
        stream: &Stream,
        choice: &Choice,
        [dtype, routing_type, ints]: [DType; 3],
        key: MoeExpertsKey,
        (listed, numbers): (bool, Numbers),
        lie: Lie,
    ) {
        let what = format!(
            "{key}, {}, listed {listed}, {lie:?}, {numbers:?}",
            choice.name
        );
        let (tokens, k) = (choice.tokens, choice.k);
        let (x, x_held) = numbers.put(stream, dtype, &[tokens, HIDDEN], (1, 1.0), lie);
        let (dy, dy_held) = put(stream, dtype, &[tokens, HIDDEN], 2, lie);
        let (routing, routing_held) = put(stream, routing_type, &[tokens, k], 3, lie);
        let (groups, held) = weights(stream, dtype, key, choice.experts, (listed, numbers));
        let indices = choice.on_device(stream, ints);
        let settings = Settings {
            key,
            limit: limit_of(key, dtype, numbers),
        };
        let wanted = Each {
            x: true,
            routing: true,
            weights: groups.iter().map(|group| vec![true; group.len()]).collect(),
        };
        let operands = Operands::new(Seen(x), Seen(routing), groups, Seen(indices), settings);
        let operands = operands.expect(&what);
        let forward = |wanted| Experts::forward(stream, &operands, wanted).expect(&what);
        let (made, operators) = without_waiting(|| forward(None));
        assert!(made.saved.is_empty(), "nothing was to be kept");
        // Several operators work on the choices of experts. CANN adds the biases of bf16 in f32, so each of a list is
        // cast.
        let ours = ("npu_fused_moe", "aclnn");
        let is_cast = listed && key.bias == ExpertBias::All && dtype == DType::BF16;
        let others = 40 + if is_cast { 3 * choice.experts } else { 0 };
        if !operators.iter().any(|one| one.contains("V4")) && choice.slots() > 0 {
            assert_named(ours, key, (dtype, Mode::Inference), &operators, others);
        }
        let y = made.y;
        let (made, _) = without_waiting(|| forward(Some(&wanted)));
        let trained = made.y;
        assert_eq!(made.saved[0].shape(), [choice.slots(), 2 * WIDTH]);
        let given = Given {
            others: Default::default(),
            dy: Seen(dy),
            saved: made.saved.into_iter().map(Seen).collect(),
            ints: [].into_iter().collect(),
        };
        let all = vec![true; operands.floats().count()];
        let operands = Backward::<Experts, _>::new(operands, given, &all).expect(&what);
        let (found, _) = without_waiting(|| Experts::backward(stream, &operands).expect(&what));

        let x = x_held.exact::<2>();
        let routing = routing_held.exact::<2>();
        let leaves: Vec<Option<Exact<3>>> = held[..3]
            .iter()
            .map(|held| held.as_ref().map(Held::exact))
            .collect();
        let biases: Vec<Option<Exact<2>>> = held[3..]
            .iter()
            .map(|held| held.as_ref().map(Held::exact))
            .collect();
        let projection = |group: usize| {
            let one = Projection::new(leaves[group].clone().unwrap());
            match biases[group].clone() {
                Some(bias) => one.with_bias(bias),
                None => one,
            }
        };
        let all = match key.projections {
            Projections::Separate => Weights::separate(projection(0), projection(1), projection(2)),
            _ => Weights::packed(projection(0), projection(2)),
        };
        let (indices, limit) = (choice.exact(), limit_of(key, dtype, numbers));
        let expected = experts::reference(x.clone(), indices, routing.clone(), all, limit, key);
        let near =
            |name: &str, tensor: &Tensor, dtype: DType, shape: &[usize], expected: &[f64]| {
                assert_eq!(
                    (tensor.shape(), tensor.dtype()),
                    (shape, dtype),
                    "{name} of {what}"
                );
                if expected.is_empty() {
                    return;
                }
                // The terms were rounded to the dtype of the tokens.
                let dtype = operands.operands().x().dtype();
                assert_close_on_the_whole(
                    format!("{name} of {what}"),
                    &read(stream, tensor),
                    expected,
                    dtype,
                );
            };
        let shape = [tokens, HIDDEN];
        near("y", &y, dtype, &shape, &elements(expected.clone()));
        near(
            "y kept",
            &trained,
            dtype,
            &shape,
            &elements(expected.clone()),
        );
        let mut loss = (expected * dy_held.plain()).sum() + x.clone().sum() * 0.0;
        loss = loss + routing.clone().sum() * 0.0;
        for leaf in leaves.iter().flatten() {
            loss = loss + leaf.clone().sum() * 0.0;
        }
        for bias in biases.iter().flatten() {
            loss = loss + bias.clone().sum() * 0.0;
        }
        let exact = loss.backward();
        near(
            "dx",
            found.x.as_ref().unwrap(),
            dtype,
            &shape,
            &gradient(&x, &exact),
        );
        let d_routing = found.routing.as_ref().unwrap();
        near(
            "d_routing",
            d_routing,
            routing_type,
            &[tokens, k],
            &gradient(&routing, &exact),
        );
        let of_weight = |leaf: &Exact<3>| (gradient(leaf, &exact), leaf.dims().to_vec());
        let of_bias = |leaf: &Exact<2>| (gradient(leaf, &exact), leaf.dims().to_vec());
        let expected = leaves.iter().map(|leaf| leaf.as_ref().map(of_weight));
        let expected = expected.chain(biases.iter().map(|leaf| leaf.as_ref().map(of_bias)));
        for (group, expected) in expected.enumerate() {
            let Some((expected, stacked)) = expected else {
                assert!(found.weights[group].is_empty());
                continue;
            };
            let shape = &stacked[usize::from(listed)..];
            let one = shape.iter().product();
            for (expert, tensor) in found.weights[group].iter().enumerate() {
                let expected = &expected[expert * one..][..one];
                let name = format!("d_weight {group} {expert}");
                near(&name, tensor.as_ref().unwrap(), dtype, shape, expected);
            }
        }
    }

    #[test]
    fn every_accepted_key_and_type_beside_the_reference() {
        on_the_emulator(|_, stream| {
            for choice in choices() {
                for key in keys() {
                    for dtype in FLOATS {
                        compare(
                            stream,
                            &choice,
                            [dtype, dtype, DType::I64],
                            key,
                            false,
                            Lie::Contiguous,
                        );
                    }
                }
            }
        });
    }

    /// In half types too, the limit holds gate and up back, and their gradients with them.
    #[test]
    fn a_limit_of_every_type() {
        on_the_emulator(|_, stream| {
            let limited = MoeExpertsKey {
                clamp: Clamp::Limit,
                ..MoeExpertsKey::QWEN3
            };
            let keys = keys().filter(|key| key.clamp == Clamp::Limit);
            let keys: Vec<MoeExpertsKey> = keys.chain([limited]).collect();
            assert!(keys.len() > 3);
            for choice in choices() {
                for &key in &keys {
                    for dtype in FLOATS {
                        let types = [dtype, dtype, DType::I64];
                        let numbers = (false, Numbers::Quarters);
                        compare_numbers(stream, &choice, types, key, numbers, Lie::Contiguous);
                    }
                }
            }
        });
    }

    #[test]
    fn lists_strides_and_other_types() {
        on_the_emulator(|_, stream| {
            for choice in choices() {
                for key in keys().filter(|key| key.activation == Activation::Silu) {
                    for dtype in FLOATS {
                        let wide = [dtype, DType::F32, DType::I32];
                        compare(stream, &choice, wide, key, true, Lie::Contiguous);
                        for lie in [Lie::Sliced, Lie::Turned] {
                            compare(stream, &choice, wide, key, false, lie);
                        }
                    }
                }
            }
        });
    }

    /// CANN takes lists of 128 tensors. The tokens reach experts of every call, and the last call may have one weight.
    #[test]
    fn lists_of_more_experts_than_a_call_takes() {
        on_the_emulator(|_, stream| {
            for (name, experts) in [("two calls", 129), ("three calls", 300)] {
                let (tokens, k) = (9, 2);
                let indices = (0..tokens * k).map(|slot| (slot * slot * 23 + 128) % (experts + 1));
                let choice = Choice {
                    name,
                    tokens,
                    k,
                    experts,
                    indices: indices.map(|expert| expert as i64).collect(),
                };
                let separate = MoeExpertsKey {
                    projections: Projections::Separate,
                    ..MoeExpertsKey::QWEN3
                };
                for key in [separate, MoeExpertsKey::GPT_OSS] {
                    for dtype in FLOATS {
                        let types = [dtype, DType::F32, DType::I64];
                        compare(stream, &choice, types, key, true, Lie::Contiguous);
                    }
                }
            }
        });
    }

    #[test]
    fn on_a_toolkit_without_the_newest_grouped_product() {
        let scenario = Scenario::new().hide("aclnnGroupedMatmulV5GetWorkspaceSize");
        on(scenario, |_, stream| {
            let choice = &choices()[0];
            let types = [DType::BF16, DType::BF16, DType::I32];
            for listed in [false, true] {
                compare(
                    stream,
                    choice,
                    types,
                    MoeExpertsKey::QWEN3,
                    listed,
                    Lie::Contiguous,
                );
            }
        });
    }

    #[test]
    fn only_what_is_wanted() {
        on_the_emulator(|_, stream| {
            let choice = &choices()[0];
            let key = MoeExpertsKey {
                bias: ExpertBias::All,
                ..MoeExpertsKey::QWEN3
            };
            let settings = Settings { key, limit: None };
            let (groups, _) = weights(
                stream,
                DType::F32,
                key,
                choice.experts,
                (false, Numbers::Any),
            );
            let put =
                |shape: &[usize], seed| put(stream, DType::F32, shape, seed, Lie::Contiguous).0;
            let x = Seen(put(&[choice.tokens, HIDDEN], 1));
            let indices = Seen(choice.on_device(stream, DType::I64));
            let routing = Seen(put(&[choice.tokens, choice.k], 2));
            let operands = Operands::new(x, routing, groups, indices, settings).unwrap();
            let all = Each {
                x: true,
                routing: true,
                weights: vec![
                    vec![true],
                    vec![],
                    vec![true],
                    vec![true],
                    vec![],
                    vec![true],
                ],
            };
            let made = Experts::forward(stream, &operands, Some(&all)).unwrap();
            let given = Given {
                others: Default::default(),
                dy: Seen(made.y),
                saved: made.saved.into_iter().map(Seen).collect(),
                ints: [].into_iter().collect(),
            };
            for mask in 0..64_u32 {
                let on = |bit: u32| mask & (1 << bit) != 0;
                let (operands, wanted) = (operands.clone(), [0, 1, 2, 3, 4, 5].map(on));
                let backward = Backward::<Experts, _>::new(operands, given.clone(), &wanted);
                let found = Experts::backward(stream, &backward.unwrap()).unwrap();
                assert_eq!(found.x.is_some(), on(0), "{mask}");
                assert_eq!(found.routing.is_some(), on(1), "{mask}");
                assert_eq!(found.weights[0][0].is_some(), on(2), "{mask}");
                assert_eq!(found.weights[2][0].is_some(), on(3), "{mask}");
                assert_eq!(found.weights[3][0].is_some(), on(4), "{mask}");
                assert_eq!(found.weights[5][0].is_some(), on(5), "{mask}");
            }
        });
    }

    /// The tensors of a decision, which tests replace one by one.
    #[derive(Clone)]
    struct Tensors {
        x: Spec,
        indices: Spec,
        routing: Spec,
        weights: Vec<Vec<Spec>>,
    }

    impl Tensors {
        fn checked(
            &self,
            settings: Settings,
        ) -> Result<Operands<Seen<Spec>, Seen<Spec>>, Mismatch> {
            let [x, indices, routing] = [&self.x, &self.indices, &self.routing].map(seen);
            let group = |group: &Vec<Spec>| group.iter().map(seen).collect();
            let weights = self.weights.iter().map(group).collect();
            Operands::new(x, routing, weights, indices, settings)
        }
    }

    #[test]
    fn decisions_and_their_reasons() {
        let here = platform();
        let bf16 = |shape: &[usize]| spec(DType::BF16, shape);
        let (x, indices, routing) = (bf16(&[5, 8]), spec(DType::I64, &[5, 2]), bf16(&[5, 2]));
        let (gate_up, down) = (bf16(&[4, 12, 8]), bf16(&[4, 8, 6]));
        let all = Tensors {
            x: x.clone(),
            indices: indices.clone(),
            routing: routing.clone(),
            weights: vec![
                vec![gate_up.clone()],
                vec![],
                vec![down.clone()],
                vec![],
                vec![],
                vec![],
            ],
        };
        let key = MoeExpertsKey::QWEN3;
        let settings = |key| Settings { key, limit: None };
        let of = |tensors: &Tensors, key| -> Result<Plan, Refused> {
            decide(&here, &tensors.checked(settings(key)).unwrap())
        };
        let plan = of(&all, key).unwrap();
        assert_eq!((plan.experts, plan.width, plan.separate), (4, 6, false));
        let (wide, narrow) = (bf16(&[4, 12]), bf16(&[4, 8]));
        let mut with_biases = all.clone();
        (with_biases.weights[3], with_biases.weights[5]) =
            (vec![wide.clone()], vec![narrow.clone()]);
        let limited = MoeExpertsKey {
            clamp: Clamp::Limit,
            ..key
        };
        let biased = MoeExpertsKey {
            bias: ExpertBias::All,
            ..key
        };
        let (large_limit, none) = (Some(7.0), None);
        for (tensors, key, limit) in [(&all, limited, large_limit), (&with_biases, biased, none)] {
            let operands = tensors.checked(Settings { key, limit }).unwrap();
            assert!(decide(&here, &operands).is_ok(), "{key}");
        }
        let gpt_oss = MoeExpertsKey::GPT_OSS;
        let (gate_up, down) = (bf16(&[4, 8, 12]), bf16(&[4, 6, 8]));
        let mut theirs = with_biases.clone();
        (theirs.weights[0], theirs.weights[2]) = (vec![gate_up.clone()], vec![down.clone()]);
        let theirs = theirs.checked(Settings {
            key: gpt_oss,
            limit: large_limit,
        });
        assert!(decide(&here, &theirs.unwrap()).is_ok());
        let relu = MoeExpertsKey {
            activation: Activation::Relu,
            ..key
        };
        refused(of(&all, relu), Reason::Semantics, "no gated unit with relu");
        let separate = MoeExpertsKey {
            projections: Projections::Separate,
            ..key
        };
        mismatched(
            all.checked(settings(separate)),
            "gate and up are one tensor",
        );
        mismatched(
            all.checked(settings(MoeExpertsKey::LLAMA4)),
            "weights are 4 of",
        );
        // The number of tensors must fit the key's projections.
        let mut two = all.clone();
        two.weights[1] = vec![gate_up.clone()];
        mismatched(two.checked(settings(key)), "gate and up are two tensors");
        let changed = |change: &dyn Fn(&mut Tensors)| {
            let mut tensors = all.clone();
            change(&mut tensors);
            tensors.checked(settings(key))
        };
        let with = |change: &dyn Fn(&mut Tensors)| decide(&here, &changed(change).unwrap());
        let f64s = spec(DType::F64, &[5, 8]);
        refused(with(&|t| t.x = f64s.clone()), Reason::Dtype, "f64");
        let half = spec(DType::F16, &[4, 8, 6]);
        refused(
            with(&|t| t.weights[2] = vec![half.clone()]),
            Reason::MixedDtypes,
            "a weight is of type",
        );
        let f16s = spec(DType::F16, &[5, 2]);
        refused(
            with(&|t| t.routing = f16s.clone()),
            Reason::MixedDtypes,
            "routing weights are of type",
        );
        let wide = spec(DType::F32, &[5, 2]);
        assert!(with(&|t| t.routing = wide.clone()).is_ok());
        mismatched(changed(&|t| t.indices = wide.clone()), "must be integers");
        let small = spec(DType::I16, &[5, 2]);
        refused(
            with(&|t| t.indices = small.clone()),
            Reason::Dtype,
            "i32 and i64",
        );
        let other = spec(DType::I64, &[4, 2]);
        mismatched(
            changed(&|t| t.indices = other.clone()),
            "the indices are [4, 2]",
        );
        let narrow = bf16(&[5, 3]);
        mismatched(
            changed(&|t| t.routing = narrow.clone()),
            "the routing weights [5, 3]",
        );
        let (most, probs) = (spec(DType::I64, &[5, 513]), bf16(&[5, 513]));
        let many = with(&|t| (t.indices, t.routing) = (most.clone(), probs.clone()));
        refused(many, Reason::Shape, "at most 512");
        let (large, below) = (bf16(&[1025, 12, 8]), bf16(&[1025, 8, 6]));
        let many =
            with(&|t| (t.weights[0], t.weights[2]) = (vec![large.clone()], vec![below.clone()]));
        refused(many, Reason::Shape, "at most 1024");
        let (one, its) = (bf16(&[12, 8]), bf16(&[8, 6]));
        let listed = |count: usize| {
            with(&|t| {
                (t.weights[0], t.weights[2]) = (vec![one.clone(); count], vec![its.clone(); count])
            })
        };
        assert!(listed(1024).is_ok());
        refused(listed(1025), Reason::Shape, "at most 1024");
        let mut strided = bf16(&[4, 12, 9]);
        strided.layout = strided.layout.slice(2, 0..8).unwrap();
        refused(
            with(&|t| t.weights[0] = vec![strided.clone()]),
            Reason::Layout,
            "not contiguous",
        );
        let elsewhere = decide(&other_processor(), &changed(&|_| {}).unwrap());
        refused(elsewhere, Reason::Capability, "910B or later");
    }
}
