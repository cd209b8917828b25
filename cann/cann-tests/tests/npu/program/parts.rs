//! Tests of the parts of Omni models that speak, on an NPU with the emulator, with live verification on.

use super::alone;
use super::models::all_were_verified;
use crate::comparison::{difference, relative};
use crate::models::{File, Stored, check_gradients, ints, model_dir, read, relative_l2, to_f64};
use burn::tensor::{DType, Device, FloatDType, Tensor, TensorData};
use burn_kernels::live::{self, Sampling};
use burn_kernels::policy::{self, Policy};
use burn_kernels::{npu, report};
use kernels_models::{Model, QuantisedWeights, load_part};

const DTYPES: [FloatDType; 2] = [FloatDType::F32, FloatDType::BF16];

fn floats(stored: &Stored, device: &Device, dtype: FloatDType) -> Tensor<3> {
    let data = TensorData::new(stored.values(), stored.shape.clone());
    Tensor::from_data(data, (device, DType::from(dtype)))
}

/// Runs a part in a dtype. `run` returns its result and its loss.
fn holds(
    name: &str,
    dtype: FloatDType,
    results: [&str; 3],
    run: impl Fn(&Model, &File, &Device) -> (Tensor<3>, Tensor<1>),
) {
    let device = npu::device(0).unwrap().autodiff();
    let _policy = policy::scope("all".parse::<Policy>().unwrap());
    let _verified = live::scope(Sampling::first());
    let decoded = QuantisedWeights::Decoded;
    let part = load_part(&model_dir(name), None, &device, dtype, decoded, &mut |_| {});
    let (_, model) = part.unwrap();
    let golden = read(&model_dir(name).join("golden.safetensors"));
    report::reset();
    let (found, loss) = run(&model, &golden, &device);
    let found = to_f64(&found.into_data());
    let gradients = model.gradients(&loss.backward());
    let what = format!("{name} in {dtype:?}");
    let [f32s, f64s, bf16s] = results.map(|result| golden[result].values());
    if dtype == FloatDType::F32 {
        let error = relative(&found, &f32s);
        assert!(error < 2e-5, "{what}: off by {error:e}");
        let error = difference(&to_f64(&loss.into_data()), &golden["loss"].values());
        assert!(error < 1e-5, "{what}: loss off by {error:e}");
        check_gradients(&what, &golden, &gradients);
    } else {
        let [ours, theirs] = [&found, &bf16s].map(|found| relative_l2(found, &f64s));
        assert!(
            ours < 1.25 * theirs,
            "{what}: off by {ours:e}, transformers by {theirs:e}"
        );
        let finite = |gradient: &TensorData| gradient.iter::<f64>().all(f64::is_finite);
        assert!(gradients.values().all(finite), "{what}");
    }
    let report = report::report();
    assert_eq!(report.reference_calls(), 0, "{what}: {report}");
    all_were_verified(&what, &report);
    assert_eq!(burn_cann::backend::fallbacks(), []);
}

#[test]
fn code_predictors_are_those_of_transformers() {
    alone(&[], || {
        for dtype in DTYPES {
            let results = ["logits", "logits_f64", "logits_bf16"];
            holds(
                "qwen3_omni_code_predictor",
                dtype,
                results,
                |model, golden, device| {
                    let Model::CodePredictor(model) = model else {
                        panic!("{model:?}")
                    };
                    let first = floats(&golden["inputs_embeds"], device, dtype);
                    model.loss(first, ints(&golden["input_ids"], device))
                },
            );
        }
    });
}

#[test]
fn transformers_of_vocoders_are_those_of_transformers() {
    alone(&[], || {
        for dtype in DTYPES {
            let results = ["out.hidden", "out_f64.hidden", "out_bf16.hidden"];
            holds(
                "qwen3_omni_code2wav",
                dtype,
                results,
                |model, golden, device| {
                    let Model::Code2Wav(model) = model else {
                        panic!("{model:?}")
                    };
                    let hidden = model.forward(floats(&golden["inputs_embeds"], device, dtype));
                    let weights = floats(&golden["loss_weights.hidden"], device, dtype);
                    (hidden.clone(), (hidden * weights).sum())
                },
            );
        }
    });
}
