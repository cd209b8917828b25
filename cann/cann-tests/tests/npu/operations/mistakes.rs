//! Tests numbers out of range on an NPU, such as indices of experts and targets of losses: the device counts them, the next
//! read is an error, and the session goes on.

use crate::npu::common::Scenario;
use crate::npu::{Lie, integers, on_the_emulator, put, read};
use burn::tensor::{Device, Int, IntDType, Tensor, TensorData};
use burn_cann::{DType, backend};
use kernels_runtime::__serving::mistakes;
use kernels_runtime::npu::{OnNpu, Seen};
use kernels_runtime::ops::fused::{Backward, Given};
use kernels_runtime::ops::moe::experts::{self, Projection, Weights};
use kernels_runtime::ops::moe::router::{self, Router, Routing};
use kernels_runtime::ops::moe::{Stack, grouped_matmul, unpermute};
use kernels_runtime::ops::{cross_entropy, linear_cross_entropy};
use kernels_runtime::semantics::{
    Correction, CrossEntropyKey, ExpertLayout, LinearCrossEntropyKey, MoeExpertsKey, RouterKey,
};

const EXPERTS: usize = 3;
const WIDTH: usize = 16;
/// The extreme integers of the device.
const LEAST: i64 = i32::MIN as i64;
const LARGEST: i64 = i32::MAX as i64;
const WRONG: &str = "below 0 or above the number of experts";

/// Passes two tokens through the experts of `indices`, two each.
fn forward(device: &Device, indices: [[i32; 2]; 2]) -> Tensor<2> {
    let ones = |shape: [usize; 3]| Projection::new(Tensor::<3>::ones(shape, device));
    let weights = Weights::packed(
        ones([EXPERTS, 2 * WIDTH, WIDTH]),
        ones([EXPERTS, WIDTH, WIDTH]),
    );
    let x = Tensor::ones([2, WIDTH], device);
    let indices = Tensor::<2, Int>::from_data(TensorData::from(indices), device);
    let routing = Tensor::ones([2, 2], device);
    experts::fused(x, indices, routing, weights, None, MoeExpertsKey::QWEN3).expect("a kernel")
}

fn said(read: impl std::fmt::Debug) -> String {
    format!("{read:?}")
}

#[test]
fn an_index_of_no_expert_is_an_error_of_the_next_read() {
    Scenario::new().run(|cann| {
        backend::install(cann.clone());
        let device = kernels_serving::npu::device(0).unwrap();

        // The index one past the last means no expert and is valid.
        let right = forward(&device, [[0, 2], [1, EXPERTS as i32]]);
        right.clone().try_into_data().expect("all are right");

        for wrong in [-1, EXPERTS as i32 + 1, i32::MAX] {
            let y = forward(&device, [[0, 2], [1, wrong]]);
            let read = y.clone().try_into_data();
            assert!(
                read.is_err() && said(&read).contains(WRONG),
                "{}",
                said(&read)
            );
            assert!(said(&read).contains("1 indices"), "{}", said(&read));
            // It is reported once. The computation treated the slot as one without an expert.
            let y = y.try_into_data().expect("it was said");
            y.assert_eq(&right.clone().into_data(), true);
        }

        // Any read reports it, and so does a synchronisation. Counts of several calls are added. Burn's fusion, which builds
        // for GPUs have, first calls them when a result is read.
        let wrong = [[[-1, -7], [0, 1]], [[9, 1], [0, 1]]].map(|wrong| forward(&device, wrong));
        let read = match cfg!(feature = "gpu") {
            true => wrong[1].clone().try_into_data(),
            false => right.clone().try_into_data(),
        };
        assert!(said(&read).contains("3 indices"), "{}", said(&read));
        forward(&device, [[9, 1], [0, 1]]);
        let waited = device.sync();
        assert!(
            waited.is_err() && said(&waited).contains(WRONG),
            "{}",
            said(&waited)
        );
        device.sync().expect("it was said");

        drop(right);
        kernels_serving::npu::close();
        backend::close();
    });
}

const CLASSES: usize = 5;
const NO_CLASS: &str = "neither classes nor the ignored index";

/// Returns the losses of logits and of hidden states, which are all ones.
fn losses(device: &Device, targets: [i32; 3]) -> [Tensor<1>; 2] {
    let targets = || Tensor::<1, Int>::from_data(TensorData::from(targets), device);
    let settings = cross_entropy::Settings::default();
    let of_logits = cross_entropy::Inputs {
        logits: Tensor::ones([3, CLASSES], device),
        targets: targets(),
    };
    let of_hidden = linear_cross_entropy::Inputs {
        hidden: Tensor::ones([3, WIDTH], device),
        weight: Tensor::ones([CLASSES, WIDTH], device),
        bias: None,
        targets: targets(),
    };
    let of_logits = cross_entropy::fused(of_logits, settings, CrossEntropyKey::MEAN);
    let of_hidden = linear_cross_entropy::fused(of_hidden, settings, LinearCrossEntropyKey::MEAN);
    [of_logits.expect("a kernel"), of_hidden.expect("a kernel")]
}

/// The token of such a target is ignored.
#[test]
fn a_target_of_no_class_is_an_error_of_the_next_read() {
    Scenario::new().run(|cann| {
        backend::install(cann.clone());
        let device = kernels_serving::npu::device(0).unwrap();
        for loss in losses(&device, [0, -100, 4]) {
            loss.try_into_data().expect("all are right");
        }
        let expected = (CLASSES as f32).ln();
        for wrong in [-1, CLASSES as i32, i32::MIN, i32::MAX] {
            for place in 0..2 {
                let loss = losses(&device, [0, wrong, 4])[place].clone();
                let read = loss.clone().try_into_data();
                assert!(said(&read).contains(NO_CLASS), "{}", said(&read));
                assert!(said(&read).contains("2 targets"), "{}", said(&read));
                let loss = loss.into_scalar::<f32>();
                assert!((loss - expected).abs() < 1e-5, "{loss}, not {expected}");
            }
        }
        // Both kinds of mistakes are said at once.
        forward(&device, [[-1, 0], [0, 1]]);
        let [loss, _] = losses(&device, [0, -1, 4]);
        let read = loss.try_into_data();
        assert!(said(&read).contains(NO_CLASS), "{}", said(&read));
        assert!(said(&read).contains(WRONG), "{}", said(&read));
        device.sync().expect("it was said");
        kernels_serving::npu::close();
        backend::close();
    });
}

/// Counts below zero and beyond the rows, which the CPU refuses at once.
#[test]
fn counts_beyond_the_rows_are_an_error_of_the_next_read() {
    Scenario::new().run(|cann| {
        backend::install(cann.clone());
        let device = kernels_serving::npu::device(0).unwrap();
        let product = |counts: [i64; 3]| {
            let x = Tensor::<2>::ones([6, WIDTH], &device);
            let counts = Tensor::<1, Int>::from_data(TensorData::from(counts), &device);
            let weights = Tensor::<3>::ones([3, WIDTH, WIDTH], &device);
            let layout = ExpertLayout::Linear;
            grouped_matmul::fused(x, counts, Stack::from(weights), layout).expect("a kernel")
        };
        for right in [[2, 3, 1], [0, 6, 0], [1, 1, 1], [0, 0, 0]] {
            let y = product(right).try_into_data().expect("all are right");
            let rows = right.iter().sum::<i64>() as usize;
            let expected = [
                vec![WIDTH as f32; rows * WIDTH],
                vec![0.0; (6 - rows) * WIDTH],
            ];
            assert_eq!(y.iter::<f32>().collect::<Vec<_>>(), expected.concat());
        }
        for (wrong, number) in [
            ([-1, 2, 3], 1),
            ([2, 3, 2], 1),
            ([7, 0, 0], 1),
            ([6, 1, 1], 2),
            ([LARGEST, LEAST, LARGEST], 4),
        ] {
            let y = product(wrong);
            let read = y.clone().try_into_data();
            let expected = format!("{number} counts of grouped products");
            assert!(
                said(&read).contains(&expected),
                "{wrong:?}: {}",
                said(&read)
            );
            // Every row is that of some expert or zero.
            let y = y.try_into_data().expect("it was said");
            assert!(y.iter::<f32>().all(|y| [0.0, WIDTH as f32].contains(&y)));
        }
        kernels_serving::npu::close();
        backend::close();
    });
}

/// A row map with entries that are out of range or occur twice.
#[test]
fn a_map_of_no_permutation_is_an_error_of_the_next_read() {
    Scenario::new().run(|cann| {
        backend::install(cann.clone());
        let device = kernels_serving::npu::device(0).unwrap();
        let sum = |map: [[i64; 2]; 2]| {
            let rows = Tensor::<2>::ones([4, WIDTH], &device);
            let map = Tensor::<2, Int>::from_data(TensorData::from(map), &device);
            unpermute::fused(rows, map, None).expect("a kernel")
        };
        // A slot of no expert has the number of rows, or more.
        for right in [[[0, 1], [2, 3]], [[3, 1], [0, 2]], [[1, 4], [0, 9]]] {
            sum(right).try_into_data().expect("all are right");
        }
        for (wrong, number) in [
            ([[-1, 0], [1, 2]], 4),
            ([[0, 0], [1, 2]], 3),
            ([[0, 2], [4, 4]], 1),
            ([[LEAST, 4], [4, 4]], 1),
        ] {
            let y = sum(wrong);
            let read = y.clone().try_into_data();
            let expected = format!("{number} entries of row maps");
            assert!(
                said(&read).contains(&expected),
                "{wrong:?}: {}",
                said(&read)
            );
            y.try_into_data().expect("it was said");
        }
        kernels_serving::npu::close();
        backend::close();
    });
}

/// The client sends the experts that a router chose back for its gradient, and may send others.
#[test]
fn an_expert_that_no_router_chose_is_told() {
    on_the_emulator(|_, stream| {
        for key in [
            RouterKey::QWEN2_MOE,
            RouterKey::QWEN3_MOE,
            RouterKey::DEEPSEEK_V3,
        ] {
            let found = |chosen: [i64; 4]| {
                let routing = Routing::new(key, EXPERTS, 2).expect("two of three");
                let float =
                    |shape: &[usize], seed| put(stream, DType::F32, shape, seed, Lie::Contiguous).0;
                let logits = Seen(float(&[2, EXPERTS], 1));
                let bias = (key.correction == Correction::Bias).then(|| Seen(float(&[EXPERTS], 3)));
                let operands = router::Operands::new(logits, bias, routing, IntDType::I32).unwrap();
                let given = Given {
                    others: Default::default(),
                    dy: Seen(float(&[2, 2], 2)),
                    saved: [].into_iter().collect(),
                    ints: [Seen(integers(stream, DType::I32, &chosen, &[2, 2]))]
                        .into_iter()
                        .collect(),
                };
                let wanted = &[true, false][..operands.tensors().count()];
                let backward = Backward::<Router, _>::new(operands, given, wanted).unwrap();
                mistakes::begin();
                let gradient = Router::backward(stream, &backward).unwrap().logits.unwrap();
                let found = mistakes::found();
                mistakes::end();
                assert!(read(stream, &gradient).iter().all(|x| x.is_finite()));
                found
            };
            assert_eq!(found([0, 2, 1, 0]), None);
            for (wrong, number) in [([-1, 2, 1, 3], 2), ([LEAST, LARGEST, 3, -1], 4)] {
                let said = found(wrong).expect("they are wrong");
                let expected = format!("{number} experts of routers' gradients");
                assert!(said.starts_with(&expected), "{said}");
            }
        }
    });
}
