//! Compares gated linear units over CANN's operators with the reference in f64, for every accepted key, dtype and
//! layout.

use crate::npu::*;
use burn_cann::{DType, Spec, Stream, Tensor};
use kernels_runtime::dispatch::{Mode, Reason};
use kernels_runtime::npu::{Seen, Specified};
use kernels_runtime::ops::Mismatch;
use kernels_runtime::ops::glu::npu::{Plan, Unit, backward, decide, forward};
use kernels_runtime::ops::glu::{Inputs, Operands, Projected, Settings, reference};
use kernels_runtime::semantics::*;

/// Has the threshold half a deviation above the mean, a number that no dtype rounds.
const SPARSITY: f64 = 0.691_462_461_274_013_1;
const PROJECTIONS: [Projections; 3] = [
    Projections::Separate,
    Projections::Chunked,
    Projections::Interleaved,
];

const ACTIVATIONS: [Activation; 5] = [
    Activation::Silu,
    Activation::Gelu,
    Activation::GeluTanh,
    Activation::QuickGelu,
    Activation::Identity,
];

fn key(activation: Activation, projections: Projections) -> GluKey {
    GluKey {
        activation,
        projections,
        ..GluKey::SWIGLU
    }
}

fn accepted() -> impl Iterator<Item = GluKey> {
    PROJECTIONS.into_iter().flat_map(move |projections| {
        let plain = ACTIVATIONS.map(|activation| key(activation, projections));
        // Gemma 3n's, gpt-oss's, and each step alone.
        let stepped = [
            (
                Activation::GeluTanh,
                Clamp::None,
                Offset::Zero,
                TopK::Gaussian,
            ),
            (Activation::QuickGelu, Clamp::Limit, Offset::One, TopK::None),
            (Activation::Silu, Clamp::Limit, Offset::Zero, TopK::None),
            (Activation::Gelu, Clamp::None, Offset::One, TopK::None),
            (
                Activation::Identity,
                Clamp::Limit,
                Offset::One,
                TopK::Gaussian,
            ),
        ];
        let stepped = stepped.map(|(activation, clamp, up_offset, topk)| GluKey {
            clamp,
            up_offset,
            topk,
            ..key(activation, projections)
        });
        plain.into_iter().chain(stepped)
    })
}

/// Returns numbers that change operands between -1 and 1.
fn settings_of(key: GluKey) -> Settings {
    Settings {
        limit: (key.clamp == Clamp::Limit).then_some(0.6),
        sparsity: (key.topk == TopK::Gaussian).then_some(SPARSITY),
    }
}

fn two<T: Clone>(gate: &T, up: &T) -> Projected<Seen<T>> {
    let [gate, up] = [gate, up].map(|tensor| Seen(tensor.clone()));
    Projected::Separate { gate, up }
}

fn operands<T: Specified>(projected: Projected<Seen<T>>, key: GluKey) -> Operands<Seen<T>> {
    Operands::of_projected(projected, settings_of(key), key).expect("they go together")
}

/// Compares both passes on one shape of gate with the reference. Returns their operators.
fn compare(
    stream: &Stream,
    dtype: DType,
    key: GluKey,
    shape: [usize; 3],
    lie: Lie,
) -> [Vec<String>; 2] {
    let what = format!("{key}, {shape:?} {lie:?}");
    let settings = settings_of(key);
    let (dy, dy_held) = put(stream, dtype, &shape, 1, lie);
    let wide = [shape[0], shape[1], 2 * shape[2]];
    let near = |name: &str, tensor: &Tensor, shape: &[usize], expected: &[f64]| {
        assert_near(
            format!("{name} of {what}"),
            stream,
            tensor,
            dtype,
            shape,
            expected,
        );
    };
    let both = |projected| {
        let operands = operands(projected, key);
        let (y, first) = without_waiting(|| forward(stream, &operands).expect(&what));
        let operands = operands.backward(Seen(dy.clone())).expect(&what);
        let (gradients, second) = without_waiting(|| backward(stream, &operands).expect(&what));
        ((y, gradients), [first, second])
    };
    if key.projections == Projections::Separate {
        let (gate, gate_held) = put(stream, dtype, &shape, 2, lie);
        let (up, up_held) = put(stream, dtype, &shape, 3, lie);
        let ((y, gradients), operators) = both(two(&gate, &up));
        let (gate, up) = (gate_held.exact(), up_held.exact());
        let inputs = Inputs::<3>::Separate {
            gate: gate.clone(),
            up: up.clone(),
        };
        let expected = reference(inputs, settings, key);
        near("y", &y, &shape, &elements(expected.clone()));
        let found = (expected * dy_held.plain()).sum().backward();
        let Projected::Separate {
            gate: d_gate,
            up: d_up,
        } = gradients
        else {
            panic!("gradients of two tensors are two")
        };
        near("d_gate", &d_gate, &shape, &gradient(&gate, &found));
        near("d_up", &d_up, &shape, &gradient(&up, &found));
        return operators;
    }
    let (packed, held) = put(stream, dtype, &wide, 2, lie);
    let ((y, gradients), operators) = both(Projected::Packed(Seen(packed)));
    let packed = held.exact();
    let expected = reference(Inputs::<3>::Packed(packed.clone()), settings, key);
    near("y", &y, &shape, &elements(expected.clone()));
    let found = (expected * dy_held.plain()).sum().backward();
    let Projected::Packed(d_packed) = gradients else {
        panic!("the gradient of one tensor is one")
    };
    near("d_packed", &d_packed, &wide, &gradient(&packed, &found));
    operators
}

#[test]
fn every_accepted_key_and_type_beside_the_reference() {
    on_the_emulator(|device, stream| {
        for dtype in FLOATS {
            for key in accepted() {
                for shape in [[2, 3, 16], [1, 1, 33], [5, 1, 1]] {
                    let [forward, backward] = compare(stream, dtype, key, shape, Lie::Contiguous);
                    let (gate, packed) = (spec(dtype, &[2, 8]), spec(dtype, &[2, 16]));
                    let specs = match key.projections {
                        Projections::Separate => two(&gate, &gate),
                        _ => Projected::Packed(Seen(packed)),
                    };
                    let plan = decide(device.platform(), &operands(specs, key)).unwrap();
                    let is_half = dtype != DType::F32;
                    let stepped = matches!(plan, Plan::Stepped(..));
                    if plan != Plan::Product && shape[2] > 1 {
                        assert_eq!(forward, plan.forward(is_half), "{key}");
                        let ours = match plan {
                            Plan::Fused(_) | Plan::FusedOfNeighbours(_) => "aclnn-swiglu",
                            _ => "aclnn-silu-mul",
                        };
                        let ours = ("npu_fused_swiglu", ours);
                        assert_named(ours, key, (dtype, Mode::Inference), &forward, 0);
                    }
                    // Gradients of steps are joined again where gate and up are packed.
                    let joined = stepped && key.projections != Projections::Separate;
                    if plan != Plan::Product && shape[2] > 1 && !joined {
                        assert_eq!(backward, plan.backward(is_half), "{key}");
                    }
                }
            }
        }
    });
}

#[test]
fn strided_operands() {
    on_the_emulator(|_, stream| {
        for dtype in FLOATS {
            for key in accepted() {
                for lie in [Lie::Sliced, Lie::Turned] {
                    compare(stream, dtype, key, [3, 4, 10], lie);
                }
            }
        }
    });
}

#[test]
fn of_nothing() {
    on_the_emulator(|_, stream| {
        let empty = |dtype, shape: [usize; 3]| Tensor::empty(stream, dtype, shape).unwrap();
        for dtype in FLOATS {
            for (key, shape) in accepted().flat_map(|key| [(key, [2, 0, 4]), (key, [2, 3, 0])]) {
                let [a, b, n] = shape;
                let projected = match key.projections {
                    Projections::Separate => two(&empty(dtype, shape), &empty(dtype, shape)),
                    _ => Projected::Packed(Seen(empty(dtype, [a, b, 2 * n]))),
                };
                let operands = operands(projected, key);
                let ((y, gradients), operators) = without_waiting(|| {
                    let y = forward(stream, &operands).unwrap();
                    let operands = operands.backward(Seen(y.clone())).unwrap();
                    (y, backward(stream, &operands).unwrap())
                });
                assert!(operators.is_empty(), "{operators:?}");
                assert_near(key, stream, &y, dtype, &shape, &[]);
                match gradients {
                    Projected::Separate { gate, up } => {
                        assert_near(key, stream, &gate, dtype, &shape, &[]);
                        assert_near(key, stream, &up, dtype, &shape, &[]);
                    }
                    Projected::Packed(both) => {
                        assert_near(key, stream, &both, dtype, &[a, b, 2 * n], &[]);
                    }
                }
            }
        }
    });
}

mod packing {
    use super::*;
    use crate::passes;
    use kernels_runtime::npu::OnNpu;
    use kernels_runtime::ops::glu::{PackingGlu, PackingOperands};

    /// Compares both passes with the reference. Returns their operators.
    fn compare(
        stream: &Stream,
        dtype: DType,
        key: GluKey,
        [gate, up]: [(Tensor, Held); 2],
        lie: Lie,
    ) -> [Vec<String>; 2] {
        let what = format!("{key}, {lie:?}");
        let ((gate, gate_held), (up, up_held)) = (gate, up);
        let shape = gate.shape().to_vec();
        let (dy, dy_held) = put(stream, dtype, &shape, 7, lie);
        let operands = PackingOperands::new(Seen(gate), Seen(up), key).expect(&what);
        let forward = || passes::forward::<PackingGlu>(stream, &operands).expect(&what);
        let (made, first) = without_waiting(forward);
        let mut packed = shape.clone();
        packed[2] *= 2;
        assert_eq!(made.saved[0].shape(), packed);
        // The backward pass reads neither gate nor up.
        let [gate, up] = std::array::from_fn(|_| Seen(dy.clone()));
        let instead = PackingOperands::new(gate, up, key).expect(&what);
        let backward = passes::given::<PackingGlu, _>(instead, dy, made.saved, &[true; 2]);
        let backward = backward.expect(&what);
        let run = || PackingGlu::backward(stream, &backward).expect(&what);
        let (found, second) = without_waiting(run);

        let (gate, up) = (gate_held.exact(), up_held.exact());
        let inputs = Inputs::<3>::Separate {
            gate: gate.clone(),
            up: up.clone(),
        };
        let expected = reference(inputs, Settings::default(), key);
        let exact = (expected.clone() * dy_held.plain()).sum().backward();
        let near = |name: &str, tensor: &Tensor, expected: &[f64]| {
            let what = format!("{name} of {what}");
            assert_near(what, stream, tensor, dtype, &shape, expected);
        };
        near("y", &made.y, &elements(expected));
        near("d_gate", &found.gate.unwrap(), &gradient(&gate, &exact));
        near("d_up", &found.up.unwrap(), &gradient(&up, &exact));
        [first, second]
    }

    #[test]
    fn one_copy_serves_both_passes() {
        on_the_emulator(|_, stream| {
            let units: [(_, _, &[&str]); 3] = [
                (Activation::Silu, "aclnnSwiGlu", &["aclnnSwiGluGrad"]),
                (
                    Activation::Gelu,
                    "aclnnGeGluV3",
                    &["aclnnGeluV2", "aclnnGeGluV3Backward"],
                ),
                (
                    Activation::GeluTanh,
                    "aclnnGeGluV3",
                    &["aclnnGeluV2", "aclnnGeGluV3Backward"],
                ),
            ];
            for (activation, fused, gradients) in units {
                let key = key(activation, Projections::Separate);
                for dtype in FLOATS {
                    for lie in LIES {
                        let both = [2, 3].map(|seed| put(stream, dtype, &[3, 4, 10], seed, lie));
                        let [first, second] = compare(stream, dtype, key, both, lie);
                        assert_eq!(first, ["aclnnCat", fused], "{key} {lie:?}");
                        let ours = ("npu_fused_swiglu", "aclnn-swiglu");
                        assert_named(ours, key, (dtype, Mode::Training), &first, 0);
                        if lie == Lie::Contiguous {
                            assert_eq!(second, gradients, "{key}");
                        }
                    }
                }
            }
        });
    }

    #[test]
    fn halves_of_one_buffer_are_kept_as_they_are() {
        on_the_emulator(|_, stream| {
            let (packed, held) = put(stream, DType::BF16, &[2, 3, 20], 4, Lie::Contiguous);
            let half = |at: usize| {
                let rows = held.values.chunks(20);
                let values = rows.flat_map(|row| row[at..at + 10].to_vec()).collect();
                let shape = vec![2, 3, 10];
                (
                    packed.slice(2, at..at + 10).unwrap(),
                    Held { values, shape },
                )
            };
            let both = [half(0), half(10)];
            let key = GluKey::SWIGLU;
            let [first, second] = compare(stream, DType::BF16, key, both, Lie::Contiguous);
            assert_eq!([first, second], [["aclnnSwiGlu"], ["aclnnSwiGluGrad"]]);
        });
    }

    #[test]
    fn nothing_is_packed_to_nothing() {
        on_the_emulator(|_, stream| {
            for shape in [[2, 0, 4], [2, 3, 0]] {
                let both =
                    [2, 3].map(|seed| put(stream, DType::F16, &shape, seed, Lie::Contiguous));
                let operators = compare(stream, DType::F16, GluKey::SWIGLU, both, Lie::Contiguous);
                assert_eq!(operators.concat(), [""; 0]);
            }
        });
    }

    #[test]
    fn operands_that_are_refused() {
        let half = || Seen(spec(DType::BF16, &[2, 8]));
        let of = |up, key| PackingOperands::<Seen<Spec>>::new(half(), up, key);
        assert!(of(half(), GluKey::SWIGLU).is_ok());
        let chunked = key(Activation::Silu, Projections::Chunked);
        mismatched(of(half(), chunked), "packed without a clamp");
        let limited = GluKey {
            clamp: Clamp::Limit,
            ..GluKey::SWIGLU
        };
        mismatched(of(half(), limited), "packed without a clamp");
        mismatched(
            of(Seen(spec(DType::BF16, &[2, 7])), GluKey::SWIGLU),
            "up is [2, 7]",
        );
        mismatched(of(Seen(spec(DType::F16, &[2, 8])), GluKey::SWIGLU), "F16");
        let scalar = || Seen(spec(DType::F32, &[]));
        let of_scalar = PackingOperands::new(scalar(), scalar(), GluKey::SWIGLU);
        mismatched(of_scalar, "no axis");
    }
}

#[test]
fn halves_of_one_buffer_are_not_packed_again() {
    on_the_emulator(|_, stream| {
        let settings = Settings::default();
        for dtype in FLOATS {
            let (packed, held) = put(stream, dtype, &[6, 20], 4, Lie::Contiguous);
            let (dy, dy_held) = put(stream, dtype, &[6, 10], 5, Lie::Contiguous);
            let halves = [0..10, 10..20].map(|half| packed.slice(1, half).unwrap());
            let tensors = operands(two(&halves[0], &halves[1]), GluKey::SWIGLU);
            let (y, first) = without_waiting(|| forward(stream, &tensors).unwrap());
            let tensors = tensors.backward(Seen(dy)).unwrap();
            let (gradients, second) = without_waiting(|| backward(stream, &tensors).unwrap());
            assert_eq!(first, ["aclnnSwiGlu"]);
            assert_eq!(second, ["aclnnSwiGluGrad"]);
            let x = held.exact::<2>();
            let chunked = key(Activation::Silu, Projections::Chunked);
            let expected = reference(Inputs::Packed(x.clone()), settings, chunked);
            assert_near(
                "y",
                stream,
                &y,
                dtype,
                &[6, 10],
                &elements(expected.clone()),
            );
            let found = gradient(&x, &(expected * dy_held.plain()).sum().backward());
            let Projected::Separate { gate, up } = gradients else {
                panic!("two")
            };
            let part = |from: usize| -> Vec<f64> {
                found
                    .chunks(20)
                    .flat_map(|row| row[from..from + 10].to_vec())
                    .collect()
            };
            assert_near("d_gate", stream, &gate, dtype, &[6, 10], &part(0));
            assert_near("d_up", stream, &up, dtype, &[6, 10], &part(10));
            // In the other order the halves are two tensors.
            let turned = operands(two(&halves[1], &halves[0]), GluKey::SWIGLU);
            let (_, operators) = without_waiting(|| forward(stream, &turned).unwrap());
            assert_eq!(operators, ["aclnnSilu", "aclnnMul"]);
        }
    });
}

#[test]
fn decisions_and_their_reasons() {
    let here = platform();
    let half = spec(DType::BF16, &[2, 8]);
    let of = |key| decide(&here, &operands(two(&half, &half), key));
    assert_eq!(of(GluKey::SWIGLU), Ok(Plan::Apart(Unit::Silu)));
    let chunked = key(Activation::Silu, Projections::Chunked);
    let packed = |spec: &Spec| Projected::Packed(Seen(spec.clone()));
    assert_eq!(
        decide(&here, &operands(packed(&half), chunked)),
        Ok(Plan::Fused(Unit::Silu))
    );
    for activation in Activation::ALL {
        let decision = of(key(activation, Projections::Separate));
        match activation {
            accepted if ACTIVATIONS.contains(&accepted) => assert!(decision.is_ok()),
            _ => refused(decision, Reason::Semantics, activation.name()),
        }
    }
    for key in accepted().filter(|key| settings_of(*key) != Settings::default()) {
        let projected = match key.projections {
            Projections::Separate => two(&half, &half),
            _ => Projected::Packed(Seen(half.clone())),
        };
        let plan = decide(&here, &operands(projected, key));
        assert!(matches!(plan, Ok(Plan::Stepped(..))), "{key}: {plan:?}");
    }
    let checked = |projected, key| -> Result<_, Mismatch> {
        Operands::<Seen<Spec>>::of_projected(projected, Settings::default(), key)
    };
    mismatched(checked(two(&half, &half), chunked), "two tensors");
    let limited = Settings {
        limit: Some(7.0),
        sparsity: None,
    };
    let limited = Operands::of_projected(two(&half, &half), limited, GluKey::SWIGLU);
    mismatched(limited, "a limit is given");
    let (wide, narrow) = (spec(DType::F64, &[2, 8]), spec(DType::BF16, &[2, 7]));
    let of = |gate, up| decide(&here, &operands(two(gate, up), GluKey::SWIGLU));
    refused(of(&wide, &wide), Reason::Dtype, "f64");
    let other = spec(DType::F16, &[2, 8]);
    refused(of(&half, &other), Reason::MixedDtypes, "up is of type f16");
    mismatched(
        checked(two(&half, &narrow), GluKey::SWIGLU),
        "the up projection is [2, 7]",
    );
    mismatched(checked(packed(&narrow), chunked), "must be even");
    refused(
        decide(
            &other_processor(),
            &operands(two(&half, &half), GluKey::SWIGLU),
        ),
        Reason::Capability,
        "910B or later",
    );
}
