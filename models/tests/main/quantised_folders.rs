//! Tests of folders with a `quantization_config`: logits of whole models, weights of every encoding, and files made to harm.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{
    File, Stored, copy_of, edit_config, edit_tensors, fixtures, ints, model_dir, read, to_f64,
};
use crate::comparison::relative;
use burn::tensor::{Device, FloatDType, bf16};
use burn_kernels::policy::{self, Policy};
use kernels_models::{ModelConfig, inspect, load, save};
use safetensors::Dtype;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Logits of models in the quantised form that their packages wrote, with kernels off and on. The goldens were computed in
/// f64 from the decoded weights, but for the tables of rotations, which are those of `transformers` in f32.
#[test]
fn logits_are_those_of_the_decoded_weights() {
    let models = [
        "llama_nf4",
        "qwen3_gptq",
        "qwen3_awq",
        "llama_w8a16",
        "llama_fp8",
    ];
    let device = Device::default();
    for (model, policy) in models.iter().flat_map(|own| [(own, "none"), (own, "all")]) {
        let _scope = policy::scope(policy.parse::<Policy>().unwrap());
        let folder = fixtures().join("quantised").join(model);
        let golden = read(&folder.join("golden.safetensors"));
        let expected = golden["logits_f64"].values();
        for (dtype, most) in [(FloatDType::F32, 2e-5), (FloatDType::F64, 1e-6)] {
            let (_, model) = load(&folder, &device, dtype).unwrap();
            let logits = model.forward(ints(&golden["input_ids"], &device), None);
            let error = relative(&to_f64(&logits.into_data()), &expected);
            assert!(error < most, "{folder:?}, {policy}, {dtype:?}: {error:e}");
        }
    }
}

/// A weight in quantised form, and the configuration that says so.
struct Case {
    fixture: &'static str,
    config: Value,
}

fn compressed(format: &str, weights: Value) -> Value {
    json!({
        "quant_method": "compressed-tensors", "format": format, "ignore": ["lm_head"],
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
    })
}

fn gptq(desc_act: bool) -> Value {
    json!({"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": desc_act, "checkpoint_format": "gptq"})
}

fn cases() -> Vec<Case> {
    let bnb = |kind| json!({"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_quant_type": kind});
    let channel = |kind| json!({"num_bits": 8, "type": kind, "strategy": "channel"});
    let group = |symmetric| json!({"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": symmetric});
    #[rustfmt::skip] // one case, one line
    let cases = [
        ("bnb_nf4", bnb("nf4")),
        ("bnb_nf4_odd", bnb("nf4")),
        ("bnb_nf4_block128", bnb("nf4")),
        ("bnb_nf4_double", bnb("nf4")),
        ("bnb_nf4_double_long", bnb("nf4")),
        ("bnb_fp4", bnb("fp4")),
        ("bnb_int8", json!({"quant_method": "bitsandbytes", "load_in_8bit": true})),
        ("gptq", gptq(false)),
        ("gptq_act_order", gptq(true)),
        ("awq", json!({"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm"})),
        ("ct_w4a16_group", compressed("pack-quantized", group(true))),
        ("ct_w4a16_asym", compressed("pack-quantized", group(false))),
        ("ct_w8a16_packed", compressed("pack-quantized", channel("int"))),
        ("ct_w8a16_channel", compressed("int-quantized", channel("int"))),
        ("ct_fp8_channel", compressed("float-quantized", channel("float"))),
        ("fp8_block", json!({"quant_method": "fp8", "weight_block_size": [128, 128]})),
    ];
    let case = |(fixture, config)| Case { fixture, config };
    cases.into_iter().map(case).collect()
}

fn case(fixture: &str) -> Case {
    let is = |case: &Case| case.fixture == fixture;
    cases().into_iter().find(is).expect(fixture)
}

const GATE: &str = "model.layers.0.mlp.gate_proj";

impl Case {
    fn tensors(&self) -> File {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernels-quant/tests/fixtures");
        read(&path.join(format!("{}.safetensors", self.fixture)))
    }

    /// Writes a model with random weights, of which a layer of this name has the fixture's.
    fn written(&self, model: &str, layer: &str) -> TempDir {
        let mut tensors = self.tensors();
        let [rows, columns] = tensors["dequant"].shape[..] else {
            panic!("a matrix");
        };
        let file = tempfile::tempdir().unwrap();
        fs::copy(
            model_dir(model).join("config.json"),
            file.path().join("config.json"),
        )
        .unwrap();
        edit_config(file.path(), |config| {
            let text = match config.contains_key("text_config") {
                true => config["text_config"].as_object_mut().unwrap(),
                false => config,
            };
            text.insert("hidden_size".into(), json!(columns));
            text.insert("intermediate_size".into(), json!(rows));
            text.insert("head_dim".into(), json!(16));
        });
        let config = ModelConfig::from_file(&file.path().join("config.json")).unwrap();
        let dir = tempfile::tempdir().unwrap();
        save(&config.init(&Device::default()), &config, dir.path(), None).unwrap();
        edit_tensors(dir.path(), |file| {
            let old = file.remove(&format!("{layer}.weight")).expect(layer);
            assert_eq!(old.shape, [rows, columns]);
            let names: Vec<String> = tensors.keys().cloned().collect();
            for name in names {
                if let Some(part) = name.strip_prefix("stored.") {
                    file.insert(format!("{layer}.{part}"), tensors.remove(&name).unwrap());
                }
            }
        });
        edit_config(dir.path(), |config| {
            config.insert("quantization_config".into(), self.config.clone());
        });
        dir
    }

    /// Compares the layer's weight in every dtype with what the package decodes, bit for bit.
    fn check(&self, model: &str, layer: &str) {
        let dir = self.written(model, layer);
        let expected = self.tensors()["dequant"].values();
        let (device, label) = (Device::default(), format!("{}, {model}", self.fixture));
        for dtype in [FloatDType::F32, FloatDType::F64, FloatDType::BF16] {
            let (config, model) = load(dir.path(), &device, dtype).unwrap();
            let found = to_f64(&model.named_parameters()[&format!("{layer}.weight")]);
            let rounded = expected.iter().map(|&wide| match dtype {
                FloatDType::BF16 => bf16::from_f32(wide as f32).to_f64(),
                _ => wide,
            });
            let equal = rounded.zip(&found).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(equal && found.len() == expected.len(), "{label}, {dtype:?}");
            assert!(!config.to_json().contains("quantization_config"), "{label}");
        }
        let found = inspect(dir.path(), &device).unwrap();
        assert_eq!(found.problems, Vec::<String>::new(), "{label}");
        let [own] = found.quantised.values().collect::<Vec<_>>()[..] else {
            panic!("{label}: {:?}", found.quantised);
        };
        assert_eq!(
            (own.tensors, own.elements),
            (1, expected.len() as u64),
            "{label}"
        );
        // The experts of a layer are one parameter.
        let stays = !layer.contains(".experts.");
        assert_eq!(found.kept.tensors, usize::from(stays), "{label}");
        let tensors = self.tensors();
        let parts = tensors
            .iter()
            .filter(|(name, _)| name.starts_with("stored."));
        let bytes: usize = parts.map(|(_, part)| part.bytes.len()).sum();
        let bits = 8.0 * bytes as f64 / expected.len() as f64;
        assert_eq!(own.bits(), bits, "{label}");
    }
}

#[test]
fn weights_are_those_of_the_packages() {
    for case in cases() {
        case.check("llama", GATE);
    }
}

/// The gate of an expert in a stack, and layers of the text model of another.
#[test]
fn layers_of_every_kind_are_decoded() {
    case("awq").check("mixtral", "model.layers.1.block_sparse_moe.experts.2.w1");
    case("gptq").check("qwen3_vl", "model.language_model.layers.1.mlp.gate_proj");
    case("fp8_block").check("qwen2", GATE);
}

/// Files of bitsandbytes name their kind of 4 bits. A configuration that names the other gets a remark.
#[test]
fn files_name_their_kind_of_four_bits() {
    let config =
        json!({"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_quant_type": "fp4"});
    let case = Case {
        config,
        ..case("bnb_nf4")
    };
    case.check("llama", GATE);
    let dir = case.written("llama", GATE);
    let remarks = inspect(dir.path(), &Device::default()).unwrap().remarks;
    let says = "says bitsandbytes fp4, but the weights are stored as bitsandbytes nf4";
    assert!(remarks.iter().any(|own| own.contains(says)), "{remarks:?}");
}

fn refused(dir: &Path, says: &[&str]) {
    let error = load(dir, &Device::default(), FloatDType::F32).unwrap_err();
    let error = error.to_string();
    for words in says {
        assert!(error.contains(words), "{words:?} is not in {error}");
    }
}

/// Refuses a changed file before a weight is read: `inspect` finds the same.
fn refused_at_once(case: &Case, change: impl FnOnce(&mut File), says: &[&str]) {
    let dir = case.written("llama", GATE);
    edit_tensors(dir.path(), change);
    refused(dir.path(), says);
    let found = inspect(dir.path(), &Device::default()).unwrap().problems;
    for words in says {
        assert!(
            found.iter().any(|own| own.contains(words)),
            "{words:?}: {found:?}"
        );
    }
}

fn part<'a>(file: &'a mut File, name: &str) -> &'a mut Stored {
    file.get_mut(&format!("{GATE}.{name}")).expect(name)
}

#[test]
fn parts_that_are_missing_foreign_or_of_another_form_are_refused() {
    for case in cases() {
        let parts = case.tensors();
        let parts = parts.keys().filter_map(|name| name.strip_prefix("stored."));
        for name in parts {
            let optional = ["g_idx", "weight_format"].contains(&name);
            if !optional || case.fixture == "gptq_act_order" {
                let gone = |file: &mut File| drop(file.remove(&format!("{GATE}.{name}")));
                refused_at_once(&case, gone, &[GATE]);
            }
            let longer = |file: &mut File| {
                let part = part(file, name);
                part.shape.insert(0, 2);
                part.bytes = part.bytes.repeat(2);
            };
            refused_at_once(&case, longer, &[&format!("tensor `{GATE}.weight`: ")]);
            let other = |file: &mut File| {
                let part = part(file, name);
                part.dtype = Dtype::F64;
                part.bytes
                    .resize(8 * part.shape.iter().product::<usize>(), 0);
            };
            let says = format!("part \"{name}\" is F64");
            refused_at_once(&case, other, &[GATE, &says]);
        }
    }
    let zeros = |file: &mut File| drop(file.remove(&format!("{GATE}.weight_zero_point")));
    let says = "part \"weight_zero_point\" is missing";
    refused_at_once(&case("ct_w4a16_asym"), zeros, &[GATE, says]);
    let order = |file: &mut File| drop(file.remove(&format!("{GATE}.g_idx")));
    refused_at_once(
        &case("gptq_act_order"),
        order,
        &[GATE, "part \"g_idx\" is missing"],
    );
}

#[test]
fn contents_that_do_not_fit_are_refused() {
    let order = |file: &mut File| part(file, "g_idx").bytes[..4].copy_from_slice(&[9, 0, 0, 0]);
    let says = "part \"g_idx\": column 0 is in group 9, and there are 3";
    refused_at_once(&case("gptq"), order, &[GATE, says]);
    let infinite = |file: &mut File| part(file, "scales").bytes[2..4].copy_from_slice(&[0, 0x7c]);
    let says = "part \"scales\": number 1 is inf; expected finite numbers";
    refused_at_once(&case("awq"), infinite, &[GATE, says]);
    let nan = |file: &mut File| part(file, "weight.absmax").bytes[..4].fill(0xff);
    let says = "part \"weight.absmax\": number 0 is NaN";
    refused_at_once(&case("bnb_nf4"), nan, &[GATE, says]);
    let state = |file: &mut File| {
        let state = part(file, "weight.quant_state.bitsandbytes__nf4");
        state.bytes =
            br#"{"quant_type": "nf4", "blocksize": 64, "shape": [9223372036854775808, 2]}"#.into();
        state.shape = vec![state.bytes.len()];
    };
    refused_at_once(
        &case("bnb_nf4"),
        state,
        &[GATE, "`shape` is [9223372036854775808, 2]"],
    );

    // Only decoding finds codes that mean no number, and where.
    let nan = |file: &mut File| part(file, "weight").bytes[64 + 3] = 0x7f;
    let dir = case("ct_fp8_channel").written("llama", GATE);
    edit_tensors(dir.path(), nan);
    let says = format!("tensor `{GATE}.weight`: row 1, column 3 is NaN");
    refused(dir.path(), &[&says]);
}

/// A configuration that is not read names the field, also to `inspect`, and one that no weight needs is said.
#[test]
fn configurations_are_honoured_or_refused() {
    let set = |value: Value| {
        let dir = copy_of("llama");
        edit_config(dir.path(), |config| {
            config.insert("quantization_config".into(), value);
        });
        dir
    };
    for (config, field, says) in [
        (
            json!({"quant_method": "hqq"}),
            "quant_method",
            "\"hqq\" is not supported",
        ),
        (
            json!({"quant_method": "mxfp4"}),
            "quant_method",
            "experts of gpt-oss",
        ),
        (
            json!({"quant_method": "gptq", "bits": 3, "group_size": 8, "format": "marlin"}),
            "format",
            "gptq or gptq_v2",
        ),
        (
            json!({"quant_method": "awq", "bits": 4}),
            "group_size",
            "missing",
        ),
    ] {
        let dir = set(config);
        let field = format!("field `quantization_config.{field}`: ");
        refused(dir.path(), &[&field, says]);
        let found = inspect(dir.path(), &Device::default()).unwrap().problems;
        assert!(found.len() == 1 && found[0].contains(&field), "{found:?}");
    }
    let dir = set(gptq(false));
    let found = inspect(dir.path(), &Device::default()).unwrap();
    let says = "no weight is stored so";
    assert!(
        found.problems.is_empty() && found.remarks.iter().any(|own| own.contains(says)),
        "{:?}",
        found.remarks
    );
    let dir = set(json!(null));
    assert!(load(dir.path(), &Device::default(), FloatDType::F32).is_ok());
}

/// Scales of activations, which stay floats, and biases of zeros are left out with a remark. Other biases are refused.
#[test]
fn tensors_of_other_programs_beside_quantised_layers_are_left_out() {
    let case = case("ct_w8a16_channel");
    let dir = case.written("llama", GATE);
    let [bias, scale] = ["bias", "input_scale"].map(|part| format!("{GATE}.{part}"));
    edit_tensors(dir.path(), |file| {
        file.insert(bias.clone(), Stored::f32(&[29], &[0.0; 29]));
        file.insert(scale.clone(), Stored::f32(&[1], &[0.5]));
    });
    let found = inspect(dir.path(), &Device::default()).unwrap();
    assert_eq!(found.problems, Vec::<String>::new());
    let remarks = found.remarks.join("\n");
    assert!(
        remarks.contains("biases are zero") && remarks.contains("not rounded"),
        "{remarks}"
    );
    assert!(load(dir.path(), &Device::default(), FloatDType::F32).is_ok());
    let other = |file: &mut File| {
        file.insert(bias.clone(), Stored::f32(&[29], &[0.5; 29]));
    };
    let says = format!("tensor `{bias}`: unexpected");
    refused_at_once(&case, other, &[&says]);
}

/// Floats beside the quantised form of a layer are not silently left out.
#[test]
fn a_weight_in_two_forms_is_refused() {
    let floats = |file: &mut File| {
        let floats = Stored::f32(&[40, 96], &[0.5; 40 * 96]);
        assert!(file.insert(format!("{GATE}.weight"), floats).is_none());
    };
    refused_at_once(
        &case("awq"),
        floats,
        &[&format!("tensor `{GATE}.weight`: "), "awq"],
    );
}

/// The files of a folder with an index, where the parts of a weight are in several.
#[test]
fn parts_may_be_in_several_files() {
    let case = case("gptq");
    let dir = case.written("llama", GATE);
    let single: PathBuf = dir.path().join("model.safetensors");
    let mut first = read(&single);
    let scales = format!("{GATE}.scales");
    let second = File::from([(scales.clone(), first.remove(&scales).unwrap())]);
    fs::remove_file(&single).unwrap();
    let mut map = serde_json::Map::new();
    for (name, file) in [("a.safetensors", &first), ("b.safetensors", &second)] {
        crate::common::write(&dir.path().join(name), file);
        map.extend(file.keys().map(|tensor| (tensor.clone(), json!(name))));
    }
    let index = json!({ "weight_map": map }).to_string();
    fs::write(dir.path().join("model.safetensors.index.json"), index).unwrap();
    let (_, model) = load(dir.path(), &Device::default(), FloatDType::F32).unwrap();
    let found = to_f64(&model.named_parameters()[&format!("{GATE}.weight")]);
    assert_eq!(found, case.tensors()["dequant"].values());
}
