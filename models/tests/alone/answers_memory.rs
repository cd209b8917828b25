//! Tests the memory of losses of answers and of divergences from a teacher: nothing has the size tokens × vocabulary.

use crate::counting::{alone, peak};

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::{DType, Device, Int, Tensor};
use burn_kernels::policy::{Policy, scope};
use kernels_models::preference::{Answers, Divergence, PairLoss, Pairs, answer_sums};
use kernels_models::{
    AdapterConfig, CausalLm, Distilled, Losses, ModelConfig, Projection, Qwen3Size, Scored,
    Sequences, divergence_loss,
};

const VOCABULARY: usize = 20_000;
const LENGTH: usize = 64;
/// The tokens of an answer, behind a prompt of as many.
const ANSWER: usize = LENGTH / 2;

fn device() -> Device {
    Device::flex().autodiff()
}

fn model(hidden_size: usize) -> CausalLm {
    let size = Qwen3Size {
        vocab_size: VOCABULARY,
        hidden_size,
        intermediate_size: 64,
        num_hidden_layers: 1,
        num_attention_heads: 2,
        num_key_value_heads: 2,
        head_dim: 16,
        max_position_embeddings: LENGTH,
        tie_word_embeddings: true,
    };
    ModelConfig::qwen3(size).unwrap().init(&device())
}

fn with_adapters(model: CausalLm) -> CausalLm {
    let adapters = AdapterConfig {
        rank: 4,
        alpha: 8.0,
        dropout: 0.0,
        rank_stabilised: false,
        targets: Vec::new(),
        patterns: Default::default(),
    };
    model.with_adapters(&adapters, 3).unwrap()
}

/// Returns so many prompts with their answers, which have the targets.
fn sequences(rows: usize) -> Sequences {
    let device = device();
    let all = 0..rows * LENGTH;
    let tensor = |values: Vec<i64>| {
        Tensor::<1, Int>::from_data(&values[..], &device).reshape([rows, LENGTH])
    };
    let id = |at: usize| (at * 7919 % VOCABULARY) as i64;
    let target = |at: usize| match is_scored(at) {
        true => id(at + 1),
        false => Sequences::IGNORED,
    };
    Sequences {
        input_ids: tensor(all.clone().map(id).collect()),
        targets: tensor(all.clone().map(target).collect()),
        position_ids: tensor(all.map(|at| (at % LENGTH) as i64).collect()),
        documents: None,
        attention_mask: None,
        pictures: None,
    }
}

fn is_scored(at: usize) -> bool {
    (LENGTH - ANSWER - 1..LENGTH - 1).contains(&(at % LENGTH))
}

fn places(rows: usize) -> Vec<usize> {
    (0..rows * LENGTH).filter(|at| is_scored(*at)).collect()
}

fn supervised(model: &CausalLm, rows: usize) -> Losses {
    model.sequence_losses(sequences(rows))
}

/// Returns the loss of DPO with known log-probabilities of the reference.
fn dpo(model: &CausalLm, rows: usize) -> Losses {
    let (places, pairs) = (places(rows), rows / 2);
    let scored = Scored {
        places: &places,
        temperature: 1.0,
    };
    let loss = |log_probs: Tensor<1>| {
        let (sums, tokens) = answer_sums(log_probs, &vec![ANSWER; rows]).unwrap();
        let side = |start| Answers {
            policy: sums.clone().narrow(0, start, pairs),
            reference: Some(Tensor::full(
                [pairs],
                -300.0,
                (&sums.device(), sums.dtype()),
            )),
            tokens: tokens.clone().narrow(0, start, pairs),
        };
        let answers = Pairs {
            chosen: side(0),
            rejected: side(pairs),
        };
        let loss = PairLoss::Sigmoid {
            beta: 0.1,
            smoothing: 0.0,
        };
        loss.per_pair(&answers).unwrap().mean()
    };
    model.losses_of_log_probs(sequences(rows), scored, loss)
}

/// Returns the largest memory of a step, without that of the model. The first step creates threads and their buffers.
fn step(model: &CausalLm, losses: impl Fn(&CausalLm) -> Losses) -> usize {
    let run = || {
        let losses = losses(model);
        GradientsParams::from_grads(losses.total.backward(), model)
    };
    drop(run());
    peak(run)
}

/// Twice the tokens take more memory for activations, but not for logits.
#[test]
fn no_loss_holds_the_logits_of_all_tokens() {
    let _alone = alone();
    let whole = model(32);
    let adapted = with_adapters(model(32));
    let teacher = model(48).valid();
    let taught = |model: &CausalLm, rows: usize| {
        let places = places(rows);
        let distilled = Distilled {
            teacher: &teacher,
            places: &places,
            divergence: Divergence {
                mixture: 0.5,
                temperature: 1.0,
            },
        };
        model.losses_of_divergence(sequences(rows), distilled)
    };
    let observed = |model: &CausalLm, rows: usize| {
        let (losses, places) = (supervised(model, rows), places(rows));
        let observed = model.observe(&losses, &places, &vec![0; places.len()]);
        assert!(observed.entropy.sum().into_scalar::<f32>() > 0.0);
        losses
    };
    type Loss<'a> = &'a dyn Fn(&CausalLm, usize) -> Losses;
    let losses: [(&str, Loss<'_>); 4] = [
        ("sft", &supervised),
        ("dpo", &dpo),
        ("distill", &taught),
        ("observed", &observed),
    ];
    const ROWS: usize = 32;
    let logits = ROWS * ANSWER * VOCABULARY * size_of::<f32>();
    for (name, losses) in losses {
        for (what, model) in [("whole", &whole), ("adapters", &adapted)] {
            let [some, more] =
                [ROWS, 2 * ROWS].map(|rows| step(model, |model| losses(model, rows)));
            println!("{name}, {what}: {some} and {more} bytes, {logits} of logits");
            assert!(
                more < some + logits / 2,
                "{name}, {what}: {some} and {more} bytes"
            );
        }
    }
}

/// A step of DPO with a known reference takes at most 1.15 times the memory of one of supervised tuning on the same tokens.
#[test]
fn preferences_take_hardly_more_memory_than_supervised_tuning() {
    let _alone = alone();
    for (what, model) in [("whole", model(32)), ("adapters", with_adapters(model(32)))] {
        let of_answers = step(&model, |model| dpo(model, 64));
        let of_tokens = step(&model, |model| supervised(model, 64));
        println!("{what}: {of_answers} and {of_tokens} bytes");
        assert!(
            100 * of_answers <= 115 * of_tokens,
            "{what}: {of_answers} and {of_tokens} bytes"
        );
    }
}

/// A weight in a half type is never in memory in f32 as a whole.
#[test]
fn statistics_widen_a_part_of_the_weight_at_a_time() {
    const WIDTH: usize = 256;
    const CLASSES: usize = 250_000;
    let _alone = alone();
    let device = Device::flex();
    let zeros = |shape: [usize; 2]| Tensor::<2>::zeros(shape, (&device, DType::BF16));
    let projection = Projection {
        hidden: zeros([4, WIDTH]),
        weight: zeros([CLASSES, WIDTH]).transpose().into(),
        softcap: None,
    };
    let run = || projection.statistics();
    // The first run creates threads and their buffers.
    drop(run());
    let taken = peak(run);
    let weight = CLASSES * WIDTH * size_of::<f32>();
    println!("{taken} bytes, {weight} of the weight in f32");
    assert!(taken < weight / 2, "{taken} bytes");
}

/// The same holds for a divergence from a teacher, by the kernel and by tiles, and for its gradient.
#[test]
fn divergences_widen_a_part_of_the_weights_at_a_time() {
    const WIDTH: usize = 256;
    const CLASSES: usize = 250_000;
    let _alone = alone();
    let device = device();
    let part = || {
        let zeros = |shape: [usize; 2]| Tensor::<2>::zeros(shape, (&device, DType::BF16));
        Projection {
            hidden: zeros([4, WIDTH]),
            weight: zeros([CLASSES, WIDTH]).transpose().into(),
            softcap: None,
        }
    };
    let (student, teacher) = (part(), part());
    let divergence = Divergence {
        mixture: 0.5,
        temperature: 2.0,
    };
    let run = || {
        let student = Projection {
            hidden: student.hidden.clone().require_grad(),
            ..student.clone()
        };
        let loss = divergence_loss(&student, &teacher, &[0.25; 4], divergence).unwrap();
        student.hidden.grad(&loss.backward()).unwrap()
    };
    let weight = CLASSES * WIDTH * size_of::<f32>();
    for policy in [Policy::auto(), Policy::reference()] {
        let _here = scope(policy.clone());
        // The first run creates threads and their buffers.
        drop(run());
        let taken = peak(run);
        println!("{policy:?}: {taken} bytes, {weight} of a weight in f32");
        assert!(taken < weight / 2, "{policy:?}: {taken} bytes");
    }
}
