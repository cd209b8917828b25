//! Tables of embeddings that stay in quantised form, and output layers tied to them: against the same in floats.

use crate::comparison::relative_to;
use burn::module::{Module, Param};
use burn::nn::EmbeddingConfig;
use burn::tensor::activation::log_softmax;
use burn::tensor::{DType, Device, Distribution, FloatDType, Int, Tensor, TensorData};
use burn_kernels::live::{self, Sampling};
use burn_kernels::nn::{Embedding, Quantize, Quantized};
use burn_kernels::policy::{Policy, scope};
use burn_kernels::quant::{Dtype, OwnedPart, OwnedWeight, gguf};
use burn_kernels::report::report;
use std::panic::{AssertUnwindSafe, catch_unwind};

const ROWS: usize = 300;
const WIDTH: usize = 96;

fn numbers<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

fn ids(ids: &[i64], device: &Device) -> Tensor<1, Int> {
    Tensor::from_data(TensorData::new(ids.to_vec(), [ids.len()]), device)
}

/// Returns tables in Q5_0 and in NF4.
fn weights() -> [OwnedWeight; 2] {
    let values: Vec<f32> = (0..ROWS * WIDTH)
        .map(|at| ((at * 7919) % 1009) as f32 / 504.5 - 1.0)
        .collect();
    let row = WIDTH / 32 * 22;
    let mut bytes = vec![0; ROWS * row];
    gguf::Block::Q5_0.encode(&values, &mut bytes).unwrap();
    let blocks = OwnedPart {
        name: "blocks".into(),
        dtype: Dtype::U8,
        shape: vec![ROWS, row],
        bytes,
    };
    let blocks = OwnedWeight::new(gguf::Block::Q5_0, [ROWS, WIDTH], vec![blocks]).unwrap();
    [blocks, OwnedWeight::nf4([ROWS, WIDTH], &values)]
}

/// Returns a quantised table, and one in the floats that it decodes to.
fn tables(weight: &OwnedWeight, dtype: FloatDType, device: &Device) -> [Embedding; 2] {
    let mut plain = Embedding::from(EmbeddingConfig::new(ROWS, WIDTH).init(device));
    let id = plain.weight.id;
    let tables = [(id, weight.clone())];
    let quantize = Quantize::new([], DType::from(dtype)).with_tables(tables);
    let table = plain.clone().apply_reparameterization(quantize);
    plain.weight = Param::initialized(id, table.weight.val());
    [table, plain]
}

#[test]
fn rows_are_those_of_the_decoded_table() {
    let _verified = live::scope("every:1".parse::<Sampling>().unwrap());
    for device in [Device::flex(), Device::flex().autodiff()] {
        for policy in [Policy::auto(), Policy::reference()] {
            let _policy = scope(policy);
            for dtype in [FloatDType::F32, FloatDType::BF16, FloatDType::F16] {
                for weight in weights() {
                    let [table, plain] = tables(&weight, dtype, &device);
                    for asked in [&[5][..], &[0, 299, 7, 7, 150, 0, 1, 2, 3, 298]] {
                        let asked = ids(asked, &device).reshape([-1, asked.len().min(5) as i64]);
                        let found = table.forward(asked.clone());
                        assert_eq!(found.is_autodiff(), device.is_autodiff());
                        assert!(!found.is_tracked());
                        let expected = plain.forward(asked).into_data();
                        assert!(found.into_data() == expected, "{dtype:?}");
                    }
                    assert_eq!(table.num_params(), plain.num_params());
                    let size = (ROWS * WIDTH, weight.bytes());
                    assert_eq!(Quantized::size_in(&table), size);
                }
            }
        }
    }
    assert!(
        report()
            .to_string()
            .contains("npu_fused_quantized_embedding")
    );
}

#[test]
fn no_ids_have_no_rows() {
    let device = Device::flex();
    let [table, _] = tables(&weights()[0], FloatDType::BF16, &device);
    for shape in [[0, 3], [2, 0]] {
        let found = table.forward(Tensor::zeros(shape, &device));
        assert_eq!(found.dims(), [shape[0], shape[1], WIDTH]);
        assert_eq!(found.dtype(), DType::BF16);
    }
}

fn message(call: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(call)).unwrap_err();
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(other) => (*other.downcast::<&str>().unwrap()).to_owned(),
    }
}

#[test]
fn mistakes_are_named() {
    let device = Device::flex();
    let [table, _] = tables(&weights()[0], FloatDType::F32, &device);
    for policy in [Policy::auto(), Policy::reference()] {
        let _policy = scope(policy);
        for id in [-1, 300] {
            let ids = ids(&[3, id], &device).reshape([1, 2]);
            let said = message(|| drop(table.forward(ids)));
            let expected = format!("id {id} at place 1 is not a row of the table, which has 300");
            assert!(said.contains(&expected), "{said}");
        }
        let head = table.table().unwrap();
        let hidden = Tensor::<2>::ones([2, WIDTH], &device);
        let target = |id| ids(&[3, id], &device);
        let said = message(|| drop(head.losses(hidden.clone(), target(300), -100, None)));
        let expected = "token 1 has the target 300, but there are 300 classes";
        assert!(said.contains(expected), "{said}");
        let short = hidden.clone().narrow(1, 0, 5);
        let said = message(|| drop(head.losses(short, target(1), -100, None)));
        assert!(
            said.contains("takes hidden states of 96 elements, but they have 5"),
            "{said}"
        );
        let one = ids(&[3], &device);
        let said = message(|| drop(head.losses(hidden.clone(), one, -100, None)));
        assert!(said.contains("2 hidden states, but 1 targets"), "{said}");
        let said = message(|| drop(head.losses(hidden, target(1), -100, Some(0.0))));
        assert!(said.contains("the cap is 0"), "{said}");
    }
}

#[test]
fn a_table_is_not_trained() {
    let device = Device::flex().autodiff();
    let [table, _] = tables(&weights()[0], FloatDType::F32, &device);
    assert!(!table.weight.base().is_require_grad());
    let table = table.set_require_grad(true);
    let said = message(|| drop(table.forward(Tensor::zeros([1, 1], &device))));
    assert!(said.contains("QLoRA"), "{said}");
}

#[cfg(feature = "optim")]
#[test]
fn records_hold_the_decoded_table() {
    let device = Device::flex();
    let [table, plain] = tables(&weights()[1], FloatDType::F32, &device);
    let other = Embedding::from(EmbeddingConfig::new(ROWS, WIDTH).init(&device));
    let into_plain = other.clone().load_record(table.clone().into_record());
    assert!(into_plain.weight.val().into_data() == plain.weight.val().into_data());
    let asked = || ids(&[1, 2], &device).reshape([1, 2]);
    let into_own = table.clone().load_record(plain.clone().into_record());
    assert!(into_own.forward(asked()).into_data() == plain.forward(asked()).into_data());
    let said = message(|| {
        table.load_record(other.into_record()).num_params();
    });
    assert!(
        said.contains("other numbers than the quantised weight"),
        "{said}"
    );
}

/// Losses of tokens, and the gradient of the hidden states for the gradient `dy` of each.
fn losses(
    compute: impl FnOnce(Tensor<2>) -> Tensor<1>,
    hidden: &Tensor<2>,
    dy: &[f64],
) -> [Vec<f64>; 2] {
    let hidden = hidden.clone().detach().require_grad();
    let losses = compute(hidden.clone());
    let dy = TensorData::new(dy.to_vec(), [dy.len()]);
    let dy = Tensor::<1>::from_data(dy, (&losses.device(), losses.dtype()));
    let grads = (losses.clone() * dy).sum().backward();
    let gradient = hidden.grad(&grads).expect("hidden states are tracked");
    [numbers(losses.inner()), numbers(gradient)]
}

#[test]
fn losses_and_gradients_are_those_of_the_decoded_weight() {
    let _verified = live::scope("every:1".parse::<Sampling>().unwrap());
    let device = Device::flex().autodiff();
    for weight in weights() {
        let decoded = tables(&weight, FloatDType::F32, &device)[1].weight.val();
        let decoded = decoded.detach().cast(FloatDType::F64);
        for tokens in [1, 7, 40] {
            let dy: Vec<f64> = (0..tokens).map(|at| 0.5 - at as f64 / 7.0).collect();
            let target = |at: usize| {
                if at % 4 == 1 {
                    -100
                } else {
                    (at * 53 % ROWS) as i64
                }
            };
            let targets: Vec<i64> = (0..tokens).map(target).collect();
            let counts: Vec<f64> = targets
                .iter()
                .map(|id| f64::from(u8::from(*id >= 0)))
                .collect();
            for (dtype, most) in [
                (FloatDType::F32, 2e-6),
                (FloatDType::BF16, 5e-3),
                (FloatDType::F16, 6e-4),
            ] {
                let hidden = Distribution::Normal(0.0, 0.3);
                let hidden = Tensor::<2>::random([tokens, WIDTH], hidden, &device).cast(dtype);
                for cap in [None, Some(2.0)] {
                    let exact = |hidden: Tensor<2>| {
                        let logits = hidden.matmul(decoded.clone().transpose());
                        let logits = match cap {
                            Some(cap) => (logits * (1.0 / cap)).tanh() * cap,
                            None => logits,
                        };
                        let classes: Vec<i64> = targets.iter().map(|id| (*id).max(0)).collect();
                        let classes = ids(&classes, &device).unsqueeze_dim(1);
                        let losses = log_softmax(logits, 1).gather(1, classes).neg();
                        let counts = TensorData::new(counts.clone(), [tokens]);
                        let counts = Tensor::<1>::from_data(counts, (&device, DType::F64));
                        losses.squeeze_dim::<1>(1) * counts
                    };
                    let expected = losses(exact, &hidden.clone().cast(FloatDType::F64), &dy);
                    for policy in [Policy::auto(), Policy::reference()] {
                        let _policy = scope(policy);
                        let [table, _] = tables(&weight, dtype, &device);
                        let head = table.table().unwrap().clone();
                        let found = losses(
                            |hidden| head.losses(hidden, ids(&targets, &device), -100, cap),
                            &hidden,
                            &dy,
                        );
                        let error = relative_to(0.1, &found[0], &expected[0]);
                        assert!(error < 2e-6, "{dtype:?}, {tokens}, {cap:?}: {error:e}");
                        let error = relative_to(0.1, &found[1], &expected[1]);
                        assert!(error < most, "{dtype:?}, {tokens}, {cap:?}: {error:e}");
                    }
                }
            }
        }
    }
    let text = report().to_string();
    // A table wraps the long name of the kernel.
    let row = text
        .lines()
        .find(|line| line.contains("quantized_losses::losses"));
    assert!(row.is_some_and(|row| row.contains("fused")), "{text}");
}

#[test]
fn no_tokens_have_no_losses() {
    let device = Device::flex().autodiff();
    let [table, _] = tables(&weights()[0], FloatDType::F32, &device);
    let hidden = Tensor::<2>::zeros([0, WIDTH], &device).require_grad();
    for policy in [Policy::auto(), Policy::reference()] {
        let _policy = scope(policy);
        let losses = table
            .table()
            .unwrap()
            .losses(hidden.clone(), ids(&[], &device), -100, None);
        assert_eq!(losses.dims(), [0]);
        let gradient = hidden.grad(&losses.sum().backward());
        assert_eq!(gradient.map(|gradient| gradient.dims()), Some([0, WIDTH]));
    }
}
