//! Losses of packed sequences with pictures, as if each document were a row of a batch.

use std::collections::BTreeMap;

use crate::common::{File, axes, ints, model_dir, to_f64};
use crate::comparison::relative_to;
use crate::vision::{WHOLE, golden};
use burn::module::Module;
use burn::tensor::{DType, Device, FloatDType, Int, Tensor, TensorData};
use kernels_models::{
    Batch, CausalLm, ModelConfig, QuantisedWeights, SequencePictures, Sequences, VisionFeatures,
    load, load_with_vision,
};

/// `image_token_id` of all of them.
const IMAGE: i64 = 60;

fn device() -> Device {
    Device::flex().autodiff()
}

fn model(name: &str) -> (ModelConfig, CausalLm) {
    let (dtype, decoded) = (FloatDType::F64, QuantisedWeights::Decoded);
    load_with_vision(&model_dir(name), &device(), dtype, decoded, &mut |_| {}).unwrap()
}

fn pictures(golden: &File) -> (Tensor<2>, Tensor<2, Int>) {
    let stored = &golden["pixel_values"];
    let data = TensorData::new(stored.values(), stored.shape.clone());
    let pixels = Tensor::from_data(data, (&device(), DType::F64));
    (pixels, ints(&golden["image_grid_thw"], &device()))
}

/// Returns the features of the pictures of a golden file.
fn features(model: &CausalLm, golden: &File) -> VisionFeatures {
    let tower = model.vision_tower().unwrap();
    let (pixels, grid) = pictures(golden);
    let grids = tower.config().grids(&pixels, &grid).unwrap();
    tower.forward(pixels, &grids)
}

/// Returns the rows of a golden file without their padding, as one sequence of as many documents.
fn packed(golden: &File, features: VisionFeatures) -> Sequences {
    let values = |name: &str| -> Vec<i64> {
        let values = golden[name].values();
        values.into_iter().map(|value| value as i64).collect()
    };
    let (ids, mask, positions) = (
        values("input_ids"),
        values("attention_mask"),
        axes(golden, &device()).try_to_vec_as::<i64>().unwrap(),
    );
    let columns = golden["input_ids"].shape[1];
    let tokens: Vec<usize> = (0..ids.len()).filter(|at| mask[*at] == 1).collect();
    let rows = mask.chunks(columns);
    let lengths: Vec<usize> = rows.map(|row| row.iter().sum::<i64>() as usize).collect();
    let ids: Vec<i64> = tokens.iter().map(|at| ids[*at]).collect();
    let mut targets = [&ids[1..], &[0]].concat();
    let mut end = 0;
    for length in &lengths {
        end += length;
        targets[end - 1] = Sequences::IGNORED;
    }
    let axes: Vec<i64> = (0..3)
        .flat_map(|axis| tokens.iter().map(move |at| (axis, *at)))
        .map(|(axis, at)| positions[axis * mask.len() + at])
        .collect();
    let shape = [1, ids.len()];
    let tensor = |values: &[i64]| {
        Tensor::<2, Int>::from_data(TensorData::new(values.to_vec(), shape), &device())
    };
    let places = ids.iter().enumerate().filter(|(_, id)| **id == IMAGE);
    Sequences {
        input_ids: tensor(&ids),
        targets: tensor(&targets),
        position_ids: tensor(&vec![0; ids.len()]),
        documents: Some(lengths),
        attention_mask: None,
        pictures: Some(SequencePictures {
            features,
            places: places.map(|(place, _)| place).collect(),
            position_ids: Tensor::from_data(TensorData::new(axes, [3, 1, ids.len()]), &device()),
        }),
    }
}

fn number(loss: &Tensor<1>) -> f64 {
    loss.clone().without_autodiff().into_scalar()
}

type Gradients = BTreeMap<String, TensorData>;

/// Checks that gradients are those of the whole graph, but for the tower if it is frozen.
fn check(label: &str, found: &Gradients, wanted: &Gradients, frozen: bool) {
    let is_trained = |name: &&String| !frozen || !name.contains("visual.");
    let names: Vec<&String> = wanted.keys().filter(is_trained).collect();
    assert_eq!(found.keys().collect::<Vec<_>>(), names, "{label}");
    for (name, found) in found {
        let error = relative_to(1e-6, &to_f64(found), &to_f64(&wanted[name]));
        assert!(error < 1e-9, "{label}: {name} off by {error:e}");
    }
}

/// The loss and the gradients of packed documents are those of rows with padding, which `vision/models.rs` compares with
/// transformers', with a tower that is trained or frozen, and with layers that are computed twice.
#[test]
fn packed_documents_see_their_own_pictures() {
    for name in WHOLE {
        let golden = golden(name);
        let (config, model) = model(name);
        let (pixels, grid) = pictures(&golden);
        let batch = Batch::new(ints(&golden["input_ids"], &device()))
            .masked(&ints(&golden["attention_mask"], &device()))
            .unwrap()
            .with_pictures(pixels, grid);
        let losses = model.losses_of(batch).1;
        let expected = number(&losses.next_token);
        let wanted = model.gradients(&losses.next_token.backward());

        let sequences = packed(&golden, features(&model, &golden));
        sequences.check(&config).unwrap();
        let losses = model.sequence_losses(sequences);
        let error = (number(&losses.next_token) - expected).abs();
        assert!(error < 1e-11, "{name}: {error:e}");
        check(
            name,
            &model.gradients(&losses.next_token.backward()),
            &wanted,
            false,
        );

        let frozen = model.beside_frozen_vision(Ok::<_, ()>).unwrap();
        let sequences = packed(&golden, features(&frozen.clone().valid(), &golden));
        let losses = frozen.sequence_losses(sequences.clone());
        let found = frozen.gradients(&losses.next_token.backward());
        check(name, &found, &wanted, true);

        let whole = frozen.sequence_losses(sequences.clone()).total;
        let whole = frozen.gradients(&whole.backward());
        let mut sums = Gradients::new();
        let losses = frozen.recomputed_losses(sequences, (1.0, 7), |gradients| {
            for (name, part) in frozen.gradients(&gradients) {
                let sum = match sums.remove(&name) {
                    Some(sum) => added(&sum, &part),
                    None => part,
                };
                sums.insert(name, sum);
            }
        });
        let error = (number(&losses.next_token) - expected).abs();
        assert!(error < 1e-11, "{name}, recomputed: {error:e}");
        check(name, &sums, &whole, true);
    }
}

fn added(one: &TensorData, other: &TensorData) -> TensorData {
    let pairs = to_f64(one).into_iter().zip(to_f64(other));
    let sums: Vec<f64> = pairs.map(|(one, other)| one + other).collect();
    TensorData::new(sums, one.shape().to_vec())
}

#[test]
fn pictures_that_do_not_fit_sequences_are_refused() {
    let golden = golden("qwen3_vl_pictures");
    let (config, model) = model("qwen3_vl_pictures");
    let good = packed(&golden, features(&model, &golden));
    let said = |config: &ModelConfig, change: &dyn Fn(&mut SequencePictures)| {
        let mut sequences = good.clone();
        change(sequences.pictures.as_mut().unwrap());
        sequences.check(config).unwrap_err().to_string()
    };
    type Change<'a> = &'a dyn Fn(&mut SequencePictures);
    let changes: [(Change<'_>, &str); 6] = [
        (
            &|own| own.places[0] = own.places[1],
            "their places are not those",
        ),
        (&|own| own.places[0] = 1000, "their places are not those"),
        (
            &|own| own.places.truncate(2),
            "expected features of shape [2, 32]",
        ),
        (
            &|own| own.position_ids = own.position_ids.clone().narrow(2, 0, 3),
            "expected positions of shape [3, 1, ",
        ),
        (
            &|own| own.features.deepstack[0] = Tensor::zeros([3, 32], &device()),
            "expected features of shape",
        ),
        (
            &|own| own.features.deepstack = vec![own.features.embeddings.clone(); 9],
            "features for 9 layers are more than",
        ),
    ];
    for (change, expected) in changes {
        let said = said(&config, change);
        assert!(
            said.starts_with("pictures: ") && said.contains(expected),
            "{said}"
        );
    }
    let (text, _) = load(&model_dir("llama"), &device(), FloatDType::F32).unwrap();
    let said = said(&text, &|_| ());
    assert!(
        said.contains("tokens of LlamaForCausalLM have one position"),
        "{said}"
    );
}
