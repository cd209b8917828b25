//! Tests of experts and grouped products: against numbers that transformers' modules computed, and against the
//! reference in f64, for every layout, dtype and difficult grouping.

use crate::support::{Fixture, relative_error, relative_error_of_any, values};
use burn::tensor::{DType, Device, FloatDType, Int, Tensor, TensorData};
use kernels_runtime::dispatch::Reason;
use kernels_runtime::ops::moe::experts::{self, GateUp, Projection, Weights};
use kernels_runtime::ops::moe::{Stack, grouped_matmul};
use kernels_runtime::semantics::*;

const LAYOUTS: [ExpertLayout; 2] = [ExpertLayout::Linear, ExpertLayout::Matmul];
const DTYPES: [DType; 4] = [DType::F64, DType::F32, DType::F16, DType::BF16];

/// Returns the largest relative error in the L2 norm: roundings, which accumulate over the few operations that round,
/// and a little for f32's sums.
fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-14,
        DType::F32 => 1e-6,
        DType::F16 => 3e-3,
        _ => 2.4e-2,
    }
}

/// Returns the largest allowed distance of a path from the exact result, relative to the module's own. A kernel only
/// adds in another order. The reference rounds where the module does, which is as inexact on average, but not for each
/// result: a case has only 34 gradients of routing weights.
fn slack(fused: bool) -> f64 {
    if fused { 1.1 } else { 1.5 }
}

/// Returns reproducible numbers around zero.
fn numbers(len: usize, seed: usize) -> Vec<f64> {
    let mut state = seed as u64 * 2_654_435_761 + 88_172_645_463_325_252;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
        })
        .collect()
}

fn floats<const D: usize>(
    shape: [usize; D],
    seed: usize,
    scale: f64,
    dtype: DType,
    device: &Device,
) -> Tensor<D> {
    let values: Vec<f64> = numbers(shape.iter().product(), seed)
        .into_iter()
        .map(|value| value * scale)
        .collect();
    Tensor::from_data(TensorData::new(values, shape), (device, dtype))
}

/// Returns a loss whose gradient of `y` is `dy`. It is tracked even if nothing went through an expert.
fn loss(y: Tensor<2>, dy: Tensor<2>, x: &Tensor<2>) -> Tensor<1> {
    (y * dy).sum() + x.clone().sum() * 0.0
}

fn integers<const D: usize>(values: &[i64], shape: [usize; D], device: &Device) -> Tensor<D, Int> {
    Tensor::from_data(TensorData::new(values.to_vec(), shape), device)
}

mod grouped {
    use super::*;

    fn run(
        fused: bool,
        x: Tensor<2>,
        counts: Tensor<1, Int>,
        weights: Stack<3, 2>,
        layout: ExpertLayout,
    ) -> Tensor<2> {
        if fused {
            grouped_matmul::fused(x, counts, weights, layout).unwrap()
        } else {
            grouped_matmul::reference(x, counts, weights, layout)
        }
    }

    #[test]
    fn as_near_as_torch() {
        let fixture = Fixture::open("grouped_matmul");
        let cases = fixture.cases("x");
        assert_eq!(cases.len(), 12);
        let device = Device::flex().autodiff();
        for case in cases {
            for fused in [true, false] {
                for layout in LAYOUTS {
                    let x = fixture
                        .tensor::<2>(&format!("{case}.x"), &device)
                        .require_grad();
                    let w = fixture.tensor::<3>(&format!("{case}.w"), &device);
                    let w = match layout {
                        // A contiguous leaf with the other order of axes.
                        ExpertLayout::Linear => Tensor::from_data(
                            w.clone().inner().swap_dims(1, 2).into_data(),
                            (&device, w.dtype()),
                        ),
                        ExpertLayout::Matmul => w,
                    }
                    .require_grad();
                    let counts = fixture.ints::<1>(&format!("{case}.group_sizes"), &device);
                    let dy = fixture.tensor::<2>(&format!("{case}.dy"), &device);
                    let y = run(fused, x.clone(), counts, w.clone().into(), layout);
                    let grads = (y.clone() * dy).sum().backward();
                    let dw = w.grad(&grads).unwrap();
                    let dw = match layout {
                        ExpertLayout::Linear => dw.swap_dims(1, 2),
                        ExpertLayout::Matmul => dw,
                    };
                    let what = format!("fused {fused} {layout:?}");
                    let dx = values(x.grad(&grads).unwrap());
                    fixture.as_near(slack(fused), &what, &values(y), &case, "torch", "y");
                    fixture.as_near(slack(fused), &what, &dx, &case, "torch", "dx");
                    fixture.as_near(slack(fused), &what, &values(dw), &case, "torch", "dw");
                }
            }
        }
    }

    /// Returns the result, and the gradients of the rows and of each expert's weights.
    fn all(
        fused: bool,
        stacked: bool,
        [rows, inputs, features]: [usize; 3],
        counts: &[i64],
        layout: ExpertLayout,
        dtype: DType,
    ) -> Vec<Vec<f64>> {
        let device = Device::flex().autodiff();
        // All paths get numbers that bf16 can hold.
        let leaf = |tensor: Tensor<2>| tensor.cast(FloatDType::from(dtype)).detach().require_grad();
        let x = leaf(floats([rows, inputs], 1, 1.0, DType::BF16, &device));
        let sizes = match layout {
            ExpertLayout::Linear => [features, inputs],
            ExpertLayout::Matmul => [inputs, features],
        };
        let parts: Vec<Tensor<2>> = (0..counts.len())
            .map(|e| leaf(floats(sizes, 10 + e, 1.0, DType::BF16, &device)))
            .collect();
        let weights: Stack<3, 2> = if stacked {
            Tensor::stack::<3>(parts.clone(), 0).into()
        } else {
            parts.clone().into()
        };
        let dy = floats([rows, features], 2, 1.0, DType::BF16, &device);
        let dy = dy.cast(FloatDType::from(dtype));
        let counts = integers(counts, [counts.len()], &device);
        let y = run(fused, x.clone(), counts, weights, layout);
        let grads = loss(y.clone(), dy, &x).backward();
        let mut results = vec![values(y), values(x.grad(&grads).unwrap())];
        for part in parts {
            let gradient = part.grad(&grads);
            // Plain operations give no gradient to an expert without rows.
            let zeros = vec![0.0; inputs * features];
            results.push(gradient.map_or(zeros, values));
        }
        results
    }

    #[test]
    fn as_the_reference() {
        for (sizes, counts) in [
            ([0, 3, 5], &[0, 0][..]),
            ([1, 7, 3], &[0, 1]),
            ([9, 20, 300], &[2, 0, 5]),
            ([40, 33, 70], &[40]),
            ([40, 64, 17], &[0, 30, 0, 10]),
            ([450, 17, 90], &[420, 3]),
        ] {
            for layout in LAYOUTS {
                let exact = all(false, true, sizes, counts, layout, DType::F64);
                for dtype in DTYPES {
                    for stacked in [true, false] {
                        let ours = all(true, stacked, sizes, counts, layout, dtype);
                        assert_eq!(ours.len(), exact.len());
                        for (i, (ours, exact)) in ours.iter().zip(&exact).enumerate() {
                            let error = relative_error_of_any(ours, exact);
                            assert!(
                                error < tolerance(dtype) / 3.0,
                                "{sizes:?} {counts:?} {layout:?} {dtype:?} {stacked} {i}: {error:e}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn rows_beyond_the_counts_are_zero() {
        let ours = all(
            true,
            true,
            [6, 4, 3],
            &[2, 1],
            ExpertLayout::Linear,
            DType::F32,
        );
        assert!(ours[0][..9].iter().all(|value| *value != 0.0));
        assert_eq!(ours[0][9..], [0.0; 9]);
        assert_eq!(ours[1][12..], [0.0; 12]);
    }

    #[test]
    #[should_panic(expected = "the counts [3, 2] are not those of 4 rows")]
    fn more_counts_than_rows_are_an_error() {
        all(
            true,
            true,
            [4, 2, 2],
            &[3, 2],
            ExpertLayout::Linear,
            DType::F32,
        );
    }

    #[test]
    fn a_transposed_view_is_the_other_layout() {
        let device = Device::flex();
        let x = floats([30, 8], 1, 1.0, DType::F32, &device);
        let w: Tensor<3> = floats([2, 8, 5], 2, 1.0, DType::F32, &device);
        let counts = || integers(&[28, 2], [2], &device);
        let y = run(
            true,
            x.clone(),
            counts(),
            w.clone().into(),
            ExpertLayout::Matmul,
        );
        let view = w.swap_dims(1, 2);
        let z = run(true, x, counts(), view.into(), ExpertLayout::Linear);
        assert!(relative_error(&values(z), &values(y)) < 1e-6);
    }

    #[test]
    fn different_dtypes_are_refused() {
        let device = Device::flex();
        let x = floats([2, 8], 1, 1.0, DType::F32, &device);
        let w: Tensor<3> = floats([1, 8, 5], 2, 1.0, DType::BF16, &device);
        let counts = integers(&[2], [1], &device);
        let refused = grouped_matmul::fused(x, counts, w, ExpertLayout::Matmul);
        assert_eq!(refused.err(), Some(Reason::MixedDtypes));
    }
}

/// The operands of a block of experts, and the way it runs.
#[derive(Clone)]
struct Case {
    tokens: usize,
    hidden: usize,
    width: usize,
    experts: usize,
    choices: usize,
    /// The experts of the slots.
    route: Route,
    key: MoeExpertsKey,
    stacked: bool,
}

#[derive(Clone, Copy, Debug)]
enum Route {
    /// The choices of a token are different experts.
    Spread,
    /// Choice `j` is expert `j`.
    Same,
    /// As `Spread`, with an expert elsewhere in every third slot.
    Elsewhere,
    /// All experts are elsewhere.
    AllElsewhere,
}

impl Case {
    fn indices(&self) -> Vec<i64> {
        (0..self.tokens * self.choices)
            .map(|slot| {
                let (token, choice) = (slot / self.choices, slot % self.choices);
                let spread = (token * 7 + token / 3 + choice) % self.experts;
                let index = match self.route {
                    Route::Spread => spread,
                    Route::Same => choice % self.experts,
                    Route::Elsewhere if slot % 3 == 1 => self.experts,
                    Route::Elsewhere => spread,
                    Route::AllElsewhere => self.experts,
                };
                index as i64
            })
            .collect()
    }

    /// Returns a limit that some operands exceed. On half types none do: an operand that rounding moves across the
    /// limit would gain or lose its gradient. The numbers of transformers cover those.
    fn limit(&self, half: bool) -> Option<f64> {
        (self.key.clamp == Clamp::Limit).then_some(if half { 30.0 } else { 1.5 })
    }

    /// Returns the result, and the gradients of x, the routing weights and every weight and bias.
    fn run(&self, fused: bool, dtype: DType, half: bool) -> Vec<Vec<f64>> {
        let device = Device::flex().autodiff();
        let Self {
            tokens,
            hidden,
            width,
            experts,
            choices,
            key,
            ..
        } = self.clone();
        // All paths get numbers that bf16 can hold.
        let dtype = FloatDType::from(dtype);
        let x = floats([tokens, hidden], 1, 1.0, DType::BF16, &device)
            .cast(dtype)
            .detach()
            .require_grad();
        let routing = floats([tokens, choices], 2, 1.0, DType::BF16, &device)
            .cast(dtype)
            .detach()
            .require_grad();
        let dy = floats([tokens, hidden], 3, 1.0, DType::BF16, &device).cast(dtype);
        let mut leaves = Vec::new();
        let mut biases = Vec::new();
        let mut projection = |seed: usize, inputs: usize, features: usize| {
            let sizes = match key.layout {
                ExpertLayout::Linear => [features, inputs],
                ExpertLayout::Matmul => [inputs, features],
            };
            let scale = 2.0 / (inputs as f64).sqrt();
            let parts: Vec<Tensor<2>> = (0..experts)
                .map(|e| {
                    floats(sizes, seed + e, scale, DType::BF16, &device)
                        .cast(dtype)
                        .detach()
                        .require_grad()
                })
                .collect();
            leaves.extend(parts.clone());
            let weight: Stack<3, 2> = if self.stacked {
                Tensor::stack::<3>(parts, 0).into()
            } else {
                parts.into()
            };
            let weights = Projection::new(weight);
            if key.bias == ExpertBias::None {
                return weights;
            }
            let parts: Vec<Tensor<1>> = (0..experts)
                .map(|e| {
                    floats([features], seed + 500 + e, 0.5, DType::BF16, &device)
                        .cast(dtype)
                        .detach()
                        .require_grad()
                })
                .collect();
            biases.extend(parts.clone());
            if self.stacked {
                weights.with_bias(Tensor::stack::<2>(parts, 0))
            } else {
                weights.with_bias(parts)
            }
        };
        let gate_up = if key.projections == Projections::Separate {
            GateUp::Separate {
                gate: projection(1000, hidden, width),
                up: projection(2000, hidden, width),
            }
        } else {
            GateUp::Packed(projection(1000, hidden, 2 * width))
        };
        let weights = Weights {
            gate_up,
            down: projection(3000, width, hidden),
        };
        let indices = integers(&self.indices(), [tokens, choices], &device);
        let (x_in, routing_in) = (x.clone(), routing.clone());
        let y = if fused {
            experts::fused(x_in, indices, routing_in, weights, self.limit(half), key).unwrap()
        } else {
            experts::reference(x_in, indices, routing_in, weights, self.limit(half), key)
        };
        let grads = loss(y.clone(), dy, &x).backward();
        // Plain operations give no gradient if nothing is routed.
        let or_zeros = |gradient: Option<Tensor<2>>, like: Tensor<2>| {
            values(gradient.unwrap_or_else(|| like.inner().zeros_like()))
        };
        let mut results = vec![
            values(y),
            or_zeros(x.grad(&grads), x),
            or_zeros(routing.grad(&grads), routing),
        ];
        results.extend(
            leaves
                .into_iter()
                .map(|leaf| or_zeros(leaf.grad(&grads), leaf)),
        );
        results.extend(biases.into_iter().map(|leaf| {
            let zeros = leaf.clone().inner().zeros_like();
            values(leaf.grad(&grads).unwrap_or(zeros))
        }));
        results
    }

    fn check(&self, what: &str) {
        let exact = [false, true].map(|half| self.run(false, DType::F64, half));
        for dtype in DTYPES {
            let half = matches!(dtype, DType::F16 | DType::BF16);
            let (ours, exact) = (self.run(true, dtype, half), &exact[usize::from(half)]);
            assert_eq!(ours.len(), exact.len());
            for (i, (ours, exact)) in ours.iter().zip(exact).enumerate() {
                let error = relative_error_of_any(ours, exact);
                assert!(
                    error < tolerance(dtype),
                    "{what} {} {:?} {dtype:?} result {i}: {error:e}",
                    self.key,
                    self.route,
                );
            }
        }
    }
}

/// Returns every semantics that the CPU kernel accepts.
fn keys() -> Vec<MoeExpertsKey> {
    let mut keys = Vec::new();
    for layout in LAYOUTS {
        for projections in [
            Projections::Chunked,
            Projections::Interleaved,
            Projections::Separate,
        ] {
            for bias in [ExpertBias::None, ExpertBias::All] {
                keys.push(MoeExpertsKey {
                    layout,
                    projections,
                    bias,
                    ..MoeExpertsKey::QWEN3
                });
                keys.push(MoeExpertsKey {
                    layout,
                    projections,
                    bias,
                    ..MoeExpertsKey::GPT_OSS
                });
            }
        }
    }
    keys
}

const SMALL: Case = Case {
    tokens: 11,
    hidden: 20,
    width: 13,
    experts: 5,
    choices: 2,
    route: Route::Spread,
    key: MoeExpertsKey::QWEN3,
    stacked: true,
};

#[test]
fn experts_as_the_reference_for_every_key() {
    for key in keys() {
        for stacked in [true, false] {
            Case {
                key,
                stacked,
                ..SMALL
            }
            .check(&format!("stacked {stacked}"));
        }
    }
}

/// Tests each activation with a clamp, an offset and biases, and without them.
#[test]
fn experts_as_the_reference_for_every_activation() {
    for activation in Activation::ALL {
        for key in [MoeExpertsKey::QWEN3, MoeExpertsKey::GPT_OSS] {
            let key = MoeExpertsKey { activation, ..key };
            Case { key, ..SMALL }.check("activation");
        }
    }
}

#[test]
fn experts_as_the_reference_for_awkward_groups() {
    for key in [MoeExpertsKey::QWEN3, MoeExpertsKey::GPT_OSS] {
        for (what, case) in [
            ("no tokens", Case { tokens: 0, ..SMALL }),
            ("one token", Case { tokens: 1, ..SMALL }),
            (
                "one expert",
                Case {
                    experts: 1,
                    choices: 1,
                    ..SMALL
                },
            ),
            (
                "one expert, many rows",
                Case {
                    experts: 1,
                    choices: 1,
                    tokens: 800,
                    ..SMALL
                },
            ),
            (
                "one group with all",
                Case {
                    choices: 1,
                    route: Route::Same,
                    tokens: 60,
                    ..SMALL
                },
            ),
            (
                "elsewhere",
                Case {
                    route: Route::Elsewhere,
                    tokens: 70,
                    ..SMALL
                },
            ),
            (
                "all elsewhere",
                Case {
                    route: Route::AllElsewhere,
                    ..SMALL
                },
            ),
            (
                "many experts",
                Case {
                    experts: 33,
                    choices: 3,
                    ..SMALL
                },
            ),
            (
                "wide",
                Case {
                    hidden: 130,
                    width: 300,
                    tokens: 70,
                    ..SMALL
                },
            ),
        ] {
            Case { key, ..case }.check(what);
        }
    }
}

#[test]
fn experts_as_near_as_transformers() {
    let fixture = Fixture::open("experts");
    let device = Device::flex().autodiff();
    let cases = fixture.cases("x");
    assert_eq!(cases.len(), 8);
    for case in cases {
        let gpt_oss = case.starts_with("gpt_oss");
        let (key, limit) = if gpt_oss {
            (MoeExpertsKey::GPT_OSS, Some(7.0))
        } else {
            (MoeExpertsKey::QWEN3, None)
        };
        for fused in [true, false] {
            let leaf2 = |name: &str| {
                fixture
                    .tensor::<2>(&format!("{case}.{name}"), &device)
                    .require_grad()
            };
            let leaf3 = |name: &str| {
                fixture
                    .tensor::<3>(&format!("{case}.{name}"), &device)
                    .require_grad()
            };
            let (x, routing) = (leaf2("x"), leaf2("weights"));
            let (gate_up, down) = (leaf3("param.gate_up_proj"), leaf3("param.down_proj"));
            let mut weights = Weights::packed(
                Projection::new(gate_up.clone()),
                Projection::new(down.clone()),
            );
            let mut biases = Vec::new();
            if gpt_oss {
                let gate_up = leaf2("param.gate_up_proj_bias");
                let down = leaf2("param.down_proj_bias");
                biases = vec![
                    ("d_gate_up_proj_bias", gate_up.clone()),
                    ("d_down_proj_bias", down.clone()),
                ];
                if let GateUp::Packed(projection) = weights.gate_up {
                    weights.gate_up = GateUp::Packed(projection.with_bias(gate_up));
                }
                weights.down = weights.down.with_bias(down);
            }
            let indices = fixture.ints::<2>(&format!("{case}.indices"), &device);
            let dy = fixture.tensor::<2>(&format!("{case}.dy"), &device);
            let y = if fused {
                experts::fused(x.clone(), indices, routing.clone(), weights, limit, key).unwrap()
            } else {
                experts::reference(x.clone(), indices, routing.clone(), weights, limit, key)
            };
            let grads = (y.clone() * dy).sum().backward();
            let mut results = vec![
                ("y", values(y)),
                ("dx", values(x.grad(&grads).unwrap())),
                ("d_weights", values(routing.grad(&grads).unwrap())),
                ("d_gate_up_proj", values(gate_up.grad(&grads).unwrap())),
                ("d_down_proj", values(down.grad(&grads).unwrap())),
            ];
            results.extend(
                biases
                    .into_iter()
                    .map(|(name, bias)| (name, values(bias.grad(&grads).unwrap()))),
            );
            for (name, got) in results {
                assert!(fixture.has(&format!("{case}.ref.{name}")));
                fixture.as_near(
                    slack(fused),
                    &format!("fused {fused}"),
                    &got,
                    &case,
                    "hf",
                    name,
                );
            }
        }
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let run = |threads: usize, case: &Case, dtype: DType| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| case.run(true, dtype, false))
    };
    for case in [
        Case {
            tokens: 90,
            hidden: 200,
            width: 130,
            ..SMALL
        },
        Case {
            tokens: 900,
            experts: 1,
            choices: 1,
            ..SMALL
        },
        Case {
            tokens: 40,
            key: MoeExpertsKey::GPT_OSS,
            hidden: 130,
            ..SMALL
        },
    ] {
        for dtype in [DType::F32, DType::BF16] {
            assert_eq!(run(1, &case, dtype), run(2, &case, dtype));
        }
    }
}

/// Frozen weights get no gradient, and the gradients of tracked tensors don't change.
#[test]
fn only_what_is_tracked_gets_a_gradient() {
    let device = Device::flex().autodiff();
    let leaf = |seed| floats([2, 6, 4], seed, 1.0, DType::F32, &device);
    let gradient = |track_down: bool| {
        let x = floats([5, 4], 1, 1.0, DType::F32, &device);
        let routing = floats([5, 1], 2, 1.0, DType::F32, &device);
        let gate_up = leaf(3).require_grad();
        let down = floats([2, 4, 3], 4, 1.0, DType::F32, &device);
        let down = if track_down {
            down.require_grad()
        } else {
            down
        };
        let weights = Weights::packed(
            Projection::new(gate_up.clone()),
            Projection::new(down.clone()),
        );
        let indices = integers(&[0, 1, 1, 0, 1], [5, 1], &device);
        let y = experts::fused(
            x.clone(),
            indices,
            routing,
            weights,
            None,
            MoeExpertsKey::QWEN3,
        )
        .unwrap();
        let grads = y.sum().backward();
        assert!(x.grad(&grads).is_none());
        assert_eq!(down.grad(&grads).is_some(), track_down);
        values(gate_up.grad(&grads).unwrap())
    };
    assert_eq!(gradient(true), gradient(false));
}

/// The gradient of a computed weight is passed on to its inputs, also with gradient checkpointing.
#[test]
fn gradients_go_through_computed_weights() {
    let gradient = |device: &Device, fused: bool| {
        let x = floats([5, 4], 1, 1.0, DType::F32, device);
        let routing = floats([5, 1], 2, 1.0, DType::F32, device);
        let leaves: Vec<Tensor<2>> = (0..20)
            .map(|e| floats([6, 4], 10 + e, 1.0, DType::F32, device).require_grad())
            .collect();
        let gate_up: Vec<Tensor<2>> = leaves.iter().map(|leaf| leaf.clone() * 2.0).collect();
        let down: Tensor<3> = floats([20, 4, 3], 4, 1.0, DType::F32, device);
        let weights = Weights::packed(Projection::new(gate_up), Projection::new(down));
        let indices = integers(&[0, 19, 1, 0, 7], [5, 1], device);
        let y = if fused {
            experts::fused(x, indices, routing, weights, None, MoeExpertsKey::QWEN3).unwrap()
        } else {
            experts::reference(x, indices, routing, weights, None, MoeExpertsKey::QWEN3)
        };
        let grads = y.sum().backward();
        let used = [0, 19, 1, 7].map(|e: usize| values(leaves[e].grad(&grads).unwrap()));
        used.concat()
    };
    let plain = Device::flex().autodiff();
    let checkpointing = Device::flex().autodiff().gradient_checkpointing();
    let expected = gradient(&plain, false);
    for device in [plain, checkpointing] {
        assert!(relative_error(&gradient(&device, true), &expected) < 1e-6);
    }
}

/// Mixtral's routing weights are f32 beside bf16.
#[test]
fn routing_weights_may_be_f32() {
    let device = Device::flex().autodiff();
    let case = Case {
        route: Route::Elsewhere,
        ..SMALL
    };
    let x = floats([case.tokens, 20], 1, 1.0, DType::BF16, &device);
    let routing = floats([case.tokens, 2], 2, 1.0, DType::F32, &device).require_grad();
    let weights = Weights::packed(
        Projection::new(floats::<3>([5, 26, 20], 3, 0.5, DType::BF16, &device)),
        Projection::new(floats::<3>([5, 20, 13], 4, 0.5, DType::BF16, &device)),
    );
    let indices = || integers(&case.indices(), [case.tokens, 2], &device);
    let y = experts::fused(
        x.clone(),
        indices(),
        routing.clone(),
        weights.clone(),
        None,
        case.key,
    )
    .unwrap();
    let z = experts::reference(x, indices(), routing.clone(), weights, None, case.key);
    assert_eq!(y.dtype(), DType::BF16);
    assert!(relative_error(&values(y.clone()), &values(z.clone())) < 1.6e-2);
    let gradient = |y: Tensor<2>| {
        let gradient = routing.grad(&y.sum().backward()).unwrap();
        assert_eq!(gradient.dtype(), DType::F32);
        values(gradient)
    };
    assert!(relative_error(&gradient(y), &gradient(z)) < 2e-2);
}

#[test]
fn what_no_kernel_takes_is_refused() {
    let device = Device::flex();
    let run = |key: MoeExpertsKey, dtype: DType| {
        let weights = Weights::packed(
            Projection::new(floats::<3>([2, 6, 4], 3, 0.5, DType::F32, &device)),
            Projection::new(floats::<3>([2, 4, 3], 4, 0.5, dtype, &device)),
        );
        let x = floats([1, 4], 1, 1.0, DType::F32, &device);
        let routing = floats([1, 1], 1, 1.0, DType::F32, &device);
        let indices = integers(&[0], [1, 1], &device);
        experts::fused(x, indices, routing, weights, None, key).err()
    };
    assert_eq!(
        run(MoeExpertsKey::QWEN3, DType::BF16),
        Some(Reason::MixedDtypes)
    );
    assert_eq!(run(MoeExpertsKey::QWEN3, DType::F32), None);
}

#[test]
#[should_panic(expected = "routed to expert 7, but there are 5")]
fn an_expert_that_does_not_exist_is_an_error() {
    let device = Device::flex();
    let weights = Weights::packed(
        Projection::new(floats::<3>([5, 6, 4], 3, 0.5, DType::F32, &device)),
        Projection::new(floats::<3>([5, 4, 3], 4, 0.5, DType::F32, &device)),
    );
    let x = floats([1, 4], 1, 1.0, DType::F32, &device);
    let routing = floats([1, 1], 1, 1.0, DType::F32, &device);
    let indices = integers(&[7], [1, 1], &device);
    let _ = experts::fused(x, indices, routing, weights, None, MoeExpertsKey::QWEN3);
}

#[test]
#[should_panic(expected = "the gate and up weights are 5 of [5, 4]")]
fn weights_of_another_width_are_an_error() {
    let device = Device::flex();
    let weights = Weights::packed(
        Projection::new(floats::<3>([5, 5, 4], 3, 0.5, DType::F32, &device)),
        Projection::new(floats::<3>([5, 4, 3], 4, 0.5, DType::F32, &device)),
    );
    let x = floats([1, 4], 1, 1.0, DType::F32, &device);
    let routing = floats([1, 1], 1, 1.0, DType::F32, &device);
    let indices = integers(&[0], [1, 1], &device);
    let _ = experts::fused(x, indices, routing, weights, None, MoeExpertsKey::QWEN3);
}

/// The list form calls the caller's function once for each expert with rows.
#[test]
fn each_calls_every_expert_with_rows_once() {
    let device = Device::flex();
    let x = floats([3, 2], 1, 1.0, DType::F32, &device);
    let routing = Tensor::<2>::from_data([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], &device);
    let indices = integers(&[2, 0, 4, 2, 2, 4], [3, 2], &device);
    let mut called = Vec::new();
    let y = experts::each(x.clone(), indices, routing, 4, |expert, rows| {
        called.push((expert, values(rows.clone())));
        rows * (expert + 1) as f64
    });
    let row = |t: usize| values(x.clone().slice_dim(0, t..t + 1));
    assert_eq!(
        called,
        [(0, row(0)), (2, [row(0), row(1), row(2)].concat())]
    );
    // 1 · 3 + 2 · 1, 4 · 3, 5 · 3.
    let expected: Vec<f64> = [5.0, 12.0, 15.0]
        .iter()
        .enumerate()
        .flat_map(|(t, factor)| row(t).into_iter().map(move |x| x * factor))
        .collect();
    assert!(relative_error(&values(y), &expected) < 1e-6);
}
