//! Several ranks against one.

use super::early::{Early, Learned};
use super::{kernels, sharded};
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
use burn_kernels::distributed::{Group, sum_gradients};
use burn_kernels::policy;
use kernels_models::{AdapterConfig, CausalLm, ModelConfig, Qwen3Size};
use serde_json::Value;
use std::collections::HashMap;
use std::fs;
use std::path::Path;

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

/// Returns a copy with parameters of its own. Threads that compute gradients of the same ones can lock each other in Burn.
fn copy(model: &CausalLm) -> CausalLm {
    model.clone().fork(&Device::flex().autodiff())
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
    let pass = match &group {
        Some(group) => pass.shared(group),
        None => pass,
    };
    let (_, mut gradients) = pass.gradients(&share, all).unwrap();
    drop(pass);
    if let Some(group) = &group {
        let before = group.sent();
        gradients = sum_gradients(group, &model, gradients).unwrap();
        run.sent = group.sent() - before;
    }
    model.visit(&mut Taking(&mut run, gradients));
    run.steps = trained(model, shapes, &plan).1;
    run
}

/// Trains a model. Returns its copy on this rank, and the losses and norms of all steps.
fn trained(model: CausalLm, shapes: &[[usize; 2]], plan: &Plan) -> (Replicas, Vec<(f64, f64)>) {
    let settings = AdamW::FROM_SCRATCH;
    let trainee = Trainee {
        model,
        optimiser: Optimiser::new(settings),
    };
    let batches = batches(shapes);
    let mut replicas = Replicas::new(trainee, settings, plan).unwrap();
    let mut steps = Vec::new();
    for step in 0..STEPS {
        let rate = plan.schedule.rate(step);
        let (next, loss, norm) = replicas.step(&batches, plan, (0, rate)).unwrap();
        replicas = next;
        steps.push((loss.value + loss.load_balancing.unwrap_or(0.0), norm));
    }
    (replicas, steps)
}

fn near(one: f64, other: f64, tolerance: f64, what: &str) {
    let difference = (one - other).abs() / one.abs();
    assert!(difference <= tolerance, "{what}: {one} and {other}");
}

fn compare(adapts: bool, shapes: &[[usize; 2]], size: usize) {
    compare_of(
        model(adapts, &Device::flex().autodiff()),
        adapts,
        shapes,
        size,
    );
}

fn compare_of(model: CausalLm, adapts: bool, shapes: &[[usize; 2]], size: usize) {
    let one = run(model.clone(), shapes, None);
    assert!(one.steps[STEPS - 1].0 < one.steps[0].0, "{:?}", one.steps);
    let groups = Group::of_threads(size).into_iter();
    let threads = groups.map(|group| {
        let (model, shapes) = (copy(&model), shapes.to_vec());
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

/// A step of twelve sequences of three lengths, which no number of ranks shares equally.
#[test]
fn one_to_four_ranks_train_the_same_model() {
    let shapes = [[5, 8], [4, 6], [3, 11]];
    for size in 1..=4 {
        compare(false, &shapes, size);
        compare(true, &shapes, size);
        compare_of(mixture(), false, &shapes, size);
    }
}

#[test]
fn a_rank_under_another_policy_is_named_before_the_first_step() {
    let ranks = Group::of_threads(2).into_iter().map(|group| {
        std::thread::spawn(move || {
            let rank = group.rank();
            let _scope = (rank == 1).then(|| policy::scope("none".parse().unwrap()));
            let plan = plan(Ranks::of(group.clone()));
            kernels::compare(&plan, &group).unwrap_err().to_string()
        })
    });
    for rank in ranks.collect::<Vec<_>>() {
        let said = rank.join().unwrap();
        assert!(
            said.starts_with("rank 1 runs other kernels than rank 0: "),
            "{said}"
        );
        assert!(said.contains(" takes the path reference"), "{said}");
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

/// Returns a mixture of experts whose loss is half a load-balancing loss.
fn mixture() -> CausalLm {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/models/qwen3_moe");
    let text = fs::read_to_string(fixture.join("config.json")).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    config["output_router_logits"] = true.into();
    config["router_aux_loss_coef"] = 0.5.into();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.json");
    fs::write(&path, config.to_string()).unwrap();
    let config = ModelConfig::from_file(&path).unwrap();
    loading::random(&config, 5, &Device::flex().autodiff())
}

#[test]
fn experts_are_balanced_over_the_whole_batch() {
    compare_of(mixture(), false, &[[5, 8]], 3);
    // A rank has no part of the first batch.
    compare_of(mixture(), false, &[[1, 8], [2, 6]], 2);
}

/// Sums in buckets of a few elements, once after the backward pass and twice while it goes on, of which the first teaches
/// the second. Returns the last sums, and those after the pass.
fn summed(model: CausalLm, shapes: &[[usize; 2]], group: &Group) -> [Run; 2] {
    let mut plan = plan(Ranks::of(group.clone()));
    plan.gradient_checkpointing = true;
    let batches = batches(shapes);
    let all = batches.iter().map(Batch::counted).sum();
    let share = Batch::of_rank(&batches, group.rank(), group.size());
    let pass = Pass::new(&model, plan.method(plan.device(), 0)).shared(group);
    let (_, gradients) = pass.gradients(&share, all).unwrap();
    let before = group.sent();
    let expected = sum_gradients(group, &model, gradients).unwrap();
    let mut runs = [Run::default(), Run::default()];
    runs[1].sent = group.sent() - before;
    let mut learned = Learned::default();
    let mut found = None;
    for step in 0..2 {
        let before = group.sent();
        let mut early = Early::new(group, &model, &mut learned, 100);
        let take = |gradients, is_last| early.take(gradients, is_last);
        pass.each_gradient(&share, all, take).unwrap();
        let has_last = share.last().is_some_and(|last| last.targets() > 0);
        assert_eq!(early.begun() > 0, step == 1 && has_last);
        found = Some(early.finish().unwrap());
        runs[0].sent = group.sent() - before;
    }
    model.visit(&mut Taking(&mut runs[0], found.unwrap()));
    model.visit(&mut Taking(&mut runs[1], expected));
    runs
}

#[test]
fn sums_that_begin_in_the_backward_pass_have_the_same_bits() {
    for (adapts, shapes, size) in [
        (false, vec![[4, 8]], 2),
        (true, vec![[4, 8]], 2),
        // A rank has no part of the last batch.
        (false, vec![[3, 8], [3, 5], [2, 6]], 3),
    ] {
        let model = model(adapts, &Device::flex().autodiff());
        let ranks = Group::of_threads(size).into_iter().map(|group| {
            let (model, shapes) = (copy(&model), shapes.clone());
            std::thread::spawn(move || summed(model, &shapes, &group))
        });
        for rank in ranks.collect::<Vec<_>>() {
            let [found, expected] = rank.join().unwrap();
            assert!(!expected.gradients.is_empty());
            // Besides, whether a rank used other parameters.
            assert!(
                found.sent <= expected.sent + 1,
                "{} {}",
                found.sent,
                expected.sent
            );
            assert_eq!(found.gradients.len(), expected.gradients.len());
            for (id, gradient) in &expected.gradients {
                let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(gradient), bits(&found.gradients[id]));
            }
        }
    }
}

#[test]
fn gradients_beyond_those_of_the_step_before_are_not_lost() {
    let model = model(false, &Device::flex().autodiff());
    let ranks = Group::of_threads(2).into_iter().map(|group| {
        let model = copy(&model);
        std::thread::spawn(move || {
            let plan = plan(Ranks::of(group.clone()));
            let batches = batches(&[[4, 8]]);
            let share = Batch::of_rank(&batches, group.rank(), group.size());
            let pass = Pass::new(&model, plan.method(plan.device(), 0)).shared(&group);
            let all = batches.iter().map(Batch::counted).sum();
            let gradients = || pass.gradients(&share, all).unwrap().1;
            let mut learned = Learned::default();
            let mut runs = [Run::default(), Run::default()];
            for times in [1, 2] {
                let mut early = Early::new(&group, &model, &mut learned, 100);
                // Only the first rank gets more in the second step.
                for _ in 0..if group.rank() == 0 { times } else { 1 } {
                    early.take(gradients(), true);
                }
                let sums = early.finish().unwrap();
                model.visit(&mut Taking(&mut runs[times - 1], sums));
            }
            (gradients(), runs, model, group.rank())
        })
    });
    for rank in ranks.collect::<Vec<_>>() {
        let (gradients, [once, more], model, rank) = rank.join().unwrap();
        let mut own = Run::default();
        model.visit(&mut Taking(&mut own, gradients));
        if rank == 0 {
            for (id, sum) in &more.gradients {
                let expected = once.gradients[id].iter().zip(&own.gradients[id]);
                for (found, (once, own)) in sum.iter().zip(expected) {
                    let most = 1e-5 * (once.abs() + own.abs());
                    assert!((once + own - found).abs() <= most, "{once}, {own}: {found}");
                }
            }
        }
        assert_eq!(more.gradients.len(), once.gradients.len());
    }
}

#[test]
fn ranks_that_compute_layers_twice_train_as_one_process_does() {
    let model = model(false, &Device::flex().autodiff());
    let shapes = [[4, 8], [3, 5]];
    let of = |ranks: Ranks| Plan {
        gradient_checkpointing: true,
        ..plan(ranks)
    };
    let (_, one) = trained(model.clone(), &shapes, &of(Ranks::alone()));
    let ranks = Group::of_threads(2).into_iter().map(|group| {
        let model = copy(&model);
        std::thread::spawn(move || trained(model, &shapes, &of(Ranks::of(group))).1)
    });
    for rank in ranks.collect::<Vec<_>>() {
        for (one, other) in one.iter().zip(rank.join().unwrap()) {
            near(one.0, other.0, 1e-4, "loss");
            near(one.1, other.1, 1e-3, "norm");
        }
    }
}

/// The moments of all parameters, as a whole or in parts.
#[derive(Default)]
struct Moments(HashMap<ParamId, (usize, Vec<f32>)>);

impl Moments {
    fn of(model: &CausalLm, optimiser: &Optimiser, are_parts: bool) -> Self {
        struct Read<'a>(Moments, &'a Optimiser, bool);
        impl Read<'_> {
            fn add<const D: usize>(&mut self, id: ParamId) {
                let Some(state) = self.1.state::<D>(id) else {
                    return;
                };
                let momentum = &state.momentum;
                let mut values = momentum.moment_1.try_to_vec_as::<f32>().unwrap();
                values.extend(momentum.moment_2.try_to_vec_as::<f32>().unwrap());
                self.0.0.insert(id, (momentum.time, values));
            }
        }
        impl ModuleVisitor for Read<'_> {
            fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
                match self.2 {
                    true => self.add::<1>(param.id),
                    false => self.add::<D>(param.id),
                }
            }
        }
        let mut read = Read(Self::default(), optimiser, are_parts);
        model.visit(&mut read);
        read.0
    }

    fn elements(&self) -> usize {
        self.0.values().map(|(_, values)| values.len()).sum()
    }
}

/// Trains with whole states in one process and with divided ones in several, and compares losses, norms and states.
fn compare_divided(adapts: bool, shapes: &[[usize; 2]], size: usize) {
    let model = model(adapts, &Device::flex().autodiff());
    let (one, steps) = trained(model.clone(), shapes, &plan(Ranks::alone()));
    let Trainee {
        model: after,
        optimiser,
    } = one.first();
    let expected = Moments::of(after, optimiser, false);
    let all = expected.elements() / 2;
    let ranks = Group::of_threads(size).into_iter().map(|group| {
        let (model, shapes) = (copy(&model), shapes.to_vec());
        std::thread::spawn(move || {
            let plan = plan(Ranks::of(group.clone()).sharding(true));
            let before = group.sent();
            let (replicas, steps) = trained(model, &shapes, &plan);
            let sent = (group.sent() - before) as usize;
            let Trainee { model, optimiser } = replicas.first();
            let parts = Moments::of(model, optimiser, true);
            let whole = replicas.gathered(&plan).unwrap();
            assert_eq!(whole.is_some(), group.rank() == 0);
            let whole = whole.map(|mut whole| {
                let moments = Moments::of(model, &whole, false);
                // What was gathered is divided into the same parts again.
                let alone = Group::alone();
                sharded::divide(model, &mut whole, &alone).unwrap();
                assert_eq!(Moments::of(model, &whole, true).0, moments.0);
                moments
            });
            (steps, sent, parts, whole)
        })
    });
    let mut held = 0;
    for rank in ranks.collect::<Vec<_>>() {
        let (found, sent, parts, whole) = rank.join().unwrap();
        near(steps[0].0, found[0].0, 1e-6, "first loss");
        for (one, several) in steps.iter().zip(&found) {
            near(one.0, several.0, 1e-4, "loss");
            near(one.1, several.1, 1e-3, "norm");
        }
        let part = parts.elements() / 2;
        assert!(part <= all.div_ceil(size), "{part} of {all}");
        held += part;
        // A step scatters all gradients and gathers this rank's part, besides a flag for each parameter and losses.
        let rest = sent - STEPS * (all + part);
        assert!(rest < STEPS * 200, "{rest}");
        let Some(whole) = whole else { continue };
        assert_eq!(whole.0.len(), expected.0.len());
        for (id, (time, moments)) in &expected.0 {
            let (found_time, found) = &whole.0[id];
            assert_eq!((time, moments.len()), (found_time, found.len()));
            let largest = moments.iter().fold(0.0_f32, |all, one| all.max(one.abs()));
            for (one, other) in moments.iter().zip(found) {
                assert!(
                    (one - other).abs() <= 1e-3 * largest,
                    "{one}, {other} of {largest}"
                );
            }
        }
    }
    assert_eq!(held, all);
}

#[test]
fn divided_states_train_as_whole_ones_do() {
    compare_divided(false, &[[4, 8]], 4);
    compare_divided(false, &[[1, 8], [5, 5]], 3);
}

#[test]
fn divided_states_of_adapters_train_too() {
    compare_divided(true, &[[3, 8]], 2);
}
