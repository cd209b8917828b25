//! Gradients with the activations of one layer at a time: equal to those of a graph of the whole model, in less memory.

use crate::comparison::relative_to;
use crate::counting::{alone, peak};

use crate::common::{fixtures, model_dir, to_f64};
use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::{GradientsAccumulator, GradientsParams};
use burn::tensor::{Device, FloatDType, Int, Tensor};
use burn_kernels::policy::{Policy, scope};
use kernels_models::{AdapterConfig, CausalLm, ModelConfig, Qwen3Size, Sequences, load, save};

fn device() -> Device {
    Device::flex().autodiff()
}

/// Returns two sequences of the ids of a small vocabulary, the first of two documents if the model keeps them apart.
fn sequences(config: &ModelConfig) -> Sequences {
    let device = device();
    let ids: Vec<i64> = (0..16).map(|i| 1 + (i * i + 3 * i) % 29).collect();
    let mut targets: Vec<i64> = ids[1..].to_vec();
    targets.push(Sequences::IGNORED);
    let tensor = |values: &[i64]| Tensor::<1, Int>::from_data(values, &device).reshape([2, 8]);
    let packs = config.packs_no_documents().is_none();
    let lengths: &[i64] = if packs { &[5, 3, 8] } else { &[8, 8] };
    let positions: Vec<i64> = lengths.iter().flat_map(|length| 0..*length).collect();
    Sequences {
        input_ids: tensor(&ids),
        targets: tensor(&targets),
        position_ids: tensor(&positions),
        documents: packs.then(|| lengths.iter().map(|length| *length as usize).collect()),
        attention_mask: None,
        pictures: None,
    }
}

type Results = (f64, Option<f64>, GradientsParams);

fn number(loss: &Tensor<1>) -> f64 {
    loss.clone().without_autodiff().into_scalar()
}

fn whole(model: &CausalLm, sequences: Sequences, weight: f64) -> Results {
    let losses = model.sequence_losses(sequences);
    let balance = losses.load_balancing.as_ref().map(number);
    let loss = number(&losses.total);
    let gradients = (losses.total * weight).backward();
    (loss, balance, GradientsParams::from_grads(gradients, model))
}

fn recomputed(model: &CausalLm, sequences: Sequences, weight: f64) -> Results {
    let mut sum = GradientsAccumulator::new();
    let losses = model.recomputed_losses(sequences, (weight, 7), |gradients| {
        sum.accumulate(model, GradientsParams::from_grads(gradients, model));
    });
    assert!(!losses.total.is_tracked());
    let balance = losses.load_balancing.as_ref().map(number);
    (number(&losses.total), balance, sum.grads())
}

/// Returns the largest difference of two gradients, as a part of its parameter's largest. Every trained parameter that has one
/// gradient must have the other.
fn farthest(model: &CausalLm, one: &GradientsParams, other: &GradientsParams) -> f64 {
    struct Compare<'a>(&'a GradientsParams, &'a GradientsParams, f64, usize);
    impl ModuleVisitor for Compare<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let (one, other) = (self.0.get::<D>(param.id), self.1.get::<D>(param.id));
            let (Some(one), Some(other)) = (one, other) else {
                return;
            };
            let [one, other] = [one, other].map(|gradient| to_f64(&gradient.into_data()));
            // The difference is finite, so that `max` keeps it.
            self.2 = self.2.max(relative_to(1e-12, &one, &other));
            self.3 += 1;
        }
    }
    let mut compare = Compare(one, other, 0.0, 0);
    model.visit(&mut compare);
    assert!(compare.3 > 10 && one.len() == compare.3 && other.len() == compare.3);
    compare.2
}

/// Families with norms in other places, tied and untied output projections, latent attention, chunks, windows and experts, whose
/// balance is a function of all layers' routers.
#[test]
fn gradients_are_those_of_the_whole_graph() {
    let _alone = alone();
    for name in [
        "llama",
        "qwen3",
        "qwen3_moe",
        "mixtral",
        "gemma2_sw8",
        "gemma3_sw8_linear",
        "glm4",
        "olmo2",
        "deepseek_v2",
        "llama4_chunk8",
        "gpt_oss_sw8",
        "qwen3_next",
    ] {
        let (config, model) = load(&model_dir(name), &device(), FloatDType::F64).unwrap();
        let sequences = sequences(&config);
        sequences.check(&config).unwrap();
        for policy in [Policy::auto(), Policy::reference()] {
            let _policy = scope(policy);
            let (loss, balance, gradients) = whole(&model, sequences.clone(), 0.25);
            let found = recomputed(&model, sequences.clone(), 0.25);
            assert_eq!(found.0, loss, "{name}");
            match (found.1, balance) {
                // Equal but for the rounding of its sum over layers.
                (Some(found), Some(balance)) => {
                    let off = (found - balance).abs();
                    assert!(off <= 1e-15 * balance, "{name}: {found} for {balance}");
                }
                (found, balance) => assert_eq!(found, balance, "{name}"),
            }
            assert!(farthest(&model, &found.2, &gradients) < 1e-12, "{name}");
        }
    }
}

/// In f32 and bf16, losses have the same bits; gradients differ where one parameter's are added in another order.
#[test]
fn losses_have_the_same_bits_in_every_dtype() {
    let _alone = alone();
    for (dtype, bound) in [(FloatDType::F32, 1e-6), (FloatDType::BF16, 0.02)] {
        for name in ["llama", "qwen3_moe"] {
            let (config, model) = load(&model_dir(name), &device(), dtype).unwrap();
            let (loss, _, gradients) = whole(&model, sequences(&config), 1.0);
            let found = recomputed(&model, sequences(&config), 1.0);
            assert_eq!(found.0.to_bits(), loss.to_bits(), "{name}");
            let error = farthest(&model, &found.2, &gradients);
            assert!(error < bound, "{name}, {dtype:?}: {error}");
        }
    }
}

fn adapted(dropout: f64) -> (ModelConfig, CausalLm) {
    let (config, model) = load(&fixtures().join("text/tiny"), &device(), FloatDType::F32).unwrap();
    let adapters = AdapterConfig {
        rank: 3,
        alpha: 6.0,
        dropout,
        rank_stabilised: false,
        targets: Vec::new(),
        patterns: Default::default(),
    };
    (config, model.with_adapters(&adapters, 3).unwrap())
}

/// Adapters of frozen weights have gradients, and nothing else has.
#[test]
fn adapters_get_their_gradients() {
    let _alone = alone();
    let (config, model) = adapted(0.0);
    let (loss, _, gradients) = whole(&model, sequences(&config), 1.0);
    let found = recomputed(&model, sequences(&config), 1.0);
    assert_eq!(found.0.to_bits(), loss.to_bits());
    assert!(farthest(&model, &found.2, &gradients) < 1e-6);
}

/// Both passes of a layer drop the same inputs. The whole graph of the model draws other ones, so the reference is a slope: the
/// loss of parameters a little further along the gradient, with the same seed.
#[test]
fn both_passes_of_a_layer_drop_the_same_inputs() {
    let _alone = alone();
    let (config, model) = adapted(0.4);
    let sequences = sequences(&config);
    let (loss, _, gradients) = recomputed(&model, sequences.clone(), 1.0);
    let (again, _, _) = recomputed(&model, sequences.clone(), 1.0);
    assert_eq!(
        loss.to_bits(),
        again.to_bits(),
        "a seed gives the same losses"
    );

    struct Move<'a>(&'a GradientsParams, f64, f64);
    impl burn::module::ModuleMapper for Move<'_> {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            let Some(gradient) = self.0.get::<D>(param.id) else {
                return param;
            };
            self.2 += gradient.clone().square().sum().into_scalar::<f64>();
            let moved = param.val().without_autodiff() + gradient * self.1;
            Param::initialized(param.id, moved.autodiff().require_grad())
        }
    }
    // `B` is zero, so `A` has no gradient yet, and the loss is smooth along the gradient.
    let step = 1e-2;
    let mut ahead = Move(&gradients, step, 0.0);
    let (above, ..) = recomputed(&model.clone().map(&mut ahead), sequences.clone(), 1.0);
    let mut back = Move(&gradients, -step, 0.0);
    let (below, ..) = recomputed(&model.clone().map(&mut back), sequences, 1.0);
    let slope = (above - below) / (2.0 * step);
    let expected = ahead.2;
    assert!(expected > 1e-6);
    assert!(
        (slope - expected).abs() < 0.02 * expected,
        "slope {slope}, squared gradient {expected}"
    );
}

/// A deep model keeps the inputs of layers, not all activations.
#[test]
fn the_activations_of_one_layer_are_in_memory() {
    let _alone = alone();
    let size = Qwen3Size {
        vocab_size: 64,
        hidden_size: 64,
        intermediate_size: 192,
        num_hidden_layers: 12,
        num_attention_heads: 2,
        num_key_value_heads: 2,
        head_dim: 32,
        max_position_embeddings: 512,
        tie_word_embeddings: true,
    };
    let config = ModelConfig::qwen3(size).unwrap();
    let folder = tempfile::tempdir().unwrap();
    save(&config.init(&Device::flex()), &config, folder.path(), None).unwrap();
    let (_, model) = load(folder.path(), &device(), FloatDType::F32).unwrap();
    let ids: Vec<i64> = (0..1024).map(|i| i * 7 % 61).collect();
    let positions: Vec<i64> = (0..1024).map(|i| i % 512).collect();
    let device = device();
    let tensor = |values: &[i64]| Tensor::<1, Int>::from_data(values, &device).reshape([2, 512]);
    let sequences = Sequences {
        input_ids: tensor(&ids),
        targets: tensor(&ids),
        position_ids: tensor(&positions),
        documents: None,
        attention_mask: None,
        pictures: None,
    };
    let taken = |results: &dyn Fn() -> Results| {
        peak(|| {
            let (loss, ..) = results();
            assert!(loss.is_finite());
        })
    };
    // Parameters and the thread pool exist before memory is counted.
    recomputed(&model, sequences.clone(), 1.0);
    let all = taken(&|| whole(&model, sequences.clone(), 1.0));
    let one = taken(&|| recomputed(&model, sequences.clone(), 1.0));
    assert!(3 * one < all, "{one} of {all} bytes");
}

#[test]
#[should_panic(expected = "parallel residual streams")]
fn parallel_residual_streams_are_refused() {
    let _alone = alone();
    let (config, model) = load(&model_dir("gemma3n_kvshare"), &device(), FloatDType::F32).unwrap();
    let sequences = sequences(&config);
    recomputed(&model, sequences, 1.0);
}
