//! Tests `kernels generate --image` against transformers, and with bad input.

use crate::common::{command, errors, json};
use crate::models;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const CHECKPOINTS: [&str; 2] = ["qwen2_5_vl", "qwen3_vl"];

pub fn fixture(name: &str) -> PathBuf {
    models::fixtures().join("pictures").join(name)
}

fn path(name: &str) -> String {
    fixture(name).to_str().unwrap().to_owned()
}

/// The conversations of a checkpoint.
pub fn cases(name: &str) -> Vec<Value> {
    let text = fs::read_to_string(fixture("golden.json")).unwrap();
    let golden: Value = serde_json::from_str(&text).unwrap();
    golden[name].as_array().unwrap().clone()
}

/// A checkpoint whose weights the fixture describes.
pub fn checkpoint(name: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    let copy = |from: &str, to: &str| {
        fs::copy(fixture(from), folder.path().join(to)).unwrap();
    };
    for file in [
        "preprocessor_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
    ] {
        copy(file, file);
    }
    copy(&format!("{name}/config.json"), "config.json");
    let weights = models::described(&fixture(&format!("{name}/weights.json")));
    models::write(&folder.path().join("model.safetensors"), &weights);
    folder
}

/// Returns the results of the command.
fn generated(model: &Path, args: &[&str]) -> Vec<Value> {
    let model = model.to_str().unwrap();
    let own = ["generate", "--model", model, "--max-new-tokens", "16"];
    let found = json([&own[..], &["--json"], args].concat());
    found["results"].as_array().unwrap().clone()
}

fn check(found: &Value, case: &Value) {
    assert_eq!(found["ids"], case["ids"], "{case}");
    assert_eq!(found["prompt_tokens"], case["prompt_tokens"], "{case}");
}

#[test]
fn texts_are_those_of_transformers() {
    for name in CHECKPOINTS {
        let folder = checkpoint(name);
        for case in cases(name) {
            let pictures = case["images"].as_array().unwrap().iter();
            let pictures: Vec<String> = pictures.map(|name| path(name.as_str().unwrap())).collect();
            let mut args = vec!["--chat", "--prompt", case["prompt"].as_str().unwrap()];
            args.extend(
                pictures
                    .iter()
                    .flat_map(|picture| ["--image", picture.as_str()]),
            );
            if let Some(system) = case["system"].as_str() {
                args.extend(["--system", system]);
            }
            for policy in ["auto", "none"] {
                let args = [&args[..], &["--kernels", policy]].concat();
                check(&generated(folder.path(), &args)[0], &case);
            }
        }
    }
}

/// Prompts with pictures and without, in the order of the file.
#[test]
fn messages_name_their_own_pictures() {
    for name in CHECKPOINTS {
        let (folder, cases) = (checkpoint(name), cases(name));
        for picture in ["wide.png", "tall.png"] {
            fs::copy(fixture(picture), folder.path().join(picture)).unwrap();
        }
        let line = |case: &Value| {
            let pictures = case["images"].as_array().unwrap().iter();
            let mut parts: Vec<Value> = pictures
                .map(|name| json!({"type": "image", "path": name}))
                .collect();
            let content = match parts.is_empty() {
                true => case["prompt"].clone(),
                false => {
                    parts.push(json!({"type": "text", "text": case["prompt"]}));
                    Value::Array(parts)
                }
            };
            let mut messages = vec![json!({"role": "user", "content": content})];
            if let Some(system) = case["system"].as_str() {
                messages.insert(0, json!({"role": "system", "content": system}));
            }
            json!({ "messages": messages }).to_string()
        };
        // Twice, so that two without pictures follow each other.
        let twice = || cases.iter().chain(cases.iter().rev());
        let lines: Vec<String> = twice().map(line).collect();
        let file = folder.path().join("prompts.jsonl");
        fs::write(&file, lines.join("\n")).unwrap();
        let args = ["--chat", "--prompts", file.to_str().unwrap()];
        let found = generated(folder.path(), &args);
        assert_eq!(found.len(), 2 * cases.len());
        for (found, case) in found.iter().zip(twice()) {
            check(found, case);
        }
    }
}

#[test]
fn a_prompt_can_have_the_placeholders_of_its_pictures() {
    let folder = checkpoint("qwen3_vl");
    let case = cases("qwen3_vl")[0].clone();
    let prompt = "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>What is it?<|im_end|>\n\
                  <|im_start|>assistant\n";
    let args = ["--prompt", prompt, "--image", &path("wide.png")];
    check(&generated(folder.path(), &args)[0], &case);
}

/// Pictures of the option stand before the parts of a message, which keeps its text.
#[test]
fn pictures_stand_before_the_parts_of_a_message() {
    let folder = checkpoint("qwen3_vl");
    let case = cases("qwen3_vl")[0].clone();
    let part = json!({"type": "text", "text": case["prompt"]});
    let messages = json!({"messages": [{"role": "user", "content": [part]}]});
    let file = folder.path().join("parts.jsonl");
    fs::write(&file, messages.to_string()).unwrap();
    let (file, wide) = (file.to_str().unwrap(), path("wide.png"));
    let args = ["--chat", "--prompts", file, "--image", &wide];
    check(&generated(folder.path(), &args)[0], &case);
}

/// Checks that the command fails before it generates anything, and says each of the words.
fn refused(model: &Path, args: &[&str], words: &[&str]) {
    let mut command = command();
    command.args(["generate", "--model"]).arg(model).args(args);
    let output = command.output().unwrap();
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
    for word in words {
        assert!(said.contains(word), "`{word}` is not in: {said}");
    }
    assert!(output.stdout.is_empty(), "{args:?}");
}

#[test]
fn pictures_that_can_not_be_taken_are_refused() {
    let folder = checkpoint("qwen2_5_vl");
    let (model, wide) = (folder.path(), path("wide.png"));
    let with = |args: &[&str], words: &[&str]| {
        refused(model, &[&["--image", &wide], args].concat(), words);
    };
    with(
        &["--chat"],
        &["--image needs --prompt, the message that goes with the pictures"],
    );
    with(
        &["--chat", "--prompt", "a", "--prompt", "b"],
        &[
            "--image adds pictures to one prompt, but there are 2",
            ".jsonl",
        ],
    );
    with(
        &["--prompt", "a"],
        &[
            "prompt 1: the conversation has 0 placeholders (token 322) for 1 picture",
            "with --chat",
        ],
    );
    let place = "<|vision_start|><|image_pad|><|vision_end|>";
    with(
        &["--prompt", &place.repeat(2)],
        &["has 2 placeholders", "for 1 picture;"],
    );
    with(
        &["--chat", "--prompt", place],
        &["has 2 placeholders", "for 1 picture;"],
    );

    let write = |name: &str, text: &str| {
        let file = folder.path().join(name);
        fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let other = write("notes.png", "no picture");
    let one = ["--chat", "--prompt", "a", "--image"];
    refused(
        model,
        &[&one[..], &[other.as_str()]].concat(),
        &["prompt 1", "notes.png", "neither PNG nor JPEG"],
    );
    refused(
        model,
        &[&one[..], &["no/such.png"]].concat(),
        &["prompt 1", "no/such.png"],
    );
    for (part, words) in [
        (
            json!({"type": "image", "url": "https://host/a.png"}),
            "download the picture",
        ),
        (
            json!({"type": "video", "path": "a.mp4"}),
            "part 1 of `content` has the type `video`",
        ),
        (json!({"type": "image"}), "more places"),
    ] {
        let messages = json!({"messages": [{"role": "user", "content": [part]}]});
        let file = write("prompts.jsonl", &messages.to_string());
        refused(model, &["--chat", "--prompts", &file], &["line 1", words]);
    }
    let own = json!({"type": "image", "path": wide});
    let messages = json!({"messages": [{"role": "user", "content": [own]}]});
    let file = write("own.jsonl", &messages.to_string());
    with(
        &["--chat", "--prompts", &file],
        &["the prompt names pictures itself"],
    );
}

#[test]
fn checkpoints_that_take_no_pictures_are_refused() {
    let wide = path("wide.png");
    let args = ["--chat", "--prompt", "a", "--image", &wide];
    let text = models::fixtures().join("text");
    refused(
        &text.join("tiny"),
        &args,
        &["a vision tower of LlamaForCausalLM is not read"],
    );
    refused(
        &text.join("tiny.gguf"),
        &args,
        &["tiny.gguf: vision towers are not read from GGUF files"],
    );

    let folder = checkpoint("qwen3_vl");
    let edit = |name: &str, field: &str, value: Value| {
        let file = folder.path().join(name);
        let mut config: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        config[field] = value;
        fs::write(file, config.to_string()).unwrap();
    };
    edit("preprocessor_config.json", "patch_size", json!(4));
    refused(
        folder.path(),
        &args,
        &[
            "image processor has a patch_size of 4, but `vision_config`",
            "has a patch_size of 2;",
        ],
    );
    edit("preprocessor_config.json", "patch_size", json!(2));
    edit("preprocessor_config.json", "temporal_patch_size", json!(1));
    refused(
        folder.path(),
        &args,
        &["has a temporal_patch_size of 1, but", "of 2;"],
    );
    edit("preprocessor_config.json", "temporal_patch_size", json!(2));
    // A template for texts alone leaves pictures out.
    edit(
        "tokenizer_config.json",
        "chat_template",
        json!("{% for message in messages %}{{ message.role }}{% endfor %}"),
    );
    refused(
        folder.path(),
        &args,
        &["has 0 placeholders", "for 1 picture;"],
    );
    fs::copy(
        fixture("tokenizer_config.json"),
        folder.path().join("tokenizer_config.json"),
    )
    .unwrap();

    let weights = folder.path().join("model.safetensors");
    let mut tensors = models::read(&weights);
    tensors.retain(|name, _| !name.contains("visual."));
    models::write(&weights, &tensors);
    refused(folder.path(), &args, &["visual."]);

    fs::remove_file(folder.path().join("preprocessor_config.json")).unwrap();
    refused(
        folder.path(),
        &args,
        &["preprocessor_config.json and processor_config.json are both missing"],
    );
}
