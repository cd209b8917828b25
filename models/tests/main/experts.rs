//! Tests of experts in checkpoints: one by one or stacked, with the names of each architecture, and with every kind of
//! error.

use std::path::Path;

use crate::common::{
    File, SPARSE, Stored, copy_of, edit_config, edit_tensors, ints, model_dir, read, to_f64,
};
use burn::tensor::{Device, FloatDType, Int, Tensor};
use kernels_models::{
    CausalLm, ExpertStorage, ModelConfig, Qwen3MoeSize, Qwen3Size, load, save, save_with,
};
use serde_json::{Value, json};

fn open(dir: &Path, dtype: FloatDType) -> (ModelConfig, CausalLm) {
    load(dir, &Device::default(), dtype).unwrap()
}

fn logits(dir: &Path, name: &str) -> Vec<f64> {
    let golden = read(&model_dir(name).join("golden.safetensors"));
    let (_, model) = open(dir, FloatDType::F32);
    let input_ids = ints(&golden["input_ids"], &Device::default());
    to_f64(&model.forward(input_ids, None).into_data())
}

/// Stacks the experts of one layer of a file as `transformers` 5 does in memory.
fn stack(file: &mut File, layer: usize, projections: [&str; 3], to: &str) {
    let block = if projections[0] == "w1" {
        "block_sparse_moe"
    } else {
        "mlp"
    };
    let mut both = (Vec::new(), Vec::new());
    let mut count = 0;
    let [gate, up, down] = projections;
    let take = |file: &mut File, expert: usize, projection: &str| {
        let experts = format!("model.layers.{layer}.{block}.experts");
        file.remove(&format!("{experts}.{expert}.{projection}.weight"))
    };
    let mut shape = [0, 0];
    while let Some(first) = take(file, count, gate) {
        shape = [first.shape[0], first.shape[1]];
        both.0.extend(first.bytes);
        both.0.extend(take(file, count, up).unwrap().bytes);
        both.1.extend(take(file, count, down).unwrap().bytes);
        count += 1;
    }
    let [width, hidden] = shape;
    for (name, shape, bytes) in [
        ("gate_up_proj", vec![count, 2 * width, hidden], both.0),
        ("down_proj", vec![count, hidden, width], both.1),
    ] {
        let dtype = safetensors::Dtype::F32;
        let stored = Stored {
            dtype,
            shape,
            bytes,
        };
        file.insert(format!("model.layers.{layer}.{to}.experts.{name}"), stored);
    }
}

const QWEN: [&str; 3] = ["gate_proj", "up_proj", "down_proj"];
const MIXTRAL: [&str; 3] = ["w1", "w3", "w2"];

#[test]
fn both_layouts_are_written_and_read() {
    // The files of these have only stacks.
    for name in SPARSE.into_iter().filter(|name| {
        ![
            "gpt_oss_sw8",
            "llama4_chunk8",
            "qwen3_vl_moe",
            "qwen3_omni_talker",
        ]
        .contains(name)
    }) {
        let parent = tempfile::tempdir().unwrap();
        let (stacked, single) = (parent.path().join("stacked"), parent.path().join("single"));
        let (config, model) = open(&model_dir(name), FloatDType::F32);
        save_with(&model, &config, &stacked, None, ExpertStorage::Stacked).unwrap();

        let file = read(&stacked.join("model.safetensors"));
        let moe = config.moe.as_ref().unwrap();
        let layers = config.num_hidden_layers;
        let model = match name {
            "glm4v_moe" | "qwen3_5_moe" => "model.language_model",
            _ => "model",
        };
        for layer in (0..layers).filter(|&layer| config.is_sparse(layer)) {
            let experts = format!("{model}.layers.{layer}.mlp.experts");
            let (hidden, width) = (config.hidden_size, moe.moe_intermediate_size);
            let shape = |projection: &str| file[&format!("{experts}.{projection}")].shape.clone();
            assert_eq!(shape("gate_up_proj"), [moe.num_experts, 2 * width, hidden]);
            assert_eq!(shape("down_proj"), [moe.num_experts, hidden, width]);
            assert!(file.contains_key(&format!("{model}.layers.{layer}.mlp.gate.weight")));
        }
        assert!(file.keys().all(|tensor| !tensor.contains("experts.0.")));
        assert!(file.keys().all(|tensor| !tensor.contains("block_sparse")));

        assert_eq!(logits(&stacked, name), logits(&model_dir(name), name));
        let (config, model) = open(&stacked, FloatDType::F32);
        save(&model, &config, &single, None).unwrap();
        let before = read(&model_dir(name).join("model.safetensors"));
        assert!(before == read(&single.join("model.safetensors")), "{name}");
    }
}

/// Loads the same model from stacked tensors, also if only half of the layers are stacked, if the stacks have another
/// dtype than the model, and if Mixtral's old and new names are mixed.
#[test]
fn layouts_may_be_mixed() {
    for (name, projections, block) in [
        ("qwen3_moe", QWEN, "mlp"),
        ("mixtral", MIXTRAL, "mlp"),
        ("mixtral", MIXTRAL, "block_sparse_moe"),
    ] {
        let mixed = copy_of(name);
        edit_tensors(mixed.path(), |file| {
            stack(file, 1, projections, block);
            assert!(file.contains_key(&format!("model.layers.1.{block}.experts.down_proj")));
        });
        assert_eq!(logits(mixed.path(), name), logits(&model_dir(name), name));
        let (_, model) = open(mixed.path(), FloatDType::BF16);
        let (_, single) = open(&model_dir(name), FloatDType::BF16);
        assert!(model.named_parameters() == single.named_parameters());
    }
}

#[test]
fn stacks_are_sharded_too() {
    let parent = tempfile::tempdir().unwrap();
    let target = parent.path().join("sharded");
    let (config, model) = open(&model_dir("mixtral"), FloatDType::F32);
    let experts = ExpertStorage::Stacked;
    save_with(&model, &config, &target, Some(100_000), experts).unwrap();
    assert!(target.join("model.safetensors.index.json").is_file());
    assert_eq!(
        logits(&target, "mixtral"),
        logits(&model_dir("mixtral"), "mixtral")
    );
}

/// The published files of Qwen3-VL hold each matrix of a stack transposed, and `transformers` 5 writes it as it is in the
/// model.
#[test]
fn stacks_may_be_transposed() {
    let name = "qwen3_vl_moe";
    let published = copy_of(name);
    edit_tensors(published.path(), |file| {
        for (name, tensor) in file.iter_mut() {
            let &[experts, rows, columns] = tensor.shape.as_slice() else {
                continue;
            };
            assert!(name.contains(".experts."));
            let old: Vec<&[u8]> = tensor.bytes.chunks(4).collect();
            let place = |at: usize| {
                let (expert, within) = (at / (rows * columns), at % (rows * columns));
                let (column, row) = (within / rows, within % rows);
                old[(expert * rows + row) * columns + column]
            };
            let bytes = (0..old.len()).flat_map(place).copied().collect();
            tensor.bytes = bytes;
            tensor.shape = vec![experts, columns, rows];
        }
    });
    for dtype in [FloatDType::F32, FloatDType::BF16] {
        let (_, found) = open(published.path(), dtype);
        let (_, expected) = open(&model_dir(name), dtype);
        assert!(found.named_parameters() == expected.named_parameters());
    }
    let stack = "model.language_model.layers.1.mlp.experts.down_proj";
    edit_tensors(published.path(), |file| {
        file.get_mut(stack).unwrap().shape = vec![8, 32, 96];
    });
    let error = load(published.path(), &Device::default(), FloatDType::F32).unwrap_err();
    let says = format!("`{stack}`: expected shape [8, 64, 48], found [8, 32, 96]");
    assert!(error.to_string().contains(&says), "{error}");
}

/// The bias by which experts are chosen has more digits than a half type.
#[test]
fn the_bias_of_a_choice_stays_in_f32() {
    let parent = tempfile::tempdir().unwrap();
    let target = parent.path().join("half");
    let (config, model) = open(&model_dir("glm4_moe_groups"), FloatDType::BF16);
    save(&model, &config, &target, None).unwrap();
    let before = read(&model_dir("glm4_moe_groups").join("model.safetensors"));
    let after = read(&target.join("model.safetensors"));
    let mut biases = 0;
    for (name, tensor) in &after {
        let wide = name.ends_with("e_score_correction_bias");
        assert_eq!(tensor.dtype == safetensors::Dtype::F32, wide, "{name}");
        assert!(!wide || *tensor == before[name], "{name}");
        biases += usize::from(wide);
    }
    assert_eq!(biases, 1);
}

/// The layers after the last predict further tokens, as many as `num_nextn_predict_layers` says.
#[test]
fn layers_of_further_tokens_are_left_out() {
    let further = copy_of("glm4_moe_norms");
    edit_tensors(further.path(), |file| {
        let tensor = Stored::f32(&[2], &[0.5; 2]);
        file.insert("model.layers.2.eh_proj.weight".into(), tensor);
    });
    let expected = logits(&model_dir("glm4_moe_norms"), "glm4_moe_norms");
    assert_eq!(logits(further.path(), "glm4_moe_norms"), expected);
    edit_config(further.path(), |config| {
        config.insert("num_nextn_predict_layers".into(), json!(0));
    });
    let error = load(further.path(), &Device::default(), FloatDType::F32).unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("`model.layers.2.eh_proj.weight`: unexpected"),
        "{error}"
    );
}

/// Case, model, change, tensor that the message names, other text in the message.
type BadCase = (&'static str, fn(&mut File), &'static str, &'static str);

const DOWN_3: &str = "model.layers.1.mlp.experts.3.down_proj.weight";
const GATE_0: &str = "model.layers.1.mlp.experts.0.gate_proj.weight";

fn is_expert_of_layer_1(name: &str) -> bool {
    name.starts_with("model.layers.1.mlp.experts.")
}

#[test]
fn bad_experts_are_named() {
    let cases: [BadCase; 6] = [
        (
            "qwen3_moe",
            |file| drop(file.remove(DOWN_3)),
            DOWN_3,
            "missing; expected shape [64, 48]",
        ),
        (
            "qwen3_moe",
            |file| file.retain(|name, _| !is_expert_of_layer_1(name)),
            GATE_0,
            "missing; expected shape [48, 64], and so on: 16 tensors; or \
             `model.layers.1.mlp.experts.gate_up_proj` of shape [8, 96, 64]",
        ),
        (
            "qwen3_moe",
            |file| {
                let eighth = file[DOWN_3].clone();
                file.insert(DOWN_3.replace(".3.", ".8."), eighth);
            },
            "model.layers.1.mlp.experts.8.down_proj.weight",
            "unexpected: expert 8, but config.json says that there are 8, counted from 0",
        ),
        (
            "qwen3_moe",
            |file| {
                let before = file.clone();
                stack(file, 1, QWEN, "mlp");
                file.extend(before);
            },
            "model.layers.1.mlp.experts.gate_up_proj",
            "holds what `model.layers.1.mlp.experts.0.gate_proj.weight` holds as well",
        ),
        (
            "qwen3_moe",
            |file| {
                stack(file, 1, QWEN, "mlp");
                let stacked = "model.layers.1.mlp.experts.gate_up_proj";
                file.get_mut(stacked).unwrap().shape = vec![8, 64, 96];
            },
            "model.layers.1.mlp.experts.gate_up_proj",
            "expected shape [8, 96, 64], found [8, 64, 96]",
        ),
        (
            "mixtral",
            |file| {
                let router = "model.layers.0.block_sparse_moe.gate.weight";
                let copy = file[router].clone();
                file.insert("model.layers.0.mlp.gate.weight".into(), copy);
            },
            "model.layers.0.mlp.gate.weight",
            "holds what `model.layers.0.block_sparse_moe.gate.weight` holds as well",
        ),
    ];
    for (model, edit, tensor, says) in cases {
        let dir = copy_of(model);
        edit_tensors(dir.path(), edit);
        let error = error_of(dir.path());
        let start = format!("model.safetensors: tensor `{tensor}`: ");
        assert!(error.contains(&start) && error.contains(says), "{error}");
    }
}

fn error_of(dir: &Path) -> String {
    match load(dir, &Device::default(), FloatDType::F32) {
        Ok(_) => panic!("{} was accepted", dir.display()),
        Err(error) => error.to_string(),
    }
}

/// Reports both a router of another size and experts of another number.
#[test]
fn another_number_of_experts_is_an_error() {
    for (count, says) in [(7, "unexpected: expert 7"), (9, "experts.8.")] {
        let dir = copy_of("qwen3_moe");
        edit_config(dir.path(), |config| {
            config.insert("num_local_experts".into(), json!(count));
        });
        let error = error_of(dir.path());
        assert!(error.contains("mlp.gate.weight"), "{error}");
        assert!(error.contains(says), "{error}");
    }
}

/// A fresh mixture is initialised as configured, has the loss of a guess like a dense model, and is read again from a
/// configuration with both spellings of the number of experts.
#[test]
fn a_fresh_mixture_is_initialised_as_configured() {
    let config = ModelConfig::qwen3_moe(Qwen3MoeSize {
        dense: Qwen3Size {
            vocab_size: 256,
            hidden_size: 64,
            intermediate_size: 160,
            num_hidden_layers: 2,
            num_attention_heads: 4,
            num_key_value_heads: 2,
            head_dim: 32,
            max_position_embeddings: 128,
            tie_word_embeddings: true,
        },
        num_experts: 6,
        num_experts_per_tok: 2,
        moe_intermediate_size: 40,
        router_aux_loss_coef: 0.01,
    })
    .unwrap();
    let device = Device::default();
    device.seed(7);
    let model = config.init(&device);
    let parameters = model.named_parameters();
    let expert = "model.layers.1.mlp.experts.5";
    assert_eq!(
        parameters[&format!("{expert}.up_proj.weight")]
            .shape()
            .as_slice(),
        [40, 64]
    );
    for (name, data) in &parameters {
        let values = to_f64(data);
        let squares = values.iter().map(|x| x * x).sum::<f64>();
        let deviation = (squares / values.len() as f64).sqrt();
        let expected = if name.ends_with("norm.weight") {
            1.0
        } else {
            0.02
        };
        assert!(
            (deviation / expected - 1.0).abs() < 0.15,
            "{name}: {deviation}"
        );
    }
    let ids = Tensor::<2, Int>::from_data([[1, 2, 3, 4, 5, 6, 7, 8]], &device);
    let (_, losses) = model.losses(ids, None);
    let value = |loss: Tensor<1>| to_f64(&loss.into_data())[0];
    let (next_token, total) = (value(losses.next_token), value(losses.total));
    assert!((next_token - 256_f64.ln()).abs() < 0.3, "{next_token}");
    let added = 0.01 * value(losses.load_balancing.unwrap());
    assert!((total - next_token - added).abs() < 1e-6, "{total}");

    let parent = tempfile::tempdir().unwrap();
    let target = parent.path().join("fresh");
    save(&model, &config, &target, None).unwrap();
    let written = std::fs::read_to_string(target.join("config.json")).unwrap();
    let written: Value = serde_json::from_str(&written).unwrap();
    assert_eq!(written["num_experts"], 6);
    assert_eq!(written["num_local_experts"], 6);
    let (_, again) = open(&target, FloatDType::F32);
    assert!(parameters == again.named_parameters());
}
