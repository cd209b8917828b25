//! Adapters on their base, and merged with it.

use super::{copy, edit, fixture};
use crate::common::{command, errors, json};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn peft() -> PathBuf {
    fixture("../peft")
}

/// The tokens after a prompt, with these options.
fn ids(model: &Path, options: &[&str]) -> Value {
    let model = model.to_str().unwrap();
    let args = ["generate", "--model", model, "--prompt=The river", "--json"];
    let found = json([&args, options].concat());
    found["results"][0]["ids"].clone()
}

fn merge(model: &Path, adapter: &Path, out: &Path) -> std::process::Output {
    let mut command = command();
    command.arg("merge").arg("--model").arg(model);
    let command = command.arg("--adapter").arg(adapter).arg("--out").arg(out);
    command.output().unwrap()
}

/// The names of the files in a folder.
fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
    let mut names: Vec<String> = entries
        .map(|entry| name(entry).into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn an_adapter_runs_on_its_base_and_is_merged_with_it() {
    let (base, peft) = (fixture("tiny"), peft());
    let option = format!("--adapter={}", peft.display());
    let adapted = ids(&base, &[&option]);
    assert_ne!(adapted, ids(&base, &[]));
    let rounded = ids(&base, &[&option, "--dtype=bf16"]);
    assert_eq!(rounded[0], adapted[0]);

    let folder = TempDir::new().unwrap();
    let out = folder.path().join("merged");
    let output = merge(&base, &peft, &out);
    assert!(output.status.success(), "{}", errors(&output));
    assert!(
        errors(&output).contains("6 adapters"),
        "{}",
        errors(&output)
    );
    assert_eq!(ids(&out, &[]), adapted);
    let copied = files(&out);
    for name in files(&base) {
        assert!(copied.contains(&name), "{name} is not in {copied:?}");
    }
    assert_eq!(
        files(folder.path()),
        ["merged"],
        "nothing is left beside it"
    );

    // Nothing is overwritten.
    let output = merge(&base, &peft, &out);
    assert!(
        !output.status.success() && errors(&output).contains("--out"),
        "{}",
        errors(&output)
    );
    assert!(
        errors(&output).contains("is not empty"),
        "{}",
        errors(&output)
    );
    assert_eq!(files(&out), copied);
}

#[test]
fn folders_of_adapters_and_runs_say_what_they_are() {
    let folder = TempDir::new().unwrap();
    let (base, peft) = (fixture("tiny"), peft());
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let generate = |model: &Path, options: &[&str], words: &[&str]| {
        let mut command = command();
        command
            .args(["generate", "--prompt=x", "--model"])
            .arg(model)
            .args(options);
        let output = command.output().unwrap();
        let said = errors(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        for word in words {
            assert!(said.contains(word), "`{word}` is not in: {said}");
        }
    };
    let what = [
        "holds an adapter and no model",
        "`tests/fixtures/text/tiny`",
        "--adapter",
        "kernels merge",
    ];
    generate(&peft, &[], &what);
    let out = folder.path().join("out");
    let said = errors(&merge(&peft, &peft, &out));
    assert!(said.contains(what[0]), "{said}");

    // A run, with adapters, with a whole model, and with neither.
    let run = folder.path().join("run");
    fs::create_dir_all(run.join("adapter")).unwrap();
    for name in files(&peft)
        .iter()
        .filter(|name| name.starts_with("adapter_"))
    {
        fs::copy(peft.join(name), run.join("adapter").join(name)).unwrap();
    }
    generate(
        &run,
        &[],
        &[
            "holds a run, with an adapter in its folder `adapter`",
            what[1],
        ],
    );
    let option = format!("--adapter={}", path(&run));
    generate(&base, &[&option], &["its folder `adapter`: name that"]);
    fs::create_dir_all(run.join("checkpoint")).unwrap();
    fs::write(run.join("checkpoint/config.json"), "{}").unwrap();
    generate(&run, &[], &["its model is in its folder `checkpoint`"]);
    let option = format!("--adapter={}", path(&base));
    generate(&base, &[&option], &["holds no adapter_config.json"]);

    // An adapter of another base, and one that can't be added.
    let other = fixture("../models/qwen3");
    let output = merge(&other, &peft, &out);
    assert!(
        !output.status.success() && errors(&output).contains("of another one"),
        "{}",
        errors(&output)
    );
    let config = run.join("adapter/adapter_config.json");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(
        &config,
        text.replace("\"use_dora\": false", "\"use_dora\": true"),
    )
    .unwrap();
    let said = errors(&merge(&base, &run.join("adapter"), &out));
    assert!(said.contains("field `use_dora`"), "{said}");
    let said = errors(&merge(&fixture("tiny.gguf"), &peft, &out));
    assert!(said.contains("is a file"), "{said}");
    assert!(!out.exists());

    // A base that can't be read to its end leaves nothing.
    let broken = copy();
    fs::remove_file(broken.path().join("tokenizer.json")).unwrap();
    fs::create_dir(broken.path().join("tokenizer.json")).unwrap();
    let output = merge(broken.path(), &peft, &out);
    assert!(
        !output.status.success() && !out.exists(),
        "{}",
        errors(&output)
    );
    assert_eq!(files(folder.path()), ["run"]);
}

/// Some programs save the tokenizer that they trained with beside an adapter.
#[test]
fn a_tokenizer_beside_an_adapter_counts() {
    let (base, folder) = (copy(), TempDir::new().unwrap());
    let adapter = folder.path().join("adapter");
    fs::create_dir(&adapter).unwrap();
    for name in files(&peft())
        .iter()
        .filter(|name| name.starts_with("adapter_"))
    {
        fs::copy(peft().join(name), adapter.join(name)).unwrap();
    }
    for name in [
        "tokenizer.json",
        "tokenizer_config.json",
        "generation_config.json",
    ] {
        fs::copy(base.path().join(name), adapter.join(name)).unwrap();
    }
    edit(base.path(), "tokenizer_config.json", |fields| {
        fields["chat_template"] = "{{ messages }}".into()
    });
    edit(base.path(), "generation_config.json", |fields| {
        fields["max_new_tokens"] = 3.into()
    });
    edit(&adapter, "generation_config.json", |fields| {
        fields["max_new_tokens"] = 2.into()
    });
    let option = format!("--adapter={}", adapter.display());
    let found = ids(base.path(), &["--chat", &option]);
    assert_eq!(found.as_array().map(Vec::len), Some(2));
    assert_eq!(
        found,
        ids(&fixture("tiny"), &["--chat", "--max-new-tokens=2", &option])
    );

    let out = folder.path().join("merged");
    assert!(merge(base.path(), &adapter, &out).status.success());
    assert_eq!(ids(&out, &["--chat"]), found);
    // Without a tokenizer of its own.
    fs::remove_file(adapter.join("tokenizer.json")).unwrap();
    let out = folder.path().join("other");
    assert!(merge(base.path(), &adapter, &out).status.success());
    assert_ne!(ids(&out, &["--chat"]), found);
    assert_eq!(files(&out), files(&fixture("tiny")));
}
