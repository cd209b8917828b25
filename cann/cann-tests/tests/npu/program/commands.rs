//! Tests of commands on an NPU, with the emulator.

use super::{alone, errors, program};
use crate::comparison::{difference, largest};
use crate::messages;
use crate::models::{check_gradients, checkpoint, model_dir, read as tensors, to_f64};
use crate::npu::common::{inside, library_folder};
use burn::server::telemetry::TelemetryProbe;
use burn::tensor::{Device, FloatDType, Int, Tensor, TensorData};
use burn_cann::Cann;
use burn_kernels::dispatch::DeviceKind;
use burn_kernels::{apply_default_kernels, apply_kernel, npu, report};
use kernels_models::{CausalLm, ModelConfig};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;
use tempfile::TempDir;

/// Returns a Qwen3 with the fixture's sizes and another number of layers.
fn qwen3_of(layers: usize, device: &Device) -> CausalLm {
    let path = model_dir("qwen3").join("config.json");
    let mut json: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    json["num_hidden_layers"] = layers.into();
    json.as_object_mut().unwrap().remove("layer_types");
    let config = ModelConfig::from_json(&json.to_string(), &path).unwrap();
    let model = config.init(device);
    // Parameters are drawn when they are first read.
    assert_eq!(model.named_parameters().len(), 3 + 11 * layers);
    model
}

/// Returns how often the host waited for the device in forward, backward and the reads of their results, and the number
/// of reads.
fn waits(cann: &Cann, layers: usize, device: &Device) -> (u64, u64) {
    let model = qwen3_of(layers, device);
    let ids = Tensor::<2, Int>::from_data([[3, 1, 4, 1, 5, 9, 2, 6]], device);
    device.sync().unwrap();
    report::reset();
    let before = cann.waits();
    let (_, loss) = model.loss(ids, None);
    let gradients = loss.backward();
    let loss = loss.into_scalar::<f32>();
    let gradients = model.gradients(&gradients);
    let waits = cann.waits() - before;
    // The loss of an untrained model is that of a guess among 128.
    assert!((loss - 128f32.ln()).abs() < 0.5, "{loss}");
    assert_eq!(gradients.len(), 3 + 11 * layers);
    let report = report::report();
    assert_eq!(report.reference_calls(), 0, "{report}");
    // Seven of the twelve calls of a layer are projections. The last norm, the logits and the loss are in none.
    assert_eq!(report.fused_calls(), 12 * layers as u64 + 3, "{report}");
    // The first read also reads how many targets are not classes.
    (waits, 2 + gradients.len() as u64)
}

/// Forward and backward run asynchronously on the device: the host waits only for reads.
#[test]
fn no_layer_waits_for_the_device() {
    // The device is slow, so that an unneeded wait really waits. Verification of first calls reads the values that it
    // compares, so it is off.
    let settings = [
        ("CANN_EMULATOR_DELAY_US", "200"),
        ("BURN_KERNELS_VERIFY", "off"),
    ];
    alone(&settings, || {
        let device = npu::device(0).unwrap().autodiff();
        let cann = Cann::load().unwrap();
        for layers in [2, 4] {
            let (waits, reads) = waits(&cann, layers, &device);
            assert_eq!(waits, reads, "{layers} layers");
        }
        assert_eq!(burn_cann::backend::fallbacks(), []);
    });
}

/// Returns the messages of the parts of a model's training step on an NPU: with kernels, then without.
fn of_a_step(config: &ModelConfig) -> [[messages::Count; 3]; 2] {
    let (probe, events) = TelemetryProbe::channel(messages::EVENTS);
    let options = burn_kernels::remote::ServeOptions::websocket(([127, 0, 0, 1], 0));
    let server = npu::serve(options.telemetry(probe)).unwrap();
    let device = npu::connect(server.address(), server.token())
        .unwrap()
        .remove(0);
    let counts = messages::of_a_step(config, &device, events);
    let [fused, plain] = counts;
    let both = fused.into_iter().zip(plain);
    for (part, (fused, plain)) in messages::PARTS.into_iter().zip(both) {
        println!("{part}: {fused:?}, without kernels {plain:?}");
        assert_eq!(fused.reads, 0, "{part} waits");
    }
    counts
}

/// Fails unless kernels leave a fifth of a step's messages, and at most so many.
fn sends_at_most(config: &ModelConfig, most: usize) {
    let [fused, plain] = of_a_step(config);
    let [with, without] = [fused, plain].map(|parts| messages::sum(&parts).all());
    assert!(with * 5 <= without, "{with} of {without}");
    assert!(with <= most, "{with} messages: {fused:?}");
}

/// A training step sends an NPU one message for each call of a kernel, that of the loss too, and reads nothing.
#[test]
fn a_training_step_sends_a_fifth_of_the_messages() {
    alone(&[("BURN_KERNELS_VERIFY", "off")], || {
        sends_at_most(&messages::config(), 209);
    });
}

/// Gemma 2 has a cap of scores and logits, four norms in a layer and rounding of its own.
#[test]
fn a_training_step_of_gemma_2_sends_a_fifth_of_the_messages() {
    alone(&[("BURN_KERNELS_VERIFY", "off")], || {
        let config = ModelConfig::of_checkpoint(&model_dir("gemma2_sw8")).unwrap();
        sends_at_most(&config, 141);
    });
}

/// A kernel is applied for the device that is given, not for Burn's default one.
#[test]
fn a_kernel_is_applied_for_the_npu() {
    alone(&[], || {
        let device = npu::device(0).unwrap();
        let id = "npu_fused_rmsnorm";
        for applied in [
            apply_kernel(id, &device).unwrap(),
            apply_default_kernels(id, &device).unwrap(),
        ] {
            assert_eq!(applied.plan.device, DeviceKind::Npu);
            assert_eq!(applied.kernels[0].id, id);
            assert!(applied.kernels[0].fused > 0, "{applied}");
            let mut norms = applied.plan.sites.iter().filter(|row| row.kernel == id);
            let of_cann = |name: &str| name.starts_with("aclnn");
            assert!(
                norms.any(|row| row.implementation.is_some_and(of_cann)),
                "{applied}"
            );
        }
        assert_eq!(DeviceKind::of(&Device::default()), DeviceKind::Cpu);
    });
}

/// Decoding with a cache waits for no layer, and its logits are those of a pass over all tokens.
#[test]
fn a_cache_is_on_the_device() {
    let settings = [("BURN_KERNELS_VERIFY", "off")];
    alone(&settings, || {
        let device = npu::device(0).unwrap();
        let cann = Cann::load().unwrap();
        let model = qwen3_of(2, &device);
        let ids = Tensor::<2, Int>::from_data([[3, 1, 4, 1, 5, 9, 2, 6]], &device);
        let all = model.forward(ids.clone(), None);
        let mut cache = model.config().cache();
        device.sync().unwrap();
        let before = cann.waits();
        let mut last = model.next(ids.clone().narrow(1, 0, 5), &mut cache).unwrap();
        for position in 5..8 {
            last = model
                .next(ids.clone().narrow(1, position, 1), &mut cache)
                .unwrap();
        }
        assert_eq!(cann.waits(), before);
        let expected = all.narrow(1, 7, 1);
        let [last, expected] = [last, expected].map(|logits| to_f64(&logits.into_data()));
        let (distance, scale) = (difference(&last, &expected), largest(&expected));
        assert!(distance < 2e-5 * scale, "{distance:e} of {scale:e}");
        assert_eq!(burn_cann::backend::fallbacks(), []);
    });
}

/// Returns the logits of the last of twelve tokens, of which all but the first five are decoded one by one.
fn decoded(model: &str, dtype: FloatDType, device: &Device) -> Tensor<3> {
    let (config, model) = kernels_models::load(&model_dir(model), device, dtype).unwrap();
    let ids = Tensor::<2, Int>::from_data([[3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]], device);
    let mut cache = config.cache();
    let mut last = model.next(ids.clone().narrow(1, 0, 5), &mut cache).unwrap();
    for position in 5..12 {
        let id = ids.clone().narrow(1, position, 1);
        last = model.next(id, &mut cache).unwrap();
    }
    last
}

/// Decoding in half types calls CANN's operator of inference, and its logits are those of the CPU in f32.
#[test]
fn decoding_in_half_types_is_that_of_the_cpu() {
    let operator = "aclnnFusedInferAttentionScoreV3";
    let fault = format!("{operator}=561002");
    for fault in [None, Some(("CANN_EMULATOR_FAIL", &*fault))] {
        let settings = [("BURN_KERNELS_VERIFY", "off")].into_iter().chain(fault);
        alone(&settings.collect::<Vec<_>>(), || {
            let device = npu::device(0).unwrap();
            // In the second model, all but the last eight keys are forgotten.
            for model in ["qwen3", "mistral_sw8"] {
                let expected = decoded(model, FloatDType::F32, &Device::flex());
                let expected = to_f64(&expected.into_data());
                let largest = largest(&expected);
                // Half types get twice what the precision standard of Ascend operators allows one of them.
                for (dtype, rounding) in [
                    (FloatDType::F32, 2e-5),
                    (FloatDType::F16, 2f64.powi(-8)),
                    (FloatDType::BF16, 2f64.powi(-5)),
                ] {
                    let found = decoded(model, dtype, &device).cast(FloatDType::F32);
                    let found = read(found.flatten(0, 2));
                    if std::env::var_os("CANN_EMULATOR_FAIL").is_some() && dtype != FloatDType::F32
                    {
                        // A failure costs the session.
                        found.unwrap_err();
                        let said = burn_kernels::remote::failure(&device).unwrap();
                        assert!(said.contains(operator), "{said}");
                        return;
                    }
                    let found: Vec<f64> = found.unwrap().into_iter().map(f64::from).collect();
                    let distance = difference(&found, &expected);
                    println!("{model} {dtype:?}: {:e}", distance / largest);
                    assert!(
                        distance <= rounding * largest,
                        "{model} in {dtype:?}: {distance:e}"
                    );
                }
            }
            assert_eq!(burn_cann::backend::fallbacks(), []);
        });
        if inside() {
            return;
        }
    }
}

/// A batch of prompts of different lengths waits for no layer, and its logits are those of each prompt alone.
#[test]
fn a_padded_batch_is_on_the_device() {
    let settings = [("BURN_KERNELS_VERIFY", "off")];
    alone(&settings, || {
        let device = npu::device(0).unwrap();
        let cann = Cann::load().unwrap();
        let model = qwen3_of(2, &device);
        let ids = |ids: &[[i32; 4]]| {
            let ids = TensorData::new(ids.concat(), [ids.len(), 4]);
            Tensor::<2, Int>::from_data(ids, &device)
        };
        let (batch, next) = (ids(&[[0, 0, 3, 1], [4, 1, 5, 9]]), ids(&[[2, 6, 5, 3]]));
        let next = next.reshape([2, 2]);
        let mut cache = model.config().cache();
        device.sync().unwrap();
        let before = cann.waits();
        model.next_padded(batch, &[2, 4], &mut cache).unwrap();
        let mut last = None;
        for step in 0..2 {
            let tokens = next.clone().narrow(1, step, 1);
            last = Some(model.next(tokens, &mut cache).unwrap());
        }
        assert_eq!(cann.waits(), before);
        let last = last.unwrap();
        let alone = [ids(&[[3, 1, 2, 6]]), {
            let longer = ids(&[[4, 1, 5, 9], [5, 3, 0, 0]]).reshape([1, 8]);
            longer.narrow(1, 0, 6)
        }];
        for (row, ids) in alone.into_iter().enumerate() {
            let tokens = ids.dims()[1];
            let expected = model.forward(ids, None).narrow(1, tokens - 1, 1);
            let found = last.clone().narrow(0, row, 1);
            let [found, expected] = [found, expected].map(|logits| to_f64(&logits.into_data()));
            let (distance, scale) = (difference(&found, &expected), largest(&expected));
            assert!(distance < 2e-5 * scale, "{row}: {distance:e} of {scale:e}");
        }
        assert_eq!(burn_cann::backend::fallbacks(), []);
    });
}

/// Errors about a missing device say what to do.
#[test]
fn a_device_that_is_not_there_is_an_error() {
    alone(&[], || {
        assert!(npu::device(1).is_ok());
        for index in [2, usize::MAX] {
            let said = npu::device(index).unwrap_err().to_string();
            let expected = format!("NPU {index} does not exist");
            assert!(said.contains(&expected) && said.contains('2'), "{said}");
        }
    });
}

/// CANN is installed and finds no NPU.
#[test]
fn a_machine_without_npus_is_an_error() {
    alone(&[("CANN_EMULATOR_DEVICES", "0")], || {
        for index in [0, 1] {
            let said = npu::device(index).unwrap_err().to_string();
            assert!(said.contains("counts no NPU"), "{said}");
            assert!(said.contains("npu-smi info"), "{said}");
        }
        assert!(npu::devices().is_err());
    });
}

#[test]
fn a_machine_without_cann_is_an_error() {
    let empty = TempDir::new().unwrap();
    let folder = empty.path().to_str().unwrap();
    alone(&[("CANN_LIB_DIR", folder)], || {
        let said = npu::device(0).unwrap_err().to_string();
        assert!(said.contains("libascendcl"), "{said}");
        assert!(said.contains("kernels doctor"), "{said}");
        assert!(npu::devices().is_err());
    });
}

fn read(tensor: Tensor<1>) -> Result<Vec<f32>, String> {
    let data = tensor.try_into_data().map_err(|error| error.to_string())?;
    Ok(data.try_into_vec().unwrap())
}

/// An index out of range, such as a token beyond the vocabulary, costs the data on the device, but neither the process
/// nor the device.
#[test]
fn after_failed_work_the_device_is_of_use_again() {
    alone(&[], || {
        let (device, other) = (npu::device(0).unwrap(), npu::device(1).unwrap());
        let [x, y] = [&device, &other].map(|on| Tensor::<1>::ones([4], on));
        let beyond = Tensor::<1, Int>::from_data([0, 100], &device);
        let said = read(x.clone().select(0, beyond)).unwrap_err();
        assert!(said.contains("out of range"), "{said}");
        // Earlier results may be wrong now.
        read(x.clone() + 1.0).unwrap_err();
        let said = burn_kernels::remote::failure(&device).unwrap();
        assert!(said.contains("work that failed before"), "{said}");
        assert!(said.contains("out of range"), "{said}");
        assert_eq!(read(y + 1.0).unwrap(), [2.0; 4]);
        npu::close();
        let device = npu::device(0).unwrap();
        assert_eq!(read(Tensor::ones([2], &device) + 1.0).unwrap(), [2.0; 2]);
        // The error comes at once, without waiting for a server.
        let begun = std::time::Instant::now();
        let said = burn_kernels::remote::failure(&other).unwrap();
        assert!(said.contains("closed"), "{said}");
        read(x).unwrap_err();
        assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
    });
}

/// Returns the NPUs of this process as two other programs see them.
fn two_clients() -> (burn_kernels::remote::Server, Device, Device) {
    let options = burn_kernels::remote::ServeOptions::websocket(([127, 0, 0, 1], 0));
    let server = npu::serve(options).unwrap();
    let client = || {
        npu::connect(server.address(), server.token())
            .unwrap()
            .remove(0)
    };
    let (one, other) = (client(), client());
    (server, one, other)
}

/// A failure of one client does not affect others, and its memory is released.
#[test]
fn a_fault_costs_only_the_client_whose_work_failed() {
    // The device is slow, so that the good client's work is still running when the other's fails.
    alone(&[("CANN_EMULATOR_DELAY_US", "200")], || {
        let (server, good, mut bad) = two_clients();
        let weights = Tensor::<1>::from_data([1.0, 2.0, 3.0, 4.0], &good);
        let mut expected = vec![1.0f32, 2.0, 3.0, 4.0];
        let mut running = weights.clone();
        let in_use = || {
            burn_cann::Device::open(&Cann::load().unwrap(), 0)
                .unwrap()
                .statistics()
        };
        let before = in_use().in_use;
        for round in 0..5 {
            let held = Tensor::<1>::ones([1 << 16], &bad);
            let beyond = Tensor::<1, Int>::from_data([0, 1 << 20], &bad);
            for _ in 0..20 {
                running = running + 1.0;
                expected.iter_mut().for_each(|value| *value += 1.0);
            }
            let failed = held.clone().select(0, beyond);
            match round % 2 {
                // The error is read, or never seen.
                0 => assert!(read(failed).unwrap_err().contains("out of range")),
                _ => drop(failed),
            }
            assert_eq!(read(running.clone()).unwrap(), expected, "{round}");
            assert_eq!(
                read(weights.clone()).unwrap(),
                [1.0, 2.0, 3.0, 4.0],
                "{round}"
            );
            // The bad client's next operation ends its session. A new session works.
            let _ = read(held + 1.0);
            bad = npu::connect(server.address(), server.token())
                .unwrap()
                .remove(0);
            assert_eq!(read(Tensor::ones([2], &bad) + 1.0).unwrap(), [2.0; 2]);
        }
        good.sync().unwrap();
        assert!(burn_kernels::remote::failure(&good).is_none());
        // Each session of the bad client held a quarter of a MiB. The last releases of a live session may still be in
        // transit.
        let most = before + (1 << 16);
        let begun = std::time::Instant::now();
        while in_use().in_use > most && begun.elapsed().as_secs() < 20 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert!(in_use().in_use <= most, "{} beside {before}", in_use());
    });
}

/// Empty tensors of one client don't contain memory that another one freed.
#[test]
fn empty_tensors_of_a_served_npu_hold_nothing_of_other_clients() {
    alone(&[], || {
        let (_server, one, other) = two_clients();
        let sizes: Vec<usize> = (0..18).map(|power| (1 << power) + power).collect();
        for &size in &sizes {
            drop(Tensor::<1>::full([size], -6.25e-17, &one));
        }
        one.sync().unwrap();
        for &size in &sizes {
            let empty = read(Tensor::<1>::empty([size], &other)).unwrap();
            assert!(empty.iter().all(|value| *value == 0.0), "{size}");
        }
    });
}

/// A session with a limit refuses a tensor that is larger.
#[test]
fn a_session_of_an_npu_has_a_limit() {
    alone(&[], || {
        let options = burn_kernels::remote::ServeOptions::websocket(([127, 0, 0, 1], 0));
        let server = npu::serve(options.max_session_memory(1 << 20)).unwrap();
        let client = || {
            npu::connect(server.address(), server.token())
                .unwrap()
                .remove(0)
        };
        let (good, bad) = (client(), client());
        let kept = Tensor::<1>::ones([4], &good);
        read(Tensor::<1>::ones([1 << 20], &bad)).unwrap_err();
        let said = burn_kernels::remote::failure(&bad).unwrap();
        assert!(
            said.contains("`float_ones`") && said.contains("1.0 MiB"),
            "{said}"
        );
        assert_eq!(read(kept + 1.0).unwrap(), [2.0; 4]);
    });
}

/// A device is lost at the start, or later.
#[test]
fn a_lost_device_is_an_error_that_says_so() {
    for at in ["1", "50"] {
        let settings = [("CANN_EMULATOR_LOSE_DEVICE_AT", at)];
        alone(&settings, || {
            let said = match npu::device(0) {
                Ok(device) => loop {
                    if let Err(said) = read(Tensor::ones([2], &device)) {
                        break said;
                    }
                },
                Err(error) => error.to_string(),
            };
            assert!(
                said.contains("507010") && said.contains("is lost"),
                "{said}"
            );
            npu::close();
            for said in [
                npu::device(0).unwrap_err().to_string(),
                npu::devices().unwrap_err().to_string(),
            ] {
                for part in [
                    "NPU 0 fails",
                    "507010",
                    "is lost",
                    "ASCEND_RT_VISIBLE_DEVICES",
                ] {
                    assert!(said.contains(part), "{said}");
                }
                assert!(!said.contains("ws://"), "{said}");
            }
            // Only the requested device is opened.
            let other = npu::device(1).unwrap();
            assert_eq!(read(Tensor::ones([2], &other) + 1.0).unwrap(), [2.0; 2]);
        });
    }
}

fn run(cann: &Path, model: &str, output: &Path, extra: &[&str]) -> Output {
    let mut command = program(cann);
    let model = checkpoint(model);
    command.arg("run").arg("--model").arg(&model);
    command
        .arg("--inputs")
        .arg(model.join("golden.safetensors"));
    command.arg("--outputs").arg(output).args(extra);
    // Each row of the report is one line.
    command.env("COLUMNS", "400").output().unwrap()
}

/// The models whose goldens the program computes.
pub(super) const GOLDENS: [&str; 9] = [
    "llama",
    "llama_rope3_tied",
    "qwen3",
    "qwen2_moe",
    "qwen2_moe_step2",
    "qwen3_moe",
    "mixtral",
    "qwen2",
    "mistral_sw8",
];

/// No operation of a model may run on the host. Live verification of first calls is on, as it is by default: it computes in
/// f64 by the CPU's own operations.
#[test]
fn the_goldens_of_every_model_hold_on_an_npu() {
    let folder = TempDir::new().unwrap();
    let cann = library_folder();
    for model in GOLDENS {
        let expected = tensors(&model_dir(model).join("golden.safetensors"));
        for policy in ["--kernels=all", "--kernels=none"] {
            let output = folder.path().join("out");
            let result = run(&cann, model, &output, &["--device=npu", "--grads", policy]);
            let what = format!("{model} {policy}");
            let said = errors(&result);
            assert!(result.status.success(), "{what}: {said}");
            // The output names the device.
            assert!(
                said.contains("npu:0 is Ascend910B") && said.contains("emulator"),
                "{said}"
            );
            assert!(said.contains(" npu f32 training"), "{said}");
            // All sites use CANN's operators, or none does.
            let sites: Vec<_> = said.lines().filter(|line| line.contains(" npu ")).collect();
            assert!(sites.len() >= 3, "{said}");
            for site in sites {
                let is_named = |word: &str| site.contains(&format!("{word} aclnn"));
                let is_right = match policy {
                    // Several operators are not called fused.
                    "--kernels=all" => {
                        let several = site.contains(", aclnn");
                        site.contains("(aclnn")
                            && is_named("fused") != several
                            && is_named("composed") == several
                    }
                    _ => site.contains("reference: switched off"),
                };
                assert!(is_right, "{what}: {site}");
            }
            let found = tensors(&output);
            let of = |name: &str| {
                assert_eq!(found[name].shape, expected[name].shape, "{what}: {name}");
                (found[name].values(), expected[name].values())
            };
            let (logits, exact) = of("logits");
            let logits = difference(&logits, &exact) / largest(&exact);
            assert!(logits < 2e-5, "{what}: logits are off by {logits:e}");
            let (loss, exact) = of("loss");
            let loss = difference(&loss, &exact);
            assert!(loss < 1e-5, "{what}: the loss is off by {loss:e}");
            let gradients = found.iter().filter_map(|(name, found)| {
                let data = TensorData::new(found.values(), found.shape.clone());
                Some((name.strip_prefix("grad.")?.to_owned(), data))
            });
            check_gradients(&what, &expected, &gradients.collect());
        }
    }
}

fn losses(run: &Path) -> Vec<f64> {
    let text = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let points = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    // If the device was lost in a validation, its point has no loss.
    points.filter_map(|point| point["loss"].as_f64()).collect()
}

#[test]
fn training_on_an_npu_follows_training_on_the_cpu() {
    let folder = TempDir::new().unwrap();
    let cann = library_folder();
    let text = folder.path().join("text.txt");
    std::fs::write(
        &text,
        &include_bytes!("../../../../../cli/corpus/alice.txt")[..4000],
    )
    .unwrap();
    let train = |device: &str, policy: &str| {
        let out = folder.path().join(format!("{device}{policy}"));
        let result = program(&cann)
            .args(["train", "--steps=3", "--batch=2", "--seq=32", "--quiet"])
            .args(["--device", device, "--kernels", policy])
            .arg("--out")
            .arg(&out)
            .arg("--corpus")
            .arg(&text)
            .output()
            .unwrap();
        assert!(result.status.success(), "{}", errors(&result));
        losses(&out)
    };
    let expected = train("cpu", "all");
    assert!(expected.len() > 3);
    for policy in ["all", "none"] {
        let found = train("npu", policy);
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(&expected) {
            let distance = (found - expected).abs() / expected;
            assert!(distance < 1e-4, "{policy}: {found} beside {expected}");
        }
    }
}

/// Trains for `steps` steps on an NPU, with an emulator's fault if one is given.
fn train(folder: &Path, out: &Path, steps: usize, fault: Option<(&str, &str)>) -> Output {
    let text = folder.join("text.txt");
    std::fs::write(
        &text,
        &include_bytes!("../../../../../cli/corpus/alice.txt")[..4000],
    )
    .unwrap();
    let mut command = program(&library_folder());
    command
        .args(["train", "--batch=2", "--seq=32", "--quiet"])
        .args(["--device", "npu"])
        .arg(format!("--steps={steps}"))
        .arg("--out")
        .arg(out)
        .arg("--corpus")
        .arg(text);
    command.envs(fault).output().unwrap()
}

/// Fails unless the run ended in time with an error that names the cause: the NPU's reason for ending the session, or
/// the error of the failed read.
#[track_caller]
fn assert_cause(result: &Output, expected: &str) {
    let said = errors(result);
    assert_eq!(result.status.code(), Some(1), "{said}");
    let told = |line: &&str| line.starts_with("the NPU reported:") || line.starts_with("error:");
    let mut cause = said.lines().skip_while(|line| !told(line));
    assert!(cause.any(|line| line.contains(expected)), "{said}");
}

/// Returns every file of a folder with its bytes.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(self::files(&path)),
            false => drop(files.insert(path.clone(), std::fs::read(&path).unwrap())),
        }
    }
    files
}

/// Returns `true` if there is a checkpoint. Fails if it is incomplete, or if unfinished files are left next to it.
fn has_checkpoint(run: &Path) -> bool {
    let checkpoint = run.join("checkpoint");
    for entry in std::fs::read_dir(run).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let known = [
            "train.json",
            "config.toml",
            "metrics.jsonl",
            "resume",
            "checkpoint",
            "loss.svg",
            "metrics.csv",
        ];
        assert!(known.contains(&name.as_str()), "{name} was left behind");
    }
    if !checkpoint.exists() {
        return false;
    }
    let (_, model) =
        kernels_models::load(&checkpoint, &Device::flex(), FloatDType::F32).expect("it is whole");
    for (name, values) in model.named_parameters() {
        assert!(values.iter::<f32>().all(f32::is_finite), "{name}");
    }
    true
}

/// Tests three faults during training: an operator that fails, too little memory, and a lost device.
#[test]
fn a_fault_in_training_is_an_error_with_its_cause() {
    let folder = TempDir::new().unwrap();
    let earlier = folder.path().join("earlier");
    let result = train(folder.path(), &earlier, 3, None);
    assert!(result.status.success(), "{}", errors(&result));
    let before = files(&earlier);
    assert!(before.contains_key(&earlier.join("checkpoint/model.safetensors")));
    let faults = [
        ("CANN_EMULATOR_FAIL", "aclnnSwiGluGrad=561003", "561003"),
        ("CANN_EMULATOR_MEMORY", "9000000", "memory"),
        ("CANN_EMULATOR_LOSE_DEVICE_AT", "10000", "507010"),
    ];
    for (number, (variable, value, expected)) in faults.into_iter().enumerate() {
        let out = folder.path().join(format!("run{number}"));
        let result = train(folder.path(), &out, 40, Some((variable, value)));
        assert_cause(&result, expected);
        assert!(!has_checkpoint(&out), "a checkpoint is whole or not there");
        // The device is lost in the middle of training; the other two faults fail in the first step.
        let steps = losses(&out).len();
        assert_eq!((1..40).contains(&steps), expected == "507010", "{steps}");
        // The folder of an earlier run is refused.
        let result = train(folder.path(), &earlier, 3, Some((variable, value)));
        assert_eq!(result.status.code(), Some(1));
        assert!(
            errors(&result).contains("is not empty"),
            "{}",
            errors(&result)
        );
    }
    assert!(files(&earlier) == before, "an earlier run's files changed");
}

/// The device is lost at different times, ever closer to the moment when the checkpoint appears.
#[test]
fn a_device_lost_at_any_time_leaves_a_whole_checkpoint_or_none() {
    let folder = TempDir::new().unwrap();
    let lost_at = |task: u64| {
        let out = folder.path().join(format!("lost_at_{task}"));
        let fault = ("CANN_EMULATOR_LOSE_DEVICE_AT", task.to_string());
        let result = train(folder.path(), &out, 3, Some((fault.0, &fault.1)));
        assert_cause(&result, "507010");
        let has = has_checkpoint(&out);
        // Some twenty runs of many megabytes are too much for a small disk.
        std::fs::remove_dir_all(&out).unwrap();
        has
    };
    // After the checkpoint the speed is measured, which takes longer than the training.
    let (mut without, mut with) = (0, 1000);
    while !lost_at(with) {
        (without, with) = (with, with * 2);
    }
    assert!(without > 0, "a device was lost before the first step");
    while with - without > 8 {
        let task = without.midpoint(with);
        match lost_at(task) {
            true => with = task,
            false => without = task,
        }
    }
}

/// Compares kernels on the emulator with their references: each case is within its tolerance, or refused with a reason.
#[test]
fn verification_on_an_npu_passes() {
    let result = program(&library_folder())
        .args(["verify", "--device", "npu", "--all", "--wide"])
        .output()
        .unwrap();
    let report = String::from_utf8_lossy(&result.stdout).into_owned();
    let failed: Vec<_> = report
        .lines()
        .filter(|line| line.contains("FAILED"))
        .collect();
    assert!(
        failed.is_empty(),
        "{}: {:#?}",
        failed.len(),
        &failed[..failed.len().min(20)]
    );
    assert!(result.status.success(), "{}", errors(&result));
    assert!(report.matches(" ok, ").count() > 500, "{report}");
}

/// Operations without an operator run on the host and are counted, or are an error.
#[test]
fn what_runs_on_the_host_is_said() {
    let folder = TempDir::new().unwrap();
    let cann = library_folder();
    let run = |fallback: &str| {
        let mut command = program(&cann);
        command.args(["run", "--device=npu", "--model"]);
        command.arg(checkpoint("qwen3")).arg("--inputs");
        command.arg(checkpoint("qwen3").join("golden.safetensors"));
        command.arg("--outputs").arg(folder.path().join("out"));
        // The limits of this chip are unknown, so the NPU's operators are not used for it.
        command.env("CANN_EMULATOR_SOC", "Ascend310P3");
        command
            .env("BURN_CANN_FALLBACK", fallback)
            .output()
            .unwrap()
    };
    let allowed = run("allow");
    let said = errors(&allowed);
    assert!(allowed.status.success(), "{said}");
    let last = said.lines().last().unwrap();
    assert!(
        last.contains("ran on the host") && last.contains("float_matmul "),
        "{said}"
    );
    // Each operation is logged once.
    let logged = said.lines().filter(|line| line.contains("logged once"));
    let logged: Vec<_> = logged
        .filter(|line| line.contains("\"float_matmul\""))
        .collect();
    assert_eq!(logged.len(), 1, "{said}");
    let denied = run("deny");
    let said = errors(&denied);
    assert_eq!(denied.status.code(), Some(1), "{said}");
    assert!(said.contains("can't run on the NPU"), "{said}");
    assert!(said.contains("BURN_CANN_FALLBACK=allow"), "{said}");
    let nonsense = run("perhaps");
    let said = errors(&nonsense);
    assert!(
        said.contains("perhaps") && !said.contains("doctor"),
        "{said}"
    );
}

#[test]
fn what_is_missing_for_an_npu_is_said() {
    let folder = TempDir::new().unwrap();
    let output = folder.path().join("out");
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let result = run(&empty, "qwen3", &output, &["--device=npu"]);
    assert!(!result.status.success());
    assert!(
        errors(&result).contains("kernels doctor"),
        "{}",
        errors(&result)
    );
    // The warning is printed once, and without colours outside of a terminal.
    let said = errors(&result);
    assert_eq!(said.matches("no CANN runtime").count(), 1, "{said}");
    let result = run(
        &library_folder(),
        "qwen3",
        &output,
        &["--device=npu", "--dtype=f64"],
    );
    assert!(!errors(&result).contains('\u{1b}'), "{}", errors(&result));
    let cann = library_folder();
    let result = run(&cann, "qwen3", &output, &["--device=npu:99"]);
    assert!(!result.status.success());
    assert!(
        errors(&result).contains("NPU 99 does not exist"),
        "{}",
        errors(&result)
    );
    let result = run(&cann, "qwen3", &output, &["--device=npu:first"]);
    assert!(
        errors(&result).contains("is not a device number"),
        "{}",
        errors(&result)
    );
}
