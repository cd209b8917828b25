//! Tests of the parts of Omni models that speak: against transformers', with fused kernels on and off.

use std::collections::BTreeMap;

use crate::common::{File, Stored, check_gradients, ints, model_dir, read, relative_l2, to_f64};
use crate::comparison::{difference, relative};
use burn::tensor::{DType, Device, FloatDType, Int, Tensor, TensorData};
use burn_kernels::policy::{self, Policy};
use kernels_models::{
    Batch, Code2Wav, CodePredictor, Model, ModelConfig, QuantisedWeights, load, load_part,
};

const POLICIES: [&str; 2] = ["none", "all"];

fn part(name: &str, device: &Device, dtype: FloatDType) -> Model {
    let decoded = QuantisedWeights::Decoded;
    let loaded = load_part(&model_dir(name), None, device, dtype, decoded, &mut |_| {});
    loaded.unwrap().1
}

fn code_predictor(model: &Model) -> &CodePredictor {
    match model {
        Model::CodePredictor(own) => own,
        other => panic!("{other:?}"),
    }
}

fn code2wav(model: &Model) -> &Code2Wav {
    match model {
        Model::Code2Wav(own) => own,
        other => panic!("{other:?}"),
    }
}

fn floats(stored: &Stored, device: &Device, dtype: FloatDType) -> Tensor<3> {
    let data = TensorData::new(stored.values(), stored.shape.clone());
    Tensor::from_data(data, (device, DType::from(dtype)))
}

fn golden(name: &str) -> File {
    read(&model_dir(name).join("golden.safetensors"))
}

/// Compares f32 and f64 results, and those of bf16 by the error of transformers'.
fn check(label: &str, dtype: FloatDType, found: &[f64], golden: &File, names: [&str; 3]) {
    let [f32s, f64s, bf16s] = names.map(|name| golden[name].values());
    match dtype {
        FloatDType::F64 => {
            let error = relative(found, &f64s);
            assert!(error < 1e-12, "{label}: off by {error:e}");
        }
        FloatDType::F32 => {
            let error = relative(found, &f32s);
            assert!(error < 2e-5, "{label}: off by {error:e}");
        }
        _ => {
            let (ours, theirs) = (relative_l2(found, &f64s), relative_l2(&bf16s, &f64s));
            assert!(
                ours < 1.25 * theirs,
                "{label}: off by {ours:e}, transformers by {theirs:e}"
            );
        }
    }
}

const DTYPES: [FloatDType; 3] = [FloatDType::F32, FloatDType::F64, FloatDType::BF16];

#[test]
fn code_predictors_are_those_of_transformers() {
    let golden = golden("qwen3_omni_code_predictor");
    for policy in POLICIES {
        let _scope = policy::scope(policy.parse::<Policy>().unwrap());
        for dtype in DTYPES {
            let device = Device::default().autodiff();
            let whole = part("qwen3_omni_code_predictor", &device, dtype);
            let model = code_predictor(&whole);
            let first = floats(&golden["inputs_embeds"], &device, dtype);
            let codes = ints(&golden["input_ids"], &device);
            model.check_inputs(&first, &codes).unwrap();
            let (logits, loss) = model.loss(first, codes);
            let (label, names) = (
                format!("kernels {policy}, {dtype:?}"),
                ["logits", "logits_f64", "logits_bf16"],
            );
            check(&label, dtype, &to_f64(&logits.into_data()), &golden, names);
            if dtype == FloatDType::F32 {
                let error = difference(&to_f64(&loss.to_data()), &golden["loss"].values());
                assert!(error < 1e-5, "{label}: loss off by {error:e}");
                check_gradients(&label, &golden, &whole.gradients(&loss.backward()));
            }
        }
    }
}

#[test]
fn transformers_of_vocoders_are_those_of_transformers() {
    let golden = golden("qwen3_omni_code2wav");
    for policy in POLICIES {
        let _scope = policy::scope(policy.parse::<Policy>().unwrap());
        for dtype in DTYPES {
            let device = Device::default().autodiff();
            let whole = part("qwen3_omni_code2wav", &device, dtype);
            let model = code2wav(&whole);
            let embedded = floats(&golden["inputs_embeds"], &device, dtype);
            model.check_inputs(&embedded).unwrap();
            let hidden = model.forward(embedded);
            let (label, names) = (
                format!("kernels {policy}, {dtype:?}"),
                ["out.hidden", "out_f64.hidden", "out_bf16.hidden"],
            );
            check(&label, dtype, &to_f64(&hidden.to_data()), &golden, names);
            if dtype == FloatDType::F32 {
                let weights = floats(&golden["loss_weights.hidden"], &device, dtype);
                let loss = (hidden * weights).sum();
                let error = difference(&to_f64(&loss.to_data()), &golden["loss"].values());
                assert!(error < 1e-5, "{label}: loss off by {error:e}");
                check_gradients(&label, &golden, &whole.gradients(&loss.backward()));
            }
        }
    }
}

/// A frame sees the seven frames before it and no later one, in each of two layers.
#[test]
fn a_vocoder_sees_its_window_alone() {
    let device = Device::default();
    let whole = part("qwen3_omni_code2wav", &device, FloatDType::F64);
    let model = code2wav(&whole);
    let golden = golden("qwen3_omni_code2wav");
    let input = floats(&golden["inputs_embeds"], &device, FloatDType::F64);
    let before = to_f64(&model.forward(input.clone()).into_data());
    let [rows, frames, width] = input.dims();
    let first = input.clone().narrow(1, 0, 1) * 3.0;
    let changed = Tensor::cat(vec![first, input.narrow(1, 1, frames - 1)], 1);
    let after = to_f64(&model.forward(changed).into_data());
    for row in 0..rows {
        for frame in 0..frames {
            let at = (row * frames + frame) * width;
            let differs = before[at..at + width] != after[at..at + width];
            assert_eq!(differs, frame < 15, "row {row}, frame {frame}");
        }
    }
}

#[test]
fn inputs_of_parts_are_checked() {
    let device = Device::default();
    let parts = ["qwen3_omni_code_predictor", "qwen3_omni_code2wav"];
    let [predictor, vocoder] = parts.map(|name| part(name, &device, FloatDType::F32));
    let (predictor, vocoder) = (code_predictor(&predictor), code2wav(&vocoder));
    let codes = |shape: [usize; 2]| Tensor::<2, Int>::zeros(shape, &device);
    let first = |shape: [usize; 3]| Tensor::<3>::zeros(shape, &device);
    let said = |result: Result<(), kernels_models::ModelError>| result.unwrap_err().to_string();
    for (found, words) in [
        (
            said(predictor.check_inputs(&first([1, 2, 32]), &codes([1, 3]))),
            "[b, 4]",
        ),
        (
            said(predictor.check_inputs(&first([0, 2, 32]), &codes([0, 4]))),
            "one or more frames",
        ),
        (
            said(predictor.check_inputs(&first([2, 2, 32]), &codes([1, 4]))),
            "[1, 2, 32]",
        ),
        (
            said(predictor.check_inputs(&first([1, 2, 16]), &codes([1, 4]))),
            "[1, 2, 32]",
        ),
        (
            said(predictor.check_inputs(&first([1, 2, 32]), &(codes([1, 4]) + 32))),
            "vocab_size",
        ),
        (said(vocoder.check_inputs(&first([1, 0, 32]))), "no frame"),
        (
            said(vocoder.check_inputs(&first([1, 4, 16]))),
            "a width of 32, found 16",
        ),
        (said(vocoder.check_inputs(&first([1, 8001, 32]))), "8000"),
    ] {
        assert!(found.contains(words), "{words}: {found}");
    }
    for name in parts {
        let error = load(&model_dir(name), &device, FloatDType::F32).unwrap_err();
        assert!(
            error.to_string().contains("not a language model"),
            "{error}"
        );
        let error = ModelConfig::of_checkpoint(&model_dir(name)).unwrap_err();
        assert!(
            error.to_string().contains("`kernels run` runs it"),
            "{error}"
        );
    }
}

/// Embeddings in place of tokens give the same logits and losses. Those of the talker of Qwen2.5-Omni are as wide as the
/// thinker.
#[test]
fn embeddings_take_the_place_of_tokens() {
    let device = Device::default();
    for (name, table) in [
        ("llama", "model.embed_tokens.weight"),
        ("qwen2_5_omni_talker", "model.embed_tokens.weight"),
        ("qwen3_omni_talker", "model.codec_embedding.weight"),
    ] {
        let (config, model) = load(&model_dir(name), &device, FloatDType::F32).unwrap();
        let weights = &read(&model_dir(name).join("model.safetensors"))[table];
        let (rows, width) = (weights.values(), weights.shape[1]);
        assert_eq!(config.embedding_width(), width);
        let ids = [5_i64, 0, 127, 64];
        let embedded = ids
            .iter()
            .flat_map(|&id| rows[id as usize * width..][..width].to_vec());
        let embedded = TensorData::new(embedded.collect::<Vec<f64>>(), [2, 2, width]);
        let embedded = Tensor::<3>::from_data(embedded, (&device, DType::F32));
        let ids = Tensor::<2, Int>::from_data(TensorData::new(ids.to_vec(), [2, 2]), &device);
        let batch = Batch::new(ids.clone()).embedded(embedded.clone());
        model.check_batch(&batch).unwrap();
        let results = |batch| {
            let (logits, loss) = model.loss_of(batch);
            [to_f64(&logits.into_data()), to_f64(&loss.into_data())]
        };
        assert_eq!(results(batch), results(Batch::new(ids.clone())), "{name}");
        let other = Batch::new(ids).embedded(embedded.narrow(1, 0, 1));
        let error = model.check_batch(&other).unwrap_err().to_string();
        assert!(error.contains(&format!("[2, 2, {width}]")), "{error}");
    }
    let (_, gemma) = load(&model_dir("gemma2_sw8"), &device, FloatDType::F32).unwrap();
    let batch = Batch::new(Tensor::<2, Int>::zeros([1, 2], &device));
    let batch = batch.embedded(Tensor::zeros([1, 2, 64], &device));
    let error = gemma.check_batch(&batch).unwrap_err().to_string();
    assert!(error.contains("does not take embeddings"), "{error}");
}

/// Compares the projections of a talker with their formula in f64.
#[test]
fn projections_of_the_thinkers_states() {
    let device = Device::default();
    let name = "qwen3_omni_talker";
    let (_, model) = load(&model_dir(name), &device, FloatDType::F64).unwrap();
    let file = read(&model_dir(name).join("model.safetensors"));
    let state: Vec<f64> = (0..24).map(|at| (at as f64 * 0.7).sin()).collect();
    let layer = |name: &str, x: &[f64]| -> Vec<f64> {
        let (weight, bias) = (
            file[&format!("{name}.weight")].values(),
            file[&format!("{name}.bias")].values(),
        );
        let rows = weight.chunks(x.len()).zip(bias);
        rows.map(|(row, bias)| bias + row.iter().zip(x).map(|(w, x)| w * x).sum::<f64>())
            .collect()
    };
    let own = model.projections().unwrap();
    for (name, projection) in [
        ("text_projection", &own.text_projection),
        ("hidden_projection", &own.hidden_projection),
    ] {
        let inner = layer(&format!("{name}.linear_fc1"), &state);
        let inner: Vec<f64> = inner.iter().map(|x| x / (1.0 + (-x).exp())).collect();
        let expected = layer(&format!("{name}.linear_fc2"), &inner);
        let state = TensorData::new(state.clone(), [1, 1, 24]);
        let found = projection.forward(Tensor::from_data(state, (&device, DType::F64)));
        let error = relative(&to_f64(&found.into_data()), &expected);
        assert!(error < 1e-12, "{name}: {error:e}");
    }
    let thinker = load(&model_dir("qwen3_omni_thinker"), &device, FloatDType::F32);
    assert!(thinker.unwrap().1.projections().is_none());
}

/// Every parameter is named as in the files.
#[test]
fn names_are_those_of_the_files() {
    let device = Device::default();
    for name in ["qwen3_omni_code_predictor", "qwen3_omni_code2wav"] {
        let model = part(name, &device, FloatDType::F32);
        let file = read(&model_dir(name).join("model.safetensors"));
        let own: BTreeMap<String, Vec<f64>> = model
            .named_parameters()
            .into_iter()
            .map(|(name, data)| (name, to_f64(&data)))
            .collect();
        let stored = file
            .iter()
            .map(|(name, tensor)| (name.clone(), tensor.values()));
        assert_eq!(own, stored.collect(), "{name}");
    }
}
