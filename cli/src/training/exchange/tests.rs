//! Several ranks against one.

use super::add_up;
use crate::loading;
use crate::training::batch::Batch;
use crate::training::optimiser::{AdamW, Optimiser};
use crate::training::plan::{Plan, Saving};
use crate::training::ranks::Ranks;
use crate::training::replicas::Replicas;
use crate::training::schedule::{Decay, Schedule};
use crate::training::state::Trainee;
use crate::training::step::Pass;
use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::{Device, FloatDType, Tensor};
use burn_kernels::distributed::Group;
use kernels_models::{AdapterConfig, CausalLm, ModelConfig, Qwen3Size};
use std::collections::HashMap;

const STEPS: usize = 20;

fn plan(ranks: Ranks) -> Plan {
    Plan {
        steps: STEPS,
        steps_per_validation: STEPS,
        schedule: Schedule {
            highest: 1e-3,
            lowest: 0.0,
            warmup: 1,
            steps: STEPS,
            decay: Decay::Cosine,
        },
        dtype: FloatDType::F32,
        gradient_checkpointing: false,
        seed: 1,
        ranks,
        devices: vec![Device::flex().autodiff()],
        names: vec!["cpu".to_owned()],
        saving: Saving {
            steps: None,
            time: None,
            tensorboard: false,
        },
        patience: None,
        resume: String::new(),
        preference: None,
        teacher: None,
    }
}

/// Returns a model whose embeddings are tied, as a whole or with adapters.
fn model(adapts: bool, device: &Device) -> CausalLm {
    let config = ModelConfig::qwen3(Qwen3Size {
        vocab_size: 32,
        hidden_size: 16,
        intermediate_size: 24,
        num_hidden_layers: 2,
        num_attention_heads: 2,
        num_key_value_heads: 1,
        head_dim: 8,
        max_position_embeddings: 16,
        tie_word_embeddings: true,
    });
    let model = loading::random(&config.unwrap(), 5, device);
    if !adapts {
        return model;
    }
    let adapters = AdapterConfig {
        rank: 2,
        alpha: 4.0,
        dropout: 0.0,
        rank_stabilised: false,
        targets: Vec::new(),
        patterns: Default::default(),
    };
    model.with_adapters(&adapters, 7).unwrap()
}

/// Returns batches with these numbers of sequences and of tokens.
fn batches(shapes: &[[usize; 2]]) -> Vec<Batch> {
    let of = |shape: &[usize; 2]| {
        let count = shape[0] * shape[1];
        let id = |at: usize| ((at * at * 7 + at * 3 + shape[1]) % 32) as i64;
        Batch {
            shape: *shape,
            ids: (0..count).map(id).collect(),
            #[cfg(feature = "text")]
            labels: None,
        }
    };
    shapes.iter().map(of).collect()
}

/// The gradients of the first step by parameter, and the losses and norms of all.
#[derive(Default)]
struct Run {
    gradients: HashMap<ParamId, Vec<f32>>,
    steps: Vec<(f64, f64)>,
    /// The elements given to the group for the first gradients.
    sent: u64,
}

struct Taking<'a>(&'a mut Run, GradientsParams);

impl ModuleVisitor for Taking<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.1.remove::<D>(param.id) {
            let values = gradient.try_to_vec_as::<f32>().unwrap();
            self.0.gradients.insert(param.id, values);
        }
    }
}

fn run(model: CausalLm, shapes: &[[usize; 2]], group: Option<Group>) -> Run {
    let ranks = group.clone().map_or_else(Ranks::alone, Ranks::of);
    let plan = plan(ranks);
    let mut run = Run::default();
    let first = batches(shapes);
    let all = first.iter().map(Batch::counted).sum();
    let share = match &group {
        Some(group) => Batch::of_rank(&first, group.rank(), group.size()),
        None => first,
    };
    let pass = Pass::new(&model, plan.method(plan.device(), 0));
    let (_, mut gradients) = pass.gradients(&share, all).unwrap();
    drop(pass);
    if let Some(group) = &group {
        let before = group.sent();
        gradients = add_up(&model, gradients, group, plan.device()).unwrap();
        run.sent = group.sent() - before;
    }
    model.visit(&mut Taking(&mut run, gradients));
    let settings = AdamW::FROM_SCRATCH;
    let trainee = Trainee {
        model,
        optimiser: Optimiser::new(settings),
    };
    let batches = batches(shapes);
    let mut replicas = Replicas::new(trainee, settings, &plan).unwrap();
    for step in 0..STEPS {
        let rate = plan.schedule.rate(step);
        let (next, loss, norm) = replicas.step(&batches, &plan, (0, rate)).unwrap();
        replicas = next;
        run.steps.push((loss.value, norm));
    }
    run
}

fn near(one: f64, other: f64, tolerance: f64, what: &str) {
    let difference = (one - other).abs() / one.abs();
    assert!(difference <= tolerance, "{what}: {one} and {other}");
}

fn compare(adapts: bool, shapes: &[[usize; 2]], size: usize) {
    let model = model(adapts, &Device::flex().autodiff());
    let one = run(model.clone(), shapes, None);
    assert!(one.steps[STEPS - 1].0 < one.steps[0].0, "{:?}", one.steps);
    let groups = Group::of_threads(size).into_iter();
    let threads = groups.map(|group| {
        let (model, shapes) = (model.clone(), shapes.to_vec());
        std::thread::spawn(move || run(model, &shapes, Some(group)))
    });
    let parameters = model.num_params();
    for rank in threads.collect::<Vec<_>>() {
        let several = rank.join().unwrap();
        near(one.steps[0].0, several.steps[0].0, 1e-6, "first loss");
        for (one, several) in one.steps.iter().zip(&several.steps) {
            near(one.0, several.0, 1e-4, "loss");
            near(one.1, several.1, 1e-3, "norm");
        }
        assert_eq!(one.gradients.len(), several.gradients.len());
        let mut elements = 0;
        for (id, expected) in &one.gradients {
            let found = &several.gradients[id];
            let largest = expected.iter().fold(0.0_f32, |all, one| all.max(one.abs()));
            for (one, other) in expected.iter().zip(found) {
                assert!(
                    (one - other).abs() <= 1e-5 * largest.max(1e-3),
                    "{one}, {other}"
                );
            }
            elements += found.len();
        }
        // Besides the gradients, a flag for each parameter.
        let flags = several.sent as usize - elements;
        assert!(flags >= one.gradients.len() && flags < 200, "{flags}");
        assert_eq!(adapts, elements < parameters / 2);
    }
}

#[test]
fn shares_of_any_size_train_as_one_process_does() {
    for (sequences, size) in [(4, 2), (5, 3), (4, 4)] {
        compare(false, &[[sequences, 8]], size);
    }
}

#[test]
fn ranks_without_a_sequence_add_nothing() {
    compare(false, &[[2, 8]], 3);
}

#[test]
fn batches_of_a_step_are_sent_once() {
    compare(false, &[[1, 8], [3, 5], [2, 12]], 2);
}

#[test]
fn only_adapters_are_sent() {
    compare(true, &[[3, 8]], 2);
}
