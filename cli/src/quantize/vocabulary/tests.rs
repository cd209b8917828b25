//! Tokenizers of the fixtures, whose GGUF files the package `gguf` wrote.

use super::*;
use kernels_models::gguf::File;
use serde_json::json;
use std::path::PathBuf;

fn fixture(name: &str) -> PathBuf {
    let text = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/text");
    text.join(name)
}

fn json(name: &str) -> Json {
    let text = std::fs::read(fixture(name).join("tokenizer.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn tokens(name: &str, json: &Json, embeddings: usize) -> anyhow::Result<Tokens> {
    Tokens::read(json, &Settings::open(&fixture(name)).unwrap(), embeddings)
}

/// Returns the metadata of a fixture's tokenizer after a change.
fn changed(name: &str, change: impl FnOnce(&mut Json)) -> anyhow::Result<Pairs> {
    let mut json = json(name);
    change(&mut json);
    let tokens = tokens(name, &json, 325)?;
    let settings = Settings::open(&fixture(name)).unwrap();
    let mut pairs = of_kind(&json, &tokens)?;
    pairs.extend(tokens.pairs());
    pairs.extend(special::pairs(&json, &settings, &tokens, &[2, 85])?);
    Ok(pairs)
}

fn get<'a>(pairs: &'a Pairs, key: &str) -> Option<&'a Value> {
    let key = format!("tokenizer.ggml.{key}");
    let pair = pairs.iter().find(|(own, _)| *own == key);
    pair.map(|(_, value)| value)
}

#[test]
fn bytes_and_merges_are_those_of_the_package() {
    let folder = fixture("tiny");
    let config = ModelConfig::of_checkpoint(&folder).unwrap();
    let pairs = pairs(&folder, &config).unwrap();
    let file = File::open(&fixture("tiny.gguf")).unwrap();
    let expected = file.metadata().iter();
    let expected = expected.filter(|(key, _)| key.starts_with("tokenizer."));
    let mut compared = 0;
    for (key, value) in expected {
        let found = pairs.iter().find(|(own, _)| own == key);
        assert_eq!(found.map(|(_, value)| value), Some(value), "{key}");
        compared += 1;
    }
    assert_eq!(compared, 8);
    // Of a generation that ends in either.
    assert_eq!(get(&pairs, "eot_token_id"), Some(&Value::Integer(85)));
    assert_eq!(get(&pairs, "add_bos_token"), Some(&Value::Flag(false)));
}

#[test]
fn scores_have_the_order_of_the_package() {
    let pairs = changed("spm", |_| ()).unwrap();
    let file = File::open(&fixture("spm.gguf")).unwrap();
    let metadata = file.metadata();
    for key in [
        "model",
        "tokens",
        "token_type",
        "bos_token_id",
        "unknown_token_id",
    ] {
        let expected = metadata.get(&format!("tokenizer.ggml.{key}"));
        assert_eq!(get(&pairs, key), expected, "{key}");
    }
    for key in ["add_bos_token", "add_space_prefix"] {
        assert_eq!(get(&pairs, key), Some(&Value::Flag(true)), "{key}");
    }
    let expected = metadata.numbers("tokenizer.ggml.scores").unwrap().unwrap();
    let Some(Value::List(found)) = get(&pairs, "scores") else {
        panic!("no scores");
    };
    let found = found.iter().map(|score| match score {
        Value::F32(score) => f64::from(*score),
        other => panic!("{other}"),
    });
    let order = |scores: Vec<f64>| {
        let lowest = scores.iter().copied().fold(f64::INFINITY, f64::min);
        let mut ids: Vec<usize> = (0..scores.len())
            .filter(|&id| scores[id] > lowest)
            .collect();
        ids.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
        ids
    };
    let expected = order(expected);
    assert!(expected.len() > 5);
    assert_eq!(order(found.collect()), expected);
}

#[test]
fn embeddings_without_a_token_get_one() {
    let json = json("spm");
    let all = tokens("spm", &json, 327).unwrap();
    assert_eq!(all.texts[325..], ["[PAD325]", "[PAD326]"]);
    assert_eq!(
        all.kinds[324..],
        [tokens::NORMAL, tokens::UNUSED, tokens::UNUSED]
    );
    let said = tokens("spm", &json, 324).unwrap_err().to_string();
    assert!(said.contains("324 embeddings"), "{said}");
}

#[test]
fn added_tokens_without_an_embedding_are_left_out() {
    let mut own = json("spm");
    let extra = json!({"id": 400, "content": "<extra>", "special": true});
    own["added_tokens"].as_array_mut().unwrap().push(extra);
    let read = |own: &Json| tokens("spm", own, 325).unwrap();
    assert_eq!(read(&own).texts, read(&json("spm")).texts);
    // Also if the vocabulary has it.
    own["model"]["vocab"]["<extra>"] = json!(400);
    assert_eq!(read(&own).id("<extra>"), None);
}

#[test]
fn more_ends_than_keys_are_refused() {
    let own = json("tiny");
    let settings = Settings::open(&fixture("tiny")).unwrap();
    let tokens = tokens("tiny", &own, 325).unwrap();
    assert!(special::pairs(&own, &settings, &tokens, &[2, 85, 86]).is_ok());
    let said = special::pairs(&own, &settings, &tokens, &[2, 85, 86, 87]);
    let said = said.unwrap_err().to_string();
    assert!(said.contains("has 1 more"), "{said}");
}

#[test]
fn differences_from_llama_cpp_are_named() {
    let said =
        |name, change: &dyn Fn(&mut Json)| format!("{:#}", changed(name, change).unwrap_err());
    for (name, field, value, words) in [
        ("tiny", "/model/type", json!("Unigram"), "only BPE is"),
        (
            "tiny",
            "/model/end_of_word_suffix",
            json!("</w>"),
            "model.end_of_word_suffix",
        ),
        (
            "tiny",
            "/model/ignore_merges",
            json!(true),
            "model.ignore_merges",
        ),
        (
            "tiny",
            "/normalizer",
            json!({"type": "Lowercase"}),
            "field `normalizer`",
        ),
        (
            "tiny",
            "/pre_tokenizer/pretokenizers/0/pattern/Regex",
            json!("x"),
            "field `pre_tokenizer`",
        ),
        (
            "tiny",
            "/model/merges/0",
            json!(["e", "zz"]),
            "`zz` is not a token",
        ),
        (
            "tiny",
            "/model/merges/0",
            json!("e"),
            "number 0 is not two tokens",
        ),
        ("tiny", "/model/dropout", json!(0.1), "model.dropout"),
        (
            "spm",
            "/model/ignore_merges",
            json!(true),
            "model.ignore_merges",
        ),
        (
            "tiny",
            "/added_tokens/0/lstrip",
            json!(true),
            "has `lstrip`",
        ),
        ("tiny", "/model/vocab/!", json!(4), "the same id, 4"),
        ("tiny", "/added_tokens/0/id", json!(7), "the same id, 7"),
        (
            "spm",
            "/normalizer/normalizers/0/prepend",
            json!("x"),
            "does not prepare texts",
        ),
        (
            "spm",
            "/post_processor/single/0/SpecialToken/id",
            json!("</s>"),
            "begin with `</s>`",
        ),
        (
            "spm",
            "/post_processor/type",
            json!("BertProcessing"),
            "field `post_processor`",
        ),
    ] {
        let said = said(name, &|json| {
            *json.pointer_mut(field).unwrap() = value.clone()
        });
        assert!(said.contains(words), "{field}: {said}");
    }
    let long = changed("spm", |json| {
        let vocabulary = json["model"]["vocab"].as_object_mut().unwrap();
        let id = vocabulary.remove("river").unwrap();
        vocabulary.insert("x".repeat(513), id);
    });
    let long = format!("{:#}", long.unwrap_err());
    assert!(long.contains("has 513 bytes"), "{long}");
    let merges = |json: &mut Json| json["model"]["merges"].as_array_mut().unwrap().len();
    let said_of_merges = |change: fn(&mut Vec<Json>)| {
        said("spm", &|json| {
            assert!(merges(json) > 3);
            change(json["model"]["merges"].as_array_mut().unwrap());
        })
    };
    let said = said_of_merges(|merges| drop(merges.pop()));
    assert!(said.contains("have no merge"), "{said}");
    let said = said_of_merges(|merges| merges.push(merges[0].clone()));
    assert!(said.contains("are apart"), "{said}");
}

#[test]
fn a_space_before_a_text_is_refused() {
    let config = ModelConfig::of_checkpoint(&fixture("tiny")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let tokenizer = fixture("tiny").join("tokenizer.json");
    std::fs::copy(tokenizer, folder.path().join("tokenizer.json")).unwrap();
    let refused = |adds: Json| {
        let fields = json!({"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": adds});
        let file = folder.path().join("tokenizer_config.json");
        std::fs::write(file, fields.to_string()).unwrap();
        let pairs = pairs(folder.path(), &config);
        pairs
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    let said = refused(json!(true));
    assert!(
        said.contains("tokenizer_config.json: field `add_prefix_space`"),
        "{said}"
    );
    assert!(refused(json!("yes")).contains("expected true or false"));
    let said = refused(json!(false));
    assert!(!said.contains("add_prefix_space"), "{said}");
}
