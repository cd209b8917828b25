//! Tests of several NPUs, with the emulator: Burn's own ways to train on them, and `--devices`.

use super::{alone, errors, program};
#[cfg(feature = "text")]
use crate::models::fixtures;
use crate::npu::common::library_folder;
use burn::module::{Module, ModuleMapper, Param};
use burn::nn::{Linear, LinearConfig, RmsNormConfig};
use burn::optim::{AdamWConfig, GradientsParams, MultiGradientsParams};
use burn::tensor::distributed::{
    DistributedConfig, DistributedContext, ReduceOperation, all_reduce,
};
use burn::tensor::{Device, Tensor, TensorData};
use burn_kernels::nn::RmsNorm;
use burn_kernels::{npu, remote, tune};
use serde_json::Value;
use std::path::Path;
use std::process::Output;
use std::sync::{Arc, Barrier};
use std::thread;
use tempfile::TempDir;

const ROWS: usize = 8;
const STEPS: usize = 3;
const RATE: f64 = 0.05;

fn read<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_into_vec().unwrap()
}

/// Returns a layer that is the same on every device.
fn layer(device: &Device) -> Linear {
    let mut layer = LinearConfig::new(3, 2).init(device);
    let weight = TensorData::from([[0.1f32, -0.2], [0.3, 0.4], [-0.5, 0.6]]);
    layer.weight = Param::from_data(weight, device);
    layer.bias = Some(Param::from_data([0.01f32, -0.02], device));
    layer
}

/// Returns the loss of some rows, as a sum.
fn loss(layer: &Linear, rows: std::ops::Range<usize>, device: &Device) -> Tensor<1> {
    let values: Vec<f32> = rows
        .clone()
        .flat_map(|row| (0..3).map(move |at| (row * 3 + at) as f32 / 20.0))
        .collect();
    let x = Tensor::<2>::from_data(TensorData::new(values, [rows.len(), 3]), device);
    (layer.forward(x) - 1.0).square().sum()
}

/// Returns the parameters after a few steps over all rows on one device.
fn on_one(device: &Device) -> Vec<Vec<f32>> {
    let mut optimiser = AdamWConfig::new().init();
    let mut model = layer(device);
    for _ in 0..STEPS {
        let loss = loss(&model, 0..ROWS, device) / ROWS as f64;
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = optimiser.step(RATE, model, gradients);
    }
    parameters(&model)
}

fn parameters(model: &Linear) -> Vec<Vec<f32>> {
    let bias = model.bias.as_ref().unwrap();
    vec![
        read(model.weight.val().without_autodiff()),
        read(bias.val().without_autodiff()),
    ]
}

/// Fails unless all numbers are within 8 roundings of f32 at 1, which a sum in another order and AdamW's division leave.
#[track_caller]
fn assert_same(found: &[Vec<f32>], expected: &[Vec<f32>]) {
    for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
        assert!(
            (found - expected).abs() <= 8.0 * f32::EPSILON,
            "{found} beside {expected}"
        );
    }
}

fn npus() -> Vec<Device> {
    let devices = npu::devices().unwrap().into_iter();
    devices.map(Device::autodiff).collect()
}

/// Marks parameters as Burn's `Learner` does for `ExecutionStrategy::ddp`.
struct Distributed;

impl ModuleMapper for Distributed {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (id, tensor, mapper) = param.consume();
        Param::from_mapped_value(id, tensor.set_distributed(id), mapper)
    }
}

/// Runs the calls of burn-train's `ExecutionStrategy::ddp`: a worker for each device, with gradients that the backward pass
/// reduces.
#[test]
fn burn_s_distributed_training_follows_one_npu() {
    alone(&[], || {
        let devices = npus();
        let expected = on_one(&devices[0]);
        let config = DistributedConfig {
            all_reduce_op: ReduceOperation::Mean,
        };
        for order in [[0, 1], [1, 0]] {
            let devices = order.map(|index: usize| devices[index].clone());
            let context = DistributedContext::init(devices.to_vec(), config.clone());
            let model = layer(&devices[0]);
            // A pass that begins before the other device has ended the last one is counted to that one by Burn, which then
            // waits for ever.
            let ended = Arc::new(Barrier::new(2));
            let worker = |rank: usize, device: Device, model: Linear| {
                let ended = ended.clone();
                thread::spawn(move || {
                    let mut model = model.fork(&device).map(&mut Distributed);
                    // A copy between devices waits for the reductions that the first one has enqueued before it, and they
                    // wait for the other device.
                    parameters(&model);
                    ended.wait();
                    let mut optimiser = AdamWConfig::new().init();
                    let each = ROWS / 2;
                    for _ in 0..STEPS {
                        let rows = rank * each..(rank + 1) * each;
                        let loss = loss(&model, rows, &device) / each as f64;
                        let gradients = GradientsParams::from_grads(loss.backward(), &model);
                        ended.wait();
                        model = optimiser.step(RATE, model, gradients);
                    }
                    parameters(&model)
                })
            };
            let workers: Vec<_> = devices
                .iter()
                .enumerate()
                .map(|(rank, device)| worker(rank, device.clone(), model.clone()))
                .collect();
            let found: Vec<_> = workers
                .into_iter()
                .map(|worker| worker.join().unwrap())
                .collect();
            drop(context);
            assert_eq!(found[0], found[1], "all devices have the same model");
            assert_same(&found[0], &expected);
        }
        assert_eq!(burn_cann::backend::fallbacks(), []);
    });
}

/// A backward pass of a measurement would take part in Burn's reduction, as one that no other device has.
#[test]
fn sites_are_not_measured_in_burn_s_distributed_training() {
    let settings = [("BURN_KERNELS", "tune"), ("BURN_KERNELS_VERIFY", "off")];
    alone(&settings, || {
        let devices = npus();
        let norm = RmsNorm::from(RmsNormConfig::new(16).init(&devices[0]));
        let forward = |rows| read(norm.forward(Tensor::<2>::ones([rows, 16], &devices[0])));
        let config = DistributedConfig {
            all_reduce_op: ReduceOperation::Mean,
        };
        let context = DistributedContext::init(devices.clone(), config);
        assert_eq!(forward(2).len(), 2 * 16);
        drop(context);
        assert_eq!(forward(4).len(), 4 * 16);
        let rows = tune::report().rows;
        let [distributed, alone] = &rows[..] else {
            panic!("two classes: {rows:?}");
        };
        let kept = distributed.kept.as_deref().unwrap();
        assert!(kept.contains("over several devices"), "{kept}");
        assert_eq!(alone.measured, 1, "{alone:?}");
    });
}

/// Runs the calls of burn-train's `ExecutionStrategy::multi`: gradients move to the first device, or to that of their
/// parameter.
#[test]
fn burn_s_multi_device_training_follows_one_npu() {
    alone(&[], || {
        let devices = npus();
        let expected = on_one(&devices[0]);
        for sharded in [false, true] {
            let mut model = layer(&devices[0]);
            let mut optimiser = AdamWConfig::new().init();
            for _ in 0..STEPS {
                let each = ROWS / 2;
                let parts = devices.iter().enumerate().map(|(rank, device)| {
                    let (model, device) = (model.clone(), device.clone());
                    let part = thread::spawn(move || {
                        let model = model.fork(&device);
                        let loss =
                            loss(&model, rank * each..(rank + 1) * each, &device) / ROWS as f64;
                        GradientsParams::from_grads(loss.backward(), &model)
                    });
                    part.join().unwrap()
                });
                let mut grads: Vec<_> = parts.zip(devices.iter().cloned()).collect();
                if !sharded {
                    let first = &devices[0];
                    grads = grads
                        .into_iter()
                        .map(|(part, _)| (part.to_device(first, &model), first.clone()))
                        .collect();
                }
                model = optimiser.step_multi(RATE, model, MultiGradientsParams { grads });
            }
            assert_same(&parameters(&model.fork(&devices[0])), &expected);
        }
        assert_eq!(burn_cann::backend::fallbacks(), []);
    });
}

/// A session that ended is an error of the other, soon.
#[test]
fn a_reduction_with_a_session_that_ended_is_an_error() {
    alone(&[], || {
        let devices = npu::devices().unwrap();
        let sum = |index: usize, x: Tensor<1>| {
            let group = devices.clone();
            all_reduce(x.to_device(&devices[index]), ReduceOperation::Sum, group).resolve()
        };
        let ones = |index: usize| Tensor::<1>::ones([2], &devices[index]);
        let sums = [sum(0, ones(0)), sum(1, ones(1))];
        let flush = || devices.iter().for_each(|device| device.flush().unwrap());
        flush();
        assert_eq!(sums.map(read), [[2.0; 2]; 2]);
        // The types differ, which ends the second session.
        let waiting = sum(0, ones(0));
        // The answer comes after the first session's call, so that the second one's differs.
        assert!(devices[0].supports_dtype(burn::tensor::FloatDType::F32));
        drop(sum(1, ones(1).cast(burn::tensor::FloatDType::F16)));
        // The second session ends by this, so that it may not answer.
        let _ = devices[1].flush();
        let said = waiting.try_into_data().unwrap_err().to_string();
        assert!(
            said.contains("NPU 1 reduces 2 elements of f16 where NPU 0 reduces 2 of f32"),
            "{said}"
        );
        let why = remote::failure(&devices[1]).unwrap();
        assert!(
            why.contains("all_reduce") && why.contains("same order"),
            "{why}"
        );
        npu::close();
        let devices = npu::devices().unwrap();
        let sums: Vec<_> = devices
            .iter()
            .map(|device| {
                all_reduce(
                    Tensor::<1>::ones([2], device),
                    ReduceOperation::Mean,
                    devices.clone(),
                )
                .resolve()
            })
            .collect();
        devices.iter().for_each(|device| device.flush().unwrap());
        for sum in sums {
            assert_eq!(read(sum), [1.0; 2]);
        }
    });
}

/// A session that ends before its first reduction is an error of the other, soon.
#[test]
fn a_reduction_with_a_session_that_never_reduced_is_an_error() {
    alone(&[], || {
        let devices = npu::devices().unwrap();
        let sum = |index: usize, group: &[Device]| {
            let ones = Tensor::<1>::ones([2], &devices[index]);
            all_reduce(ones, ReduceOperation::Sum, group.to_vec()).resolve()
        };
        let waiting = sum(1, &devices);
        devices[1].flush().unwrap();
        // The list lacks the NPU itself, which ends its session.
        drop(sum(0, &devices[1..]));
        let _ = devices[0].flush();
        waiting.try_into_data().unwrap_err();
        let why = remote::failure(&devices[1]).unwrap();
        assert!(
            why.contains("NPU 0 is lost for the group of NPU 0, NPU 1"),
            "{why}"
        );
        let why = remote::failure(&devices[0]).unwrap();
        assert!(why.contains("the list must have it"), "{why}");
    });
}

/// More NPUs wait in reads than the server has threads for messages, and the last NPU's part still comes.
#[test]
fn reads_that_wait_let_other_parts_pass() {
    alone(&[("CANN_EMULATOR_DEVICES", "4")], || {
        let devices = npu::devices().unwrap();
        let cann = burn_cann::Cann::load().unwrap();
        let sum = |device: &Device| {
            all_reduce(
                Tensor::<1>::ones([2], device),
                ReduceOperation::Sum,
                devices.clone(),
            )
            .resolve()
        };
        let (last, others) = devices.split_last().unwrap();
        let before = cann.waits();
        thread::scope(|scope| {
            let reads = others
                .iter()
                .map(|device| scope.spawn(|| read(sum(device))));
            let reads: Vec<_> = reads.collect();
            while cann.waits() < before + 2 {
                thread::yield_now();
            }
            assert_eq!(read(sum(last)), [4.0; 2]);
            for found in reads {
                assert_eq!(found.join().unwrap(), [4.0; 2]);
            }
        });
    });
}

/// Trains on the devices of `extra`, which may also have another batch.
fn train(folder: &Path, out: &str, extra: &[&str], fault: Option<(&str, &str)>) -> Output {
    let text = folder.join("text.txt");
    std::fs::write(
        &text,
        &include_bytes!("../../../../../cli/corpus/alice.txt")[..4000],
    )
    .unwrap();
    let mut command = program(&library_folder());
    command.args(["train", "--seq=16", "--quiet"]);
    if !extra.iter().any(|option| option.starts_with("--batch")) {
        command.arg("--batch=2");
    }
    command.arg("--out").arg(folder.join(out));
    command.arg("--corpus").arg(text).args(extra).envs(fault);
    command.output().unwrap()
}

/// Returns a number of every point.
fn points(run: &Path, field: &str) -> Vec<f64> {
    let text = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let points = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    points.filter_map(|point| point[field].as_f64()).collect()
}

/// Losses and norms of gradients are those of one device. Both are sums of some thousand products in f32, whose order
/// differs, so that they agree to 5e-6; later steps begin with such a difference. The reference has no speed to compare with,
/// which would take longer than the training; `uneven_shares_train_as_on_one_npu` runs the kernels.
#[test]
fn losses_on_two_npus_are_those_on_one() {
    let folder = TempDir::new().unwrap();
    for (number, extra) in [
        &["--steps=3", "--kernels=none"][..],
        &[
            "--steps=2",
            "--kernels=none",
            "--preset=qwen3-moe",
            "--gradient-checkpointing",
        ],
    ]
    .iter()
    .enumerate()
    {
        let run = |devices: &str, name: &str| {
            let name = format!("{name}{number}");
            let extra = [extra, &[devices][..]].concat();
            let result = train(folder.path(), &name, &extra, None);
            assert!(result.status.success(), "{}", errors(&result));
            let run = folder.path().join(name);
            [points(&run, "loss"), points(&run, "grad_norm")]
        };
        let one = run("--device=npu:1", "one");
        let two = run("--devices=npu:0,npu:1", "two");
        if number == 1 {
            let same = run("--devices=npu:1", "same");
            assert_eq!(one, same, "--devices with one device is --device");
        }
        // The balance of experts is that of each share, which changes gradients but no loss of the first step.
        let compared = if number == 0 { usize::MAX } else { 1 };
        for (one, two) in one.iter().zip(&two) {
            assert_eq!(one.len(), two.len());
            for (one, two) in one.iter().zip(two).take(compared) {
                let tolerance = if number == 0 { 2e-5 } else { 1e-2 };
                assert!((one - two).abs() < tolerance * one, "{two} beside {one}");
            }
        }
    }
}

/// The shares of a batch of conversations have unlike numbers of targets, by which their gradients are weighted.
#[cfg(feature = "text")]
#[test]
fn uneven_shares_train_as_on_one_npu() {
    let folder = TempDir::new().unwrap();
    let conversation = |n: usize| {
        let answer = "yes ".repeat(1 + 5 * n % 9);
        serde_json::json!({"messages": [
            {"role": "user", "content": format!("{n}?")},
            {"role": "assistant", "content": answer},
        ]})
    };
    let lines: Vec<String> = (0..9).map(|n| format!("{}\n", conversation(n))).collect();
    let data = folder.path().join("chats.jsonl");
    std::fs::write(&data, lines.concat()).unwrap();
    let model = fixtures().join("text/tiny");
    let run = |devices: &str, name: &str| {
        let out = folder.path().join(name);
        let mut command = program(&library_folder());
        command.arg("finetune").arg("--model").arg(&model);
        command.arg("--data").arg(&data).arg("--out").arg(&out);
        command.args(["--quiet", "--steps=4", "--batch=2", "--seq=48", devices]);
        let result = command.output().unwrap();
        assert!(result.status.success(), "{}", errors(&result));
        [points(&out, "loss"), points(&out, "grad_norm")]
    };
    let one = run("--device=npu:0", "one");
    let two = run("--devices=npu:0,npu:1", "two");
    for (one, two) in one.iter().zip(&two) {
        assert_eq!(one.len(), two.len());
        for (one, two) in one.iter().zip(two) {
            assert!((one - two).abs() < 2e-5 * one, "{two} beside {one}");
        }
    }
}

#[test]
fn an_interrupted_run_on_two_npus_goes_on() {
    let folder = TempDir::new().unwrap();
    let devices = "--devices=npu:0,npu:1";
    let kernels = "--kernels=none";
    let whole = train(
        folder.path(),
        "whole",
        &["--steps=4", kernels, devices],
        None,
    );
    assert!(whole.status.success(), "{}", errors(&whole));
    let expected = points(&folder.path().join("whole"), "loss");
    // An NPU is lost in the middle, at different times.
    let mut resumed = 0;
    for task in [2000, 4000, 6000, 8000] {
        let (name, task) = (format!("lost{task}"), task.to_string());
        let fault = ("CANN_EMULATOR_LOSE_DEVICE_AT", task.as_str());
        let lost = train(
            folder.path(),
            &name,
            &["--steps=4", "--save-steps=1", kernels, devices],
            Some(fault),
        );
        let said = errors(&lost);
        if lost.status.success() {
            continue;
        }
        assert_eq!(lost.status.code(), Some(1), "{said}");
        assert!(said.contains("is lost") && said.contains("npu"), "{said}");
        let run = folder.path().join(&name);
        if !run.join("resume").exists() {
            continue;
        }
        let mut command = program(&library_folder());
        let done = command
            .arg("train")
            .arg("--resume")
            .arg(&run)
            .arg("--quiet")
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", errors(&done));
        assert_eq!(
            points(&run, "loss"),
            expected,
            "from a checkpoint before task {task}"
        );
        resumed += 1;
    }
    assert!(resumed > 0, "no run was lost between two steps");
}

#[test]
fn what_devices_can_t_do_is_an_error_before_the_first_step() {
    let folder = TempDir::new().unwrap();
    for (extra, code, expected) in [
        (
            &["--devices=npu:0,npu:1", "--batch=3"][..],
            1,
            "--batch is 3, which 2 devices can't share equally; give a multiple of 2, as 4 is",
        ),
        (&["--devices=npu:0,npu:2"], 1, "NPU 2 does not exist"),
        (
            &["--devices=cpu,npu:0"],
            2,
            "cpu and npu can't add up gradients together",
        ),
        (&["--devices=npu,npu:0"], 2, "npu is there twice"),
        (
            &["--devices=npu,npu:1", "--device=npu"],
            2,
            "cannot be used with",
        ),
    ] {
        let result = train(folder.path(), "refused", extra, None);
        let said = errors(&result);
        assert_eq!(result.status.code(), Some(code), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}
