//! Scores of a reward model and the loss of pairs, with their gradients, against f64.

use crate::common::{fixtures, l2, model_dir, read, to_f64};
use crate::comparison::{difference, relative_to};
use burn::tensor::{Device, FloatDType, Int, Tensor};
use kernels_models::preference::RewardLoss;
use kernels_models::{Batch, load, load_reward_model, save};
use serde_json::Value;
use std::fs;

#[test]
fn scores_are_those_of_the_last_tokens_of_the_mask() {
    let golden = read(&fixtures().join("preference/llama-reward.safetensors"));
    let known = fs::read_to_string(fixtures().join("preference/llama.json")).unwrap();
    let known: Value = serde_json::from_str(&known).unwrap();
    let mut names: Vec<String> = serde_json::from_value(known["names"].clone()).unwrap();
    names.retain(|name| name != "lm_head.weight");
    names.push("score.weight".into());
    let device = Device::flex().autodiff();
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("reward");
    let (_, model) = load(&model_dir("llama"), &device, FloatDType::F64).unwrap();
    let model = model.into_reward_model(None, 1).unwrap();
    save(&model, model.config(), &folder, None).unwrap();
    // Another head in the file.
    let file = folder.join("model.safetensors");
    let mut bytes = fs::read(&file).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let start = header["score.weight"]["data_offsets"][0].as_u64().unwrap() as usize;
    let head = golden["score.weight"].values();
    let head: Vec<u8> = head
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    bytes[8 + length + start..][..head.len()].copy_from_slice(&head);
    fs::write(&file, bytes).unwrap();
    let ids = |name: &str| {
        let stored = &golden[name];
        let values: Vec<i64> = stored.values().iter().map(|value| *value as i64).collect();
        let flat = Tensor::<1, Int>::from_data(&values[..], &device);
        flat.reshape([stored.shape[0], stored.shape[1]])
    };
    // Row 0 ends with it.
    let (tokens, mask) = (&golden["input_ids"], &golden["attention_mask"]);
    let last = mask.values()[..mask.shape[1]]
        .iter()
        .rposition(|kept| *kept == 1.0);
    let padding = tokens.values()[last.unwrap()] as usize;
    for (dtype, of_scores, of_gradients) in
        [(FloatDType::F64, 1e-9, 1e-8), (FloatDType::F32, 1e-5, 1e-3)]
    {
        let (config, model) = load_reward_model(&folder, &device, dtype).unwrap();
        assert!(config.is_reward_model());
        let batch = Batch::new(ids("input_ids"))
            .masked(&ids("attention_mask"))
            .unwrap();
        let scores = model.rewards(batch);
        let found = to_f64(&scores.clone().without_autodiff().into_data());
        let error = difference(&found, &golden["rewards"].values());
        assert!(error < of_scores, "{error}");
        let (chosen, rejected) = (scores.clone().narrow(0, 0, 4), scores.narrow(0, 4, 4));
        let loss = RewardLoss::default()
            .per_pair(chosen, rejected, None)
            .unwrap()
            .mean();
        let found = to_f64(&loss.clone().without_autodiff().into_data());
        assert!(
            difference(&found, &[1.4850867032234976]) < of_scores,
            "{found:?}"
        );
        let gradients = model.gradients(&loss.backward());
        assert_eq!(gradients.len(), names.len());
        let of = |name: &String| {
            let mut values = to_f64(&gradients[name]);
            if name == "model.embed_tokens.weight" {
                // PyTorch gives the padding token no gradient.
                let width = config.hidden_size;
                values[padding * width..(padding + 1) * width].fill(0.0);
            }
            let each = values.iter().enumerate();
            let probe: f64 = each.map(|(i, g)| g * (0.7 * i as f64 + 0.3).cos()).sum();
            (l2(values), probe)
        };
        let (norms, probes): (Vec<f64>, Vec<f64>) = names.iter().map(of).unzip();
        for (what, found) in [("norm.f64", norms), ("probe.f64", probes)] {
            let error = relative_to(1e-6, &found, &golden[what].values());
            assert!(error < of_gradients, "{what}: {error}");
        }
    }
}

#[test]
fn the_padding_token_is_the_given_one_or_none() {
    let (config, _) = load(&model_dir("llama"), &Device::flex(), FloatDType::F32).unwrap();
    let padded = config.into_reward_model(Some(3)).unwrap();
    assert_eq!(padded.padding_token(), Some(3));
    let unpadded = padded.into_reward_model(None).unwrap();
    assert_eq!(unpadded.padding_token(), None);
}

#[test]
fn other_heads_are_refused() {
    let device = Device::flex();
    let (config, model) = load(&model_dir("llama"), &device, FloatDType::F32).unwrap();
    let beyond = config.vocab_size as u32;
    let said = config
        .clone()
        .into_reward_model(Some(beyond))
        .unwrap_err()
        .to_string();
    assert!(said.contains("vocab_size"), "{said}");
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("reward");
    let model = model.into_reward_model(Some(3), 1).unwrap();
    save(&model, model.config(), &folder, None).unwrap();
    let path = folder.join("config.json");
    let text = fs::read_to_string(&path).unwrap();
    let two = text.replace("\"0\": \"LABEL_0\"", "\"0\": \"a\", \"1\": \"b\"");
    assert_ne!(two, text);
    fs::write(&path, two).unwrap();
    let said = load_reward_model(&folder, &device, FloatDType::F32)
        .unwrap_err()
        .to_string();
    assert!(
        said.contains("`id2label`: 2 labels are not supported"),
        "{said}"
    );
    let (config, _) = load(&model_dir("qwen3_vl"), &device, FloatDType::F32).unwrap();
    let said = config.into_reward_model(None).unwrap_err().to_string();
    assert!(said.contains("has no reward models"), "{said}");
}
