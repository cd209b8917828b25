//! Tests of models with linear attention: states of decoding, names of tensors, conversations.

use std::ops::ControlFlow;
use std::path::Path;

use crate::common::{
    File, Stored, copy_of, edit_config, edit_tensors, fixtures, ints, model_dir, read, to_f64,
};
use crate::comparison::relative;
use burn::tensor::{DType, Device, FloatDType, Int, Tensor};
use burn_kernels::policy::{self, Policy};
use kernels_models::{
    Batch, CausalLm, ExpertStorage, Generation, Model, ModelConfig, NewToken, QuantisedWeights,
    Session, inspect, load, load_part, save, save_with, stored_gradients,
};
use serde_json::json;

fn open(dir: &Path, dtype: FloatDType) -> (ModelConfig, CausalLm) {
    load(dir, &Device::default(), dtype).unwrap()
}

fn logits(dir: &Path) -> Vec<f64> {
    let (_, model) = open(dir, FloatDType::F32);
    let ids = Tensor::<2, Int>::from_data([[5, 6, 7, 8], [1, 2, 3, 4]], &Device::default());
    to_f64(&model.forward(ids, None).into_data())
}

/// The last five tokens follow the others one at a time.
#[test]
fn decoded_logits_and_states_are_those_of_transformers() {
    let device = Device::default();
    for name in ["qwen3_next", "qwen3_5"] {
        let folder = fixtures().join("models").join(name);
        let golden = read(&folder.join("decoded.safetensors"));
        let (config, model) = open(&model_dir(name), FloatDType::F32);
        let ids = ints(&golden["input_ids"], &device);
        let [batch, seq] = ids.dims();
        for kernels in ["none", "all"] {
            let label = format!("{name}, kernels {kernels}");
            let _policy = policy::scope(kernels.parse::<Policy>().unwrap());
            let mut cache = config.cache();
            assert!(cache.linear_state(0).is_none());
            let first = ids.clone().narrow(1, 0, seq - 5);
            model.next(first, &mut cache).unwrap();
            let mut found = Vec::new();
            for place in seq - 5..seq {
                // A rejected token, of which the cache knows nothing.
                let mut other = cache.clone();
                let rejected = Tensor::<2, Int>::zeros([batch, 1], &device);
                model.next(rejected, &mut other).unwrap();
                let token = ids.clone().narrow(1, place, 1);
                found.push(model.next(token, &mut cache).unwrap());
            }
            let found = to_f64(&Tensor::cat(found, 1).into_data());
            let error = relative(&found, &golden["logits"].values());
            assert!(error < 2e-5, "{label}: logits off by {error:e}");
            for layer in 0..config.num_hidden_layers {
                let state = cache.linear_state(layer);
                assert_eq!(state.is_some(), config.is_linear(layer), "{label}");
                let Some((inputs, heads)) = state else {
                    continue;
                };
                for (part, shape, data) in [
                    ("inputs", inputs.dims().to_vec(), inputs.into_data()),
                    ("heads", heads.dims().to_vec(), heads.into_data()),
                ] {
                    let expected = &golden[&format!("{part}.{layer}")];
                    assert_eq!(shape, expected.shape, "{label}");
                    let error = relative(&to_f64(&data), &expected.values());
                    assert!(error < 1e-5, "{label}: {part}.{layer} off by {error:e}");
                }
            }
        }
    }
}

#[test]
fn caches_of_other_models_and_batches_are_refused() {
    let device = Device::default();
    let (config, model) = open(&model_dir("qwen3_5"), FloatDType::F32);
    let (other, llama) = open(&model_dir("llama"), FloatDType::F32);
    let ids = |batch: usize| Tensor::<2, Int>::zeros([batch, 3], &device);
    let said = |model: &CausalLm, cache: &mut _, batch| {
        let error = model.next(ids(batch), cache).unwrap_err();
        error.to_string()
    };
    let mut cache = config.cache();
    model.next(ids(2), &mut cache).unwrap();
    let found = said(&model, &mut cache, 1);
    assert!(found.contains("another model or batch"), "{found}");
    assert_eq!(cache.positions(), 3);
    let found = said(&llama, &mut config.cache(), 1);
    assert!(found.contains("a layer that keeps keys"), "{found}");
    let found = said(&model, &mut other.cache(), 1);
    assert!(found.contains("a layer that keeps a state"), "{found}");
    let (wide, of_wide) = open(&model_dir("qwen3_5"), FloatDType::F64);
    let mut cache = wide.cache();
    of_wide.next(ids(2), &mut cache).unwrap();
    let found = said(&model, &mut cache, 2);
    assert!(found.contains("F64"), "{found}");
}

/// A state can't go back: a prompt that leaves the text of a session before its end costs the tokens from a place near
/// the end of the last prompt on, or all.
#[test]
fn a_session_reads_again_what_a_state_can_not_forget() {
    let (config, model) = open(&model_dir("qwen3_next"), FloatDType::F64);
    let on = |_: NewToken| ControlFlow::Continue(());
    let prompt: Vec<u32> = (0..30).map(|i| i * 7 % config.vocab_size as u32).collect();
    let mut settings = Generation::default();
    for (place, reused) in [
        (39, 39),
        (38, 22),
        (33, 22),
        (30, 22),
        (22, 22),
        (21, 0),
        (0, 0),
    ] {
        let mut session = Session::new(&model);
        settings.max_new_tokens = 10;
        let answer = session.generate(&prompt, &settings, on).unwrap();
        assert_eq!(session.kept(), 39);
        let text = [&prompt[..], &answer.ids].concat();
        let other = (text[place] + 1) % config.vocab_size as u32;
        let next = [&text[..place], &[other, 5, 6]].concat();
        settings.max_new_tokens = 5;
        let found = session.generate(&next, &settings, on).unwrap();
        assert_eq!(session.reused(), reused, "{place}");
        let fresh = model.generate(&[next], &settings, on).unwrap().remove(0);
        assert_eq!(found, fresh, "{place}");
    }
}

fn renamed(file: &mut File, change: impl Fn(&str) -> String) {
    let tensors = std::mem::take(file).into_iter();
    *file = tensors
        .map(|(name, tensor)| (change(&name), tensor))
        .collect();
}

/// Files of a text model alone may have the names that it has in the whole. Published files also have layers that
/// predict further tokens.
#[test]
fn text_models_are_read_under_both_names() {
    for name in ["qwen3_5_text", "qwen3_5_moe_text"] {
        let dir = tempfile::tempdir().unwrap();
        let published = dir.path().join("published");
        let (config, model) = open(&model_dir(name), FloatDType::F32);
        // Published files stack the experts of a layer.
        let stacked = ExpertStorage::Stacked;
        save_with(&model, &config, &published, None, stacked).unwrap();
        edit_tensors(&published, |file| {
            renamed(file, |name| {
                name.replacen("model.", "model.language_model.", 1)
            });
            file.insert("mtp.fc.weight".into(), Stored::f32(&[1, 2], &[1.0, 2.0]));
        });
        assert_eq!(logits(&published), logits(&model_dir(name)), "{name}");
        let found = inspect(&published, &Device::default()).unwrap();
        assert!(found.problems.is_empty(), "{:?}", found.problems);
        let remarks = found.remarks.join("\n");
        assert!(
            remarks
                .contains("`mtp.fc.weight` is not loaded: they predict tokens after the next one"),
            "{remarks}"
        );
        // Gradients have the names and shapes of the files.
        let device = Device::default().autodiff();
        let decoded = QuantisedWeights::Decoded;
        let loaded = load_part(
            &published,
            None,
            &device,
            FloatDType::F32,
            decoded,
            &mut |_| {},
        );
        let (_, model) = loaded.unwrap();
        let Model::Language(language) = &model else {
            panic!("a language model");
        };
        let ids = Tensor::<2, Int>::from_data([[1, 2, 3, 4, 5, 6]], (&device, DType::I64));
        let (_, loss) = language.loss_of(Batch::new(ids));
        let gradients = stored_gradients(&published, None, &model, &loss.backward()).unwrap();
        let stored = read(&published.join("model.safetensors"));
        for (name, gradient) in &gradients {
            let stored = stored.get(name).unwrap_or_else(|| panic!("no `{name}`"));
            assert_eq!(gradient.shape().as_slice(), stored.shape, "{name}");
        }
        // All but the other tokens' layer.
        assert_eq!(gradients.len(), stored.len() - 1);
        // Saved files have one name.
        let target = dir.path().join("saved");
        let (config, model) = open(&published, FloatDType::F32);
        save(&model, &config, &target, None).unwrap();
        let saved = read(&target.join("model.safetensors"));
        assert!(saved == read(&model_dir(name).join("model.safetensors")));

        edit_tensors(&published, |file| {
            let extra = "model.language_model.layers.2.input_layernorm.weight";
            file.insert(extra.into(), Stored::f32(&[1], &[1.0]));
        });
        let error = load(&published, &Device::default(), FloatDType::F32).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("layers.2") && error.contains("unexpected"),
            "{error}"
        );
    }
}

/// The vision tower is not loaded, and the whole model has its output projection outside.
#[test]
fn the_tower_is_left_out() {
    let dir = copy_of("qwen3_5");
    edit_tensors(dir.path(), |file| {
        let tower = Stored::f32(&[1], &[0.0]);
        file.insert("model.visual.merger.norm.weight".into(), tower);
        file.insert("mtp.norm.weight".into(), Stored::f32(&[1], &[0.0]));
    });
    assert_eq!(logits(dir.path()), logits(&model_dir("qwen3_5")));
    let remarks = inspect(dir.path(), &Device::default()).unwrap().remarks;
    let remarks = remarks.join("\n");
    assert!(remarks.contains("only the text model is"), "{remarks}");
    assert!(remarks.contains("tokens after the next one"), "{remarks}");
}

/// Without a list, every fourth layer has attention to all tokens, or every one of another interval.
#[test]
fn layers_follow_an_interval_or_a_list() {
    let dir = copy_of("qwen3_next");
    let linear = |change: &dyn Fn(&mut serde_json::Map<String, serde_json::Value>)| {
        edit_config(dir.path(), change);
        let config = ModelConfig::from_file(&dir.path().join("config.json")).unwrap();
        config.linear.unwrap().layers
    };
    assert_eq!(linear(&|_| {}), [0, 1]);
    assert_eq!(
        linear(&|config| drop(config.remove("layer_types"))),
        [0, 1, 2]
    );
    let interval = json!(2);
    let insert = |config: &mut serde_json::Map<_, _>| {
        config.insert("full_attention_interval".into(), interval.clone());
    };
    assert_eq!(linear(&insert), [0, 2]);
}
