//! Mixtures whose experts stay as their bytes: logits, gradients of adapters, what is saved.

use std::path::Path;

use crate::common::{
    Stored, copy_of, edit_config, edit_tensors, fixtures, ints, model_dir, read, to_f64,
};
use crate::comparison::relative;
use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, FloatDType, Tensor};
use burn_kernels::nn::Quantized;
use burn_kernels::policy::{self, Policy};
use burn_kernels::report::report;
use kernels_models::{
    AdapterConfig, CausalLm, QuantisedWeights, inspect, load, load_as, save_adapters,
};
use safetensors::Dtype;
use serde_json::json;
use tempfile::TempDir;

const FORMS: [QuantisedWeights; 2] = [QuantisedWeights::Decoded, QuantisedWeights::Kept];

fn load_in(path: &Path, device: &Device, dtype: FloatDType, form: QuantisedWeights) -> CausalLm {
    load_as(path, device, dtype, form, &mut |_| {}).unwrap().1
}

fn logits(model: &CausalLm, golden: &crate::common::File, tokens: usize) -> Vec<f64> {
    let ids = ints(&golden["input_ids"], &Device::flex()).narrow(1, 0, tokens);
    to_f64(&model.forward(ids, None).into_data())
}

#[test]
fn a_gpt_oss_in_mxfp4_has_the_logits_of_transformers() {
    let folder = fixtures().join("quantised/gpt_oss_mxfp4");
    let golden = read(&folder.join("golden.safetensors"));
    let expected = golden["logits_f64"].values();
    let tokens = golden["input_ids"].shape[1];
    let device = Device::flex();
    let found = inspect(&folder, &device).unwrap();
    for policy in ["none", "all"] {
        let _scope = policy::scope(policy.parse::<Policy>().unwrap());
        let models = FORMS.map(|form| load_in(&folder, &device, FloatDType::F32, form));
        assert!(!Quantized::is_in(&models[0]));
        let (elements, bytes) = Quantized::size_in(&models[1]);
        assert_eq!(
            (elements as u64, bytes as u64),
            (found.kept.elements, found.kept.bytes)
        );
        assert_eq!(elements, 2 * 4 * 3 * 64 * 32);
        assert_eq!(models[0].num_params(), models[1].num_params());
        for model in &models {
            let error = relative(&logits(model, &golden, tokens), &expected);
            assert!(error < 2e-5, "{policy}: {error:e}");
        }
        // One token, as in decoding.
        let [decoded, kept] = models.map(|model| logits(&model, &golden, 1));
        let error = relative(&kept, &decoded);
        assert!(error < 2e-5, "{policy}: {error:e}");
    }
    let [decoded, kept] = FORMS.map(|form| {
        let model = load_in(&folder, &device, FloatDType::BF16, form);
        relative(&logits(&model, &golden, tokens), &expected)
    });
    assert!(
        kept < 2.0 * decoded,
        "{kept}, and {decoded} of decoded weights"
    );
    let text = report().to_string();
    assert!(text.contains("npu_fused_quantized_linear"), "{text}");
}

#[test]
fn saved_experts_are_the_decoded_ones() {
    let device = Device::flex();
    let int8 = in_int8();
    let mxfp4 = fixtures().join("quantised/gpt_oss_mxfp4");
    for folder in [&*mxfp4, int8.path()] {
        for dtype in [FloatDType::F32, FloatDType::BF16] {
            let decoded = load(folder, &device, dtype).unwrap().1.named_parameters();
            let kept = load_in(folder, &device, dtype, QuantisedWeights::Kept);
            assert!(kept.named_parameters() == decoded, "{folder:?}, {dtype:?}");
        }
    }
}

/// Writes a Qwen3-MoE whose experts are in int8, one by one.
fn in_int8() -> TempDir {
    let dir = copy_of("qwen3_moe");
    edit_tensors(dir.path(), |file| {
        let names: Vec<String> = file
            .keys()
            .filter(|name| name.contains(".experts."))
            .cloned()
            .collect();
        assert_eq!(names.len(), 2 * 8 * 3);
        for (seed, name) in names.iter().enumerate() {
            let weight = file.get_mut(name).unwrap();
            let [rows, columns] = weight.shape[..] else {
                panic!("{name} is a matrix");
            };
            weight.dtype = Dtype::I8;
            let byte = |at: usize| ((at + 7 * seed) * 7919 % 253) as u8;
            weight.bytes = (0..rows * columns).map(byte).collect();
            let scales = Stored::f32(&[rows], &vec![0.1; rows]);
            file.insert(name.replace(".weight", ".SCB"), scales);
        }
    });
    edit_config(dir.path(), |config| {
        let int8 = json!({"quant_method": "bitsandbytes", "load_in_8bit": true});
        config.insert("quantization_config".into(), int8);
    });
    dir
}

/// Gate and up of an expert are two matrices.
#[test]
fn experts_that_are_stored_one_by_one_stay() {
    let dir = in_int8();
    let device = Device::flex();
    let golden = read(&model_dir("qwen3_moe").join("golden.safetensors"));
    let tokens = golden["input_ids"].shape[1];
    for policy in ["none", "all"] {
        let _scope = policy::scope(policy.parse::<Policy>().unwrap());
        let [decoded, kept] = FORMS.map(|form| load_in(dir.path(), &device, FloatDType::F32, form));
        let (elements, _) = Quantized::size_in(&kept);
        assert_eq!(elements, 2 * 8 * 3 * 64 * 48);
        let [decoded, kept] = [decoded, kept].map(|model| logits(&model, &golden, tokens));
        let error = relative(&kept, &decoded);
        assert!(error < 2e-5, "{policy}: {error:e}");
    }
}

struct Gradients<'a>(&'a GradientsParams, Vec<f64>);

impl ModuleVisitor for Gradients<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.0.get::<D>(param.id) {
            self.1.extend(to_f64(&gradient.into_data()));
        }
    }
}

/// Adapters of layers and of the experts themselves.
#[test]
fn adapters_have_the_gradients_of_the_decoded_experts() {
    let folder = fixtures().join("quantised/gpt_oss_mxfp4");
    let golden = read(&folder.join("golden.safetensors"));
    let device = Device::flex().autodiff();
    let adapters = AdapterConfig {
        rank: 2,
        alpha: 4.0,
        dropout: 0.0,
        rank_stabilised: false,
        targets: ["q_proj", "experts.gate_up_proj", "experts.down_proj"]
            .map(str::to_owned)
            .into(),
        patterns: Default::default(),
    };
    for policy in ["none", "all"] {
        let _scope = policy::scope(policy.parse::<Policy>().unwrap());
        let [decoded, kept] = FORMS.map(|form| load_in(&folder, &device, FloatDType::F32, form));
        let decoded = decoded.with_adapters(&adapters, 1).unwrap();
        // Other tests draw from the same random numbers, so the factors are not drawn again.
        let dir = tempfile::tempdir().unwrap();
        let adapter = dir.path().join("adapter");
        save_adapters(&decoded, &adapters, "base", &adapter).unwrap();
        let kept = kept.load_adapters(&adapter).unwrap().1;
        let [decoded, kept] = [decoded, kept].map(|model| {
            assert_eq!(model.adapted_layers().len(), 2 * 3);
            let ids = ints(&golden["input_ids"], &device);
            let loss = model.training_losses(ids, None).total;
            let gradients = GradientsParams::from_grads(loss.backward(), &model);
            assert_eq!(gradients.len(), 2 * 2 * 3);
            let mut found = Gradients(&gradients, Vec::new());
            model.visit(&mut found);
            let dir = tempfile::tempdir().unwrap();
            let saved = dir.path().join("adapter");
            save_adapters(&model, &adapters, "base", &saved).unwrap();
            (found.1, read(&saved.join("adapter_model.safetensors")))
        });
        let error = relative(&kept.0, &decoded.0);
        assert!(error < 2e-5, "{policy}: {error:e}");
        let values = |file: &crate::common::File| {
            let values = file
                .iter()
                .map(|(name, stored)| (name.clone(), stored.values()));
            values.collect::<Vec<_>>()
        };
        assert_eq!(values(&kept.1), values(&decoded.1));
    }
}
