//! Compares norms and rotations of queries and keys on an NPU of the emulator with the reference in f64, and tests the
//! reasons for refusals.

use crate::npu::common::Scenario;
use burn::tensor::{Device, Distribution, FloatDType, Tensor};
use burn_cann::backend;
use kernels_runtime::dispatch::Reason;
use kernels_runtime::ops::qk_norm_rope::{Inputs, Settings, fused, reference};
use kernels_runtime::semantics::*;

const WIDTH: usize = 16;

fn settings(key: QkNormRopeKey) -> Settings {
    Settings {
        eps: (key.norm != QkNorm::None).then_some(1e-6),
    }
}

fn keys() -> Vec<QkNormRopeKey> {
    let bases = [
        QkNormRopeKey::QWEN3,
        QkNormRopeKey::GEMMA3,
        QkNormRopeKey::OLMO2,
        QkNormRopeKey::LLAMA,
    ];
    let orders = [
        (RopeStyle::Half, TableLayout::Halves),
        (RopeStyle::Interleaved, TableLayout::Neighbours),
        (RopeStyle::InterleavedToHalf, TableLayout::Pairs),
    ];
    let layouts = [HeadLayout::Bnsd, HeadLayout::Bsnd];
    let all = bases.into_iter().flat_map(|base| {
        orders.into_iter().flat_map(move |(style, table)| {
            layouts.map(|layout| QkNormRopeKey {
                style,
                table,
                layout,
                ..base
            })
        })
    });
    all.collect()
}

/// Random inputs on the host, in f64, rounded to the dtype.
fn inputs(key: QkNormRopeKey, dtype: FloatDType) -> Inputs {
    fn random<const D: usize>(shape: [usize; D], dtype: FloatDType) -> Tensor<D> {
        let device = Device::flex();
        let numbers: Tensor<D> = Tensor::random(shape, Distribution::Uniform(-1.0, 1.0), &device);
        numbers.cast(dtype).cast(FloatDType::F64)
    }
    let weight = |heads: usize| -> Option<Tensor<1>> {
        match key.norm {
            QkNorm::None => None,
            QkNorm::Head => Some(random([WIDTH], dtype)),
            QkNorm::Row => Some(random([heads * WIDTH], dtype)),
        }
    };
    let columns = match key.table {
        TableLayout::Pairs => WIDTH / 2,
        TableLayout::Halves | TableLayout::Neighbours => WIDTH,
    };
    Inputs {
        q: random([2, 5, 4, WIDTH], dtype),
        k: random([2, 5, 2, WIDTH], dtype),
        q_weight: weight(4),
        k_weight: weight(2),
        cos: random([1, 5, columns], dtype),
        sin: random([1, 5, columns], dtype),
    }
}

/// Results, and the gradients of all inputs, of the inputs on another device.
fn computed(
    inputs: &Inputs,
    (device, dtype): (&Device, FloatDType),
    run: impl FnOnce(Inputs) -> (Tensor<4>, Tensor<4>),
) -> Vec<Vec<f64>> {
    fn leaf<const D: usize>(x: &Tensor<D>, device: &Device, dtype: FloatDType) -> Tensor<D> {
        let data = x.clone().into_data();
        let tensor: Tensor<D> = Tensor::from_data(data, (device, burn::tensor::DType::from(dtype)));
        tensor.require_grad()
    }
    let inputs = Inputs {
        q: leaf(&inputs.q, device, dtype),
        k: leaf(&inputs.k, device, dtype),
        q_weight: inputs.q_weight.as_ref().map(|x| leaf(x, device, dtype)),
        k_weight: inputs.k_weight.as_ref().map(|x| leaf(x, device, dtype)),
        cos: leaf(&inputs.cos, device, dtype),
        sin: leaf(&inputs.sin, device, dtype),
    };
    fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
        tensor.into_data().iter::<f64>().collect()
    }
    let (q, k) = run(inputs.clone());
    let grads = (q.clone().square().sum() + k.clone().square().sum()).backward();
    let mut all = vec![values(q), values(k)];
    all.extend([inputs.q, inputs.k].map(|x| values(x.grad(&grads).unwrap())));
    all.extend([inputs.cos, inputs.sin].map(|x| values(x.grad(&grads).unwrap())));
    let weights = [inputs.q_weight, inputs.k_weight].into_iter().flatten();
    all.extend(weights.map(|x| values(x.grad(&grads).unwrap())));
    all
}

#[test]
fn every_key_and_type_beside_the_reference() {
    Scenario::new().run(|cann| {
        backend::install(cann.clone());
        let device = kernels_serving::npu::device(0).unwrap().autodiff();
        let exactly = Device::flex().autodiff();
        for (dtype, bound) in [
            (FloatDType::F32, 1e-5),
            (FloatDType::F16, 1e-2),
            (FloatDType::BF16, 6e-2),
        ] {
            for key in keys() {
                let inputs = inputs(key, dtype);
                let found = computed(&inputs, (&device, dtype), |inputs| {
                    fused(inputs, settings(key), key).expect("a kernel")
                });
                let exact = computed(&inputs, (&exactly, FloatDType::F64), |inputs| {
                    reference(inputs, settings(key), key)
                });
                assert_eq!(found.len(), exact.len());
                for (number, (found, exact)) in found.iter().zip(&exact).enumerate() {
                    let norm = |values: &mut dyn Iterator<Item = f64>| {
                        values.map(|v| v * v).sum::<f64>().sqrt()
                    };
                    let distance = norm(&mut found.iter().zip(exact).map(|(a, b)| a - b));
                    let size = norm(&mut exact.iter().copied());
                    // The squares' sum does not depend on the angles alone: those gradients may be small.
                    assert!(
                        distance <= bound * size.max(1.0),
                        "{key}, {dtype:?}, tensor {number}: {distance:e} of {size:e}"
                    );
                }
            }
        }
        kernels_serving::npu::close();
        backend::close();
    });
}

/// The operation refuses what one of the two refuses.
#[test]
fn refusals_have_the_reasons_of_the_parts() {
    Scenario::new().run(|cann| {
        backend::install(cann.clone());
        let device = kernels_serving::npu::device(0).unwrap();
        let zeros = |width: usize| Inputs {
            q: Tensor::zeros([1, 2, 2, width], &device),
            k: Tensor::zeros([1, 2, 1, width], &device),
            q_weight: Some(Tensor::zeros([width], &device)),
            k_weight: Some(Tensor::zeros([width], &device)),
            cos: Tensor::zeros([1, 2, width], &device),
            sin: Tensor::zeros([1, 2, width], &device),
        };
        let key = QkNormRopeKey::QWEN3;
        assert!(fused(zeros(64), settings(key), key).is_ok());
        let wide = fused(zeros(896), settings(key), key);
        assert_eq!(wide.unwrap_err(), Reason::Shape);
        let of_batches = Inputs {
            sin: Tensor::zeros([1, 2, 64], &device),
            q: Tensor::zeros([2, 2, 2, 64], &device),
            k: Tensor::zeros([2, 2, 1, 64], &device),
            cos: Tensor::zeros([2, 2, 64], &device),
            ..zeros(64)
        };
        let found = fused(of_batches, settings(key), key);
        assert_eq!(found.unwrap_err(), Reason::Shape);
        kernels_serving::npu::close();
        backend::close();
    });
}
