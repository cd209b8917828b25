//! Compares AdamW over CANN's operator with the reference in f64, in every dtype and layout.

use crate::npu::*;
use burn::tensor::Tensor as Exact;
use burn_cann::{DType, Platform, Spec, Stream, Tensor};
use kernels_runtime::dispatch::Reason;
use kernels_runtime::npu::{Seen, Specified};
use kernels_runtime::ops::Mismatch;
use kernels_runtime::ops::adam_w::npu::{OPERATORS, decide, step};
use kernels_runtime::ops::adam_w::{Operands, Settings, State, reference};

/// Settings that f32 holds exactly, because CANN takes them in f32.
const SETTINGS: Settings = Settings {
    learning_rate: 0.125,
    beta_1: 0.875,
    beta_2: 0.9375,
    epsilon: 1.0 / 1024.0,
    weight_decay: 0.0625,
    step: 1,
};

const SHAPE: [usize; 2] = [5, 6];

/// Returns the state as tensors, and exactly.
fn put_state(stream: &Stream, dtype: DType, lie: Lie) -> (State<Tensor>, State<Exact<2>>) {
    let (parameter, exact_parameter) = put(stream, dtype, &SHAPE, 1, lie);
    let (moment_1, exact_1) = put(stream, dtype, &SHAPE, 2, lie);
    let squares: Vec<f64> = noise(30, 3).into_iter().map(f64::abs).collect();
    let (moment_2, exact_2) = put_values(stream, dtype, &squares, &SHAPE, lie);
    let tensors = State {
        parameter,
        moment_1,
        moment_2,
    };
    let exact = State {
        parameter: exact_parameter.plain(),
        moment_1: exact_1.plain(),
        moment_2: exact_2.plain(),
    };
    (tensors, exact)
}

fn in_order<T>(state: State<T>) -> [(&'static str, T); 3] {
    [
        ("parameter", state.parameter),
        ("moment_1", state.moment_1),
        ("moment_2", state.moment_2),
    ]
}

fn checked<T: Specified>(
    state: State<T>,
    gradient: T,
    settings: Settings,
) -> Result<Operands<Seen<T>>, Mismatch> {
    let state = State {
        parameter: Seen(state.parameter),
        moment_1: Seen(state.moment_1),
        moment_2: Seen(state.moment_2),
    };
    Operands::of_state(state, Seen(gradient), settings)
}

fn operands<T: Specified + Clone>(
    state: State<T>,
    gradient: &T,
    settings: Settings,
) -> Operands<Seen<T>> {
    checked(state, gradient.clone(), settings).expect("they go together")
}

#[test]
fn every_type_and_layout() {
    on_the_emulator(|_, stream| {
        for dtype in FLOATS {
            for lie in LIES {
                for step_number in [1, 7] {
                    let settings = Settings {
                        step: step_number,
                        ..SETTINGS
                    };
                    let (state, exact) = put_state(stream, dtype, lie);
                    let (gradient, held) = put(stream, dtype, &SHAPE, 4, lie);
                    let (after, operators) = without_waiting(|| {
                        step(stream, operands(state, &gradient, settings)).unwrap()
                    });
                    let expected = reference(exact, held.plain(), settings);
                    let both = in_order(after).into_iter().zip(in_order(expected));
                    for ((name, found), (_, expected)) in both {
                        let what = (name, dtype, lie, step_number);
                        assert_near(what, stream, &found, dtype, &SHAPE, &elements(expected));
                    }
                    // Strided tensors are copied.
                    let copies = if lie == Lie::Contiguous { 0 } else { 3 };
                    assert_eq!(operators[copies..], OPERATORS, "{dtype} {lie:?}");
                    assert!(operators[..copies].iter().all(|o| o == "aclnnInplaceCopy"));
                }
            }
        }
    });
}

#[test]
fn what_nobody_else_holds_is_written_over() {
    on_the_emulator(|_, stream| {
        let (state, _) = put_state(stream, DType::F32, Lie::Contiguous);
        let (gradient, _) = put(stream, DType::F32, &SHAPE, 4, Lie::Contiguous);
        let before = read(stream, &state.moment_1);
        let shared = state.moment_1.clone();
        let (after, operators) =
            without_waiting(|| step(stream, operands(state, &gradient, SETTINGS)).unwrap());
        assert_eq!(operators, ["aclnnInplaceCopy", OPERATORS[0], OPERATORS[1]]);
        assert_eq!(read(stream, &shared), before);
        assert_ne!(read(stream, &after.moment_1), before);
    });
}

#[test]
fn nothing_is_done_for_nothing() {
    on_the_emulator(|_, stream| {
        let empty = || Tensor::empty(stream, DType::F32, [0, 3]).unwrap();
        let state = State {
            parameter: empty(),
            moment_1: empty(),
            moment_2: empty(),
        };
        let after = step(stream, operands(state, &empty(), SETTINGS)).unwrap();
        assert_eq!(after.parameter.shape(), [0, 3]);
    });
}

#[test]
fn what_is_refused() {
    let of = |dtype, shape: &[usize]| spec(dtype, shape);
    let alike = |dtype| {
        let one = of(dtype, &SHAPE);
        State {
            parameter: one.clone(),
            moment_1: one.clone(),
            moment_2: one,
        }
    };
    let decided = |platform: &Platform, state, gradient: &Spec| {
        decide(platform, &operands(state, gradient, SETTINGS))
    };
    for dtype in FLOATS {
        decided(&platform(), alike(dtype), &of(dtype, &SHAPE)).unwrap();
    }
    refused(
        decided(&platform(), alike(DType::F64), &of(DType::F64, &SHAPE)),
        Reason::Dtype,
        "f64",
    );
    let (one, half) = (of(DType::F32, &SHAPE), of(DType::BF16, &SHAPE));
    refused(
        decided(&platform(), alike(DType::F32), &half),
        Reason::MixedDtypes,
        "gradient",
    );
    let turned = of(DType::F32, &[6, 5]);
    mismatched(checked(alike(DType::F32), turned, SETTINGS), "gradient");
    refused(
        decided(&other_processor(), alike(DType::F32), &one),
        Reason::Capability,
        "910",
    );
}

#[test]
fn a_refusal_leaves_the_state() {
    on_the_emulator(|_, stream| {
        let (state, _) = put_state(stream, DType::F32, Lie::Contiguous);
        let kept = state.clone();
        let (gradient, _) = put(stream, DType::F16, &SHAPE, 4, Lie::Contiguous);
        let operands = operands(state, &gradient, SETTINGS);
        decide(stream.device().platform(), &operands).unwrap_err();
        let before = read(stream, &kept.parameter);
        step(stream, operands).unwrap_err();
        assert_eq!(read(stream, &kept.parameter), before);
    });
}
