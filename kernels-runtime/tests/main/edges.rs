//! Compares operations with formulas at the limits of their operands, and tests operands just beyond.

use crate::comparison::difference;
use burn::backend::flex::{FlexTensor, Layout};
use burn::backend::tensor::FloatTensor;
use burn::backend::{
    BackendTensor, DispatchTensor, DispatchTensorKind, ExtensionType, Flex, Shape,
};
use burn::tensor::activation::{silu, softmax};
use burn::tensor::{Bytes, DType, Device, Distribution, Int, IntDType, Tensor, TensorData, bf16};
use kernels_runtime::ops::fused::{Backward, FusedKernel, Given};
use kernels_runtime::ops::moe::experts::{self, each};
use kernels_runtime::ops::moe::grouped_matmul::{self, GroupedMatmul};
use kernels_runtime::ops::moe::permute::{self, PermuteBackend, Sort, Spread, Sum};
use kernels_runtime::ops::moe::router::{self, Router};
use kernels_runtime::ops::moe::{Routing, load_balancing_loss};
use kernels_runtime::ops::rms_norm::{self, RmsNorm};
use kernels_runtime::ops::{add_rms_norm, glu, layer_norm, rope};
use kernels_runtime::semantics::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn refusal<T>(run: impl FnOnce() -> T) -> String {
    let Err(panic) = catch_unwind(AssertUnwindSafe(run)) else {
        panic!("it was accepted");
    };
    match panic.downcast::<String>() {
        Ok(message) => *message,
        Err(panic) => (*panic.downcast::<&str>().expect("a message")).to_owned(),
    }
}

fn random<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Uniform(-1.0, 1.0), device)
}

fn flex<const D: usize>(tensor: Tensor<D>) -> FlexTensor {
    match tensor.into_dispatch().kind {
        DispatchTensorKind::Flex(BackendTensor::Float(tensor)) => tensor,
        other => panic!("{other:?}"),
    }
}

fn ints<const D: usize>(values: &[i64], shape: [usize; D]) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(values.to_vec(), shape))
}

fn product(operands: grouped_matmul::Operands<FlexTensor, FlexTensor>) -> FlexTensor {
    <Flex as FusedKernel<GroupedMatmul>>::forward(operands, None).y
}

fn floats(tensor: FlexTensor) -> Vec<f64> {
    tensor.into_data().iter().collect()
}

#[track_caller]
fn near<const D: usize>(a: &Tensor<D>, b: &Tensor<D>) {
    assert_eq!(a.dims(), b.dims());
    let numbers = |tensor: &Tensor<D>| tensor.to_data().iter::<f64>().collect::<Vec<_>>();
    let distance = difference(&numbers(a), &numbers(b));
    assert!(distance < 1e-5, "{distance}");
}

#[test]
fn each_table_has_the_gradient_of_its_own_batch() {
    let device = Device::flex().autodiff();
    let (q, k) = (random([2, 3, 5, 8], &device), random([2, 1, 5, 8], &device));
    for [of_cos, of_sin] in [[2, 1], [1, 2], [1, 1], [2, 2]] {
        let cos = random([of_cos, 5, 8], &device).require_grad();
        let sin = random([of_sin, 5, 8], &device).require_grad();
        let gradients = |is_fused| {
            let tensors = (q.clone(), k.clone(), cos.clone(), sin.clone());
            let (q, k, cos_seen, sin_seen) = tensors;
            let (q, k) = match is_fused {
                true => rope::fused(q, k, cos_seen, sin_seen, RopeKey::LLAMA).expect("a kernel"),
                false => rope::reference(q, k, cos_seen, sin_seen, RopeKey::LLAMA),
            };
            let loss = (q.clone() * q).sum() + (k.clone() * k.square()).sum();
            let gradients = loss.backward();
            [&cos, &sin].map(|table| table.grad(&gradients).expect("it is tracked"))
        };
        for (ours, formula) in gradients(true).iter().zip(&gradients(false)) {
            near(ours, formula);
        }
    }
}

#[test]
fn sections_are_counted_without_overflow() {
    let key = RopeKey {
        sections: Sections::Chunked,
        ..RopeKey::LLAMA
    };
    let with = |width: usize, sections| {
        let device = Device::flex();
        let x = random([1, 1, 4, 64], &device);
        let table: Tensor<4> = random([3, 1, 4, width], &device);
        refusal(|| rope::reference_sections(x.clone(), x, table.clone(), table, sections, key))
    };
    let why = with(64, [usize::MAX, 1, 32]);
    assert!(why.contains("make up 18446744073709551615 pairs"), "{why}");
    for width in [0, 1] {
        let why = with(width, [0, 0, 0]);
        assert!(why.contains("elements rotate in pairs"), "{why}");
    }
}

#[test]
fn a_norm_in_groups_of_nothing_is_nothing() {
    let key = RmsNormKey {
        scale: Scale::None,
        groups: Groups::Many,
        ..RmsNormKey::LLAMA
    };
    for size in [4, usize::MAX] {
        let settings = rms_norm::Settings {
            eps: 1e-6,
            group_size: Some(size),
        };
        let x = || flex(random([3, 0], &Device::flex()));
        let operands = rms_norm::Operands::new(x(), None, None, settings, key).unwrap();
        let wanted = rms_norm::Each {
            x: true,
            ..Default::default()
        };
        let made = <Flex as FusedKernel<RmsNorm>>::forward(operands.clone(), Some(&wanted));
        assert_eq!(made.y.layout().shape().as_slice(), [3, 0]);
        assert_eq!(made.saved[0].layout().shape().as_slice(), [3, 0]);
        let given = Given::new(x()).saving(made.saved);
        let backward = Backward::<RmsNorm, _>::new(operands, given, &[true]).unwrap();
        let dx = <Flex as FusedKernel<RmsNorm>>::backward(backward)
            .x
            .unwrap();
        assert_eq!(dx.layout().shape().as_slice(), [3, 0]);
    }
}

#[test]
fn without_a_clamp_infinity_has_a_gradient() {
    let device = Device::flex().autodiff();
    let key = GluKey {
        up_offset: Offset::One,
        ..GluKey::SWIGLU
    };
    let gate = Tensor::<1>::from_data([1.0, 2.0], &device).unsqueeze::<2>();
    let up = Tensor::<1>::from_data([f32::INFINITY, 1.0], &device).unsqueeze::<2>();
    let up = up.require_grad();
    let inputs = glu::Inputs::Separate {
        gate: gate.clone(),
        up: up.clone(),
    };
    let y = glu::fused(inputs, glu::Settings::default(), key).expect("a kernel");
    let gradients = y.sum().backward();
    near(&up.grad(&gradients).unwrap(), &silu(gate).inner());
}

#[test]
fn a_clamp_has_a_limit() {
    let key = MoeExpertsKey {
        clamp: Clamp::Limit,
        ..MoeExpertsKey::QWEN3
    };
    for limit in [f64::NAN, -1.0] {
        let device = Device::flex();
        let weights = [
            vec![flex(random([2, 6, 4], &device))],
            vec![],
            vec![flex(random([2, 4, 3], &device))],
            vec![],
            vec![],
            vec![],
        ];
        let settings = experts::Settings {
            key,
            limit: Some(limit),
        };
        let operands = experts::Operands::new(
            flex(random([1, 4], &device)),
            flex(random([1, 2], &device)),
            weights.to_vec(),
            ints(&[0, 1], [1, 2]),
            settings,
        );
        let why = operands.expect_err("no number to clamp to").to_string();
        assert!(why.contains("the limit of the clamp is"), "{why}");
    }
}

#[test]
fn an_expert_that_is_named_twice_has_both_gradients() {
    let device = Device::flex().autodiff();
    for key in [RouterKey::MIXTRAL, RouterKey::QWEN3_MOE] {
        let routing = Routing::new(key, 4, 2).unwrap();
        let logits = random([3, 4], &device).require_grad();
        let dw = random([3, 2], &device);
        let named = [1_i64, 1, 0, 3, 2, 2];
        let indices = Tensor::<2, Int>::from_data(TensorData::new(named.to_vec(), [3, 2]), &device);
        let chosen = match key.scoring {
            Scoring::Softmax => softmax(logits.clone(), 1).gather(1, indices),
            _ => softmax(logits.clone().gather(1, indices), 1),
        };
        let weights = match key.renormalise {
            Renormalise::None => chosen,
            _ => chosen.clone() / chosen.sum_dim(1),
        };
        let gradients = (weights * dw.clone()).sum().backward();
        let formula = logits.grad(&gradients).unwrap();
        let logits = flex(logits.clone().inner());
        let operands = router::Operands::new(logits, None, routing, IntDType::I64).unwrap();
        let made = Given {
            dy: flex(dw.inner()),
            others: [].into_iter().collect(),
            saved: [].into_iter().collect(),
            ints: [ints(&named, [3, 2])].into_iter().collect(),
        };
        let backward = Backward::<Router, _>::new(operands, made, &[true]).unwrap();
        let gradients = <Flex as FusedKernel<Router>>::backward(backward);
        let ours = gradients.logits.unwrap();
        let formula: Vec<f64> = formula.into_data().iter().collect();
        for (a, b) in floats(ours).iter().zip(&formula) {
            assert!((a - b).abs() < 1e-5, "{key}: {a}, not {b}");
        }
    }
}

#[test]
fn integers_that_a_type_does_not_hold_are_refused() {
    let why = Sort::<FlexTensor, _>::new(ints(&[0; 200], [200, 1]), 3, 200, IntDType::I8);
    let why = why.expect_err("128 and more").to_string();
    assert!(
        why.contains("as large as 200, which I8 does not hold"),
        "{why}"
    );
    let routing = Routing::new(RouterKey::MIXTRAL, 200, 2).unwrap();
    let logits = flex(random([1, 200], &Device::flex()));
    let why = router::Operands::new(logits, None, routing, IntDType::I8);
    let why = why.expect_err("128 and more").to_string();
    assert!(
        why.contains("as large as 199, which I8 does not hold"),
        "{why}"
    );
}

#[test]
fn counts_and_rows_past_all_integers_name_nothing() {
    let map = FlexTensor::from_data(TensorData::new(vec![u64::MAX, 0, 1, 1 << 63], [2, 2]));
    let rows = FlexTensor::from_data(TensorData::new(vec![1.0_f32, 2.0], [2, 1]));
    let sum = Flex::sum_rows(Sum::new(rows.clone(), map.clone()).unwrap());
    assert_eq!(floats(sum), [1.0, 2.0]);
    let spread = Flex::spread(Spread::new(rows.clone(), map, 2).unwrap());
    assert_eq!(floats(spread), [1.0, 2.0]);
    let counts = FlexTensor::from_data(TensorData::new(vec![u64::MAX], [1]));
    let weight = FlexTensor::from_data(TensorData::new(vec![3.0_f32], [1, 1, 1]));
    let layout = ExpertLayout::Linear;
    let operands = grouped_matmul::Operands::new(rows, vec![weight], counts, layout, None).unwrap();
    let why = refusal(|| product(operands));
    assert!(why.starts_with("grouped matmul: "), "{why}");
}

#[test]
fn no_number_of_experts_asks_for_all_memory() {
    let device = Device::flex();
    let (x, routing) = (random([1, 2], &device), random([1, 1], &device));
    let indices = Tensor::<2, Int>::zeros([1, 1], &device);
    for experts in [usize::MAX, 1 << 40] {
        let many = |e: usize, x: Tensor<2>| if e == 0 { x } else { unreachable!() };
        let (x, indices) = (x.clone(), indices.clone());
        let why = refusal(|| each(x.clone(), indices.clone(), routing.clone(), experts, many));
        assert!(why.contains("experts are more than 1048576"), "{why}");
        let why = refusal(|| permute::reference(x, indices, experts, None));
        assert!(why.contains("experts are more than 1048576"), "{why}");
    }
    let why = refusal(|| load_balancing_loss(&[random([2, 8], &device)], 8, 0, None));
    assert!(why.contains("can't choose 0 of 8 experts"), "{why}");
}

#[test]
fn weights_without_inputs_make_zeros() {
    let empty = |shape: &[usize]| {
        let bytes = Bytes::from_elems(Vec::<bf16>::new());
        FlexTensor::new(
            bytes,
            Layout::contiguous(Shape::from(shape.to_vec())),
            DType::BF16,
        )
    };
    let counts = ints(&[1; 8], [8]);
    let layout = ExpertLayout::Matmul;
    let weights = vec![empty(&[8, 0, 200])];
    let operands = grouped_matmul::Operands::new(empty(&[8, 0]), weights, counts, layout, None);
    let y = product(operands.unwrap());
    assert_eq!(floats(y), [0.0; 8 * 200]);
}

/// `FlexTensor` accepts any layout. In release builds the product of these strides wraps around.
#[test]
fn weights_beyond_all_memory_are_refused() {
    let bytes = Bytes::from_elems(vec![1.0_f32; 64]);
    let strides = vec![1, 1 << 61, 1];
    let layout = Layout::new(Shape::new([1, 9, 16]), strides, 0);
    let weight = FlexTensor::new(bytes, layout, DType::F32);
    let x = flex(random([32, 16], &Device::flex()));
    let layout = ExpertLayout::Linear;
    let operands = grouped_matmul::Operands::new(x, vec![weight], ints(&[32], [1]), layout, None);
    let operands = operands.unwrap();
    let why = refusal(|| product(operands));
    assert!(why.contains("is not within 64 elements"), "{why}");
}

/// An expanded element takes no memory, and the number of elements here overflows.
#[test]
fn more_elements_than_can_be_counted_are_refused() {
    let bytes = Bytes::from_elems(vec![0_i64]);
    let layout = Layout::new(Shape::new([1 << 32, 1 << 32]), vec![0, 0], 0);
    let map = FlexTensor::new(bytes, layout, DType::I64);
    let tokens = flex(random([1, 1], &Device::flex()));
    let why = Sum::new(tokens, map)
        .expect_err("2^64 elements")
        .to_string();
    assert!(why.contains("more elements than can be counted"), "{why}");
}

#[test]
fn an_empty_view_may_start_behind_its_storage() {
    let x = flex(random([2, 3, 4], &Device::flex()));
    let empty = x.narrow(0, 2, 0).narrow(1, 2, 1).permute(&[1, 2, 0]);
    let key = RmsNormKey {
        scale: Scale::None,
        ..RmsNormKey::LLAMA
    };
    let settings = rms_norm::Settings {
        eps: 1e-6,
        group_size: None,
    };
    let operands = rms_norm::Operands::new(empty, None, None, settings, key).unwrap();
    let y = <Flex as FusedKernel<RmsNorm>>::forward(operands, None).y;
    assert_eq!(y.layout().shape().as_slice(), [1, 4, 0]);
}

/// Numbers that are added one by one in f32 are off by 2^-11 after 2^16 of them, and stay at 2^24 for good.
#[test]
fn sums_over_long_rows_do_not_drift() {
    const WIDTH: usize = (1 << 22) + 5;
    let device = Device::flex();
    let row = |pair: [f32; 2]| {
        let values = (0..WIDTH).map(|i| pair[i % 2]).collect::<Vec<_>>();
        Tensor::<2>::from_data(TensorData::new(values, [1, WIDTH]), &device)
    };
    let are_ones = |y: Tensor<2>, what: &str| {
        let furthest = (y.abs() - 1.0).abs().max().into_scalar::<f32>();
        assert!(furthest < 1e-5, "{what}: {furthest}");
    };
    let norm = |x| {
        let settings = rms_norm::Settings {
            eps: 1e-6,
            group_size: None,
        };
        let (weight, gate) = (None, None);
        let key = RmsNormKey {
            scale: Scale::None,
            ..RmsNormKey::LLAMA
        };
        (rms_norm::Inputs { x, weight, gate }, settings, key)
    };
    for value in [1.3, 0.7] {
        let (inputs, settings, key) = norm(row([value, -value]));
        are_ones(
            rms_norm::reference(inputs.clone(), settings, key),
            "reference",
        );
        are_ones(rms_norm::fused(inputs, settings, key).unwrap(), "kernel");
    }
    let inputs = layer_norm::Inputs {
        x: row([0.7, 2.1]),
        weight: Tensor::ones([WIDTH], &device),
        bias: None,
    };
    let (settings, key) = (layer_norm::Settings { eps: 1e-9 }, LayerNormKey::COHERE);
    are_ones(
        layer_norm::reference(inputs.clone(), settings, key),
        "reference",
    );
    are_ones(layer_norm::fused(inputs, settings, key).unwrap(), "kernel");
}

/// Tokens without elements take no memory, however many there are.
#[test]
fn tokens_without_elements_have_experts_without_memory() {
    const TOKENS: usize = 1 << 33;
    let device = Device::flex();
    for choices in [0, 1] {
        // One number, expanded, or none.
        let (indices, routing) = match choices {
            0 => (
                Tensor::<2, Int>::zeros([TOKENS, 0], &device),
                Tensor::<2>::zeros([TOKENS, 0], &device),
            ),
            _ => (
                Tensor::<2, Int>::zeros([1, 1], &device).expand([TOKENS, 1]),
                Tensor::<2>::zeros([1, 1], &device).expand([TOKENS, 1]),
            ),
        };
        let weights = experts::Weights::packed(
            experts::Projection::new(random([2, 6, 0], &device)),
            experts::Projection::new(random([2, 0, 3], &device)),
        );
        let x = Tensor::<2>::zeros([TOKENS, 0], &device);
        let key = MoeExpertsKey::QWEN3;
        let operands = (x, indices, routing, weights);
        let (x, indices, routing, weights) = operands.clone();
        let y = experts::fused(x, indices, routing, weights, None, key);
        assert_eq!(y.unwrap().dims(), [TOKENS, 0]);
        let (x, indices, routing, weights) = operands;
        let y = experts::reference(x, indices, routing, weights, None, key);
        assert_eq!(y.dims(), [TOKENS, 0]);
    }
}

/// A row without elements has no statistic, so that a norm of any number of them takes no memory, nor time.
#[test]
fn norms_of_rows_without_elements_take_no_memory() {
    const ROWS: usize = 1 << 33;
    let device = Device::flex().autodiff();
    let settings = rms_norm::Settings {
        eps: 1e-6,
        group_size: None,
    };
    for is_fused in [true, false] {
        let x = Tensor::<2>::zeros([ROWS, 0], &device).require_grad();
        let weight = Tensor::<1>::zeros([0], &device).require_grad();
        let inputs = rms_norm::Inputs {
            x: x.clone(),
            weight: Some(weight.clone()),
            gate: None,
        };
        let of_inputs = layer_norm::Inputs {
            x: x.clone(),
            weight: weight.clone(),
            bias: None,
        };
        let sums = add_rms_norm::Inputs {
            x: x.clone(),
            residual: x.clone(),
            weight: Some(weight.clone()),
            gate: None,
        };
        let (key, of_layers, of_sums) = (
            RmsNormKey::LLAMA,
            LayerNormKey::COHERE,
            AddRmsNormKey::of_norm(RmsNormKey::LLAMA),
        );
        let eps = layer_norm::Settings { eps: 1e-6 };
        let results = match is_fused {
            true => [
                rms_norm::fused(inputs, settings, key).unwrap(),
                layer_norm::fused(of_inputs, eps, of_layers).unwrap(),
                add_rms_norm::fused(sums, settings, of_sums).unwrap().0,
            ],
            false => [
                rms_norm::reference(inputs, settings, key),
                layer_norm::reference(of_inputs, eps, of_layers),
                add_rms_norm::reference(sums, settings, of_sums).0,
            ],
        };
        for y in results {
            assert_eq!(y.dims(), [ROWS, 0]);
            let gradients = y.sum().backward();
            let gradient = x.grad(&gradients).expect("it is tracked");
            assert_eq!(gradient.dims(), [ROWS, 0]);
        }
    }
}

#[test]
fn operands_are_not_exchanged_for_others() {
    let key = RmsNormKey {
        scale: Scale::None,
        gating: Gating::AfterNorm,
        ..RmsNormKey::LLAMA
    };
    let settings = rms_norm::Settings {
        eps: 1e-6,
        group_size: None,
    };
    let device = Device::flex();
    let tensor = || random([2, 4], &device).into_dispatch();
    let operands =
        rms_norm::Operands::<DispatchTensor>::new(tensor(), None, Some(tensor()), settings, key);
    let wider = flex(random([2, 8], &device));
    type Operands = rms_norm::Operands<FloatTensor<Flex>>;
    let why = refusal(|| {
        <Operands as ExtensionType<Flex>>::map_from_dispatch(operands.unwrap(), |_| {
            BackendTensor::Float(wider.clone())
        })
    });
    assert!(why.contains("was exchanged for [2, 8]"), "{why}");
}
