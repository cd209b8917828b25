//! Mixtures of experts over CANN's operators: rows and tokens, grouped products and experts, beside their references
//! in f64.

#![cfg(feature = "npu")]

mod npu;

use burn::tensor::Tensor as Exact;
use burn_cann::{DType, Stream, Tensor};
use common::Scenario;
use kernels_runtime::dispatch::Reason;
use kernels_runtime::ops::moe::experts::{self, Projection, Settings, Wanted, Weights};
use kernels_runtime::ops::moe::{Stack, grouped_matmul, permute, unpermute};
use kernels_runtime::semantics::*;
use npu::*;

const INTS: [DType; 2] = [DType::I32, DType::I64];
const LAYOUTS: [ExpertLayout; 2] = [ExpertLayout::Linear, ExpertLayout::Matmul];

/// What tokens chose: experts by token, and how many experts there are.
struct Choice {
    name: &'static str,
    tokens: usize,
    k: usize,
    experts: usize,
    indices: Vec<i64>,
}

/// Experts of many, one and no rows; experts elsewhere; one token; equal choices.
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

/// Integers of a tensor of Burn.
fn whole<const D: usize>(tensor: Exact<D, burn::tensor::Int>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

mod rows {
    use super::*;
    use permute::npu::{
        decide_move, decide_sort, sort_slots, spread, sum_rows, weigh_rows, weigh_rows_backward,
        weigh_rows_d_rows,
    };

    #[test]
    fn slots_are_sorted_as_the_reference_sorts_them() {
        on_the_emulator(
            "rows::slots_are_sorted_as_the_reference_sorts_them",
            |_, stream| {
                for choice in choices() {
                    for (ints, to) in [(DType::I32, DType::I64), (DType::I64, DType::I32)] {
                        let indices = choice.on_device(stream, ints);
                        let ((map, counts), _) = without_waiting(|| {
                            sort_slots(stream, &indices, choice.experts, choice.slots(), to)
                                .unwrap()
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
            },
        );
    }

    /// The CPU refuses such indices; here nobody sees them in time.
    #[test]
    fn indices_of_no_expert_are_nobodys() {
        on_the_emulator("rows::indices_of_no_expert_are_nobodys", |_, stream| {
            let sorted = |indices: &[i64]| {
                let indices = integers(stream, DType::I64, indices, &[3, 2]);
                let (map, counts) = sort_slots(stream, &indices, 2, 6, DType::I64).unwrap();
                (read(stream, &map), read(stream, &counts))
            };
            assert_eq!(sorted(&[-1, 1, 7, 0, -5, 1]), sorted(&[2, 1, 2, 0, 2, 1]));
        });
    }

    /// Both ways and their gradients, with the row maps that sorting makes.
    #[test]
    fn tokens_go_to_rows_and_back() {
        on_the_emulator("rows::tokens_go_to_rows_and_back", |_, stream| {
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
        let (map, _) = sort_slots(stream, &indices, choice.experts, rows, ints).unwrap();
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
        let (found, _) = without_waiting(|| spread(stream, &tokens, &map, rows).unwrap());
        let exact = tokens_held.exact::<2>();
        let expected = permute::reference(exact.clone(), choice.exact(), choice.experts, None);
        near(&found, [rows, WIDTH], &elements(expected.rows.clone()));

        let (d_rows, d_rows_held) = put(stream, dtype, &[rows, WIDTH], 2, lie);
        let (d_tokens, _) = without_waiting(|| sum_rows(stream, &d_rows, &map).unwrap());
        if rows > 0 {
            let loss = (expected.rows * d_rows_held.plain()).sum().backward();
            near(&d_tokens, [count, WIDTH], &gradient(&exact, &loss));
        }

        let (from, from_held) = put(stream, dtype, &[rows, WIDTH], 3, lie);
        let (dy, dy_held) = put(stream, dtype, &[count, WIDTH], 4, lie);
        for probs_type in [dtype, DType::F32] {
            let (probs, probs_held) = put(stream, probs_type, &[count, choice.k], 5, lie);
            let (y, _) = without_waiting(|| weigh_rows(stream, &from, &map, &probs).unwrap());
            let ((d_from, d_probs), _) =
                without_waiting(|| weigh_rows_backward(stream, &dy, &from, &map, &probs).unwrap());
            let (alone, _) =
                without_waiting(|| weigh_rows_d_rows(stream, &dy, &map, &probs, rows).unwrap());
            if rows == 0 {
                continue;
            }
            let (from, probs) = (from_held.exact::<2>(), probs_held.exact::<2>());
            let expected = unpermute::reference(from.clone(), mapped(), Some(probs.clone()));
            near(&y, [count, WIDTH], &elements(expected.clone()));
            let loss = (expected * dy_held.plain()).sum().backward();
            near(&d_from, [rows, WIDTH], &gradient(&from, &loss));
            near(&alone, [rows, WIDTH], &gradient(&from, &loss));
            // A sum over the whole width of rounded products.
            assert_eq!(d_probs.dtype(), probs_type);
            let found = read(stream, &d_probs);
            assert_close(what, &found, &gradient(&probs, &loss), dtype);
        }
    }

    #[test]
    fn what_rows_of_nobody_hold_goes_nowhere() {
        on_the_emulator(
            "rows::what_rows_of_nobody_hold_goes_nowhere",
            |_, stream| {
                let indices = integers(stream, DType::I32, &[0, 2, 1, 2], &[2, 2]);
                let (map, _) = sort_slots(stream, &indices, 2, 4, DType::I32).unwrap();
                let nan = f64::NAN;
                let rows = [1.0, 2.0, 3.0, 4.0, nan, nan, nan, nan];
                let (rows, _) = put_values(stream, DType::F32, &rows, &[4, 2], Lie::Contiguous);
                let (probs, _) =
                    put_values(stream, DType::F32, &[2.0; 4], &[2, 2], Lie::Contiguous);
                assert_eq!(
                    read(stream, &sum_rows(stream, &rows, &map).unwrap()),
                    [1.0, 2.0, 3.0, 4.0]
                );
                let y = weigh_rows(stream, &rows, &map, &probs).unwrap();
                assert_eq!(read(stream, &y), [2.0, 4.0, 6.0, 8.0]);
                let (dy, _) = put_values(stream, DType::F32, &[1.0; 4], &[2, 2], Lie::Contiguous);
                let (_, d_probs) = weigh_rows_backward(stream, &dy, &rows, &map, &probs).unwrap();
                assert_eq!(read(stream, &d_probs), [3.0, 0.0, 7.0, 0.0]);
            },
        );
    }

    #[test]
    fn decisions_and_their_reasons() {
        let here = platform();
        let indices = spec(DType::I32, &[4, 2]);
        assert!(decide_sort(&here, &indices, 8, 8).is_ok());
        refused(
            decide_sort(&here, &indices, 8, 7),
            Reason::Shape,
            "7 of 8 rows",
        );
        refused(
            decide_sort(&here, &spec(DType::F32, &[4, 2]), 8, 8),
            Reason::Dtype,
            "i32 and i64",
        );
        refused(
            decide_sort(&here, &spec(DType::I32, &[4]), 8, 4),
            Reason::Shape,
            "two axes",
        );
        let wide = spec(DType::I32, &[1, 513]);
        refused(
            decide_sort(&here, &wide, 600, 513),
            Reason::Shape,
            "at most 512",
        );
        refused(
            decide_sort(&here, &indices, 16_777_214, 8),
            Reason::Shape,
            "sorts numbers below",
        );
        refused(
            decide_sort(&other_processor(), &indices, 8, 8),
            Reason::Capability,
            "910B",
        );
        let of = |dtype, probs, rows| decide_move(&here, dtype, 16, &indices, probs, rows);
        assert!(of(DType::BF16, None, 8).is_ok());
        let wide = spec(DType::F32, &[4, 2]);
        assert!(of(DType::BF16, Some(&wide), 8).is_ok());
        refused(of(DType::F64, None, 8), Reason::Dtype, "f64");
        refused(of(DType::BF16, None, 7), Reason::Shape, "7 of 8 rows");
        let probs = spec(DType::F16, &[4, 2]);
        refused(
            of(DType::BF16, Some(&probs), 8),
            Reason::MixedDtypes,
            "probs are of type f16",
        );
        let probs = spec(DType::BF16, &[4, 3]);
        refused(
            of(DType::BF16, Some(&probs), 8),
            Reason::Shape,
            "probs has shape",
        );
        let map = spec(DType::I32, &[1 << 23, 2]);
        let many = decide_move(&here, DType::BF16, 1, &map, None, 1 << 24);
        refused(many, Reason::Shape, "sorts numbers below");
    }
}

mod products {
    use super::*;
    use grouped_matmul::npu::{backward, decide, forward};

    /// Rows of each expert, and rows of nobody behind them.
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
        on_the_emulator(
            "products::products_and_gradients_beside_the_reference",
            |_, stream| {
                for (counts, behind) in GROUPS {
                    for dtype in FLOATS {
                        for layout in LAYOUTS {
                            for listed in [false, true] {
                                for lie in LIES {
                                    compare(stream, counts, behind, dtype, layout, listed, lie);
                                }
                            }
                        }
                    }
                }
            },
        );
    }

    fn compare(
        stream: &Stream,
        counts: &[i64],
        behind: usize,
        dtype: DType,
        layout: ExpertLayout,
        listed: bool,
        lie: Lie,
    ) {
        const INPUTS: usize = 9;
        const FEATURES: usize = 6;
        let what = (counts, behind, layout, listed, lie);
        let experts = counts.len();
        let rows = counts.iter().sum::<i64>() as usize + behind;
        let (x, x_held) = put(stream, dtype, &[rows, INPUTS], 1, lie);
        let (dy, dy_held) = put(stream, dtype, &[rows, FEATURES], 2, lie);
        let [a, b] = match layout {
            ExpertLayout::Linear => [FEATURES, INPUTS],
            ExpertLayout::Matmul => [INPUTS, FEATURES],
        };
        let (stacked, held) = put(stream, dtype, &[experts, a, b], 3, Lie::Contiguous);
        let weights: Vec<Tensor> = match listed {
            false => vec![stacked],
            true => (0..experts)
                .map(|expert| {
                    stacked
                        .slice(0, expert..expert + 1)
                        .unwrap()
                        .reshape([a, b])
                        .unwrap()
                })
                .collect(),
        };
        let on_device = integers(stream, DType::I32, counts, &[experts]);
        let (y, _) = without_waiting(|| forward(stream, &x, &on_device, &weights, layout).unwrap());
        let wanted = vec![true; weights.len()];
        let ((d_x, d_weights), _) = without_waiting(|| {
            backward(stream, &dy, &x, &on_device, &weights, layout, true, &wanted).unwrap()
        });
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
        // Of no rows nothing is tracked.
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
        let none = vec![false; weights.len()];
        let (d_x, d_weights) =
            backward(stream, &dy, &x, &on_device, &weights, layout, false, &none).unwrap();
        assert!(d_x.is_none() && d_weights.iter().all(Option::is_none));
    }

    #[test]
    fn decisions_and_their_reasons() {
        let here = platform();
        let (x, counts) = (spec(DType::BF16, &[8, 16]), spec(DType::I64, &[4]));
        let weight = spec(DType::BF16, &[4, 32, 16]);
        let of = |x, counts, weights: &[_], layout| decide(&here, x, counts, weights, layout);
        let linear = ExpertLayout::Linear;
        assert!(of(&x, &counts, &[&weight], linear).is_ok());
        refused(
            of(&x, &counts, &[&weight], ExpertLayout::Matmul),
            Reason::Shape,
            "x has shape [8, 16]",
        );
        let f64s = spec(DType::F64, &[8, 16]);
        refused(of(&f64s, &counts, &[&weight], linear), Reason::Dtype, "f64");
        let half = spec(DType::F16, &[4, 32, 16]);
        refused(
            of(&x, &counts, &[&half], linear),
            Reason::MixedDtypes,
            "weight is of type f16",
        );
        let floats = spec(DType::F32, &[4]);
        refused(
            of(&x, &floats, &[&weight], linear),
            Reason::Dtype,
            "i32 and i64",
        );
        let few = spec(DType::I64, &[3]);
        refused(
            of(&x, &few, &[&weight], linear),
            Reason::Shape,
            "counts has",
        );
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
        let (one, their_counts) = (spec(DType::BF16, &[2, 16]), spec(DType::I64, &[129]));
        refused(
            of(&x, &their_counts, &vec![&one; 129], linear),
            Reason::Shape,
            "at most 128",
        );
        let wide = spec(DType::BF16, &[4, 65_536, 16]);
        refused(
            of(&x, &counts, &[&wide], linear),
            Reason::Shape,
            "at most 65535",
        );
        let elsewhere = decide(&other_processor(), &x, &counts, &[&weight], linear);
        refused(elsewhere, Reason::Capability, "910B or later");
    }
}

mod of_experts {
    use super::*;
    use experts::npu::{Tensors, backward, decide, forward};

    const HIDDEN: usize = 10;
    const WIDTH: usize = 6;

    fn keys() -> impl Iterator<Item = MoeExpertsKey> {
        let activations = [Activation::Silu, Activation::Identity];
        let projections = [
            Projections::Chunked,
            Projections::Interleaved,
            Projections::Separate,
        ];
        activations.into_iter().flat_map(move |activation| {
            projections.into_iter().flat_map(move |projections| {
                LAYOUTS.into_iter().map(move |layout| MoeExpertsKey {
                    activation,
                    projections,
                    layout,
                    ..MoeExpertsKey::QWEN3
                })
            })
        })
    }

    /// The groups of weights: on the device, and what they hold.
    fn weights(
        stream: &Stream,
        dtype: DType,
        key: MoeExpertsKey,
        experts: usize,
        listed: bool,
    ) -> (Vec<Vec<Tensor>>, Vec<Option<Held>>) {
        let separate = key.projections == Projections::Separate;
        let both = if separate { WIDTH } else { 2 * WIDTH };
        let shape = |inputs: usize, features: usize| match key.layout {
            ExpertLayout::Linear => [experts, features, inputs],
            ExpertLayout::Matmul => [experts, inputs, features],
        };
        let shapes = [
            Some(shape(HIDDEN, both)),
            separate.then(|| shape(HIDDEN, WIDTH)),
            Some(shape(WIDTH, HIDDEN)),
        ];
        let mut groups = Vec::new();
        let mut held = Vec::new();
        for (group, shape) in shapes.into_iter().enumerate() {
            let Some(shape) = shape else {
                groups.push(Vec::new());
                held.push(None);
                continue;
            };
            let (stacked, values) = put(stream, dtype, &shape, 10 + group as u64, Lie::Contiguous);
            held.push(Some(values));
            groups.push(match listed {
                false => vec![stacked],
                true => (0..experts)
                    .map(|expert| {
                        let one = stacked.slice(0, expert..expert + 1).unwrap();
                        one.reshape(&shape[1..]).unwrap()
                    })
                    .collect(),
            });
        }
        groups.extend([const { Vec::new() }; 3]);
        (groups, held)
    }

    fn compare(
        stream: &Stream,
        choice: &Choice,
        [dtype, routing_type, ints]: [DType; 3],
        key: MoeExpertsKey,
        listed: bool,
        lie: Lie,
    ) {
        let what = format!("{key}, {}, listed {listed}, {lie:?}", choice.name);
        let (tokens, k) = (choice.tokens, choice.k);
        let (x, x_held) = put(stream, dtype, &[tokens, HIDDEN], 1, lie);
        let (dy, dy_held) = put(stream, dtype, &[tokens, HIDDEN], 2, lie);
        let (routing, routing_held) = put(stream, routing_type, &[tokens, k], 3, lie);
        let (groups, held) = weights(stream, dtype, key, choice.experts, listed);
        let indices = choice.on_device(stream, ints);
        let tensors = Tensors {
            x,
            indices,
            routing,
            weights: groups,
        };
        let settings = Settings { key, limit: None };
        let ((y, nothing), _) =
            without_waiting(|| forward(stream, &tensors, settings, false).expect(&what));
        assert!(nothing.is_none(), "nothing was to be kept");
        let ((trained, kept), _) =
            without_waiting(|| forward(stream, &tensors, settings, true).expect(&what));
        let kept = kept.expect("it was to be kept");
        assert_eq!(kept.shape(), [choice.slots(), 2 * WIDTH]);
        let wanted = Wanted {
            x: true,
            routing: true,
            weights: tensors
                .weights
                .iter()
                .map(|group| vec![true; group.len()])
                .collect(),
        };
        let (found, _) = without_waiting(|| {
            backward(stream, &dy, &tensors, &kept, settings, &wanted).expect(&what)
        });

        let x = x_held.exact::<2>();
        let routing = routing_held.exact::<2>();
        let leaves: Vec<Option<Exact<3>>> = held
            .iter()
            .map(|held| held.as_ref().map(Held::exact))
            .collect();
        let projection = |group: usize| Projection::new(leaves[group].clone().unwrap());
        let all = match key.projections {
            Projections::Separate => Weights::separate(projection(0), projection(1), projection(2)),
            _ => Weights::packed(projection(0), projection(2)),
        };
        let expected =
            experts::reference(x.clone(), choice.exact(), routing.clone(), all, None, key);
        let near =
            |name: &str, tensor: &Tensor, dtype: DType, shape: &[usize], expected: &[f64]| {
                assert_eq!(
                    (tensor.shape(), tensor.dtype()),
                    (shape, dtype),
                    "{name} of {what}"
                );
                // What is added up was rounded in the type of the tokens.
                let dtype = tensors.x.dtype();
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
        for (group, leaf) in leaves.iter().enumerate() {
            let Some(leaf) = leaf else {
                assert!(found.weights[group].is_empty());
                continue;
            };
            let expected = gradient(leaf, &exact);
            let [experts, a, b] = leaf.dims();
            let one = if listed { a * b } else { experts * a * b };
            for (expert, tensor) in found.weights[group].iter().enumerate() {
                let shape: &[usize] = if listed { &[a, b] } else { &[experts, a, b] };
                let expected = &expected[expert * one..][..one];
                let name = format!("d_weight {group} {expert}");
                near(&name, tensor.as_ref().unwrap(), dtype, shape, expected);
            }
        }
    }

    #[test]
    fn every_accepted_key_and_type_beside_the_reference() {
        let name = "of_experts::every_accepted_key_and_type_beside_the_reference";
        on_the_emulator(name, |_, stream| {
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

    #[test]
    fn lists_strides_and_other_types() {
        on_the_emulator("of_experts::lists_strides_and_other_types", |_, stream| {
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

    #[test]
    fn on_a_toolkit_without_the_newest_grouped_product() {
        let name = "of_experts::on_a_toolkit_without_the_newest_grouped_product";
        let scenario = Scenario::new(name).hide("aclnnGroupedMatmulV5GetWorkspaceSize");
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
        on_the_emulator("of_experts::only_what_is_wanted", |_, stream| {
            let choice = &choices()[0];
            let settings = Settings {
                key: MoeExpertsKey::QWEN3,
                limit: None,
            };
            let (groups, _) = weights(
                stream,
                DType::F32,
                MoeExpertsKey::QWEN3,
                choice.experts,
                false,
            );
            let put =
                |shape: &[usize], seed| put(stream, DType::F32, shape, seed, Lie::Contiguous).0;
            let tensors = Tensors {
                x: put(&[choice.tokens, HIDDEN], 1),
                indices: choice.on_device(stream, DType::I64),
                routing: put(&[choice.tokens, choice.k], 2),
                weights: groups,
            };
            let (y, kept) = forward(stream, &tensors, settings, true).unwrap();
            let kept = kept.unwrap();
            for mask in 0..16_u32 {
                let on = |bit: u32| mask & (1 << bit) != 0;
                let wanted = Wanted {
                    x: on(0),
                    routing: on(1),
                    weights: vec![vec![on(2)], vec![], vec![on(3)], vec![], vec![], vec![]],
                };
                let found = backward(stream, &y, &tensors, &kept, settings, &wanted).unwrap();
                assert_eq!(found.x.is_some(), on(0), "{mask}");
                assert_eq!(found.routing.is_some(), on(1), "{mask}");
                assert_eq!(found.weights[0][0].is_some(), on(2), "{mask}");
                assert_eq!(found.weights[2][0].is_some(), on(3), "{mask}");
            }
        });
    }

    #[test]
    fn decisions_and_their_reasons() {
        let here = platform();
        let bf16 = |shape: &[usize]| spec(DType::BF16, shape);
        let (x, indices, routing) = (bf16(&[5, 8]), spec(DType::I64, &[5, 2]), bf16(&[5, 2]));
        let (gate_up, down) = (bf16(&[4, 12, 8]), bf16(&[4, 8, 6]));
        let packed = || vec![vec![&gate_up], vec![], vec![&down], vec![], vec![], vec![]];
        let all = Tensors {
            x: &x,
            indices: &indices,
            routing: &routing,
            weights: packed(),
        };
        let key = MoeExpertsKey::QWEN3;
        let of = |tensors: &Tensors<_>, key| decide(&here, tensors, Settings { key, limit: None });
        let plan = of(&all, key).unwrap();
        assert_eq!((plan.experts, plan.width, plan.separate), (4, 6, false));
        refused(
            of(&all, MoeExpertsKey::GPT_OSS),
            Reason::Semantics,
            "no operators with gradients",
        );
        let biased = MoeExpertsKey {
            bias: ExpertBias::All,
            ..key
        };
        refused(
            of(&all, biased),
            Reason::Semantics,
            "no operators with gradients",
        );
        let gelu = MoeExpertsKey {
            activation: Activation::GeluTanh,
            ..key
        };
        refused(of(&all, gelu), Reason::Semantics, "gelu_tanh");
        let offset = MoeExpertsKey {
            up_offset: Offset::One,
            ..key
        };
        refused(of(&all, offset), Reason::Semantics, "up_offset=1");
        let separate = MoeExpertsKey {
            projections: Projections::Separate,
            ..key
        };
        refused(
            of(&all, separate),
            Reason::Semantics,
            "the weights are not those",
        );
        refused(
            of(&all, MoeExpertsKey::LLAMA4),
            Reason::Shape,
            "don't go together",
        );
        let with = |change: &dyn Fn(&mut Tensors<_>)| {
            let mut tensors = all.clone();
            change(&mut tensors);
            of(&tensors, key)
        };
        let f64s = spec(DType::F64, &[5, 8]);
        refused(with(&|t| t.x = &f64s), Reason::Dtype, "f64");
        let half = spec(DType::F16, &[4, 8, 6]);
        refused(
            with(&|t| t.weights[2] = vec![&half]),
            Reason::MixedDtypes,
            "a weight is of type",
        );
        let f16s = spec(DType::F16, &[5, 2]);
        refused(
            with(&|t| t.routing = &f16s),
            Reason::MixedDtypes,
            "routing weights are of type",
        );
        let wide = spec(DType::F32, &[5, 2]);
        assert!(with(&|t| t.routing = &wide).is_ok());
        refused(with(&|t| t.indices = &wide), Reason::Dtype, "i32 and i64");
        let other = spec(DType::I64, &[4, 2]);
        refused(
            with(&|t| t.indices = &other),
            Reason::Shape,
            "indices has shape",
        );
        let narrow = bf16(&[5, 3]);
        refused(
            with(&|t| t.routing = &narrow),
            Reason::Shape,
            "routing has shape",
        );
        let (most, probs) = (spec(DType::I64, &[5, 513]), bf16(&[5, 513]));
        let many = with(&|t| (t.indices, t.routing) = (&most, &probs));
        refused(many, Reason::Shape, "at most 512");
        let (large, below) = (bf16(&[1025, 12, 8]), bf16(&[1025, 8, 6]));
        let many = with(&|t| (t.weights[0], t.weights[2]) = (vec![&large], vec![&below]));
        refused(many, Reason::Shape, "at most 1024");
        let (one, its) = (bf16(&[12, 8]), bf16(&[8, 6]));
        let many = with(&|t| (t.weights[0], t.weights[2]) = (vec![&one; 129], vec![&its; 129]));
        refused(many, Reason::Shape, "at most 128");
        let mut strided = bf16(&[4, 12, 9]);
        strided.layout = strided.layout.slice(2, 0..8).unwrap();
        refused(
            with(&|t| t.weights[0] = vec![&strided]),
            Reason::Layout,
            "not contiguous",
        );
        let elsewhere = decide(&other_processor(), &all, Settings { key, limit: None });
        refused(elsewhere, Reason::Capability, "910B or later");
    }
}
