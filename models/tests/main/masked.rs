//! Tests of batches with padding before and after the tokens of a row.

use crate::comparison::{difference, largest};
use std::collections::BTreeMap;

use crate::common::{File, fixtures, ints, model_dir, read, relative_l2, to_f64};
use burn::tensor::{Device, FloatDType, Int, Tensor, TensorData};
use burn_kernels::policy::{self, Policy};
use kernels_models::{Batch, CausalLm, load};

/// A model of each kind of attention, with the results of `transformers` for a padded batch.
const MODELS: [&str; 9] = [
    "llama",
    "qwen2_moe_step2",
    "gemma2_sw8",
    "gemma3n_kvshare",
    "gpt_oss_sw8",
    "deepseek_v2",
    "llama4_chunk8",
    "glm4v_moe",
    "qwen3_next",
];

fn padded(name: &str) -> File {
    read(
        &fixtures()
            .join("models")
            .join(name)
            .join("padded.safetensors"),
    )
}

fn open(name: &str, device: &Device) -> CausalLm {
    load(&model_dir(name), device, FloatDType::F32).unwrap().1
}

/// The values at tokens, of values with as many for each place of a mask.
fn at_tokens(values: &[f64], mask: &[f64]) -> Vec<f64> {
    let width = values.len() / mask.len();
    let rows = values.chunks(width).zip(mask);
    let tokens = rows.filter(|(_, token)| **token == 1.0);
    tokens.flat_map(|(row, _)| row.to_vec()).collect()
}

#[test]
fn logits_and_losses_are_those_of_transformers() {
    let device = Device::default();
    for name in MODELS {
        let golden = padded(name);
        let (mask, expected) = (golden["attention_mask"].values(), golden["logits"].values());
        let model = open(name, &device);
        for kernels in ["none", "all"] {
            let label = format!("{name}, kernels {kernels}");
            let _policy = policy::scope(kernels.parse::<Policy>().unwrap());
            let batch = Batch::new(ints(&golden["input_ids"], &device));
            let batch = batch.masked(&ints(&golden["attention_mask"], &device));
            let batch = batch.unwrap();
            model.check_batch_with_loss(&batch).unwrap();
            let (logits, loss) = model.loss_of(batch);
            let found = at_tokens(&to_f64(&logits.into_data()), &mask);
            let error = difference(&found, &at_tokens(&expected, &mask)) / largest(&expected);
            assert!(error < 2e-5, "{label}: logits off by {error:e}");
            let error = difference(&to_f64(&loss.into_data()), &golden["loss"].values());
            assert!(error < 1e-5, "{label}: loss off by {error:e}");
        }
    }
}

/// Prompts of different lengths in rows of 12, behind or before their padding.
fn prompts(left: bool, device: &Device) -> Batch {
    let (columns, lengths) = (12, [12, 9, 4]);
    let row = |of: &dyn Fn(usize) -> i64, length: usize| -> Vec<i64> {
        let mut row = vec![0; columns];
        let first = if left { columns - length } else { 0 };
        (0..length).for_each(|at| row[first + at] = of(at));
        row
    };
    let table = |of: &dyn Fn(usize, usize) -> i64| {
        let rows = lengths.iter().enumerate();
        let values: Vec<i64> = rows
            .flat_map(|(index, &length)| row(&|at| of(index, at), length))
            .collect();
        let data = TensorData::new(values, [lengths.len(), columns]);
        Tensor::<2, Int>::from_data(data, device)
    };
    let ids = table(&|row, at| (37 * row + 11 * at + 3) as i64 % 90);
    let mask = table(&|_, _| 1);
    Batch::new(ids).masked(&mask).unwrap()
}

/// Positions only count by their distance in these models, so that the side of the padding has no effect.
#[test]
fn the_side_of_the_padding_does_not_change_gradients() {
    let device = Device::default().autodiff();
    for name in [
        "llama",
        "qwen2_moe_step2",
        "gemma2_sw8",
        "deepseek_v2",
        "qwen3_next",
    ] {
        let model = open(name, &device);
        for kernels in ["none", "all"] {
            let _policy = policy::scope(kernels.parse::<Policy>().unwrap());
            let of = |left| -> (f64, BTreeMap<String, TensorData>) {
                let (_, loss) = model.loss_of(prompts(left, &device));
                let gradients = model.gradients(&loss.backward());
                (to_f64(&loss.into_data())[0], gradients)
            };
            let ((left, gradients), (right, expected)) = (of(true), of(false));
            let label = format!("{name}, kernels {kernels}");
            assert!((left - right).abs() < 1e-5, "{label}: {left} and {right}");
            assert_eq!(gradients.len(), expected.len());
            for (parameter, expected) in &expected {
                let (found, expected) = (to_f64(&gradients[parameter]), to_f64(expected));
                if largest(&expected) == 0.0 {
                    // No token goes to this expert.
                    assert_eq!(found, expected, "{label}: {parameter}");
                    continue;
                }
                let error = relative_l2(&found, &expected);
                assert!(error < 1e-4, "{label}: {parameter} off by {error:e}");
            }
        }
    }
}

#[test]
fn a_mask_of_tokens_alone_changes_nothing() {
    let device = Device::default();
    let model = open("llama", &device);
    let ids = || Tensor::<2, Int>::from_data([[5, 6, 7, 8], [1, 2, 3, 4]], &device);
    let batch = Batch::new(ids()).masked(&Tensor::ones([2, 4], &device));
    let (logits, loss) = model.loss_of(batch.unwrap());
    let (expected, expected_loss) = model.loss(ids(), None);
    assert_eq!(logits.into_data(), expected.into_data());
    assert_eq!(loss.into_data(), expected_loss.into_data());
}

#[test]
fn other_masks_are_refused() {
    let device = Device::default();
    let ids = || Tensor::<2, Int>::zeros([2, 4], &device);
    let refused = |mask: [[i32; 4]; 2]| {
        let mask = Tensor::<2, Int>::from_data(mask, &device);
        Batch::new(ids()).masked(&mask).unwrap_err().to_string()
    };
    for (mask, expected) in [
        ([[1; 4], [1, 1, 2, 1]], "row 1, column 2: 2 is neither 0"),
        ([[-1, 1, 1, 1], [1; 4]], "row 0, column 0: -1 is neither 0"),
        ([[1; 4], [0; 4]], "row 1 has no token"),
        ([[0, 1, 0, 1], [1; 4]], "row 0, column 2: 0 between tokens"),
    ] {
        let said = refused(mask);
        assert!(said.starts_with("attention_mask: "), "{said}");
        assert!(said.contains(expected), "{said}");
    }
    let other = Tensor::<2, Int>::ones([1, 4], &device);
    let said = Batch::new(ids()).masked(&other).unwrap_err().to_string();
    assert!(said.contains("[2, 4], found [1, 4]"), "{said}");

    // Without two tokens in a row there is nothing to predict.
    let alone = Tensor::<2, Int>::from_data([[0, 1, 0, 0], [0, 0, 0, 1]], &device);
    let batch = Batch::new(ids()).masked(&alone).unwrap();
    let model = open("llama", &device);
    model.check_batch(&batch).unwrap();
    let said = model.check_batch_with_loss(&batch).unwrap_err().to_string();
    assert!(said.contains("a row with at least 2 tokens"), "{said}");
}
