//! Fixtures: model directories with results that `transformers` computed from them.

// Each test program uses only a part of this module.
#![allow(dead_code)]

pub mod gguf;
pub mod half;
mod weights;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use burn::tensor::{Device, Int, Tensor, TensorData, bf16, f16};
use burn_kernels::ops::moe::Routing;
use burn_kernels::semantics::RouterKey;
use kernels_models::{Architecture, ModelConfig};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;
use tempfile::TempDir;

pub const MODELS: [&str; 39] = [
    "llama",
    "llama_rope3_tied",
    "qwen3",
    "qwen2_moe",
    "qwen2_moe_step2",
    "qwen3_moe",
    "qwen3_moe_mixed",
    "mixtral",
    "qwen2",
    "mistral",
    "mistral_sw8",
    "gemma2_sw8",
    "gemma3_sw8_linear",
    "olmo2",
    "glm4",
    "phi3_partial",
    "phi3_longrope",
    "glm4_moe_norms",
    "glm4_moe_groups",
    "gpt_oss_sw8",
    "seed_oss",
    "deepseek_v2",
    "deepseek_v2_group",
    "deepseek_v3_yarn",
    "llama4_chunk8",
    "qwen2_5_vl",
    "qwen3_vl",
    "qwen3_vl_moe",
    "gemma3n_kvshare",
    "glm4v_moe",
    "qwen2_5_omni_thinker",
    "qwen2_5_omni_talker",
    "qwen3_omni_thinker",
    "qwen3_omni_talker",
    "qwen3_next",
    "qwen3_5",
    "qwen3_5_text",
    "qwen3_5_moe",
    "qwen3_5_moe_text",
];

/// The [`MODELS`] that are mixtures of experts.
pub const SPARSE: [&str; 19] = [
    "qwen2_moe",
    "qwen2_moe_step2",
    "qwen3_moe",
    "qwen3_moe_mixed",
    "mixtral",
    "glm4_moe_norms",
    "glm4_moe_groups",
    "gpt_oss_sw8",
    "deepseek_v2",
    "deepseek_v2_group",
    "deepseek_v3_yarn",
    "llama4_chunk8",
    "qwen3_vl_moe",
    "glm4v_moe",
    "qwen3_omni_thinker",
    "qwen3_omni_talker",
    "qwen3_next",
    "qwen3_5_moe",
    "qwen3_5_moe_text",
];

/// The parts of Omni models other than language models.
pub const PARTS: [&str; 2] = ["qwen3_omni_code_predictor", "qwen3_omni_code2wav"];

/// Returns the folder `tests/fixtures` of the repository, from whichever package has this module.
pub fn fixtures() -> PathBuf {
    let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let fixtures = |folder: &Path| Some(folder.join("tests/fixtures")).filter(|path| path.exists());
    folders.find_map(fixtures).expect("it is in the repository")
}

pub fn model_dir(name: &str) -> PathBuf {
    let fixture = fixtures().join("models").join(name);
    if fixture.join("model.safetensors").exists() {
        return fixture;
    }
    weights::with_weights(&fixture, name)
}

/// Returns the weights that a file `weights.json` describes.
pub fn described(file: &Path) -> File {
    weights::described(file)
}

/// Returns the folder of a model whose golden file the program takes for inputs.
pub fn checkpoint(name: &str) -> PathBuf {
    let model = model_dir(name);
    match fixtures().join("models").join(name) == model {
        true => model,
        false => weights::for_the_program(&model, name),
    }
}

/// A tensor of a file.
#[derive(Clone, PartialEq)]
pub struct Stored {
    pub dtype: Dtype,
    pub shape: Vec<usize>,
    pub bytes: Vec<u8>,
}

impl Stored {
    pub fn f32(shape: &[usize], values: &[f32]) -> Self {
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        Self {
            dtype: Dtype::F32,
            shape: shape.to_vec(),
            bytes,
        }
    }

    /// Returns the exact values.
    pub fn values(&self) -> Vec<f64> {
        fn each<const N: usize>(bytes: &[u8], read: impl Fn([u8; N]) -> f64) -> Vec<f64> {
            bytes
                .as_chunks::<N>()
                .0
                .iter()
                .map(|&chunk| read(chunk))
                .collect()
        }
        match self.dtype {
            Dtype::F64 => each(&self.bytes, f64::from_le_bytes),
            Dtype::F32 => each(&self.bytes, |b| f32::from_le_bytes(b).into()),
            Dtype::BF16 => each(&self.bytes, |b| bf16::from_le_bytes(b).to_f64()),
            Dtype::F16 => each(&self.bytes, |b| f16::from_le_bytes(b).to_f64()),
            Dtype::I64 => each(&self.bytes, |b| i64::from_le_bytes(b) as f64),
            other => panic!("no test stores {other}"),
        }
    }
}

pub type File = BTreeMap<String, Stored>;

pub fn read(path: &Path) -> File {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let file = SafeTensors::deserialize(&bytes).unwrap();
    file.iter()
        .map(|(name, view)| {
            let (dtype, shape, bytes) = (view.dtype(), view.shape().to_vec(), view.data().to_vec());
            (
                name.to_owned(),
                Stored {
                    dtype,
                    shape,
                    bytes,
                },
            )
        })
        .collect()
}

pub fn write(path: &Path, file: &File) {
    let views = file.iter().map(|(name, tensor)| {
        let view = TensorView::new(tensor.dtype, tensor.shape.clone(), &tensor.bytes).unwrap();
        (name, view)
    });
    fs::write(path, safetensors::serialize(views, None).unwrap()).unwrap();
}

/// Copies a model directory, so that a test may damage it.
pub fn copy_of(name: &str) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for file in ["config.json", "model.safetensors"] {
        fs::copy(model_dir(name).join(file), copy.path().join(file)).unwrap();
    }
    copy
}

pub fn edit_config(dir: &Path, edit: impl FnOnce(&mut serde_json::Map<String, Value>)) {
    let path = dir.join("config.json");
    let mut config: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    edit(config.as_object_mut().unwrap());
    fs::write(path, config.to_string()).unwrap();
}

pub fn edit_tensors(dir: &Path, edit: impl FnOnce(&mut File)) {
    let path = dir.join("model.safetensors");
    let mut file = read(&path);
    edit(&mut file);
    write(&path, &file);
}

pub fn ints(tensor: &Stored, device: &Device) -> Tensor<2, Int> {
    let values: Vec<i64> = tensor.values().into_iter().map(|x| x as i64).collect();
    Tensor::from_data(TensorData::new(values, tensor.shape.clone()), device)
}

/// Returns the positions of three axes of a golden file.
pub fn axes(golden: &File, device: &Device) -> Tensor<3, Int> {
    let stored = &golden["position_ids"];
    let values: Vec<i64> = stored.values().into_iter().map(|x| x as i64).collect();
    Tensor::from_data(TensorData::new(values, stored.shape.clone()), device)
}

pub fn to_f64(data: &TensorData) -> Vec<f64> {
    Tensor::<1>::from_data(
        TensorData::from_bytes(data.bytes().clone(), [data.num_elements()], data.dtype()),
        (&Device::default(), data.dtype()),
    )
    .try_to_vec_as::<f64>()
    .unwrap()
}

pub fn l2(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// Returns the L2 norm of the difference divided by that of the expected values.
pub fn relative_l2(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    l2(found.iter().zip(expected).map(|(a, b)| a - b)) / l2(expected.iter().copied())
}

/// Returns the router of a configuration, by its published definition.
pub fn routing(config: &ModelConfig) -> Routing {
    let moe = config.moe.as_ref().unwrap();
    let key = match (config.architecture, moe.norm_topk_prob) {
        (Architecture::Mixtral, _) => RouterKey::MIXTRAL,
        (Architecture::Glm4Moe | Architecture::Glm4vMoe | Architecture::DeepseekV3, _) => {
            RouterKey::DEEPSEEK_V3
        }
        (Architecture::DeepseekV2, _) => match moe.groups.unwrap().n_group {
            1 => RouterKey::DEEPSEEK_V2,
            _ => RouterKey::DEEPSEEK_V2_GROUPS,
        },
        (Architecture::Llama4, _) => RouterKey::LLAMA4,
        (Architecture::GptOss, _) => RouterKey::GPT_OSS,
        (_, true) => RouterKey::QWEN3_MOE,
        (_, false) => RouterKey::QWEN2_MOE,
    };
    let routing = Routing::new(key, moe.num_experts, moe.num_experts_per_tok).unwrap();
    let Some(groups) = &moe.groups else {
        return routing;
    };
    let limited = routing.limited_to_groups(groups.n_group, groups.topk_group);
    let scaled = limited.unwrap().scaled(groups.routed_scaling_factor);
    scaled.unwrap()
}

/// Returns the bias of each sparse layer's choice of experts, if it has one.
pub fn corrections(name: &str, config: &ModelConfig) -> Vec<Option<Tensor<1>>> {
    let file = read(&model_dir(name).join("model.safetensors"));
    let layers = (0..config.num_hidden_layers).filter(|&layer| config.is_sparse(layer));
    let correction = |layer| {
        let name = format!(".layers.{layer}.mlp.gate.e_score_correction_bias");
        let (_, bias) = file.iter().find(|(own, _)| own.ends_with(&name))?;
        let values: Vec<f32> = bias.values().iter().map(|&x| x as f32).collect();
        Some(Tensor::from_floats(values.as_slice(), &Device::default()))
    };
    layers.map(correction).collect()
}

/// Compares gradients with those of a golden file, whose large ones are products with signs.
pub fn check_gradients(label: &str, golden: &File, gradients: &BTreeMap<String, TensorData>) {
    let expected = |name: &String| {
        let forms = ["grad", "grad_by_row"];
        forms.map(|form| golden.get(&format!("{form}.{name}")))
    };
    let missing = gradients
        .keys()
        .filter(|name| expected(name).iter().all(Option::is_none));
    let missing: Vec<_> = missing.collect();
    assert!(missing.is_empty(), "{}: {missing:?} not expected", label);
    for name in golden.keys() {
        let Some((form, parameter)) = name.split_once('.') else {
            continue;
        };
        let Some(gradient) = form.starts_with("grad").then(|| &gradients[parameter]) else {
            continue;
        };
        let (shape, found) = (gradient.shape().to_vec(), to_f64(gradient));
        let (shape, found) = match form {
            "grad_by_row" => signed_sums(&found, &shape, |row, _| row),
            "grad_by_column" => signed_sums(&found, &shape, |_, column| column),
            _ => (shape, found),
        };
        assert_eq!(shape, golden[name].shape, "{}: {name}", label);
        let error = relative_l2(&found, &golden[name].values());
        assert!(error < 1e-5, "{}: {name} off by {error:e}", label);
    }
}

/// Returns the sums of the elements of a matrix, or of several below each other, in each group: a row or a column. The
/// signs in a sum are those of the Thue-Morse sequence, as in `generate_families.py`.
fn signed_sums(
    elements: &[f64],
    shape: &[usize],
    group: fn(usize, usize) -> usize,
) -> (Vec<usize>, Vec<f64>) {
    let columns = shape[shape.len() - 1];
    let places = (0..elements.len()).map(|at| (at / columns, at % columns));
    let groups = 1 + places
        .clone()
        .map(|(row, column)| group(row, column))
        .max()
        .unwrap();
    let mut sums = vec![0.0; groups];
    for ((row, column), element) in places.zip(elements) {
        let own = group(row, column);
        let place = row + column - own;
        sums[own] += match place.count_ones() % 2 {
            0 => *element,
            _ => -element,
        };
    }
    (vec![groups], sums)
}
