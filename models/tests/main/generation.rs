//! Compares generated tokens and the probabilities of samplers with those of transformers.

use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;

use crate::common::{self, fixtures};
use burn::tensor::{Device, FloatDType, Int, Tensor, TensorData};
use burn_kernels::policy::{Policy, scope};
use kernels_models::{
    CausalLm, Finish, Generated, Generation, ModelConfig, ModelError, NewToken, Sampling, Session,
    load,
};
use serde_json::{Value, json};
use tempfile::TempDir;

fn tiny() -> PathBuf {
    fixtures().join("text/tiny")
}

fn golden() -> Value {
    let text = fs::read_to_string(fixtures().join("text/golden.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn model() -> (ModelConfig, CausalLm) {
    load(&tiny(), &Device::default(), FloatDType::F32).unwrap()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn ids(value: &Value) -> Vec<u32> {
    let ids = list(value).iter();
    ids.map(|id| id.as_u64().unwrap() as u32).collect()
}

fn on(_: NewToken) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// The settings of the checkpoint, for as many tokens as the goldens have.
fn settings(config: &ModelConfig) -> Generation {
    let mut settings = Generation::open(&tiny(), config).unwrap();
    settings.max_new_tokens = 48;
    settings
}

/// Settings that draw from all tokens.
fn drawn(config: &ModelConfig, seed: u64) -> Generation {
    let mut sampling = Sampling::default();
    sampling.seed = seed;
    let mut settings = settings(config);
    settings.sampling = Some(sampling);
    settings
}

#[test]
fn greedy_tokens_are_those_of_transformers() {
    let (config, model) = model();
    let golden = golden();
    let mut ends = 0;
    for policy in [Policy::auto(), Policy::reference()] {
        let _policy = scope(policy);
        for penalty in [1.0, 1.3] {
            let cases = list(&golden["greedy"]).iter();
            let cases = cases.filter(|case| case["repetition_penalty"] == json!(penalty));
            let cases: Vec<&Value> = cases.collect();
            let prompts: Vec<Vec<u32>> =
                cases.iter().map(|case| ids(&case["prompt_ids"])).collect();
            let mut settings = settings(&config);
            settings.repetition_penalty = penalty;
            // One by one, in batches of different lengths, and all together.
            for batch in [1, 4, 6] {
                let (mut texts, mut told) = (Vec::new(), vec![Vec::new(); prompts.len()]);
                for (part, prompts) in prompts.chunks(batch).enumerate() {
                    let some = model.generate(prompts, &settings, |token| {
                        told[part * batch + token.prompt].push(token.id);
                        ControlFlow::Continue(())
                    });
                    texts.extend(some.unwrap());
                }
                for ((case, text), told) in cases.iter().zip(texts).zip(told) {
                    assert_eq!(text.ids, ids(&case["ids"]), "{penalty} {batch} {case}");
                    assert_eq!(text.ids, told);
                    let ended = text.ids.len() < 48;
                    let expected = if ended { Finish::End } else { Finish::Length };
                    assert_eq!(text.finish, expected);
                    ends += usize::from(ended);
                }
            }
        }
    }
    assert!(ends >= 12, "{ends}");
}

#[test]
fn probabilities_are_those_of_the_processors_of_transformers() {
    let golden = golden();
    let cases = list(&golden["samplers"]);
    assert!(cases.len() > 12);
    for case in cases {
        let set = &case["settings"];
        let number = |name: &str, default: f64| set[name].as_f64().unwrap_or(default);
        let mut sampling = Sampling::default();
        sampling.temperature = number("temperature", 1.0);
        sampling.top_k = set["top_k"].as_u64().map(|top_k| top_k as usize);
        sampling.top_p = number("top_p", 1.0);
        sampling.min_p = number("min_p", 0.0);
        let mut settings = Generation::default();
        settings.repetition_penalty = number("repetition_penalty", 1.0);
        settings.sampling = Some(sampling);
        let numbers = |name: &str| list(&case[name]).iter().map(|x| x.as_f64().unwrap());
        let logits: Vec<f64> = numbers("logits").collect();
        let mut found = vec![0.0; logits.len()];
        for (token, probability) in settings.probabilities(&logits, &ids(&case["seen"])) {
            found[token as usize] = probability;
        }
        for (token, (found, expected)) in found.iter().zip(numbers("probabilities")).enumerate() {
            // transformers computes in f32.
            assert!(
                (found - expected).abs() < 1e-6,
                "{set} {token}: {found} {expected}"
            );
            assert_eq!(*found == 0.0, expected == 0.0, "{set} {token}");
        }
    }
}

#[test]
fn without_sampling_the_first_of_the_most_probable_tokens_is_taken() {
    let mut settings = Generation::default();
    let logits = [1.0, 3.0, -2.0, 3.0];
    assert_eq!(settings.probabilities(&logits, &[1]), [(1, 1.0)]);
    settings.repetition_penalty = 1.1;
    assert_eq!(settings.probabilities(&logits, &[1, 1]), [(3, 1.0)]);
}

#[test]
fn a_seed_gives_the_same_draws_in_any_batch() {
    let (config, model) = model();
    let prompts: Vec<Vec<u32>> = (1..5).map(|length| vec![7; length]).collect();
    let run = |seed: u64, batch: usize| -> Vec<Generated> {
        let mut settings = drawn(&config, seed);
        let parts = prompts.chunks(batch).enumerate();
        let part = |(part, prompts): (usize, &[Vec<u32>])| {
            settings.sampling.as_mut().unwrap().first_place = part * batch;
            model.generate(prompts, &settings, on).unwrap()
        };
        parts.flat_map(part).collect()
    };
    let texts = run(3, 4);
    assert_eq!(texts, run(3, 4));
    assert_eq!(texts, run(3, 3));
    assert_eq!(texts, run(3, 1));
    assert_ne!(texts, run(4, 4));
    // Equal prompts have their own draws.
    let same = vec![vec![7], vec![7]];
    let texts = model.generate(&same, &drawn(&config, 3), on).unwrap();
    assert_ne!(texts[0], texts[1]);
}

#[test]
fn draws_have_the_probabilities_of_the_model() {
    let (config, model) = model();
    let mut settings = drawn(&config, 11);
    settings.max_new_tokens = 1;
    let prompts = vec![vec![244, 272]; 2000];
    let mut counts = vec![0.0; config.vocab_size];
    for text in model.generate(&prompts, &settings, on).unwrap() {
        counts[text.ids[0] as usize] += 1.0 / prompts.len() as f64;
    }
    let mut cache = config.cache();
    let one = burn::tensor::Tensor::from_data([[244, 272]], &Device::default());
    let logits = model.next(one, &mut cache).unwrap();
    let logits = logits.try_into_vec_as::<f64>().unwrap();
    let expected = settings.probabilities(&logits, &[]);
    let distance: f64 = expected
        .iter()
        .map(|&(token, p)| (counts[token as usize] - p).abs())
        .sum();
    // Half of this is the chance to tell the two apart by one draw. Of 2,000 draws from 320 tokens, it is about
    // sqrt(320 / 2000) * 0.8 at most.
    assert!(distance < 0.35, "{distance}");
    let other = settings.probabilities(&logits.iter().rev().copied().collect::<Vec<_>>(), &[]);
    let other: f64 = other
        .iter()
        .map(|&(token, p)| (counts[token as usize] - p).abs())
        .sum();
    assert!(other > 0.7, "{other}");
}

#[test]
fn texts_end_at_the_last_position_and_where_the_caller_stops_them() {
    let (config, model) = model();
    let limit = config.max_position_embeddings;
    let mut settings = settings(&config);
    settings.end_tokens.clear();
    settings.max_new_tokens = 1000;
    let texts = model
        .generate(&[vec![7; limit - 3], vec![7; limit]], &settings, on)
        .unwrap();
    // The last token has no position of its own.
    let found: Vec<_> = texts
        .iter()
        .map(|text| (text.ids.len(), text.finish))
        .collect();
    assert_eq!(
        found,
        [(1, Finish::Positions); 2],
        "the longest decides for a batch"
    );
    let texts = model
        .generate(&[vec![7; limit - 3]], &settings, on)
        .unwrap();
    assert_eq!(
        (texts[0].ids.len(), texts[0].finish),
        (4, Finish::Positions)
    );

    let mut seen = 0;
    let texts = model.generate(&[vec![7], vec![8]], &settings, |token| {
        seen += usize::from(token.prompt == 0);
        match token.prompt == 0 && seen == 5 {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    let texts = texts.unwrap();
    assert_eq!((texts[0].ids.len(), texts[0].finish), (5, Finish::Stopped));
    assert_eq!(
        (texts[1].ids.len(), texts[1].finish),
        (limit, Finish::Positions)
    );
}

#[test]
fn a_session_gives_what_a_fresh_start_gives() {
    let (config, model) = model();
    let settings = settings(&config);
    let fresh = |prompt: &[u32]| {
        model
            .generate(&[prompt.to_vec()], &settings, on)
            .unwrap()
            .remove(0)
    };
    let mut session = Session::new(&model);
    let first = [7, 9, 11];
    let answer = session.generate(&first, &settings, on).unwrap();
    assert_eq!(answer, fresh(&first));
    assert_eq!(session.kept(), first.len() + answer.ids.len() - 1);
    let longer = [&first[..], &answer.ids, &[12, 13]].concat();
    assert_eq!(
        session.generate(&longer, &settings, on).unwrap(),
        fresh(&longer)
    );
    // Another beginning.
    let other = [7, 9, 12, 13];
    assert_eq!(
        session.generate(&other, &settings, on).unwrap(),
        fresh(&other)
    );
    assert_eq!(
        session.generate(&other, &settings, on).unwrap(),
        fresh(&other)
    );
    let long = vec![7; config.max_position_embeddings + 1];
    assert!(session.generate(&long, &settings, on).is_err());
    assert_eq!(session.generate(&first, &settings, on).unwrap(), answer);
}

/// A prompt that leaves the text of a session somewhere costs the tokens from there on. Windows of 8 drop keys that are
/// needed at some of these places; then the tokens after the last prompt are read anew, or all.
#[test]
fn a_session_reads_what_is_new_and_gives_what_a_fresh_start_gives() {
    for (name, windowed) in [
        ("qwen3", false),
        ("deepseek_v2", false),
        ("llama4_chunk8", false),
        ("mistral_sw8", true),
        ("gemma3_sw8_linear", true),
        ("gemma3n_kvshare", true),
        ("gpt_oss_sw8", true),
    ] {
        let folder = common::copy_of(name);
        common::edit_config(folder.path(), |config| {
            let own = match config.contains_key("text_config") {
                true => config["text_config"].as_object_mut().unwrap(),
                false => config,
            };
            own.insert("max_position_embeddings".into(), json!(1024));
        });
        let (config, model) = load(folder.path(), &device(), FloatDType::F64).unwrap();
        let token = |i: usize| (i * 7 % config.vocab_size) as u32;
        let prompt: Vec<u32> = (0..250).map(token).collect();
        let mut settings = Generation::default();
        for (place, reused) in [(288, 288), (255, 250), (240, 240), (100, 0), (0, 0)] {
            let mut session = Session::new(&model);
            settings.max_new_tokens = 40;
            let answer = session.generate(&prompt, &settings, on).unwrap();
            let text = [&prompt[..], &answer.ids].concat();
            let other = (text[place] + 1) % config.vocab_size as u32;
            let next = [&text[..place], &[other, 5, 6]].concat();
            settings.max_new_tokens = 5;
            let found = session.generate(&next, &settings, on).unwrap();
            let reused = if windowed { reused } else { place };
            assert_eq!(session.reused(), reused, "{name}, {place}");
            let fresh = model.generate(&[next], &settings, on).unwrap().remove(0);
            assert_eq!(found, fresh, "{name}, {place}");
        }
    }
}

fn refused(prompts: &[Vec<u32>], change: impl FnOnce(&mut Generation)) -> String {
    let (config, model) = model();
    let mut settings = drawn(&config, 0);
    change(&mut settings);
    let error = model.generate(prompts, &settings, |_| panic!("nothing is generated"));
    error.unwrap_err().to_string()
}

#[test]
fn settings_out_of_range_and_prompts_that_do_not_fit_are_refused() {
    fn sampling(settings: &mut Generation) -> &mut Sampling {
        settings.sampling.as_mut().unwrap()
    }
    type Change = fn(&mut Generation);
    let changes: [(Change, &[&str]); 8] = [
        (
            |s| s.max_new_tokens = 0,
            &["max_new_tokens", "at least 1, found 0"],
        ),
        (
            |s| s.repetition_penalty = 0.0,
            &["repetition_penalty", "above 0, found 0"],
        ),
        (
            |s| sampling(s).temperature = 0.0,
            &["temperature", "above 0", "most probable"],
        ),
        (
            |s| sampling(s).temperature = f64::NAN,
            &["temperature", "NaN"],
        ),
        (|s| sampling(s).top_k = Some(0), &["top_k", "at least 1"]),
        (
            |s| sampling(s).top_p = 1.5,
            &["top_p", "at most 1, found 1.5"],
        ),
        (
            |s| sampling(s).min_p = -0.1,
            &["min_p", "from 0 to 1, found -0.1"],
        ),
        (
            |s| s.repetition_penalty = f64::INFINITY,
            &["repetition_penalty", "inf"],
        ),
    ];
    for (change, words) in changes {
        let said = refused(&[vec![1]], change);
        for word in words {
            assert!(said.contains(word), "`{word}` is not in: {said}");
        }
    }
    let said = refused(&[vec![1], vec![]], |_| {});
    assert!(
        said.contains("prompts: prompt 2: it has no token"),
        "{said}"
    );
    let said = refused(&[vec![320]], |_| {});
    assert!(
        said.contains("prompts: token 320 is not in 0..320"),
        "{said}"
    );
    let said = refused(&[vec![1; 97]], |_| {});
    assert!(
        said.contains("97 tokens") && said.contains("max_position_embeddings, 96"),
        "{said}"
    );
}

#[test]
fn logits_that_are_no_numbers_are_refused() {
    let (config, model) = model();
    let folder = TempDir::new().unwrap();
    let folder = folder.path().join("model");
    kernels_models::save(&model, &config, &folder, None).unwrap();
    common::edit_tensors(&folder, |file| {
        let norm = file.get_mut("model.norm.weight").unwrap();
        let nan = common::Stored::f32(&[32], &[f32::NAN; 32]);
        *norm = nan;
    });
    let (_, broken) = load(&folder, &Device::default(), FloatDType::F32).unwrap();
    let error = broken
        .generate(&[vec![1]], &Generation::default(), on)
        .unwrap_err();
    assert!(
        matches!(
            error,
            ModelError::Input {
                input: "logits",
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("not finite"), "{error}");
}

/// The settings of a folder with this `generation_config.json`.
fn opened(file: Option<&str>, config: &ModelConfig) -> Result<Generation, ModelError> {
    let folder = TempDir::new().unwrap();
    if let Some(text) = file {
        fs::write(folder.path().join("generation_config.json"), text).unwrap();
    }
    Generation::open(folder.path(), config)
}

#[test]
fn settings_of_checkpoints_are_read() {
    let (config, _) = model();
    let tiny = Generation::open(&tiny(), &config).unwrap();
    assert_eq!(tiny.end_tokens.len(), 2);
    assert_eq!(tiny.sampling, None);
    let from_config = opened(None, &config).unwrap();
    assert_eq!(from_config.end_tokens, [2]);

    let file = json!({
        "do_sample": true, "temperature": 0.7, "top_p": 0.9, "min_p": 0.1, "repetition_penalty": 1.05,
        "max_new_tokens": 7, "eos_token_id": 5, "num_beams": 1, "transformers_version": "5.23.0", "suppress_tokens": null,
    });
    let found = opened(Some(&file.to_string()), &config).unwrap();
    let sampling = found.sampling.unwrap();
    assert_eq!(
        (sampling.temperature, sampling.top_p, sampling.min_p),
        (0.7, 0.9, 0.1)
    );
    assert_eq!((sampling.top_k, sampling.seed), (Some(50), 0));
    assert_eq!((found.max_new_tokens, found.repetition_penalty), (7, 1.05));
    assert_eq!(found.end_tokens, [5]);
    let greedy = opened(Some(r#"{"temperature": 0.6, "top_k": 20}"#), &config).unwrap();
    assert_eq!(greedy.sampling, None);
    assert_eq!(
        (greedy.suggested.temperature, greedy.suggested.top_k),
        (0.6, Some(20))
    );
    assert_eq!(from_config.suggested.top_k, Some(50));
    let all = opened(Some(r#"{"do_sample": true, "top_k": 0}"#), &config).unwrap();
    assert_eq!(all.sampling.unwrap().top_k, None);
    assert_eq!(
        all.end_tokens, [0; 0],
        "as in transformers, the file decides alone"
    );

    let beyond = opened(
        Some(r#"{"eos_token_id": [320, 2, -1, 99999999999]}"#),
        &config,
    )
    .unwrap();
    assert_eq!(
        beyond.end_tokens,
        [2],
        "as in transformers, no text ends with the others"
    );

    for (text, words) in [
        ("[]", ["generation_config.json", "expected an object"]),
        ("{", ["generation_config.json", "not valid JSON"]),
        (
            r#"{"num_beams": 4}"#,
            ["field `num_beams`: 4 is not supported", "remove the field"],
        ),
        (
            r#"{"suppress_tokens": [3]}"#,
            ["`suppress_tokens`", "would change the tokens"],
        ),
        (
            r#"{"eos_token_id": [2, 1.5]}"#,
            ["`eos_token_id`", "found 1.5"],
        ),
        (r#"{"eos_token_id": "</s>"}"#, ["`eos_token_id`", "</s>"]),
        (
            r#"{"do_sample": true, "temperature": 0.0}"#,
            ["field `temperature`", "above 0"],
        ),
        (r#"{"do_sample": 1}"#, ["`do_sample`", "true or false"]),
    ] {
        let said = opened(Some(text), &config).unwrap_err().to_string();
        for word in words {
            assert!(said.contains(word), "`{word}` is not in: {said}");
        }
    }
}

/// The greedy tokens after a prompt, each from a pass over all tokens.
fn by_whole_passes(model: &CausalLm, prompt: &[u32], count: usize) -> Vec<u32> {
    let mut ids: Vec<i64> = prompt.iter().map(|id| i64::from(*id)).collect();
    for _ in 0..count {
        let shape = [1, ids.len()];
        let input = Tensor::<2, Int>::from_data(TensorData::new(ids.clone(), shape), &device());
        let logits = model.forward(input, None).narrow(1, ids.len() - 1, 1);
        ids.push(logits.argmax(2).into_data().iter::<i64>().next().unwrap());
    }
    ids[prompt.len()..].iter().map(|id| *id as u32).collect()
}

fn device() -> Device {
    Device::default()
}

/// From position 64 on, this model rotates all keys in another way.
#[test]
fn texts_go_on_where_the_rotations_of_longrope_change() {
    let (config, model) = load(
        &common::model_dir("phi3_longrope"),
        &device(),
        FloatDType::F64,
    )
    .unwrap();
    let token = |i: usize| (i * 7 % config.vocab_size) as u32;
    let prompt: Vec<u32> = (0..60).map(token).collect();
    let mut settings = Generation::default();
    settings.max_new_tokens = 10;
    let expected = by_whole_passes(&model, &prompt, 10);
    let alone = std::slice::from_ref(&prompt);
    let found = model.generate(alone, &settings, on).unwrap();
    assert_eq!(found[0].ids, expected);

    let mut session = Session::new(&model);
    settings.max_new_tokens = 2;
    let first = session.generate(&prompt, &settings, on).unwrap();
    let mut longer = [prompt.clone(), first.ids].concat();
    longer.extend((0..5).map(token));
    let second = session.generate(&longer, &settings, on).unwrap();
    assert_eq!(second.ids, by_whole_passes(&model, &longer, 2));
    // Keys of one kind can't be used below the border and beyond it.
    for (length, reused) in [(62, 0), (50, 49), (66, 0), (68, 66)] {
        let other: Vec<u32> = longer
            .iter()
            .copied()
            .take(65)
            .chain([3; 9])
            .take(length)
            .collect();
        let found = session.generate(&other, &settings, on).unwrap();
        assert_eq!(session.reused(), reused, "{length}");
        assert_eq!(found.ids, by_whole_passes(&model, &other, 2), "{length}");
    }

    let rows = |count: usize| {
        let ids: Vec<i64> = (0..count).map(|i| i64::from(token(i))).collect();
        Tensor::<2, Int>::from_data(TensorData::new(ids, [1, count]), &device())
    };
    let mut cache = config.cache();
    model.next(rows(60), &mut cache).unwrap();
    let said = model.next(rows(10), &mut cache).unwrap_err().to_string();
    assert!(said.contains("clear the cache"), "{said}");
    assert_eq!(cache.positions(), 60);
}
