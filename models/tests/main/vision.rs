//! Vision towers, alone and in whole models, against those of `transformers`.

mod models;
mod towers;

use crate::common::{File, Stored, ints, model_dir, read};
use burn::tensor::{DType, Device, FloatDType, Int, Tensor, TensorData};
use burn_kernels::policy::{self, Policy};
use kernels_models::{CausalLm, ModelConfig, QuantisedWeights, VisionTower, load_with_vision};
use std::path::Path;

const TOWERS: [&str; 3] = ["qwen2_5_vl_tower", "qwen2_5_omni_tower", "qwen3_vl_tower"];
/// The models with pictures.
pub const WHOLE: [&str; 4] = [
    "qwen2_5_vl_pictures",
    "qwen3_vl_pictures",
    "qwen3_5_pictures",
    "qwen3_vl_moe_pictures",
];

/// Returns the results of `transformers`.
pub fn golden(name: &str) -> File {
    read(&model_dir(name).join("golden.safetensors"))
}

fn floats(tensor: &Stored, device: &Device) -> Tensor<2> {
    let data = TensorData::new(tensor.values(), tensor.shape.clone());
    Tensor::from_data(data, (device, DType::F32))
}

fn whole(dir: &Path, device: &Device, dtype: FloatDType) -> (ModelConfig, CausalLm) {
    load_with_vision(dir, device, dtype, QuantisedWeights::Decoded, &mut |_| {}).unwrap()
}

/// Returns the error of loading a model with its tower.
#[track_caller]
fn refusal(dir: &Path) -> String {
    let (device, decoded) = (Device::default(), QuantisedWeights::Decoded);
    let loaded = load_with_vision(dir, &device, FloatDType::F32, decoded, &mut |_| {});
    loaded.unwrap_err().to_string()
}

/// Returns the patches of pictures and their sizes.
fn pictures(golden: &File, device: &Device) -> (Tensor<2>, Tensor<2, Int>) {
    (
        floats(&golden["pixel_values"], device),
        ints(&golden["image_grid_thw"], device),
    )
}

/// Returns the results of a tower by name.
fn features(tower: &VisionTower, golden: &File, device: &Device) -> Vec<(String, Tensor<2>)> {
    let (pixels, grid) = pictures(golden, device);
    let grids = tower.config().grids(&pixels, &grid).unwrap();
    let found = tower.forward(pixels, &grids);
    let deepstack = found.deepstack.into_iter().enumerate();
    let deepstack = deepstack.map(|(at, own)| (format!("deepstack.{at}"), own));
    std::iter::once(("embeddings".to_owned(), found.embeddings))
        .chain(deepstack)
        .collect()
}

fn policies() -> impl Iterator<Item = (&'static str, policy::ScopeGuard)> {
    let scoped =
        |kernels: &'static str| (kernels, policy::scope(kernels.parse::<Policy>().unwrap()));
    ["none", "all"].into_iter().map(scoped)
}
