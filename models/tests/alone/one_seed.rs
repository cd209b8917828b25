//! Tests that one seed gives one model, with and without kernels and verification. Parameters are initialised when they
//! are first used.

use crate::common::{ints, model_dir, read};
use crate::counting::alone;
use burn::optim::{AdamWConfig, GradientsParams};
use burn::tensor::Device;
use burn_kernels::live;
use burn_kernels::policy::{self, Policy};
use kernels_models::{CausalLm, ModelConfig};

const MODELS: [&str; 20] = [
    "llama",
    "qwen3",
    "mixtral",
    "qwen2_moe",
    "qwen3_moe",
    "qwen3_moe_mixed",
    "gemma2_sw8",
    "gemma3_sw8_linear",
    "olmo2",
    "glm4",
    "phi3_partial",
    "glm4_moe_norms",
    "gpt_oss_sw8",
    "deepseek_v2",
    "deepseek_v3_yarn",
    "llama4_chunk8",
    "qwen3_vl",
    "gemma3n_kvshare",
    "qwen3_next",
    "qwen3_5",
];

/// Returns the initial parameters of a model with a fixed seed, and the losses of its first steps.
fn train(name: &str, kernels: &str, verified: &str) -> (CausalLm, Vec<f32>) {
    let _policy = policy::scope(kernels.parse::<Policy>().unwrap());
    let _sampling = live::scope(verified.parse().unwrap());
    let device = Device::default().autodiff();
    let golden = read(&model_dir(name).join("golden.safetensors"));
    let ids = ints(&golden["input_ids"], &device);
    let config = ModelConfig::from_file(&model_dir(name).join("config.json")).unwrap();
    device.seed(3);
    let mut model = config.init(&device);
    let mut optimiser = AdamWConfig::new().init();
    let (mut first, mut losses) = (None, Vec::new());
    for _ in 0..3 {
        let (_, loss) = model.loss(ids.clone(), None);
        first.get_or_insert_with(|| model.clone());
        losses.push(loss.clone().into_scalar::<f32>());
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = optimiser.step(1e-3, model, gradients);
    }
    (first.unwrap(), losses)
}

#[test]
fn a_seed_gives_one_model() {
    let _alone = alone();
    for name in MODELS {
        let (plain, plain_losses) = train(name, "none", "off");
        let plain = plain.named_parameters();
        for (kernels, verified) in [("all", "off"), ("all", "every:1"), ("none", "every:1")] {
            let what = format!("{name}, {kernels}, {verified}");
            let (model, losses) = train(name, kernels, verified);
            assert!(model.named_parameters() == plain, "{what}");
            for (a, b) in losses.iter().zip(&plain_losses) {
                assert!((a - b).abs() <= 1e-3 * b.abs(), "{what}: loss {a}, not {b}");
            }
        }
    }
}
