//! DPO in a plain loop: a small model with random weights learns to prefer one kind of answer to another.

use burn::module::Module;
use burn::optim::{AdamWConfig, GradientsParams};
use burn::tensor::{Device, Int, Tensor};
use burn_kernels::optim::InitFused;
use kernels_models::preference::{Answers, PairLoss, Pairs, answer_sums};
use kernels_models::{CausalLm, ModelConfig, Qwen3Size, Scored, Sequences};

/// Pairs in a batch, and tokens of a prompt and of an answer.
const PAIRS: usize = 4;
const PROMPT: usize = 4;
const ANSWER: usize = 4;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    burn_kernels::init()?;
    let device = Device::flex().autodiff();
    device.seed(7);
    let size = Qwen3Size {
        vocab_size: 64,
        hidden_size: 32,
        intermediate_size: 64,
        num_hidden_layers: 2,
        num_attention_heads: 4,
        num_key_value_heads: 2,
        head_dim: 8,
        max_position_embeddings: 16,
        tie_word_embeddings: true,
    };
    let mut model = ModelConfig::qwen3(size)?.init(&device);
    // The reference is the model as training begins.
    let reference = model.valid();
    let loss_of = PairLoss::Sigmoid {
        beta: 0.1,
        smoothing: 0.0,
    };
    let mut optimiser = AdamWConfig::new().init_fused();
    let mut accuracy = 0.0;
    for step in 0..30 {
        let ids = batch(step);
        let (policy, tokens) = answer_sums(log_probs(&model, &ids, &device), &[ANSWER; 2 * PAIRS])?;
        let known = log_probs(&reference, &ids, &Device::flex());
        let (known, _) = answer_sums(known, &[ANSWER; 2 * PAIRS])?;
        // Chosen answers come before rejected ones.
        let side = |start| Answers {
            policy: policy.clone().narrow(0, start, PAIRS),
            reference: Some(known.clone().narrow(0, start, PAIRS)),
            tokens: tokens.clone().narrow(0, start, PAIRS),
        };
        let pairs = Pairs {
            chosen: side(0),
            rejected: side(PAIRS),
        };
        let loss = loss_of.per_pair(&pairs)?.mean();
        let metrics = loss_of.metrics(&pairs)?;
        let right = metrics.iter().find(|metric| metric.name == "rewards/accuracies");
        accuracy = right.map_or(0.0, |metric| metric.sum / metric.count);
        let value = loss.clone().into_scalar::<f32>();
        println!("step {step}: loss {value:.4}, accuracy {accuracy:.2}");
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = optimiser.step(3e-3, model, gradients);
    }
    assert!(accuracy > 0.9, "the model has to learn to prefer");
    Ok(())
}

/// Returns the log-probabilities of the tokens of all answers.
fn log_probs(model: &CausalLm, ids: &[i64], device: &Device) -> Tensor<1> {
    let length = PROMPT + ANSWER;
    let shape = [2 * PAIRS, length];
    let tensor = |values: Vec<i64>| Tensor::<1, Int>::from_data(&values[..], device).reshape(shape);
    let next = (0..ids.len()).map(|at| match (at + 1) % length {
        0 => Sequences::IGNORED,
        _ => ids[at + 1],
    });
    let sequences = Sequences {
        input_ids: tensor(ids.to_vec()),
        targets: tensor(next.collect()),
        position_ids: tensor((0..ids.len()).map(|at| (at % length) as i64).collect()),
        documents: None,
        attention_mask: None,
        pictures: None,
    };
    // A token has its probability at the one before it.
    let is_scored = |at: &usize| (PROMPT..length).contains(&(at % length + 1));
    let places: Vec<usize> = (0..ids.len()).filter(is_scored).collect();
    let scored = Scored {
        places: &places,
        temperature: 1.0,
    };
    model.log_probs(sequences, scored)
}

/// Returns rows of a prompt and an answer: the chosen ones have even tokens, and the rejected ones odd tokens.
fn batch(step: usize) -> Vec<i64> {
    let row = |row: usize| {
        let seed = step * PAIRS + row % PAIRS;
        let prompt = (0..PROMPT).map(move |at| ((seed * 7 + at * 3) % 64) as i64);
        let odd = usize::from(row >= PAIRS);
        let answer = (0..ANSWER).map(move |at| (2 * ((seed * 5 + at * 11) % 32) + odd) as i64);
        prompt.chain(answer)
    };
    (0..2 * PAIRS).flat_map(row).collect()
}
