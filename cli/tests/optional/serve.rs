//! Tests of `kernels serve` and of the commands that use its devices.

// Fixtures whose weights are not stored.
use crate::models;

use crate::common::{command, errors, fixture, floats};
use burn::backend::ir::{CustomOpIr, TensorIr};
use burn::backend::{DispatchDevice, Shape};
use burn::remote::CustomOpClient;
use burn::tensor::DType;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Output, Stdio};
use tempfile::TempDir;

const TOKEN: &str = "BURN_KERNELS_TOKEN";

/// A server that is killed at the end of the test.
struct Server {
    process: Child,
    address: String,
    token: String,
}

impl Server {
    fn start(extra: &[&str]) -> Self {
        let mut process = command()
            .args(["serve", "--websocket", "127.0.0.1:0"])
            .args(extra)
            .env_remove(TOKEN)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut line = |name: &str| {
            let line = lines.next().expect("the server says more").unwrap();
            line.strip_prefix(name).expect("in this order").to_owned()
        };
        Self {
            address: line("address "),
            token: line("token "),
            process,
        }
    }

    fn device(&self) -> String {
        format!("--device=remote:{}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn run(model: &str, output: &Path, extra: &[&str], token: &str) -> Output {
    let inputs = fixture(model).join("golden.safetensors");
    run_with(&fixture(model), &inputs, output, extra, token)
}

fn run_with(model: &Path, inputs: &Path, output: &Path, extra: &[&str], token: &str) -> Output {
    let mut command = command();
    command.arg("run").arg("--model").arg(model);
    command.arg("--inputs").arg(inputs);
    command.arg("--outputs").arg(output).args(extra);
    // Each row of the report is one line.
    command.env("COLUMNS", "400");
    command.env(TOKEN, token).output().unwrap()
}

/// Dense and sparse models on a served CPU give exactly the bits of the local CPU, with kernels on and off, and whether
/// the server reads the weights or they are sent.
#[test]
fn a_served_cpu_computes_what_the_cpu_computes() {
    let folder = fixture("qwen3");
    let models = folder.parent().unwrap();
    let reading = Server::start(&["--weights", models.to_str().unwrap()]);
    let other = Server::start(&[]);
    let folder = TempDir::new().unwrap();
    for (model, policy, dtype) in [
        ("qwen3", "all", "f32"),
        ("qwen3", "none", "bf16"),
        ("llama_rope3_tied", "all", "bf16"),
        ("qwen3_moe", "all", "f32"),
        ("mixtral", "all", "f32"),
    ] {
        let arguments = ["--grads", "--kernels", policy, "--dtype", dtype];
        let result = |name: &str, device: &str, token: &str| {
            let output = folder.path().join(name);
            let arguments = [&arguments[..], &[device]].concat();
            let result = run(model, &output, &arguments, token);
            assert!(result.status.success(), "{model}: {}", errors(&result));
            (floats(&output), errors(&result))
        };
        let (expected, said) = result("here", "--device=cpu", "");
        for server in [&reading, &other] {
            let (found, report) = result("there", &server.device(), &server.token);
            assert_eq!(found.len(), expected.len());
            for (name, expected) in &expected {
                assert_eq!(
                    found[name].values, expected.values,
                    "{model} {policy} {dtype}: {name}"
                );
            }
            let warned = report.contains("weights cross the connection");
            assert_eq!(warned, server.address == other.address, "{report}");
            // The paths are those on the CPU, and the report names the device's real kind.
            let table = |text: &str| -> Vec<String> {
                let lines = text.lines().filter(|line| line.contains("::"));
                lines.map(str::to_owned).collect()
            };
            let seen: Vec<_> = table(&report)
                .into_iter()
                .filter(|line| !line.contains("weights cross"))
                .collect();
            assert_eq!(seen, table(&said));
        }
    }
}

/// A variant of each family with maths of its own gives the bits of the local CPU.
#[test]
fn every_family_is_the_same_on_a_served_cpu() {
    let server = Server::start(&[]);
    let folder = TempDir::new().unwrap();
    let inputs = folder.path().join("in.safetensors");
    for model in [
        "deepseek_v2_group",
        "deepseek_v3_yarn",
        "gemma2_sw8",
        "gemma3_sw8_linear",
        "gemma3n_kvshare",
        "glm4",
        "glm4_moe_norms",
        "glm4v_moe_axes",
        "gpt_oss_sw8",
        "llama4_chunk8",
        "olmo2",
        "phi3_longrope",
        "qwen2_5_vl_axes",
        "qwen3_vl_axes",
        "qwen3_vl_moe",
        "seed_oss",
    ] {
        let mut own = models::read(&fixture(model).join("golden.safetensors"));
        own.retain(|name, _| name.ends_with("_ids"));
        models::write(&inputs, &own);
        let result = |name: &str, device: &str, token: &str| {
            let output = folder.path().join(name);
            let arguments = ["--grads", "--kernels=all", device];
            let dir = models::model_dir(model);
            let result = run_with(&dir, &inputs, &output, &arguments, token);
            assert!(result.status.success(), "{model}: {}", errors(&result));
            floats(&output)
        };
        let expected = result("here", "--device=cpu", "");
        let found = result("there", &server.device(), &server.token);
        assert!(found.keys().eq(expected.keys()), "{model}");
        for (name, expected) in &expected {
            assert!(found[name].values == expected.values, "{model}: {name}");
        }
    }
}

fn losses(run: &Path) -> Vec<f64> {
    let text = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let points = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    points
        .map(|point| point["loss"].as_f64().unwrap())
        .collect()
}

#[test]
fn training_on_a_served_cpu_loses_what_training_on_the_cpu_loses() {
    let server = Server::start(&[]);
    let folder = TempDir::new().unwrap();
    let text = folder.path().join("text.txt");
    std::fs::write(&text, &include_bytes!("../../corpus/alice.txt")[..4000]).unwrap();
    let train = |device: &str, name: &str| {
        let out = folder.path().join(name);
        let result = command()
            .args([
                "train",
                "--steps=2",
                "--batch=2",
                "--seq=32",
                "--quiet",
                device,
            ])
            .arg("--out")
            .arg(&out)
            .arg("--corpus")
            .arg(&text)
            .env(TOKEN, &server.token)
            .output()
            .unwrap();
        assert!(result.status.success(), "{}", errors(&result));
        losses(&out)
    };
    let here = train("--device=cpu", "here");
    assert!(here.len() > 2);
    assert_eq!(train(&server.device(), "there"), here);
}

/// A server that is killed during training causes an error that says so, and no hang.
#[test]
fn a_server_that_dies_is_an_error_that_says_so() {
    let mut server = Server::start(&[]);
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    let mut training = command()
        .args(["train", "--steps=10000", "--batch=1", "--seq=16"])
        .arg(server.device())
        .arg("--out")
        .arg(&out)
        .env(TOKEN, &server.token)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    for line in BufReader::new(training.stderr.take().unwrap()).lines() {
        let line = line.unwrap();
        if line.starts_with("step ") {
            // The server may already be dead; then the error is ignored.
            let _ = server.process.kill();
        }
        said += &(line + "\n");
    }
    assert_eq!(training.wait().unwrap().code(), Some(1), "{said}");
    assert!(said.contains("can't be reached"), "{said}");
    assert!(said.contains("is the server running?"), "{said}");
    assert!(!out.join("checkpoint").exists());
}

#[test]
fn the_token_and_the_address_are_asked_for_clearly() {
    let server = Server::start(&[]);
    let folder = TempDir::new().unwrap();
    let output = folder.path().join("out");
    let fails = |device: &str, token: &str, message: &str| {
        let result = run("qwen3", &output, &[device], token);
        assert!(!result.status.success());
        assert!(errors(&result).contains(message), "{}", errors(&result));
    };
    fails(&server.device(), "wrong", "refuses the token");
    fails(&server.device(), "", "refuses the token");
    fails(
        "--device=remote:nowhere",
        "",
        "invalid server address `nowhere`",
    );
    let second = format!("{}#1", server.device());
    fails(&second, &server.token, "serves 1 devices");
    let named = command()
        .args(["serve", "--websocket", "localhost:0"])
        .output()
        .unwrap();
    assert_eq!(named.status.code(), Some(2));
    assert!(
        errors(&named).contains("127.0.0.1:4000"),
        "{}",
        errors(&named)
    );
    let open = command()
        .args(["serve", "--websocket", "0.0.0.0:0", "--without-token"])
        .output()
        .unwrap();
    assert!(!open.status.success());
    assert!(
        errors(&open).contains("only loopback is served"),
        "{}",
        errors(&open)
    );
}

/// A client can't add a line of its own, or a very long one, to the server's log.
#[test]
fn a_client_forges_no_line_of_the_log() {
    let mut process = command()
        .args(["serve", "--websocket", "127.0.0.1:0"])
        .env_remove(TOKEN)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = process.stderr.take().unwrap();
    let log = std::thread::spawn(move || {
        let mut said = String::new();
        log.read_to_string(&mut said).map(|_| said)
    });
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let mut line = |name: &str| {
        let line = lines.next().expect("the server says more").unwrap();
        line.strip_prefix(name).expect("in this order").to_owned()
    };
    let (address, token) = (line("address "), line("token "));
    let server = Server {
        process,
        address,
        token,
    };
    let devices = burn_kernels::remote::connect(server.address.as_str(), &server.token);
    let device = devices.unwrap().remove(0);
    let DispatchDevice::Remote(remote) = device.as_dispatch() else {
        panic!("{device:?} is not served");
    };
    let name = format!("a\nerror: forged\n{}", "y".repeat(1 << 20));
    let client = CustomOpClient::new(remote);
    let shape = Shape::from(vec![1]);
    let out = TensorIr::uninit(client.create_empty_handle(), shape, DType::F32);
    let operation = CustomOpIr {
        id: name,
        ..CustomOpIr::new("", &[], &[out])
    };
    drop(client.register(operation));
    assert!(device.sync().is_err());
    drop(server);
    let said = log.join().unwrap().unwrap();
    assert!(
        said.lines().any(|line| line == "    error: forged"),
        "{said}"
    );
    assert!(!said.lines().any(|line| line.starts_with("error: forged")));
    assert!(said.len() < 100 << 10, "{} bytes", said.len());
}

/// Checks that the flags take effect. `remote_hostile.rs` of kernels-runtime tests harmful clients.
#[test]
fn limits_and_allowances_are_flags() {
    let refused = |arguments: &[&str], token: Option<&str>, message: &str| {
        let mut command = command();
        command.arg("serve").args(arguments).env_remove(TOKEN);
        if let Some(token) = token {
            command.env(TOKEN, token);
        }
        let result = command.output().unwrap();
        assert!(!result.status.success(), "{arguments:?}");
        let said = errors(&result);
        assert!(said.contains(message), "{arguments:?}: {said}");
    };
    let websocket = ["--websocket", "127.0.0.1:0"];
    for (arguments, message) in [
        (["--max-connections", "0"], "connections can be 1 or more"),
        (
            ["--max-waiting", "0"],
            "waiting connections can be 1 or more",
        ),
        (
            ["--max-handshake", "0"],
            "handshake can be more than nothing",
        ),
        (["--max-message", "1000"], "64 KiB (65536) to 1 GiB"),
        (["--max-rate", "0"], "messages a second can be 1 or more"),
        (["--allow-origin", "*"], "invalid origin `*`"),
    ] {
        refused(&[websocket, arguments].concat(), None, message);
    }
    refused(&websocket, Some("too short"), "has 9 bytes, and needs 16");
    refused(&["--transfers"], None, "`--allow-endpoint`");
    refused(&["--allow-endpoint", "me"], None, "--allow-endpoint");
    refused(&["--max-message", "65536"], None, "--websocket");
    let server = Server::start(&["--max-connections", "1"]);
    let held = burn_kernels::remote::connect(server.address.as_str(), &server.token).unwrap();
    let folder = TempDir::new().unwrap();
    let output = folder.path().join("out");
    let full = run("qwen3", &output, &[&server.device()], &server.token);
    assert!(!full.status.success());
    assert!(
        errors(&full).contains("--max-connections"),
        "{}",
        errors(&full)
    );
    assert_eq!(held.len(), 1);
}
