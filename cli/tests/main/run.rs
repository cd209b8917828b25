//! Tests of `kernels run` with expected values of other implementations, and with bad input.

// Fixtures whose weights are not stored.
use crate::models;

use crate::common::{Floats, Ids, command, errors, fixture, floats, kernels, write_ids};
use safetensors::Dtype;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const MODELS: [&str; 11] = [
    "llama",
    "llama_rope3_tied",
    "qwen3",
    "qwen2_moe",
    "qwen2_moe_step2",
    "qwen3_moe",
    "mixtral",
    "qwen2",
    "mistral_sw8",
    "qwen3_omni_talker",
    "qwen3_omni_code_predictor",
];

/// Runs a fixture on its own file of expected values and returns the output.
fn run(model: &str, extra: &[&str]) -> BTreeMap<String, Floats> {
    run_with(&fixture(model), &golden(model), extra)
}

fn run_with(model: &Path, inputs: &Path, extra: &[&str]) -> BTreeMap<String, Floats> {
    let folder = TempDir::new().unwrap();
    let output = folder.path().join("out.safetensors");
    let mut command = command();
    command.arg("run").arg("--model").arg(model);
    command.arg("--inputs").arg(inputs);
    command.arg("--outputs").arg(&output).args(extra);
    let result = command.output().unwrap();
    assert!(
        result.status.success(),
        "{} {extra:?}: {}",
        model.display(),
        errors(&result)
    );
    let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(files.len(), 1, "nothing but the output is left behind");
    floats(&output)
}

fn golden(model: &str) -> PathBuf {
    fixture(model).join("golden.safetensors")
}

#[test]
fn quantised_folders_run() {
    for model in ["llama_nf4", "qwen3_gptq", "llama_w8a16"] {
        let folder = fixture("../quantised").join(model);
        let golden = folder.join("golden.safetensors");
        for policy in ["--kernels=all", "--kernels=none"] {
            let found = run_with(&folder, &golden, &[policy]);
            let error = found["logits"].distance_to_largest(&floats(&golden)["logits_f64"]);
            assert!(error < 2e-5, "{model} {policy}: {error:e}");
        }
    }
}

#[test]
fn activations_of_8_bits_are_taken_or_refused() {
    let folder = TempDir::new().unwrap();
    let report = folder.path().join("report.json");
    let [model, inputs] =
        ["llama.gguf", "llama.safetensors"].map(|name| fixture("../gguf").join(name));
    let extra = ["--activations=int8", "--report", report.to_str().unwrap()];
    run_with(&model, &inputs, &extra);
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&report).unwrap()).unwrap();
    let mut rows = json["rows"].as_array().unwrap().iter();
    let ran = rows
        .any(|row| row["call"]["kernel"] == "npu_fused_quantized_linear_int8" && row["calls"] != 0);
    assert!(ran, "{json}");

    let output = folder.path().join("out.safetensors");
    for (model, words) in [
        ("../quantised/llama_nf4", "has no effect"),
        ("llama", "are floats"),
    ] {
        let mut command = command();
        command
            .args(["run", "--activations=int8", "--model"])
            .arg(fixture(model));
        command.arg("--inputs").arg(golden(model));
        command.arg("--outputs").arg(&output);
        let result = command.output().unwrap();
        let said = errors(&result);
        assert_eq!(result.status.code(), Some(1), "{model}: {said}");
        assert!(said.contains(words), "{model}: {said}");
        assert!(!output.exists(), "{model}");
    }
}

#[test]
fn logits_loss_and_gradients_match_with_kernels_on_and_off() {
    for model in MODELS {
        let expected = floats(&golden(model));
        for policy in ["--kernels=all", "--kernels=none"] {
            let found = run(model, &["--grads", policy]);
            let what = format!("{model} {policy}");
            let logits = found["logits"].distance_to_largest(&expected["logits"]);
            assert!(logits < 2e-5, "{what}: logits are off by {logits:e}");
            let loss = (found["loss"].values[0] - expected["loss"].values[0]).abs();
            assert!(loss < 1e-5, "{what}: the loss is off by {loss:e}");
            assert_eq!(found["loss"].shape, [0; 0]);
            crate::common::check_gradients(&what, model, &found);
        }
    }
}

/// Tokens of an image and a video have other positions on each axis.
#[test]
fn positions_may_have_three_axes() {
    let folder = TempDir::new().unwrap();
    let inputs = folder.path().join("in.safetensors");
    for model in ["qwen2_5_vl_axes", "glm4v_moe_axes"] {
        let expected = floats(&golden(model));
        let mut own = models::read(&golden(model));
        own.retain(|name, _| name.ends_with("_ids"));
        models::write(&inputs, &own);
        let found = run_with(&models::model_dir(model), &inputs, &["--grads"]);
        let logits = found["logits"].distance_to_largest(&expected["logits"]);
        assert!(logits < 2e-5, "{model}: logits are off by {logits:e}");
        let loss = (found["loss"].values[0] - expected["loss"].values[0]).abs();
        assert!(loss < 1e-5, "{model}: the loss is off by {loss:e}");
        assert!(found.keys().any(|name| name.starts_with("grad.")));
    }
}

/// The batch is padded on the left, on the right, and on both sides.
#[test]
fn a_mask_hides_padding() {
    for model in ["llama", "qwen2_moe_step2"] {
        let inputs = fixture(model).join("padded.safetensors");
        let expected = floats(&inputs);
        let mask = models::read(&inputs)["attention_mask"].values();
        for policy in ["--kernels=all", "--kernels=none"] {
            let mut found = run_with(&fixture(model), &inputs, &[policy]);
            let logits = found.get_mut("logits").unwrap();
            // The expected logits at padding are zeros.
            let vocabulary = logits.values.len() / mask.len();
            for (at, token) in mask.iter().enumerate() {
                let own = &mut logits.values[at * vocabulary..][..vocabulary];
                own.iter_mut().for_each(|logit| *logit *= token);
            }
            let distance = logits.distance_to_largest(&expected["logits"]);
            assert!(distance < 2e-5, "{model} {policy}: off by {distance:e}");
            let loss = (found["loss"].values[0] - expected["loss"].values[0]).abs();
            assert!(loss < 1e-5, "{model} {policy}: the loss is off by {loss:e}");
        }
    }
}

#[test]
fn every_dtype_runs_and_is_written_in_its_own() {
    let expected = floats(&golden("qwen3"));
    let cases = [
        ("f64", Dtype::F64, Dtype::F64, 1e-6),
        ("f32", Dtype::F32, Dtype::F32, 2e-5),
        ("bf16", Dtype::BF16, Dtype::F32, 3e-2),
    ];
    for (name, logits, loss, tolerance) in cases {
        let found = run("qwen3", &["--dtype", name]);
        assert_eq!(found["logits"].dtype, logits);
        assert_eq!(found["loss"].dtype, loss);
        assert_eq!(found.len(), 2, "no gradients without --grads");
        let distance = found["logits"].distance_to_largest(&expected["logits_f64"]);
        assert!(distance < tolerance, "{name}: off by {distance:e}");
    }
}

#[test]
fn the_report_says_which_path_ran() {
    let folder = TempDir::new().unwrap();
    for (policy, fused) in [("all", true), ("none", false)] {
        let report = folder.path().join(format!("{policy}.json"));
        run(
            "llama",
            &["--kernels", policy, "--report", report.to_str().unwrap()],
        );
        let json: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&report).unwrap()).unwrap();
        let rows = json["rows"].as_array().unwrap();
        let ran: Vec<_> = rows.iter().filter(|row| row["calls"] != 0).collect();
        assert!(!ran.is_empty());
        for row in ran {
            assert_eq!(row["call"]["implementation"].is_string(), fused, "{row}");
        }
    }
}

#[test]
fn the_report_on_screen_hides_what_was_not_reached() {
    let folder = TempDir::new().unwrap();
    let inputs = fixture("llama").join("golden.safetensors");
    let result = run_on(&fixture("llama"), &inputs, &folder.path().join("out"));
    let said = errors(&result);
    assert!(result.status.success(), "{said}");
    assert!(
        said.contains("LlamaMlp::forward") && !said.contains("Qwen3Mlp"),
        "{said}"
    );
    let last = said.lines().find(|line| line.contains("not reached"));
    let last = last.unwrap_or_else(|| panic!("{said}"));
    assert!(
        last.ends_with("sites were not reached; `--report FILE` writes every site"),
        "{last}"
    );
}

#[test]
fn i32_ids_and_default_positions_do() {
    let folder = TempDir::new().unwrap();
    let inputs = folder.path().join("in.safetensors");
    let output = folder.path().join("out.safetensors");
    write_ids(&inputs, &[("input_ids", Dtype::I32, &[1, 3], &[5, 0, 127])]);
    let result = run_on(&fixture("llama"), &inputs, &output);
    assert!(result.status.success(), "{}", errors(&result));
    assert_eq!(floats(&output)["logits"].shape, [1, 3, 128]);
}

fn run_on(model: &Path, inputs: &Path, output: &Path) -> std::process::Output {
    kernels([
        "run".as_ref(),
        "--model".as_ref(),
        model.as_os_str(),
        "--inputs".as_ref(),
        inputs.as_os_str(),
        "--outputs".as_ref(),
        output.as_os_str(),
    ])
}

/// Checks that the run fails with code 1, leaves no files, and prints each of `words`.
fn refuses(model: &Path, inputs: &Path, words: &[&str]) {
    let folder = TempDir::new().unwrap();
    let result = run_on(model, inputs, &folder.path().join("out.safetensors"));
    let said = errors(&result);
    assert_eq!(result.status.code(), Some(1), "{said}");
    assert!(said.starts_with("error: "), "{said}");
    for word in words {
        assert!(said.contains(word), "`{word}` is not in: {said}");
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

#[test]
fn bad_inputs_are_named() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("in.safetensors");
    let model = fixture("llama");
    refuses(&model, &file, &["in.safetensors"]);

    std::fs::write(&file, b"not a safetensors file").unwrap();
    refuses(&model, &file, &["in.safetensors", "safetensors file"]);

    let whole = std::fs::read(golden("llama")).unwrap();
    std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    refuses(&model, &file, &["in.safetensors", "safetensors file"]);

    let ids: &[i64] = &[1, 2, 3, 4];
    let tables: [(&[Ids<'_>], &[&str]); 14] = [
        (
            &[("position_ids", Dtype::I64, &[2, 2], ids)],
            &["`input_ids` is missing"],
        ),
        (
            &[("input_ids", Dtype::F32, &[2, 2], ids)],
            &["`input_ids`", "F32"],
        ),
        (
            &[("input_ids", Dtype::I64, &[4], ids)],
            &["`input_ids`", "[b, s]", "[4]"],
        ),
        (
            &[("input_ids", Dtype::I64, &[4, 1], ids)],
            &["input_ids", "2 tokens"],
        ),
        (
            &[("input_ids", Dtype::I64, &[1, 2], &[1, 128])],
            &["input_ids", "128", "vocab_size"],
        ),
        (
            &[("input_ids", Dtype::I64, &[1, 2], &[1, -1])],
            &["input_ids", "-1"],
        ),
        (
            &[
                ("input_ids", Dtype::I64, &[2, 2], ids),
                ("position_ids", Dtype::I64, &[4, 1], ids),
            ],
            &["position_ids", "[4, 1]"],
        ),
        (
            &[
                ("input_ids", Dtype::I64, &[2, 2], ids),
                ("mask", Dtype::I64, &[2, 2], ids),
            ],
            &["`mask`", "unknown", "`attention_mask`"],
        ),
        (
            &[
                ("input_ids", Dtype::I64, &[2, 2], ids),
                ("attention_mask", Dtype::I64, &[2, 2], ids),
            ],
            &["attention_mask", "row 0, column 1: 2"],
        ),
        (
            &[
                ("input_ids", Dtype::I64, &[2, 2], ids),
                ("attention_mask", Dtype::I64, &[4, 1], ids),
            ],
            &["attention_mask", "[2, 2], found [4, 1]"],
        ),
        (
            &[
                ("input_ids", Dtype::I64, &[2, 2], ids),
                ("attention_mask", Dtype::I64, &[4], ids),
            ],
            &["`attention_mask`", "[b, s], found [4]"],
        ),
        (
            &[
                ("input_ids", Dtype::I64, &[1, 4], ids),
                ("attention_mask", Dtype::I32, &[1, 4], &[1, 0, 1, 1]),
            ],
            &["attention_mask", "row 0, column 1: 0 between tokens"],
        ),
        (
            &[
                ("input_ids", Dtype::I64, &[2, 2], ids),
                ("position_ids", Dtype::I64, &[3, 2, 2], &[0; 12]),
            ],
            &["position_ids", "have one position"],
        ),
        (
            &[
                ("input_ids", Dtype::I64, &[2, 2], ids),
                ("position_ids", Dtype::I64, &[4], ids),
            ],
            &["`position_ids`", "[b, s] or [3, b, s], found [4]"],
        ),
    ];
    for (tensors, words) in tables {
        write_ids(&file, tensors);
        refuses(&model, &file, &[&["in.safetensors"], words].concat());
    }
}

/// Copies the llama fixture, so that a test may damage it.
fn copy_of_llama() -> TempDir {
    let folder = TempDir::new().unwrap();
    for name in ["config.json", "model.safetensors"] {
        let bytes = std::fs::read(fixture("llama").join(name)).unwrap();
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    folder
}

#[test]
fn bad_checkpoints_are_named() {
    let inputs = golden("llama");
    refuses(Path::new("no/such/folder"), &inputs, &["no/such/folder"]);

    let spoilt = copy_of_llama();
    let weights = spoilt.path().join("model.safetensors");
    let whole = std::fs::read(&weights).unwrap();
    std::fs::write(&weights, &whole[..whole.len() - 100]).unwrap();
    refuses(spoilt.path(), &inputs, &["model.safetensors"]);

    let changes = [
        (
            "\"LlamaForCausalLM\"",
            "\"MambaForCausalLM\"",
            "architectures",
        ),
        ("\"silu\"", "\"gelu\"", "hidden_act"),
        ("\"hidden_size\": 64", "\"hidden_size\": 80", "tensor"),
        (
            "\"rope_type\": \"default\"",
            "\"rope_type\": \"dynamic\"",
            "rope_type",
        ),
    ];
    for (from, to, word) in changes {
        let spoilt = copy_of_llama();
        let config = spoilt.path().join("config.json");
        let text = std::fs::read_to_string(&config).unwrap();
        assert!(text.contains(from), "{from}");
        std::fs::write(&config, text.replace(from, to)).unwrap();
        refuses(spoilt.path(), &inputs, &["config.json", word]);
    }
}

#[test]
fn usage_errors_say_what_there_is() {
    let cases: [(&[&str], &[&str]); 4] = [
        (&["--device", "tpu"], &["`tpu`", "built in: cpu"]),
        (&["--dtype", "f8"], &["f8", "bf16"]),
        (&["--kernels", "al"], &["`al`", "comma list"]),
        (
            &["--kernels", "all,-npu_fused_rop"],
            &["did you mean `npu_fused_rope`?"],
        ),
    ];
    for (args, words) in cases {
        let result = command()
            .args(["run", "--model", "m", "--inputs", "i", "--outputs", "o"])
            .args(args)
            .output()
            .unwrap();
        let said = errors(&result);
        assert_eq!(result.status.code(), Some(2), "{said}");
        for word in words {
            assert!(said.contains(word), "`{word}` is not in: {said}");
        }
    }
}

#[test]
fn a_bad_environment_is_an_error_at_the_start() {
    let result = command()
        .env("BURN_KERNELS", "everything")
        .arg("list")
        .output()
        .unwrap();
    let said = errors(&result);
    assert_eq!(result.status.code(), Some(1), "{said}");
    assert!(
        said.contains("BURN_KERNELS") && said.contains("`everything`"),
        "{said}"
    );
    assert!(result.stdout.is_empty());
}

#[test]
fn an_output_without_a_folder_is_refused_before_the_work() {
    let folder = TempDir::new().unwrap();
    let output = folder.path().join("missing/out.safetensors");
    let result = run_on(&fixture("llama"), &golden("llama"), &output);
    assert_eq!(result.status.code(), Some(1));
    assert!(errors(&result).contains("missing"));
}

#[test]
fn an_output_never_replaces_another_file_of_the_command() {
    let folder = TempDir::new().unwrap();
    let inputs = folder.path().join("in.safetensors");
    std::fs::copy(golden("llama"), &inputs).unwrap();
    let before = std::fs::read(&inputs).unwrap();
    let result = run_on(&fixture("llama"), &inputs, &inputs);
    let said = errors(&result);
    assert_eq!(result.status.code(), Some(1), "{said}");
    assert!(
        said.contains("--outputs and --inputs are one file"),
        "{said}"
    );
    let output = folder.path().join("out.safetensors");
    for (report, expected) in [
        (&output, "--report and --outputs are one file"),
        (&inputs, "--report and --inputs are one file"),
        (
            &folder.path().join("missing/report.json"),
            "of --report does not exist",
        ),
    ] {
        let mut command = command();
        command.args(["run", "--model"]).arg(fixture("llama"));
        command.arg("--inputs").arg(&inputs);
        command.arg("--outputs").arg(&output);
        command.arg("--report").arg(report);
        let result = command.output().unwrap();
        let said = errors(&result);
        assert_eq!(result.status.code(), Some(1), "{said}");
        assert!(said.contains(expected), "{said}");
    }
    assert!(!output.exists());
    assert_eq!(std::fs::read(&inputs).unwrap(), before);
}

#[test]
fn the_debug_log_says_once_which_kernel_each_site_bound_to() {
    let folder = TempDir::new().unwrap();
    let output = folder.path().join("out.safetensors");
    let report = folder.path().join("report.json");
    let mut command = command();
    command.args(["run", "--verbose", "--kernels", "all,-npu_fused_rope"]);
    command.arg("--model").arg(fixture("llama"));
    command.arg("--inputs").arg(golden("llama"));
    command.arg("--outputs").arg(&output);
    command.arg("--report").arg(&report);
    let result = command.output().unwrap();
    let said = errors(&result);
    assert!(result.status.success(), "{said}");
    let report: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&report).unwrap()).unwrap();
    let mut bound = 0;
    for row in report["rows"].as_array().unwrap() {
        let site = row["site"].as_str().unwrap();
        let item = site.split("::").skip(1).collect::<Vec<_>>().join("::");
        let lines = said.lines().filter(|line| {
            let named = |key: &str| {
                let value = line.split(&format!("{key}=\"")).nth(1)?;
                value.split('"').next()
            };
            line.contains("DEBUG")
                && named("module")
                    .zip(named("site"))
                    .is_some_and(|(module, site)| {
                        format!("{module}::{site}").ends_with(&format!("::{item}"))
                    })
        });
        let lines: Vec<_> = lines.collect();
        if row["call"].is_null() {
            assert_eq!(lines.len(), 0, "{site}: {lines:?}");
            continue;
        }
        assert_eq!(lines.len(), 1, "{site}: {lines:#?}");
        let expected = match row["call"]["implementation"].as_str() {
            Some(name) => [
                format!("kernel={}", row["call"]["kernel"]),
                format!("implementation=\"{name}\""),
            ],
            None => [
                "reference".to_owned(),
                "switched off by the policy".to_owned(),
            ],
        };
        for words in expected {
            assert!(
                lines[0].contains(&words),
                "`{words}` is not in {}",
                lines[0]
            );
        }
        bound += 1;
    }
    // Norm, sum and norm, MLP, rotation, attention, projections, head and loss.
    assert!(bound >= 7, "{bound} sites in {said}");
}

#[test]
fn attention_and_mappings_are_chosen_by_name() {
    let run = |arguments: &[&str]| {
        let folder = TempDir::new().unwrap();
        let output = folder.path().join("out.safetensors");
        let mut command = command();
        command.arg("run").arg("--model").arg(fixture("llama"));
        command.arg("--inputs").arg(golden("llama"));
        command.arg("--outputs").arg(&output).args(arguments);
        // Rows that don't wrap.
        let result = command.env("COLUMNS", "400").output().unwrap();
        (result.status.code(), errors(&result))
    };
    let row = |said: &str, site: &str| {
        let mut lines = said.lines();
        let line = lines.find(|line| line.contains(site));
        line.unwrap_or_else(|| panic!("{site} is not in {said}"))
            .to_owned()
    };
    let (code, said) = run(&["--attn=reference"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        row(&said, "causal_attention").contains("reference"),
        "{said}"
    );
    assert!(row(&said, "LlamaMlp").contains("fused cpu-simd"), "{said}");
    let (code, said) = run(&["--attn=cpu-simd", "--kernels=none"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        row(&said, "causal_attention").contains("fused cpu-simd"),
        "{said}"
    );
    let (code, said) = run(&["--attn=flash_attention_2"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("unknown implementation of attention `flash_attention_2`"));

    let (code, said) = run(&["--kernels=strict,map:RMSNorm@cpu=reference"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        row(&said, "LlamaRmsNorm::forward ").contains("the mapping says so"),
        "{said}"
    );
    assert!(row(&said, "LlamaMlp").contains("fused cpu-simd"), "{said}");
    let (code, said) = run(&["--kernels=strict,map:RMSNrm@cpu=reference"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("unknown layer `RMSNrm`, did you mean `RMSNorm`?"),
        "{said}"
    );
    let (code, said) = run(&["--kernels=map:GptOssExperts@cpu=reference"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("`map:GptOssExperts@cpu=reference` did nothing"),
        "{said}"
    );
}
