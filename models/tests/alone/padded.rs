//! Compares decoding a batch of prompts of different lengths with decoding each alone.

use crate::common::{MODELS, SPARSE, model_dir, to_f64};
use crate::comparison::{difference, largest, relative};
use crate::counting::alone;
use burn::tensor::{Device, FloatDType, Int, Tensor, TensorData};
use burn_kernels::policy::{Policy, scope};
use burn_kernels::report;
use kernels_models::{CausalLm, ModelConfig, load};

/// The lengths of the prompts. Windows of 8 show only in longer sequences.
const LENGTHS: [usize; 4] = [3, 13, 1, 9];

/// The columns of the padded batch: more than the longest prompt needs.
const COLUMNS: usize = 15;

/// The numbers of tokens of the calls after the prompts. The last calls see no padding in a window of 8.
const STEPS: [usize; 9] = [1, 1, 1, 3, 1, 1, 1, 5, 1];

fn open(name: &str, dtype: FloatDType) -> (ModelConfig, CausalLm) {
    load(&model_dir(name), &Device::default(), dtype).unwrap()
}

/// Returns the token of a sequence at a position.
fn token(sequence: usize, position: usize) -> i64 {
    ((31 * sequence + 17 * position + position * position) % 96) as i64
}

fn ids(rows: Vec<Vec<i64>>) -> Tensor<2, Int> {
    let shape = [rows.len(), rows[0].len()];
    Tensor::from_data(TensorData::new(rows.concat(), shape), &Device::default())
}

/// Returns tokens of a sequence from a position on.
fn part(sequence: usize, from: usize, count: usize) -> Vec<i64> {
    (from..from + count).map(|p| token(sequence, p)).collect()
}

/// Returns the prompts of these lengths, each at the end of its row, after padding.
fn prompts(lengths: &[usize], columns: usize, padding: i64) -> Tensor<2, Int> {
    let row = |(sequence, &length): (usize, &usize)| {
        let mut row = vec![padding; columns - length];
        row.extend(part(sequence, 0, length));
        row
    };
    ids(lengths.iter().enumerate().map(row).collect())
}

fn values(logits: Tensor<3>) -> Vec<f64> {
    to_f64(&logits.into_data())
}

/// Decodes all prompts together. Returns the logits of each call.
fn together((config, model): &(ModelConfig, CausalLm), padding: i64) -> Vec<Vec<f64>> {
    let mut cache = config.cache();
    let first = model.next_padded(prompts(&LENGTHS, COLUMNS, padding), &LENGTHS, &mut cache);
    let mut calls = vec![values(first.unwrap())];
    let mut taken = 0;
    for step in STEPS {
        let rows = LENGTHS.iter().enumerate();
        let rows = rows.map(|(sequence, length)| part(sequence, length + taken, step));
        let logits = model.next(ids(rows.collect()), &mut cache);
        calls.push(values(logits.unwrap()));
        taken += step;
    }
    assert_eq!(cache.positions(), 13 + taken);
    calls
}

/// Decodes one prompt. Returns the logits of each call.
fn decoded_alone((config, model): &(ModelConfig, CausalLm), sequence: usize) -> Vec<Vec<f64>> {
    let mut cache = config.cache();
    let mut from = 0;
    let calls = [LENGTHS[sequence]].into_iter().chain(STEPS);
    let call = |count| {
        let tokens = ids(vec![part(sequence, from, count)]);
        from += count;
        values(model.next(tokens, &mut cache).unwrap())
    };
    calls.map(call).collect()
}

#[test]
fn logits_are_those_of_each_prompt_alone() {
    let _alone = alone();
    report::reset();
    for name in MODELS {
        for (dtype, tolerance) in [(FloatDType::F64, 1e-12), (FloatDType::F32, 2e-5)] {
            let model = open(name, dtype);
            for policy in [Policy::auto(), Policy::reference()] {
                let _policy = scope(policy);
                let batch = together(&model, 0);
                for sequence in 0..LENGTHS.len() {
                    let calls = batch.iter().zip(decoded_alone(&model, sequence));
                    for (call, (batch, expected)) in calls.enumerate() {
                        let vocab = expected.len();
                        let found = &batch[sequence * vocab..(sequence + 1) * vocab];
                        let worst = relative(found, &expected);
                        assert!(
                            worst < tolerance,
                            "{name}, {dtype:?}, sequence {sequence}, call {call}: {worst:e}"
                        );
                    }
                }
            }
        }
    }
    let called = |site: &str| {
        let rows = report::report().rows;
        let name = format!("kernels_models::layers::attention::{site}");
        let own = rows.iter().filter(|row| row.site == name);
        own.map(|row| row.calls).sum::<u64>()
    };
    for site in ["padded_causal_attention", "padded_sliding_attention"] {
        assert!(called(site) > 0, "{site} was not called");
    }
}

/// The tokens of the padding change no bit of the result. They also go through the experts, where the number of rows of a
/// product may change its rounding.
#[test]
fn tokens_of_the_padding_do_not_matter() {
    let _alone = alone();
    for name in MODELS {
        for dtype in [FloatDType::F32, FloatDType::BF16] {
            let (is_sparse, is_half) = (SPARSE.contains(&name), dtype == FloatDType::BF16);
            // Another rounding in a half type may choose another expert.
            if is_sparse && is_half {
                continue;
            }
            let model = open(name, dtype);
            for policy in [Policy::auto(), Policy::reference()] {
                let _policy = scope(policy);
                let (zeros, others) = (together(&model, 0).concat(), together(&model, 95).concat());
                let change = difference(&zeros, &others) / largest(&zeros);
                let most = if is_sparse { 2e-5 } else { 0.0 };
                assert!(change <= most, "{name}, {dtype:?}: {change:e}");
            }
        }
    }
}

/// Without padding, both methods are one, and a cleared cache takes prompts of other lengths.
#[test]
fn prompts_of_one_length_have_no_padding() {
    let _alone = alone();
    let (config, model) = open("qwen2", FloatDType::F32);
    let mut cache = config.cache();
    let (two, three) = ([4, 4], [2, 1, 2]);
    let padded = model.next_padded(prompts(&two, 6, 0), &two, &mut cache);
    let mut plain = config.cache();
    let expected = model.next(prompts(&two, 4, 0), &mut plain).unwrap();
    assert_eq!(values(padded.unwrap()), values(expected));
    cache.clear();
    assert_eq!(cache.positions(), 0);
    let logits = model.next_padded(prompts(&three, 2, 0), &three, &mut cache);
    assert_eq!(logits.unwrap().dims(), [3, 1, config.vocab_size]);
    cache.clear();
    let logits = model.next(prompts(&two, 4, 0), &mut cache);
    assert_eq!(logits.unwrap().dims(), [2, 1, config.vocab_size]);
}

#[test]
fn what_does_not_go_together_is_refused() {
    let _alone = alone();
    let (config, model) = open("llama", FloatDType::F32);
    let limit = config.max_position_embeddings;
    let zeros = |columns| Tensor::<2, Int>::zeros([2, columns], &Device::default());
    let refused = |columns, lengths: &[usize]| {
        let mut cache = config.cache();
        let error = model.next_padded(zeros(columns), lengths, &mut cache);
        assert_eq!(cache.positions(), 0);
        error.unwrap_err().to_string()
    };
    for (columns, lengths, expected) in [
        (4, &[2, 0][..], "lengths: row 1 has a length of 0"),
        (
            4,
            &[5, 1],
            "lengths: row 0 has a length of 5: input_ids has only 4 columns",
        ),
        (4, &[4], "lengths: there are 1, but 2 rows of input_ids"),
        (4, &[], "lengths: there are 0, but 2 rows"),
        (0, &[1, 1], "input_ids: shape [2, 0] holds no token"),
        (
            limit + 1,
            &[1, limit + 1],
            "more than the configuration's max_position_embeddings",
        ),
    ] {
        let said = refused(columns, lengths);
        assert!(said.contains(expected), "{said}");
    }
    // Padding takes no position.
    let mut cache = config.cache();
    let padded = model.next_padded(zeros(limit + 1), &[limit - 1, 2], &mut cache);
    assert!(padded.is_ok());
    model.next(zeros(1), &mut cache).unwrap();
    let said = model.next(zeros(1), &mut cache).unwrap_err().to_string();
    let expected = format!("1 tokens after {limit} are more than");
    assert!(said.contains(&expected), "{said}");
    let said = model.next_padded(zeros(4), &[1, 2], &mut cache);
    let said = said.unwrap_err().to_string();
    assert!(said.contains("cache: it has taken"), "{said}");
}

#[test]
fn another_batch_is_refused_after_prompts() {
    let _alone = alone();
    let (config, model) = open("llama", FloatDType::F32);
    let mut cache = config.cache();
    let lengths = [1, 3];
    let logits = model.next_padded(prompts(&lengths, 3, 0), &lengths, &mut cache);
    logits.unwrap();
    let said = model.next(ids(vec![vec![1]]), &mut cache).unwrap_err();
    assert!(
        said.to_string().contains("another model or batch"),
        "{said}"
    );
    assert_eq!(cache.positions(), 3);
    model.next(ids(vec![vec![1]; 2]), &mut cache).unwrap();
}
