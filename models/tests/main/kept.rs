//! Models whose quantised weights stay as their bytes: logits, gradients, what is saved, and what is refused.

use std::path::{Path, PathBuf};

use crate::common::{fixtures, ints, model_dir, read, to_f64};
use crate::comparison::relative;
use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::{Device, FloatDType};
use burn_kernels::nn::Quantized;
use burn_kernels::policy::{self, Policy};
use burn_kernels::report::report;
use kernels_models::{
    AdapterConfig, CausalLm, QuantisedWeights, load, load_as, save, save_adapters,
};

fn load_in(path: &Path, device: &Device, dtype: FloatDType, form: QuantisedWeights) -> CausalLm {
    load_as(path, device, dtype, form, &mut |_| {}).unwrap().1
}

/// The checkpoints, each with the file and the name of its logits.
fn checkpoints() -> Vec<(PathBuf, PathBuf, &'static str)> {
    let folders = [
        "llama_nf4",
        "qwen3_gptq",
        "qwen3_awq",
        "llama_w8a16",
        "llama_fp8",
    ];
    let folders = folders.iter().map(|name| {
        let folder = fixtures().join("quantised").join(name);
        let golden = folder.join("golden.safetensors");
        (folder, golden, "logits_f64")
    });
    // Those of Llama have rows in another order than the model.
    let files = ["llama", "llama_bias", "qwen2", "qwen3", "gemma2"]
        .iter()
        .map(|name| {
            let file = fixtures().join("gguf").join(format!("{name}.gguf"));
            (file.clone(), file.with_extension("safetensors"), "logits")
        });
    folders.chain(files).collect()
}

#[test]
fn logits_are_those_of_the_decoded_weights() {
    let device = Device::flex();
    for (path, golden, name) in checkpoints() {
        let golden = read(&golden);
        let expected = golden[name].values();
        let [decoded, kept] = [QuantisedWeights::Decoded, QuantisedWeights::Kept]
            .map(|form| load_in(&path, &device, FloatDType::F32, form));
        assert!(!Quantized::is_in(&decoded));
        // Some files hold floats alone.
        if !Quantized::is_in(&kept) {
            assert!(path.extension().is_some(), "{path:?}");
            continue;
        }
        assert_eq!(kept.num_params(), decoded.num_params(), "{path:?}");
        for policy in ["none", "all"] {
            let _scope = policy::scope(policy.parse::<Policy>().unwrap());
            for tokens in [golden["input_ids"].shape[1], 1] {
                let ids = ints(&golden["input_ids"], &device).narrow(1, 0, tokens);
                let logits = kept.forward(ids.clone(), None);
                let found = to_f64(&logits.into_data());
                let own = to_f64(&decoded.forward(ids, None).into_data());
                let error = relative(&found, &own);
                assert!(error < 2e-5, "{path:?}, {policy}: {error:e}");
                if tokens > 1 {
                    let error = relative(&found, &expected);
                    assert!(error < 2e-5, "{path:?}, {policy}: {error:e}");
                }
            }
        }
    }
}

/// Saved, they are the floats that are decoded at once, bit for bit.
#[test]
fn saved_weights_are_the_decoded_ones() {
    let device = Device::flex();
    let mut found = 0;
    for (path, _, _) in checkpoints() {
        for dtype in [FloatDType::F32, FloatDType::BF16] {
            let decoded = load(&path, &device, dtype).unwrap().1.named_parameters();
            let kept = load_in(&path, &device, dtype, QuantisedWeights::Kept);
            found += usize::from(Quantized::is_in(&kept));
            assert!(kept.named_parameters() == decoded, "{path:?}, {dtype:?}");
        }
    }
    assert!(found >= 12, "{found} models keep weights");
}

#[test]
fn the_report_names_the_kernel() {
    let device = Device::flex();
    let folder = fixtures().join("quantised/llama_nf4");
    let golden = read(&folder.join("golden.safetensors"));
    let model = load_in(&folder, &device, FloatDType::F32, QuantisedWeights::Kept);
    model.forward(ints(&golden["input_ids"], &device), None);
    let text = report().to_string();
    assert!(text.contains("npu_fused_quantized_linear"), "{text}");
}

/// The adapters of a model whose weights are quantised while they are read are all that is trained. Merged, the model is in
/// floats.
#[test]
fn a_model_in_nf4_trains_its_adapters() {
    let device = Device::flex().autodiff();
    let path = model_dir("llama");
    let golden = read(&path.join("golden.safetensors"));
    let (config, plain) = load(&path, &device, FloatDType::F32).unwrap();
    let model = load_in(&path, &device, FloatDType::F32, QuantisedWeights::Nf4);
    assert!(Quantized::is_in(&model));
    let (whole, rounded) = (plain.named_parameters(), model.named_parameters());
    for (name, plain) in &whole {
        let (found, expected) = (to_f64(&rounded[name]), to_f64(plain));
        let error = relative(&found, &expected);
        match name.contains("_proj") {
            true => assert!(error > 1e-3 && error < 0.2, "{name}: {error}"),
            false => assert_eq!(error, 0.0, "{name}"),
        }
    }
    let adapters = AdapterConfig {
        rank: 2,
        alpha: 4.0,
        dropout: 0.0,
        rank_stabilised: false,
        targets: Vec::new(),
        patterns: Default::default(),
    };
    let model = model.with_adapters(&adapters, 1).unwrap();
    let (_, loss) = model.loss(ints(&golden["input_ids"], &device), None);
    let gradients = GradientsParams::from_grads(loss.backward(), &model);
    assert_eq!(gradients.len(), 2 * model.adapted_layers().len());

    let dir = tempfile::tempdir().unwrap();
    let [merged, adapter] = ["merged", "adapter"].map(|name| dir.path().join(name));
    save(&model, &config, &merged, None).unwrap();
    let again = load(&merged, &device, FloatDType::F32).unwrap().1;
    // New adapters add nothing.
    assert!(again.named_parameters() == rounded);
    save_adapters(&model, &adapters, "base", &adapter).unwrap();
    let fresh = load_in(&path, &device, FloatDType::F32, QuantisedWeights::Nf4);
    let error = fresh.merge_adapters(&adapter).unwrap_err().to_string();
    assert!(error.contains("the model has quantised weights"), "{error}");
}

#[test]
fn what_is_quantised_already_is_not_quantised_again() {
    let path = fixtures().join("quantised/llama_nf4");
    let nf4 = QuantisedWeights::Nf4;
    let error = |path: &PathBuf, dtype| {
        load_as(path, &Device::flex(), dtype, nf4, &mut |_| {})
            .unwrap_err()
            .to_string()
    };
    let found = error(&path, FloatDType::F32);
    assert!(found.contains("which can stay as they are"), "{found}");
    let found = error(&model_dir("llama"), FloatDType::F64);
    assert!(found.contains("not in f64"), "{found}");
}
