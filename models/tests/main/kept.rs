//! Models whose quantised weights stay as their bytes: logits, gradients, what is saved, and what is refused.

use std::path::{Path, PathBuf};

use crate::common::{fixtures, ints, model_dir, read, to_f64};
use crate::comparison::relative;
use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{DType, Device, FloatDType, Int, Tensor};
use burn_kernels::nn::Quantized;
use burn_kernels::policy::{self, Policy};
use burn_kernels::report::report;
use kernels_models::preference::Divergence;
use kernels_models::{
    AdapterConfig, CausalLm, Distilled, QuantisedWeights, Scored, Sequences, inspect, load,
    load_as, save, save_adapters,
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

/// Embeddings stay, and so do output projections, tied to them or not: each tensor that is quantised.
#[test]
fn embeddings_and_output_projections_stay() {
    let device = Device::flex();
    for name in ["llama", "llama_bias", "qwen2", "qwen3", "gemma2"] {
        let file = fixtures().join("gguf").join(format!("{name}.gguf"));
        let found = inspect(&file, &device).unwrap();
        let all: usize = found.quantised.values().map(|own| own.tensors).sum();
        assert_eq!(found.kept.tensors, all, "{name}");
        let model = load_in(&file, &device, FloatDType::F32, QuantisedWeights::Kept);
        let (elements, bytes) = Quantized::size_in(&model);
        assert_eq!(elements as u64, found.kept.elements, "{name}");
        assert_eq!(bytes as u64, found.kept.bytes, "{name}");
    }
}

/// The gradients of adapters, in the order of the model.
struct Adapters<'a>(&'a GradientsParams, Vec<f64>);

impl ModuleVisitor for Adapters<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.0.get::<D>(param.id) {
            self.1.extend(to_f64(&gradient.into_data()));
        }
    }
}

/// Sequences in which each token is its own target.
fn sequences(input_ids: Tensor<2, Int>) -> Sequences {
    let [batch, seq] = input_ids.dims();
    let places = Tensor::<1, Int>::arange(0..seq as i64, (&input_ids.device(), DType::I64));
    Sequences {
        targets: input_ids.clone(),
        position_ids: places.unsqueeze::<2>().repeat_dim(0, batch),
        input_ids,
        documents: None,
        attention_mask: None,
        pictures: None,
    }
}

/// Losses without the logits of all tokens, and what they give adapters: the mean, some tokens', and the divergence
/// from a teacher.
#[test]
fn losses_are_those_of_the_decoded_weights() {
    let device = Device::flex().autodiff();
    let adapters = AdapterConfig {
        rank: 2,
        alpha: 4.0,
        dropout: 0.0,
        rank_stabilised: false,
        targets: Vec::new(),
        patterns: Default::default(),
    };
    let divergence = Divergence {
        mixture: "0.5".parse().unwrap(),
        temperature: 1.0,
    };
    for (path, golden, _) in checkpoints() {
        let ids = || ints(&read(&golden)["input_ids"], &device);
        let forms = [QuantisedWeights::Decoded, QuantisedWeights::Kept];
        let [decoded, kept] = forms.map(|form| load_in(&path, &device, FloatDType::F32, form));
        let decoded = decoded.with_adapters(&adapters, 1).unwrap();
        // Other tests draw from the same random numbers, so the factors are not drawn again.
        let dir = tempfile::tempdir().unwrap();
        let adapter = dir.path().join("adapter");
        save_adapters(&decoded, &adapters, "base", &adapter).unwrap();
        let models = [decoded, kept.load_adapters(&adapter).unwrap().1];
        // Another model of the same vocabulary.
        let teacher = match path.file_stem() {
            Some(name) if name == "llama" => "gguf/qwen3.gguf",
            _ => "gguf/llama.gguf",
        };
        let teacher = fixtures().join(teacher);
        let teachers = forms.map(|form| load_in(&teacher, &Device::flex(), FloatDType::F32, form));
        for policy in ["none", "all"] {
            let _scope = policy::scope(policy.parse::<Policy>().unwrap());
            let of = |model: &CausalLm, loss: Tensor<1>| {
                let value = to_f64(&loss.clone().without_autodiff().into_data());
                let gradients = GradientsParams::from_grads(loss.backward(), model);
                let mut found = Adapters(&gradients, Vec::new());
                model.visit(&mut found);
                assert!(!found.1.is_empty());
                [value, found.1]
            };
            let mean = |model: &CausalLm| of(model, model.training_losses(ids(), None).total);
            let each = |model: &CausalLm| {
                let scored = Scored {
                    places: &[0, 3, 4],
                    temperature: 1.3,
                };
                let log_probs = model.log_probs(sequences(ids()), scored);
                of(model, log_probs.sum())
            };
            let taught = |model: &CausalLm, teacher: &CausalLm| {
                let distilled = Distilled {
                    teacher,
                    places: &[0, 3, 4],
                    divergence,
                };
                let losses = model.losses_of_divergence(sequences(ids()), distilled);
                of(model, losses.next_token)
            };
            let [decoded, kept] = &models;
            let mut cases = vec![
                ("mean", [mean(decoded), mean(kept)]),
                ("each", [each(decoded), each(kept)]),
            ];
            if path.extension().is_some() {
                let taught = [0, 1].map(|at| taught(&models[at], &teachers[at]));
                cases.push(("taught", taught));
            }
            for (what, [expected, found]) in cases {
                for (found, expected) in found.iter().zip(&expected) {
                    let error = relative(found, expected);
                    assert!(error < 2e-5, "{path:?}, {policy}, {what}: {error:e}");
                }
            }
        }
    }
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
