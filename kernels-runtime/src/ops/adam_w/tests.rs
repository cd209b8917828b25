use super::*;
use crate::ops::fused::FusedKernel;
use crate::registry::FloatType;
use crate::verify::data::values;
use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use burn::tensor::{Bytes, DType, Device, TensorData};

const SETTINGS: Settings = Settings {
    learning_rate: 0.01,
    beta_1: 0.9,
    beta_2: 0.999,
    epsilon: 1e-8,
    weight_decay: 0.1,
    step: 1,
};

fn flex(name: &str, shape: [usize; 2]) -> FlexTensor {
    let values = values(name, shape[0] * shape[1], FloatType::F32);
    let values: Vec<f32> = values.iter().map(|value| *value as f32).collect();
    FlexTensor::from_data(TensorData::new(values, shape))
}

/// Returns the absolute values: second moments are averages of squares.
fn positive(tensor: FlexTensor) -> FlexTensor {
    let shape = tensor.layout().shape().clone();
    let values: Vec<f32> = tensor.storage::<f32>().iter().map(|v| v.abs()).collect();
    FlexTensor::from_data(TensorData::new(values, shape))
}

fn tensor<const D: usize>(name: &str, shape: [usize; D]) -> Tensor<D> {
    let values = values(name, shape.iter().product(), FloatType::F64);
    Tensor::from_data(
        TensorData::new(values, shape),
        (&Device::flex(), DType::F64),
    )
}

fn state<const D: usize>(shape: [usize; D]) -> State<Tensor<D>> {
    State {
        parameter: tensor("parameter", shape),
        moment_1: tensor("moment_1", shape),
        moment_2: tensor("moment_2", shape).abs(),
    }
}

fn step(
    parameter: FlexTensor,
    moment_1: FlexTensor,
    moment_2: FlexTensor,
    gradient: FlexTensor,
) -> (FlexTensor, FlexTensor, FlexTensor) {
    let state = State {
        parameter,
        moment_1,
        moment_2,
    };
    let operands = Operands::of_state(state, gradient, SETTINGS);
    let operands = operands.unwrap_or_else(|mismatch| panic!("{mismatch}"));
    let after = State::from(<Flex as FusedKernel<AdamW>>::forward(operands, None));
    (after.parameter, after.moment_1, after.moment_2)
}

fn panic_of(call: impl FnOnce() + std::panic::UnwindSafe) -> String {
    let said = std::panic::catch_unwind(call).unwrap_err();
    match said.downcast::<String>() {
        Ok(said) => *said,
        Err(said) => (*said.downcast::<&str>().unwrap()).to_owned(),
    }
}

#[test]
fn what_nobody_else_holds_is_written_over() {
    let address = |tensor: &FlexTensor| tensor.bytes().as_ptr();
    let shape = [3, 5];
    let [parameter, moment_1, moment_2] = ["parameter", "m", "v"].map(|name| flex(name, shape));
    let moment_2 = positive(moment_2);
    let shared = moment_1.clone();
    let before = [&parameter, &moment_1, &moment_2].map(address);
    let kept = shared.storage::<f32>().to_vec();
    let gradient = flex("gradient", shape);
    let (parameter, moment_1, moment_2) = step(parameter, moment_1, moment_2, gradient);
    let after = [&parameter, &moment_1, &moment_2].map(address);
    assert_eq!(after[0], before[0]);
    assert_eq!(after[2], before[2]);
    assert_ne!(after[1], before[1]);
    assert_eq!(shared.storage::<f32>(), kept);
    assert_ne!(moment_1.storage::<f32>(), kept);
}

#[test]
fn a_part_of_a_tensor_changes_nothing_beside_it() {
    let whole = flex("parameter", [4, 6]);
    let others = ["m", "v", "gradient"].map(|name| flex(name, [2, 6]));
    let [moment_1, moment_2, gradient] = others.clone();
    let moment_2 = positive(moment_2);
    let alone = whole.narrow(0, 1, 2).to_contiguous();
    let alone = FlexTensor::from_data(TensorData::new(
        alone.as_slice::<f32>().unwrap().to_vec(),
        [2, 6],
    ));
    let kept = whole.storage::<f32>().to_vec();
    let part = whole.narrow(0, 1, 2);
    let (part, ..) = step(part, moment_1, moment_2, gradient);
    let [moment_1, moment_2, gradient] = others;
    let moment_2 = positive(moment_2);
    let (alone, ..) = step(alone, moment_1, moment_2, gradient);
    assert_eq!(part.as_slice::<f32>(), alone.as_slice::<f32>());
    assert_eq!(whole.storage::<f32>(), kept);
}

#[test]
fn a_hundred_steps_follow_the_reference() {
    let mut kernel = state([7, 11]);
    let mut plain = kernel.clone();
    for step in 1..=100 {
        let gradient = tensor(&format!("gradient {step}"), [7, 11]);
        let settings = Settings { step, ..SETTINGS };
        kernel = fused(kernel, gradient.clone(), settings).unwrap();
        plain = reference(plain, gradient, settings);
    }
    let numbers = |tensor: Tensor<2>| tensor.into_data().try_to_vec::<f64>().unwrap();
    for (kernel, plain) in [
        (kernel.parameter, plain.parameter),
        (kernel.moment_1, plain.moment_1),
        (kernel.moment_2, plain.moment_2),
    ] {
        for (kernel, plain) in numbers(kernel).into_iter().zip(numbers(plain)) {
            assert!((kernel - plain).abs() < 1e-12 * (1.0 + plain.abs()));
        }
    }
}

#[test]
fn threads_change_nothing() {
    // Sizes that are divided in long and in short chunks, and one that is not divided. None is a multiple of a chunk.
    let long = 200_003;
    let names = ["parameter", "m", "v", "gradient"];
    let [parameter, moment_1, moment_2, gradient] = names.map(|name| flex(name, [1, long]));
    let moment_2 = positive(moment_2);
    let ends = [70_001, 10_001].map(|len| {
        let part = |tensor: &FlexTensor| {
            let values = tensor.storage::<f32>()[long - len..].to_vec();
            FlexTensor::new(
                Bytes::from_elems(values),
                burn::backend::flex::Layout::contiguous(burn::backend::Shape::new([1, len])),
                DType::F32,
            )
        };
        let [p, m, v, g] = [&parameter, &moment_1, &moment_2, &gradient].map(part);
        (len, step(p, m, v, g).0)
    });
    let (whole, ..) = step(parameter, moment_1, moment_2, gradient);
    let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    for (len, end) in ends {
        assert_eq!(
            bits(&whole.storage::<f32>()[long - len..]),
            bits(end.storage::<f32>())
        );
    }
}

#[test]
fn nothing_is_silent() {
    let refused = |change: fn(&mut Settings)| {
        panic_of(move || {
            let mut settings = SETTINGS;
            change(&mut settings);
            let _ = fused(state([2]), tensor("gradient", [2]), settings);
        })
    };
    assert!(refused(|s| s.beta_1 = 1.0).contains("β₁ is 1"));
    assert!(refused(|s| s.beta_2 = f64::NAN).contains("β₂ is NaN"));
    assert!(refused(|s| s.learning_rate = f64::INFINITY).contains("learning rate is inf"));
    assert!(refused(|s| s.weight_decay = f64::NAN).contains("weight decay is NaN"));
    assert!(refused(|s| s.epsilon = -1.0).contains("ε is -1"));
    assert!(refused(|s| s.step = 0).contains("counted from 1"));
    let shapes = panic_of(|| {
        let _ = fused(state([2, 3]), tensor("gradient", [3, 2]), SETTINGS);
    });
    assert!(
        shapes.contains("the gradient is [3, 2], but the parameter [2, 3]"),
        "{shapes}"
    );

    let mixed = fused(
        state([2]),
        tensor("gradient", [2]).cast(DType::F32),
        SETTINGS,
    );
    assert_eq!(mixed.unwrap_err(), Reason::MixedDtypes);
    let mut tracked = state([2]);
    tracked.parameter = tracked.parameter.autodiff();
    let tracked = fused(tracked, tensor("gradient", [2]), SETTINGS);
    assert_eq!(tracked.unwrap_err(), Reason::NoGradient);
}

#[test]
fn no_part_is_left_as_it_was() {
    let said = panic_of(|| {
        let [p, m, g] = ["parameter", "m", "gradient"].map(|name| flex(name, [2, 3]));
        step(p, m, flex("v", [1, 3]), g);
    });
    let expected = "AdamW: the second moment is [1, 3], but the parameter [2, 3]";
    assert_eq!(said, expected);
}

#[test]
fn what_is_not_a_number_stays_so_and_spreads_to_nothing_else() {
    let mut state = state([3]);
    state.moment_1 = state.moment_1.zeros_like();
    let gradient = Tensor::from_data(
        TensorData::new(vec![1.0, f64::NAN, 0.0], [3]),
        (&Device::flex(), DType::F64),
    );
    let after = fused(state, gradient, SETTINGS).unwrap();
    for tensor in [after.parameter, after.moment_1, after.moment_2] {
        let nan = tensor.is_nan().into_data().try_to_vec::<bool>().unwrap();
        assert_eq!(nan, [false, true, false]);
    }
}
