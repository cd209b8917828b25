//! Tests of text models whose tokens have three positions: time, height and width.

use crate::comparison::{difference, relative};

use std::path::Path;

use crate::common::{
    self, axes, check_gradients, copy_of, edit_config, edit_tensors, ints, model_dir, read, to_f64,
};
use burn::tensor::{Device, FloatDType, Int, Tensor};
use burn_kernels::policy::{self, Policy};
use kernels_models::{CausalLm, ModelConfig, load, next_token_loss, save};
use serde_json::json;

const MODELS: [&str; 5] = [
    "qwen2_5_vl_axes",
    "qwen3_vl_axes",
    "glm4v_moe_axes",
    "qwen3_omni_thinker_axes",
    "qwen3_5_axes",
];

fn open(dir: &Path, device: &Device, dtype: FloatDType) -> (ModelConfig, CausalLm) {
    load(dir, device, dtype).unwrap()
}

/// The positions are those of text around an image and a video.
#[test]
fn results_are_those_of_transformers() {
    for name in MODELS {
        let golden = read(&model_dir(name).join("golden.safetensors"));
        for kernels in ["none", "all"] {
            let label = format!("{name}, kernels {kernels}");
            let _policy = policy::scope(kernels.parse::<Policy>().unwrap());
            for (dtype, suffix, tolerance) in [
                (FloatDType::F32, "", 2e-5),
                (FloatDType::F64, "_f64", 1e-12),
            ] {
                let device = Device::default().autodiff();
                let (_, model) = open(&model_dir(name), &device, dtype);
                let (ids, axes) = (ints(&golden["input_ids"], &device), axes(&golden, &device));
                model.check_axes(&ids, &axes).unwrap();
                let logits = model.output_at(ids.clone(), axes).logits;
                let loss = next_token_loss(logits.clone(), ids);
                let expected = golden[&format!("logits{suffix}")].values();
                let error = relative(&to_f64(&logits.into_data()), &expected);
                assert!(
                    error < tolerance,
                    "{label}, {dtype:?}: logits off by {error:e}"
                );
                if dtype == FloatDType::F32 {
                    check_gradients(&label, &golden, &model.gradients(&loss.backward()));
                }
            }
        }
    }
}

/// Text has equal positions on all axes, which is the default.
#[test]
fn text_has_equal_positions() {
    let device = Device::default();
    for name in MODELS {
        let (_, model) = open(&model_dir(name), &device, FloatDType::F32);
        let ids = Tensor::<2, Int>::from_data([[5, 6, 7, 8], [1, 2, 3, 4]], &device);
        let places = Tensor::<1, Int>::arange(0..4, &device);
        let one: Tensor<2, Int> = places.clone().unsqueeze();
        let three: Tensor<3, Int> = places.unsqueeze::<3>().repeat_dim(0, 3);
        let values = |logits: Tensor<3>| to_f64(&logits.into_data());
        let expected = values(model.forward(ids.clone(), None));
        for found in [
            values(model.forward(ids.clone(), Some(one))),
            values(model.output_at(ids, three).logits),
        ] {
            assert!(difference(&found, &expected) < 1e-5, "{name}");
        }
    }
}

#[test]
fn other_positions_are_refused() {
    let device = Device::default();
    let (_, model) = open(&model_dir("qwen3_vl"), &device, FloatDType::F32);
    let (_, llama) = open(&model_dir("llama"), &device, FloatDType::F32);
    let ids = Tensor::<2, Int>::zeros([2, 4], &device);
    let refused = |model: &CausalLm, axes: Tensor<3, Int>| {
        model.check_axes(&ids, &axes).unwrap_err().to_string()
    };
    let said = refused(&llama, Tensor::zeros([3, 2, 4], &device));
    assert!(said.contains("have one position"), "{said}");
    let said = refused(&model, Tensor::zeros([2, 2, 4], &device));
    assert!(said.contains("expected shape [3, 2, 4]"), "{said}");
    let said = refused(&model, Tensor::zeros([3, 2, 4], &device) + 128);
    assert!(said.contains("max_position_embeddings"), "{said}");
}

/// A text model is saved without the vision tower, under the names of the whole model.
#[test]
fn the_text_model_is_saved() {
    let device = Device::default();
    for name in MODELS {
        let parent = tempfile::tempdir().unwrap();
        let target = parent.path().join("text");
        let (config, model) = open(&model_dir(name), &device, FloatDType::F32);
        save(&model, &config, &target, None).unwrap();
        let mut before = read(&model_dir(name).join("model.safetensors"));
        let all = before.len();
        before.retain(|name, _| !name.contains("visual") && !name.contains("audio_tower"));
        assert!(before.len() < all);
        assert!(before == read(&target.join("model.safetensors")), "{name}");
        let (again, _) = open(&target, &device, FloatDType::F32);
        assert_eq!(config, again);
        assert!(config.to_json().contains("\"vision_config\""));
    }
}

/// The published Qwen2.5-VL has the fields of the text model beside the others, and the published Qwen3-VL those of
/// `transformers` 4.
#[test]
fn published_spellings_are_the_same_model() {
    let flat = copy_of("qwen2_5_vl");
    edit_config(flat.path(), |config| {
        let text = config.remove("text_config").unwrap();
        let mut text = text.as_object().unwrap().clone();
        text.remove("model_type").unwrap();
        let rope = text.remove("rope_parameters").unwrap();
        text.insert("rope_theta".into(), rope["rope_theta"].clone());
        let sections = json!({ "type": "mrope", "mrope_section": rope["mrope_section"] });
        text.insert("rope_scaling".into(), sections);
        for (name, value) in text {
            config.entry(name).or_insert(value);
        }
    });
    let device = Device::default();
    let ids = || Tensor::<2, Int>::from_data([[5, 6, 7, 8]], &device);
    let logits = |dir: &Path| {
        let (_, model) = open(dir, &device, FloatDType::F32);
        to_f64(&model.forward(ids(), None).into_data())
    };
    assert_eq!(logits(flat.path()), logits(&model_dir("qwen2_5_vl")));
    let config = ModelConfig::from_file(&flat.path().join("config.json")).unwrap();
    let again = ModelConfig::from_json(&config.to_json(), "again".as_ref()).unwrap();
    assert_eq!(config, again);
}

/// The published GLM-4.5V has the settings of rotations apart, as in `transformers` 4, and says that queries and keys are
/// not normalised.
#[test]
fn the_published_spelling_of_glm_is_the_same_model() {
    let published = copy_of("glm4v_moe");
    edit_config(published.path(), |config| {
        let text = config["text_config"].as_object_mut().unwrap();
        let rope = text.remove("rope_parameters").unwrap();
        for name in ["rope_theta", "partial_rotary_factor"] {
            text.insert(name.into(), rope[name].clone());
        }
        let sections = json!({ "rope_type": "default", "mrope_section": rope["mrope_section"] });
        text.insert("rope_scaling".into(), sections);
        text.insert("use_qk_norm".into(), json!(false));
    });
    let read = |dir: &Path| ModelConfig::from_file(&dir.join("config.json")).unwrap();
    let (found, expected) = (read(published.path()), read(&model_dir("glm4v_moe")));
    assert_eq!(found.rope, expected.rope);
    let device = Device::default();
    let logits = |dir: &Path| {
        let (_, model) = open(dir, &device, FloatDType::F32);
        let ids = Tensor::<2, Int>::from_data([[5, 6, 7, 8]], &device);
        to_f64(&model.forward(ids, None).into_data())
    };
    assert_eq!(logits(published.path()), logits(&model_dir("glm4v_moe")));
}

#[test]
fn bad_sections_are_refused() {
    for (name, change, value, field, says) in [
        (
            "qwen3_vl",
            "mrope_section",
            json!([4, 2]),
            "mrope_section",
            "three numbers",
        ),
        (
            "qwen3_vl",
            "mrope_section",
            json!([4, 2, 3]),
            "mrope_section",
            "9 pairs",
        ),
        (
            "qwen3_vl",
            "mrope_section",
            json!([1, 2, 5]),
            "mrope_section",
            "in turn",
        ),
        (
            "qwen3_vl",
            "mrope_section",
            json!(null),
            "mrope_section",
            "missing",
        ),
        (
            "qwen3_vl",
            "mrope_interleaved",
            json!(false),
            "mrope_interleaved",
            "false",
        ),
        (
            "glm4v_moe",
            "mrope_section",
            json!([2, 3, 3]),
            "mrope_section",
            "8 pairs",
        ),
        (
            "qwen2_5_vl",
            "mrope_interleaved",
            json!(true),
            "mrope_interleaved",
            "true",
        ),
    ] {
        let dir = copy_of(name);
        edit_config(dir.path(), |config| {
            config["text_config"]["rope_parameters"][change] = value;
        });
        let error = load(dir.path(), &Device::default(), FloatDType::F32).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains(field) && error.contains(says),
            "{name}: {error}"
        );
    }
}

/// Other families have no vision tower to leave out: it is read with a remark, like any tensor that no parameter has.
#[test]
fn a_vision_tower_belongs_to_its_families() {
    let dir = copy_of("llama");
    edit_tensors(dir.path(), |file| {
        let tower = common::Stored::f32(&[1], &[0.0]);
        file.insert("visual.merger.ln_q.weight".into(), tower);
    });
    load(dir.path(), &Device::default(), FloatDType::F32).unwrap();
    let inspection = kernels_models::inspect(dir.path(), &Device::default()).unwrap();
    let remarks = inspection.remarks.join("\n");
    assert!(remarks.contains("visual.merger.ln_q.weight"), "{remarks}");
}
