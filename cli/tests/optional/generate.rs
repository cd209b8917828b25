//! Tests `kernels generate` against transformers, and with bad input.

mod adapters;
#[cfg(feature = "images")]
pub mod pictures;
#[cfg(unix)]
mod talks;

use crate::common::{command, errors, json};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use tempfile::TempDir;

fn fixture(name: &str) -> PathBuf {
    let text = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/text");
    text.join(name)
}

fn golden() -> Value {
    serde_json::from_str(&fs::read_to_string(fixture("golden.json")).unwrap()).unwrap()
}

/// The cases without a penalty. The last is a conversation, with the message `Hello!`.
fn greedy() -> Vec<Value> {
    let cases = golden()["greedy"].as_array().unwrap().clone();
    let plain = |case: &Value| case["repetition_penalty"] == json!(1.0);
    cases.into_iter().filter(plain).collect()
}

fn with<'a>(args: &[&'a str]) -> Vec<&'a str> {
    let tiny = Box::leak(
        fixture("tiny")
            .to_str()
            .unwrap()
            .to_owned()
            .into_boxed_str(),
    );
    [&["generate", "--model", tiny], args].concat()
}

fn generate(args: &[&str]) -> Output {
    command().args(with(args)).output().unwrap()
}

fn generated(args: &[&str]) -> Value {
    json(with(&[args, &["--json"]].concat()))
}

/// A copy of the checkpoint, so that a test may change it.
fn copy() -> TempDir {
    let folder = TempDir::new().unwrap();
    for entry in fs::read_dir(fixture("tiny")).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    folder
}

fn edit(folder: &Path, file: &str, edit: impl FnOnce(&mut Value)) {
    let path = folder.join(file);
    let mut value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    edit(&mut value);
    fs::write(path, value.to_string()).unwrap();
}

#[test]
fn texts_are_those_of_transformers() {
    let cases = greedy();
    let mut args = vec!["--max-new-tokens", "48", "--batch", "3"];
    for case in &cases[..cases.len() - 1] {
        args.extend(["--prompt", case["prompt"].as_str().unwrap()]);
    }
    for policy in ["auto", "none"] {
        let found = generated(&[&args[..], &["--kernels", policy]].concat());
        let results = found["results"].as_array().unwrap();
        assert_eq!(results.len(), 5);
        for (case, result) in cases.iter().zip(results) {
            assert_eq!(result["ids"], case["ids"]);
            assert_eq!(result["text"], case["text"]);
            assert_eq!(
                result["prompt_tokens"],
                case["prompt_ids"].as_array().unwrap().len()
            );
            let ended = case["ids"].as_array().unwrap().len() < 48;
            assert_eq!(
                result["finish_reason"],
                if ended { "end" } else { "length" }
            );
        }
        assert!(found["tokens_per_second"].as_f64().unwrap() > 0.0);
        assert!(
            found["first_token_seconds"].as_f64().unwrap() <= found["seconds"].as_f64().unwrap()
        );
    }
    let chat = cases.last().unwrap();
    let found = generated(&["--chat", "--prompt", "Hello!", "--max-new-tokens", "48"]);
    assert_eq!(found["results"][0]["ids"], chat["ids"]);
}

#[test]
fn a_gguf_file_generates_what_the_checkpoint_does() {
    let file = fixture("tiny.gguf");
    let cases = greedy();
    let (chat, texts) = cases.split_last().unwrap();
    let generated = |args: &[&str]| {
        let own = ["--model", file.to_str().unwrap(), "--max-new-tokens", "48"];
        json([&["generate", "--json"], &own[..], args].concat())["results"].clone()
    };
    // The file names one of the two end tokens of the checkpoint, so texts may go on.
    let begins = |result: &Value, case: &Value| {
        let [found, expected] = [result, case].map(|value| value["ids"].as_array().unwrap());
        assert_eq!(found[..expected.len()], expected[..]);
    };
    let prompts = texts.iter().map(|case| case["prompt"].as_str().unwrap());
    let prompts: Vec<&str> = prompts.flat_map(|prompt| ["--prompt", prompt]).collect();
    let found = generated(&prompts);
    assert_eq!(found.as_array().unwrap().len(), texts.len());
    for (case, result) in texts.iter().zip(found.as_array().unwrap()) {
        begins(result, case);
    }
    begins(&generated(&["--chat", "--prompt", "Hello!"])[0], chat);
}

#[test]
fn one_text_is_printed_as_it_is_generated_and_several_in_order() {
    let cases = greedy();
    // It ends with an end token.
    let (prompt, text) = (
        cases[2]["prompt"].as_str().unwrap(),
        cases[2]["text"].as_str().unwrap(),
    );
    let shown = |text: &str| format!("{}\n", kernels_io::escape_lines(text));
    let one = generate(&["--prompt", prompt]);
    assert_eq!(String::from_utf8(one.stdout.clone()).unwrap(), shown(text));
    assert!(errors(&one).contains("9 tokens in "), "{}", errors(&one));
    assert!(!errors(&one).contains("ends at"), "{}", errors(&one));

    let two = generate(&[
        "--prompt",
        prompt,
        "--prompt",
        "The river",
        "--max-new-tokens",
        "12",
        "--batch",
        "1",
    ]);
    let ids = generated(&["--prompt", "The river", "--max-new-tokens", "12"]);
    let second = shown(ids["results"][0]["text"].as_str().unwrap());
    assert_eq!(
        String::from_utf8(two.stdout.clone()).unwrap(),
        shown(text) + &second
    );
    assert!(
        errors(&two).contains("text 2 ends at --max-new-tokens"),
        "{}",
        errors(&two)
    );
}

#[test]
fn stop_strings_cut_the_text_and_nothing_else() {
    let cases = greedy();
    let text = cases[2]["text"].as_str().unwrap();
    let prompt = cases[2]["prompt"].as_str().unwrap();
    let found = generated(&["--prompt", prompt, "--stop", "nothing", "--stop", "nds th"]);
    let result = &found["results"][0];
    assert_eq!(
        result["text"].as_str().unwrap(),
        text.split("nds th").next().unwrap()
    );
    assert_eq!(result["finish_reason"], "stop");
    assert!(result["ids"].as_array().unwrap().len() < cases[2]["ids"].as_array().unwrap().len());
}

#[test]
fn draws_depend_on_the_seed_and_on_nothing_else() {
    let prompts = ["--prompt", "The", "--prompt", "The", "--prompt", "river"];
    let texts = |args: &[&str]| {
        let found = generated(&[&prompts[..], &["--max-new-tokens", "12"], args].concat());
        let results = found["results"].as_array().unwrap().clone();
        results
            .iter()
            .map(|result| result["ids"].clone())
            .collect::<Vec<_>>()
    };
    let drawn = texts(&["--seed", "5"]);
    assert_eq!(drawn, texts(&["--seed", "5", "--batch", "2"]));
    assert_ne!(drawn, texts(&["--seed", "6"]));
    assert_ne!(drawn[0], drawn[1]);
    let greedy = texts(&["--greedy"]);
    assert_eq!(greedy, texts(&[]));
    assert_eq!(greedy, texts(&["--top-k", "1"]));
    assert_eq!(
        greedy,
        texts(&["--top-p", "0.0001", "--temperature", "0.5"])
    );
    assert_eq!(greedy, texts(&["--min-p", "1", "--top-k", "0"]));
    assert_ne!(greedy, texts(&["--repetition-penalty", "1.5"]));
}

#[test]
fn settings_of_the_checkpoint_hold_until_an_option_replaces_them() {
    let folder = copy();
    edit(folder.path(), "generation_config.json", |config| {
        config["do_sample"] = json!(true);
        config["max_new_tokens"] = json!(5);
    });
    let model = folder.path().to_str().unwrap();
    let run = |args: &[&str]| {
        let args = [
            &["generate", "--model", model, "--prompt", "The", "--json"],
            args,
        ]
        .concat();
        json(args)["results"][0]["ids"].as_array().unwrap().clone()
    };
    let drawn = run(&[]);
    assert_eq!(drawn.len(), 5);
    assert_ne!(drawn, run(&["--seed", "1"]));
    assert_ne!(drawn, run(&["--greedy"]));
    assert_eq!(run(&["--max-new-tokens", "3"]).len(), 3);
}

#[test]
fn prompts_come_from_files() {
    let folder = TempDir::new().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let ids = |args: &[&str]| {
        let found = generated(&[args, &["--max-new-tokens", "4"]].concat());
        let results = found["results"].as_array().unwrap().clone();
        results
            .iter()
            .map(|result| result["ids"].clone())
            .collect::<Vec<_>>()
    };
    let expected = ids(&["--prompt", "Hello!", "--prompt", "The river"]);
    let lines = write("prompts.txt", "\nHello!\n\nThe river\n");
    assert_eq!(ids(&["--prompts", &lines]), expected);
    let objects = write(
        "prompts.jsonl",
        "{\"prompt\": \"Hello!\"}\n\n{\"prompt\": \"The river\"}\n",
    );
    assert_eq!(ids(&["--prompts", &objects]), expected);
    assert_eq!(ids(&["--prompts", &lines, "--prompt", "x"]).len(), 3);
    let marked = write("marked.txt", "\u{feff}Hello!\nThe river\n");
    assert_eq!(ids(&["--prompts", &marked]), expected);

    // Standard input holds lines or objects.
    for file in [&lines, &objects] {
        let mut command = command();
        command.args(with(&["--prompts=-", "--max-new-tokens=4", "--json"]));
        let output = command
            .stdin(fs::File::open(file).unwrap())
            .output()
            .unwrap();
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        let results = found["results"].as_array().unwrap().iter();
        let found: Vec<Value> = results.map(|result| result["ids"].clone()).collect();
        assert_eq!(found, [expected[0].clone(), expected[1].clone()]);
    }
    let nothing = ["standard input: it holds no prompt"];
    refused(&["--prompts", "-"], 1, &nothing);

    let chat = ["--chat", "--system", "Be short."];
    let messages = json!({"messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Hello!"}]});
    let conversation = write("chat.jsonl", &messages.to_string());
    let expected = ids(&[&chat[..], &["--prompt", "Hello!"]].concat());
    assert_eq!(ids(&["--chat", "--prompts", &conversation]), expected);
    assert_ne!(ids(&["--chat", "--prompt", "Hello!"]), expected);

    for (name, text, args, words) in [
        (
            "a.jsonl",
            "{\"prompt\": \"a\"}\nb",
            &[][..],
            ["a.jsonl: line 2: not a JSON object", "line 2"],
        ),
        (
            "b.jsonl",
            "{\"text\": \"a\"}",
            &[],
            ["line 1: field `text` is unknown", "`messages`"],
        ),
        (
            "c.jsonl",
            "{\"prompt\": 3}",
            &[],
            ["line 1: expected `prompt`, a text", "c.jsonl"],
        ),
        (
            "d.jsonl",
            "{\"messages\": []}",
            &[],
            ["line 1", "add --chat"],
        ),
        (
            "e.jsonl",
            "{\"messages\": [{\"role\": \"user\"}]}",
            &["--chat"],
            ["line 1: a message is", "`content`"],
        ),
        ("f.txt", "\n \n", &[], ["f.txt", "holds no prompt"]),
        (
            "g.jsonl",
            "{\"messages\": []}",
            &["--chat"],
            ["prompt 1", "at least one message"],
        ),
    ] {
        let file = write(name, text);
        refused(&[&["--prompts", &file], args].concat(), 1, &words);
    }
    refused(&["--prompts", "no/such.txt"], 1, &["no/such.txt"]);
}

/// Checks that the command fails with this code before it generates anything, and says each of the words.
fn refused(args: &[&str], code: i32, words: &[&str]) {
    let output = generate(args);
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    for word in words {
        assert!(said.contains(word), "`{word}` is not in: {said}");
    }
    assert!(output.stdout.is_empty(), "{args:?}");
}

#[test]
fn what_can_not_be_generated_is_refused() {
    let long = "x".repeat(97);
    refused(&[], 2, &["--prompt <TEXT>", "--prompts <FILE>", "--chat"]);
    refused(&["--prompt", ""], 1, &["prompt 1: it is empty"]);
    refused(
        &["--prompt", "a", "--prompt", &long],
        1,
        &["prompt 2", "tokens are more than the model's positions, 96"],
    );
    refused(
        &["--prompt", "a", "--temperature", "0"],
        1,
        &["--temperature: expected a number above 0"],
    );
    refused(
        &["--prompt", "a", "--top-p", "-0.5"],
        1,
        &["--top-p: ", "found -0.5"],
    );
    refused(
        &["--prompt", "a", "--max-new-tokens", "0"],
        1,
        &["--max-new-tokens: expected at least 1"],
    );
    refused(
        &["--prompt", "a", "--greedy", "--top-k", "3"],
        2,
        &["--greedy", "--top-k"],
    );
    refused(&["--prompt", "a", "--stop", ""], 2, &["--stop"]);
    refused(&["--prompt", "a", "--system", "b"], 2, &["--chat"]);
    refused(&["--chat", "--json"], 1, &["--json needs --prompt"]);

    let folder = copy();
    let model = folder.path().to_str().unwrap().to_owned();
    let refused = |words: &[&str]| {
        let args = ["generate", "--model", &model, "--prompt", "a", "--chat"];
        let output = command().args(args).output().unwrap();
        let said = errors(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        for word in words {
            assert!(said.contains(word), "`{word}` is not in: {said}");
        }
    };
    edit(folder.path(), "tokenizer_config.json", |config| {
        config["chat_template"] = json!("{{ raise_exception('no conversation\\u001b[2J today') }}");
    });
    refused(&["prompt 1", "no conversation\\u{1b}[2J today"]);
    edit(folder.path(), "tokenizer_config.json", |config| {
        config["chat_template"] = Value::Null
    });
    refused(&["no chat template"]);
    edit(folder.path(), "generation_config.json", |config| {
        config["num_beams"] = json!(4)
    });
    refused(&["generation_config.json", "`num_beams`"]);
    edit(folder.path(), "config.json", |config| {
        config["vocab_size"] = json!(300)
    });
    fs::remove_file(folder.path().join("generation_config.json")).unwrap();
    edit(folder.path(), "tokenizer_config.json", |config| {
        config["chat_template"] = json!("Br")
    });
    refused(&["prompt 1: the text holds the token `Br`", "300 embeddings"]);
    fs::remove_file(folder.path().join("tokenizer.json")).unwrap();
    refused(&["no tokenizer.json"]);
}

/// A build without the feature says which one pictures need.
#[cfg(not(feature = "images"))]
#[test]
fn pictures_need_a_feature() {
    let args = ["--chat", "--prompt", "a", "--image", "a.png"];
    refused(
        &args,
        2,
        &["`kernels generate --image`", "--features images"],
    );
}

/// Starts a conversation with this input.
fn conversation(model: &Path, args: &[&str]) -> Child {
    let mut command = command();
    command
        .args(["generate", "--chat", "--model"])
        .arg(model)
        .args(args);
    let streams = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    streams.spawn().unwrap()
}

#[test]
fn conversations_have_a_history_that_can_be_reset() {
    let mut child = conversation(
        &fixture("tiny"),
        &["--max-new-tokens", "8", "--system", "Hi"],
    );
    let input = "Hello!\nThe river?\n\n/what\n/reset\nHello!\n/exit\nnever\n";
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    let said = errors(&output);
    assert!(
        said.contains("unknown command `/what`") && said.contains("a new conversation"),
        "{said}"
    );
    assert!(
        said.contains("the answer ends at --max-new-tokens"),
        "{said}"
    );

    let answer = |messages: &[[&str; 2]]| {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("chat.jsonl");
        let messages: Vec<Value> = messages
            .iter()
            .map(|[role, content]| json!({"role": role, "content": content}))
            .collect();
        fs::write(&file, json!({"messages": messages}).to_string()).unwrap();
        let file = file.to_str().unwrap();
        let found = generated(&["--chat", "--max-new-tokens", "8", "--prompts", file]);
        found["results"][0]["text"].as_str().unwrap().to_owned()
    };
    let opening = [["system", "Hi"], ["user", "Hello!"]];
    let first = answer(&opening);
    let second = answer(
        &[
            &opening[..],
            &[["assistant", &first], ["user", "The river?"]],
        ]
        .concat(),
    );
    assert_ne!(first, second);
    let shown = |text: &str| {
        let parts = text.split('\t').map(kernels_io::escape_lines);
        parts.collect::<Vec<_>>().join("\t") + "\n"
    };
    let expected = shown(&first) + &shown(&second) + &shown(&first);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
}

#[test]
fn a_conversation_beyond_the_positions_goes_on_after_a_reset() {
    let mut child = conversation(&fixture("tiny"), &["--max-new-tokens", "1"]);
    let long = "x".repeat(97);
    let input = format!("{long}\nHello!\n");
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let said = errors(&output);
    assert!(
        output.status.success() && said.contains("more than the model's positions, 96"),
        "{said}"
    );
    assert!(!output.stdout.is_empty());
}

/// A checkpoint with another chat template.
fn with_template(source: &str) -> TempDir {
    let folder = copy();
    fs::write(folder.path().join("chat_template.jinja"), source).unwrap();
    folder
}

/// Compares two lists that hold others twice, 40 times over.
const ENDLESS: &str = "{% set n = namespace(s=[], t=[]) %}{% for i in range(40) %}{% set n.s = [n.s, n.s] %}{% set n.t = [n.t, n.t] %}\
                       {% endfor %}{{ n.s == n.t }}";

#[test]
fn templates_made_to_harm_are_errors() {
    let deep = "{% if x %}".repeat(100_000) + &"{% endif %}".repeat(100_000);
    for (source, words) in [
        (
            "{% set n = namespace(s=0) %}{% set n.s = n %}{{ n }}",
            "more than 200 deep",
        ),
        (
            "{% set n = namespace(s=0) %}{% set n.s = [n] %}{{ n.s == n.s }}{{ n.s | tojson }}",
            "deep",
        ),
        (
            "{% set n = namespace(s=[]) %}{% for i in range(1000) %}{% for j in range(1000) %}{% set n.s = [n.s] %}{% endfor %}{% endfor %}{{ n.s }}",
            "deep",
        ),
        (
            "{% set n = namespace(s='aaaaaaaaaaaaaaaa') %}{% for i in range(40) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
            "more than 1 GiB of memory",
        ),
        (
            "{{ 'a' * 2000000 }}",
            "its text has 2000000 bytes, more than",
        ),
        (
            "{{ '{:>100000000000}'.format(1) }}",
            "a width in a format string is 1048576 characters at most",
        ),
        ("{{ 'a'.center(10 ** 12) }}", "does not end"),
        (&deep, "recursion"),
        (ENDLESS, "does not end within 10 s"),
    ] {
        let folder = with_template(source);
        let model = folder.path().to_str().unwrap();
        let done = command()
            .args(["generate", "--model", model, "--chat", "--prompt", "Hi"])
            .output()
            .unwrap();
        let said = errors(&done);
        let shown = source.get(..80).unwrap_or(source);
        assert_eq!(done.status.code(), Some(1), "{shown}: {said}");
        assert!(
            said.contains("the chat template of ") && said.contains(words),
            "{shown}: {said}"
        );
        assert_eq!(said.lines().count(), 1, "{shown}: {said}");
    }
    // Each record needs the template, and one failure is enough.
    let folder = with_template("{% set n = namespace(s=0) %}{% set n.s = n %}{{ n }}");
    let data = folder.path().join("data.jsonl");
    let record = json!({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]});
    fs::write(&data, format!("{record}\n").repeat(400)).unwrap();
    let args = [
        "finetune",
        "--dry-run",
        "--seq",
        "48",
        "--model",
        folder.path().to_str().unwrap(),
        "--data",
    ];
    let started = std::time::Instant::now();
    let said = errors(&command().args(args).arg(&data).output().unwrap());
    assert!(
        said.contains("data.jsonl:1: the chat template of "),
        "{said}"
    );
    assert!(
        started.elapsed().as_secs() < 20,
        "each record took its time"
    );
}

#[test]
fn a_checkpoint_without_an_end_is_told_once() {
    let folder = copy();
    let said = |args: &[&str]| {
        let mut command = command();
        command.args(["generate", "--prompt", "The river", "--prompt", "A"]);
        command.args(["--max-new-tokens", "3"]).args(args);
        let output = command.arg("--model").arg(folder.path()).output();
        errors(&output.unwrap())
    };
    let told = "names no end token, so texts end after --max-new-tokens";
    assert!(!said(&[]).contains(told));
    edit(folder.path(), "generation_config.json", |config| {
        config["eos_token_id"] = json!([320]);
    });
    let found = said(&[]);
    assert_eq!(found.matches(told).count(), 1, "{found}");
    // None of its ends is a token of the model.
    assert!(found.contains("the model has no token 320"), "{found}");
    let hint = "its tokenizer ends texts with `<|im_end|>`: with `\"eos_token_id\": 2` in";
    assert!(found.contains(hint), "{found}");
    assert!(!said(&["--stop", "."]).contains(told));
    // The error of a broken file stands alone.
    fs::write(folder.path().join("model.safetensors"), "").unwrap();
    let found = said(&[]);
    assert!(
        found.contains("model.safetensors") && !found.contains(told),
        "{found}"
    );
}

/// A checkpoint whose texts do not end for a long time.
#[cfg(unix)]
fn endless() -> TempDir {
    let folder = copy();
    edit(folder.path(), "config.json", |config| {
        config["max_position_embeddings"] = json!(10_000_000)
    });
    edit(folder.path(), "generation_config.json", |config| {
        config["eos_token_id"] = Value::Null;
        config["max_new_tokens"] = json!(10_000_000);
    });
    folder
}

#[cfg(unix)]
fn interrupt(child: &Child) {
    use rustix::process::{Pid, Signal, kill_process};
    kill_process(Pid::from_child(child), Signal::INT).unwrap();
}

/// Waits until the program has written something to standard output.
#[cfg(unix)]
fn first_bytes(child: &mut Child) -> std::process::ChildStdout {
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0; 20]).unwrap();
    out
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_text_that_is_then_printed() {
    let folder = endless();
    let mut command = command();
    command
        .args(["generate", "--prompt", "The river", "--model"])
        .arg(folder.path());
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = first_bytes(&mut child);
    interrupt(&child);
    let mut rest = Vec::new();
    out.read_to_end(&mut rest).unwrap();
    assert!(rest.ends_with(b"\n"));
    let output = child.wait_with_output().unwrap();
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(
        said.contains("interrupted by Ctrl-C") && said.contains(" tokens in "),
        "{said}"
    );
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_an_answer_and_then_the_program() {
    let folder = endless();
    let mut child = conversation(folder.path(), &[]);
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"Hello!\n").unwrap();
    let mut out = first_bytes(&mut child);
    let drain = std::thread::spawn(move || out.read_to_end(&mut Vec::new()));
    interrupt(&child);
    // The first line is a note that the checkpoint names no end.
    let mut said = String::new();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    while !said.contains("Ctrl-C ended the answer") {
        let read = lines.read_line(&mut said).unwrap();
        assert!(read > 0, "{said}");
    }
    // It waits for the next message soon, and then Ctrl-C ends it.
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        interrupt(&child);
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&status),
        Some(2)
    );
    drain.join().unwrap().unwrap();
    drop(input);
}

/// A message that is too long for memory is left out, and the conversation goes on.
#[test]
fn a_message_has_a_largest_size() {
    let mut child = conversation(&fixture("tiny"), &["--max-new-tokens", "1"]);
    let mut input = child.stdin.take().unwrap();
    input.write_all(&vec![b'x'; (16 << 20) + 1]).unwrap();
    input.write_all(b"yy\n/what\n").unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    let said = errors(&output);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("more than 16 MiB\nunknown command `/what`"),
        "{said}"
    );
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_template_and_the_conversation_goes_on() {
    let folder = with_template(&format!(
        "{{% if 'endless' in messages[-1].content %}}{ENDLESS}{{% endif %}}x"
    ));
    let mut child = conversation(folder.path(), &["--max-new-tokens", "1"]);
    let mut input = child.stdin.take().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    input.write_all(b"Hello!\n").unwrap();
    out.read_line(&mut line).unwrap();
    said.read_line(&mut line).unwrap();
    input.write_all(b"endless\n").unwrap();
    // Reading the message takes no time to speak of, and the template 10 seconds.
    std::thread::sleep(std::time::Duration::from_secs(1));
    interrupt(&child);
    line.clear();
    said.read_line(&mut line).unwrap();
    assert!(line.contains("Ctrl-C ended the chat template"), "{line}");
    input.write_all(b"Hello!\n/exit\n").unwrap();
    line.clear();
    assert!(out.read_line(&mut line).unwrap() > 0, "no answer");
    assert!(child.wait().unwrap().success());
}
