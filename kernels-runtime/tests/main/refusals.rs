//! Tests operands, flags and numbers that shapes can't distinguish. Each is refused when operands are created, with a
//! message that names it. `borders` tests shapes.

use burn::backend::flex::FlexTensor;
use burn::tensor::{DType, IntDType, TensorData};
use kernels_runtime::ops::fused::{Backward, Given};
use kernels_runtime::ops::moe::permute::{Sort, Spread, Weigh};
use kernels_runtime::ops::moe::router::{self, Routing};
use kernels_runtime::ops::moe::{experts, grouped_matmul};
use kernels_runtime::ops::{Mismatch, adam_w, fused, glu, rms_norm};
use kernels_runtime::semantics::*;

type Floats = Vec<Vec<FlexTensor>>;

fn float<const D: usize>(shape: [usize; D]) -> FlexTensor {
    FlexTensor::from_data(TensorData::full(shape, 0.5_f32))
}

fn half<const D: usize>(shape: [usize; D]) -> FlexTensor {
    FlexTensor::from_data(TensorData::full(shape, 0.5_f32).convert_dtype(DType::F16))
}

fn ints<const D: usize>(shape: [usize; D]) -> FlexTensor {
    FlexTensor::from_data(TensorData::full(shape, 1_i64))
}

#[track_caller]
fn refused<T>(operands: Result<T, Mismatch>, sentence: &str) {
    let Err(why) = operands else {
        panic!("accepted, without a word of {sentence:?}");
    };
    assert!(why.to_string().contains(sentence), "{why}");
}

#[test]
fn a_step_has_the_numbers_of_its_formula() {
    let step = |change: &dyn Fn(&mut adam_w::Settings)| {
        let mut settings = adam_w::Settings {
            learning_rate: 0.1,
            beta_1: 0.9,
            beta_2: 0.999,
            epsilon: 1e-8,
            weight_decay: 0.01,
            step: 1,
        };
        change(&mut settings);
        let state = adam_w::State {
            parameter: float([3]),
            moment_1: float([3]),
            moment_2: float([3]),
        };
        adam_w::Operands::of_state(state, float([3]), settings)
    };
    step(&|_| ()).expect("the numbers of the paper");
    for beta in [1.0, -0.1, f64::NAN] {
        refused(step(&|s| s.beta_1 = beta), "β₁");
        refused(step(&|s| s.beta_2 = beta), "β₂");
    }
    for number in [f64::NAN, f64::INFINITY] {
        refused(step(&|s| s.learning_rate = number), "the learning rate is");
        refused(step(&|s| s.weight_decay = number), "the weight decay is");
        refused(step(&|s| s.epsilon = number), "ε");
    }
    refused(step(&|s| s.epsilon = -1e-8), "ε");
    refused(step(&|s| s.step = 0), "steps are counted from 1");
}

/// Returns three experts of width 3 for five tokens of 4 elements.
fn mixture(
    key: MoeExpertsKey,
    limit: Option<f64>,
    change: &dyn Fn(&mut Floats),
) -> Result<experts::Operands<FlexTensor, FlexTensor>, Mismatch> {
    let mut weights = vec![
        vec![float([3, 6, 4])],
        vec![],
        vec![float([3, 4, 3])],
        vec![],
        vec![],
        vec![],
    ];
    change(&mut weights);
    let settings = experts::Settings { key, limit };
    let (x, routing) = (float([5, 4]), float([5, 2]));
    experts::Operands::new(x, routing, weights, ints([5, 2]), settings)
}

#[test]
fn experts_have_the_weights_of_their_key() {
    let key = MoeExpertsKey::QWEN3;
    let with = |change: &dyn Fn(&mut Floats)| mixture(key, None, change);
    with(&|_| ()).expect("they go together");
    refused(
        mixture(key, Some(1.0), &|_| ()),
        "has no clamp, but a limit is given",
    );
    let clamped = MoeExpertsKey {
        clamp: Clamp::Limit,
        ..key
    };
    refused(mixture(clamped, None, &|_| ()), "needs the limit");
    refused(with(&|w| drop(w.pop())), "there are 5 groups of weights");
    refused(
        with(&|w| w.iter_mut().for_each(Vec::clear)),
        "experts: there are none",
    );
    refused(
        with(&|w| w[1].push(float([3, 3, 4]))),
        "but gate and up are two tensors",
    );
    refused(with(&|w| w[3].push(float([3, 6]))), "bias");
    refused(with(&|w| w[2][0] = float([2, 4, 3])), "experts");
    let separate = MoeExpertsKey {
        projections: Projections::Separate,
        ..key
    };
    refused(
        mixture(separate, None, &|_| ()),
        "but gate and up are one tensor",
    );
    let biased = MoeExpertsKey {
        bias: ExpertBias::All,
        ..key
    };
    refused(mixture(biased, None, &|_| ()), "bias");
}

#[test]
fn gradients_of_experts_are_wanted_one_by_one() {
    let operands = mixture(MoeExpertsKey::QWEN3, None, &|_| ()).unwrap();
    let backward = |kept, wanted: &[bool]| {
        let given = Given {
            dy: float([5, 4]),
            others: [].into_iter().collect(),
            saved: [kept].into_iter().collect(),
            ints: [].into_iter().collect(),
        };
        Backward::<experts::Experts, _>::new(operands.clone(), given, wanted)
    };
    // The tokens, the routing weights, and two weights.
    backward(float([10, 6]), &[true; 4]).expect("they go together");
    backward(float([9, 6]), &[true; 4]).expect("a slot may have no expert");
    let why = "gradients are wanted or not, but there are 4 tensors";
    refused(backward(float([10, 6]), &[true; 3]), why);
    refused(backward(float([10, 6]), &[true; 5]), why);
    for kept in [
        float([11, 6]),
        float([10, 5]),
        float([5, 12]),
        half([10, 6]),
    ] {
        refused(backward(kept, &[true; 4]), "what forward kept is");
    }
}

#[test]
fn a_grouped_product_has_experts_and_a_flag_for_each() {
    let layout = ExpertLayout::Linear;
    let operands =
        |weights| grouped_matmul::Operands::new(float([4, 3]), weights, ints([2]), layout, None);
    refused(operands(vec![]), "there are no experts");
    let operands = operands(vec![float([2, 5, 3])]).expect("they go together");
    let backward = |wanted: &[bool]| {
        let given = Given {
            dy: float([4, 5]),
            others: [].into_iter().collect(),
            saved: [].into_iter().collect(),
            ints: [].into_iter().collect(),
        };
        Backward::<grouped_matmul::GroupedMatmul, _>::new(operands.clone(), given, wanted)
    };
    backward(&[true; 2]).expect("they go together");
    for flags in [&[true; 1][..], &[true; 3]] {
        refused(backward(flags), "gradients are wanted or not");
    }
}

#[test]
fn rows_are_sorted_by_some_expert_and_fill_slots() {
    let sort =
        |experts, rows| Sort::<FlexTensor, _>::new(ints([4, 2]), experts, rows, IntDType::I64);
    sort(3, 8).expect("they go together");
    refused(sort(0, 8), "there is no expert");
    refused(
        sort(3, 9),
        "there are 9 rows, but 4 tokens of 2 choices fill 8",
    );
    refused(
        Spread::new(float([4, 3]), ints([4, 2]), 9),
        "there are 9 rows",
    );
    let weigh = |rows, probs| Weigh::new(rows, ints([4, 2]), probs).and_then(|w| w.dtype());
    weigh(half([6, 3]), float([4, 2])).expect("probabilities in f32");
    refused(weigh(float([6, 3]), half([4, 2])), "probabilities are");
}

#[test]
fn a_router_has_the_bias_of_its_key() {
    let route = |key, bias| {
        let routing = Routing::new(key, 6, 2).expect("they go together");
        router::Operands::new(float([5, 6]), bias, routing, IntDType::I64)
    };
    let corrected = RouterKey {
        correction: Correction::Bias,
        ..RouterKey::MIXTRAL
    };
    route(corrected, Some(float([6]))).expect("they go together");
    refused(route(corrected, None), "needs a bias");
    refused(
        route(corrected, Some(float([7]))),
        "the bias has 7 elements",
    );
    refused(
        route(RouterKey::MIXTRAL, Some(float([6]))),
        "has no correction",
    );
    let wide = FlexTensor::from_data(TensorData::full([6], 0.5_f64));
    let operands = route(corrected, Some(wide)).expect("types are compared by kernels");
    refused(
        operands.dtype(),
        "the bias is F64, but scores are computed in F32",
    );
}

#[test]
fn a_norm_without_a_weight_has_no_gradient_of_one() {
    let key = RmsNormKey {
        scale: Scale::None,
        ..RmsNormKey::LLAMA
    };
    let settings = rms_norm::Settings {
        eps: 1e-6,
        group_size: None,
    };
    let operands = rms_norm::Operands::new(float([2, 4]), None, None, settings, key).unwrap();
    let backward = |wanted: &[bool]| {
        let given = fused::Given::new(float([2, 4])).saving([float([2, 1])]);
        fused::Backward::<rms_norm::RmsNorm, _>::new(operands.clone(), given, wanted)
    };
    backward(&[true]).expect("they go together");
    refused(
        backward(&[true, true]),
        "2 gradients are wanted or not, but there are 1 tensors",
    );
}

#[test]
fn a_unit_has_the_projections_and_the_limit_of_its_key() {
    let unit = |projected, limit, key| {
        let settings = glu::Settings {
            limit,
            ..glu::Settings::default()
        };
        glu::Operands::of_projected(projected, settings, key)
    };
    let packed = || glu::Projected::Packed(float([2, 6]));
    let chunked = GluKey {
        projections: Projections::Chunked,
        ..GluKey::SWIGLU
    };
    unit(packed(), None, chunked).expect("they go together");
    refused(unit(packed(), None, GluKey::SWIGLU), "packed in one tensor");
    refused(unit(packed(), Some(1.0), chunked), "a limit is given");
    let clamped = GluKey {
        clamp: Clamp::Limit,
        ..chunked
    };
    refused(unit(packed(), None, clamped), "a limit is missing");
    refused(
        unit(packed(), Some(f64::NAN), clamped),
        "the limit of the clamp is NaN",
    );
}
