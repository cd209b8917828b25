//! Tests of files that nobody means well with: a named pipe in the place of an input file is refused at once, and one in
//! the place of an output file is not replaced; text of files and of the command line reaches the terminal escaped.
use crate::common::{command, errors, fixture};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Returns the program's standard error. The program must end by itself.
fn refusal(args: &[&str]) -> String {
    let mut command = command();
    command
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("{args:?} waits");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success(), "{args:?}");
    errors(&output)
}

#[test]
fn pipes_are_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&path)
            .status()
            .unwrap()
            .success()
    );
    let pipe = path.to_str().unwrap();
    let policy = format!("@{pipe}");
    let model = fixture("llama");
    let inputs = model.join("golden.safetensors");
    let [model, inputs] = [&model, &inputs].map(|path| path.to_str().unwrap());
    let out = folder.path().join("out");
    let out = out.to_str().unwrap();
    for args in [
        &["plan", "--check", pipe][..],
        &["plan", "--out", pipe],
        &["plan", "--kernels", &policy],
        &["inspect", pipe],
        &["bench", "compare", pipe, pipe],
        &["run", "--model", model, "--inputs", pipe, "--outputs", out],
        &[
            "run",
            "--model",
            model,
            "--inputs",
            inputs,
            "--outputs",
            pipe,
        ],
        &["train", "--corpus", pipe, "--out", out],
    ] {
        let said = refusal(args);
        assert!(
            said.contains("pipe is a named pipe; name a plain file"),
            "{args:?}: {said}"
        );
    }
}

/// Text that a terminal obeys or turns around: a title, a cleared screen, a line that is overwritten, other characters.
const OBEYED: &str = "\x1b]0;owned\x07\x1b[2J\rover\x0e\u{202e}";

/// Returns the folder of a model whose `config.json` and tensors have the text in their names and values.
fn hostile_model(folder: &Path) -> String {
    let model = folder.join("model");
    fs::create_dir(&model).unwrap();
    let text = serde_json::to_string(OBEYED).unwrap();
    let config = format!(r#"{{"model_type":{text},"architectures":[{text}],{text}:1}}"#);
    fs::write(model.join("config.json"), config).unwrap();
    let header = format!(r#"{{{text}:{{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}}}"#);
    let mut tensors = (header.len() as u64).to_le_bytes().to_vec();
    tensors.extend(header.bytes().chain([0; 4]));
    fs::write(model.join("model.safetensors"), tensors).unwrap();
    let tokenizer = format!(r#"{{"version":{text},"model":{{"type":{text}}}}}"#);
    fs::write(model.join("tokenizer.json"), tokenizer).unwrap();
    model.to_str().unwrap().to_owned()
}

/// Returns the text without the colours and weights that the program and clap put around words.
fn without_colours(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once('m') {
            Some((codes, rest)) if codes.chars().all(|c| c.is_ascii_digit() || c == ';') => {
                plain += rest;
            }
            _ => plain += &format!("\x1b[{part}"),
        }
    }
    plain
}

#[test]
fn no_command_prints_what_a_terminal_obeys() {
    let folder = TempDir::new().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let json = serde_json::to_string(OBEYED).unwrap();
    // TOML has no `\r` behind JSON's `\u001b`, but reads the same escapes.
    let raw = file("raw.toml", &format!("lr = 1 {OBEYED}\n"));
    let value = file("value.toml", &format!("steps = {json}\n"));
    let key = file("key.toml", &format!("{json} = 1\n"));
    let run = file("run/config.toml", &format!("lr = 1 {OBEYED}\n"));
    let run = run.trim_end_matches("/config.toml");
    let list = file("list.json", &format!("[{{{json}: {json}}}]"));
    let data = file(
        "data.jsonl",
        &format!("{{\"prompt\": {json}, {json}: 1}}\n"),
    );
    let named = file(&format!("a{OBEYED}b"), OBEYED);
    let model = hostile_model(folder.path());
    let policy = format!("@{raw}");
    let fixture = fixture("llama");
    let fixture = fixture.to_str().unwrap();
    let mut commands = vec![
        vec!["train", "--config", &raw],
        vec!["train", "--config", &value],
        vec!["train", "--config", &key],
        vec!["train", "--config", &named],
        vec!["train", "--resume", run],
        vec!["train", "--steps", OBEYED],
        vec!["train", "--corpus", &named, "--out", &named],
        vec![OBEYED],
        vec!["plan", "--kernels", &policy],
        vec!["plan", "--kernels", OBEYED],
        vec!["plan", "--check", &raw],
        vec!["plan", "--check", &value],
        vec!["plan", "--bin", &named],
        vec!["plan", "--model", &model],
        vec!["inspect", &named],
        vec!["inspect-model", &model],
        vec!["inspect-model", &named],
        vec!["bench", "compare", &list, &list],
        vec![
            "run",
            "--model",
            &model,
            "--inputs",
            &named,
            "--outputs",
            &named,
        ],
        vec![
            "run",
            "--model",
            fixture,
            "--inputs",
            &named,
            "--outputs",
            "o",
        ],
        vec!["verify", OBEYED],
        vec!["tune", "--device", OBEYED],
        vec!["semantics", OBEYED],
        vec!["new-kernel", OBEYED],
        vec!["bisect", "--", OBEYED],
    ];
    if cfg!(feature = "text") {
        commands.extend([
            vec!["generate", "--model", &model, "--prompt", OBEYED],
            vec!["generate", "--model", &named, "--prompt", "a"],
            vec!["finetune", "--config", &raw],
            vec!["finetune", "--resume", run],
            vec!["finetune", "--model", &model, "--data", &data, "--dry-run"],
            vec!["finetune", "--model", fixture, "--data", &data, "--dry-run"],
        ]);
    }
    let mut escaped = 0;
    for args in &commands {
        for forced in [false, true] {
            let mut command = command();
            if forced {
                command.env("CLICOLOR_FORCE", "1");
            }
            let output = command.args(args).output().unwrap();
            let said = [&output.stdout[..], &output.stderr].concat();
            let said = String::from_utf8(said).unwrap();
            let said = match forced {
                true => without_colours(&said),
                false => said,
            };
            let obeyed = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
            assert!(!said.contains(obeyed), "{args:?}: {said:?}");
            assert!(!output.status.success(), "{args:?}: {said}");
            escaped += usize::from(said.contains(r"\u{202e}"));
        }
    }
    assert!(escaped > commands.len(), "{escaped} of {}", commands.len());
}
