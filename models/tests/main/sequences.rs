//! Losses of sequences with targets of their own: packed documents are as if each were alone.

use crate::common::{model_dir, to_f64};
use crate::comparison::relative_to;
use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::{DType, Device, FloatDType, Int, Tensor};
use burn_kernels::policy::{Policy, scope};
use kernels_models::{Batch, CausalLm, Losses, ModelConfig, Sequences, load};

const DOCUMENTS: [&[i64]; 4] = [
    &[3, 9, 27, 17, 5],
    &[4, 8],
    &[11, 12, 13, 14],
    &[21, 22, 23],
];

fn tensor(values: &[i64], shape: [usize; 2], device: &Device) -> Tensor<2, Int> {
    Tensor::<1, Int>::from_data(values, device).reshape(shape)
}

/// Returns documents as sequences, one after the other.
fn packed(documents: &[&[i64]], shape: [usize; 2], device: &Device) -> Sequences {
    let next = |document: &&[i64]| -> Vec<i64> {
        let targets = document[1..].iter().copied();
        targets.chain([Sequences::IGNORED]).collect()
    };
    let all =
        |of: &dyn Fn(&&[i64]) -> Vec<i64>| -> Vec<i64> { documents.iter().flat_map(of).collect() };
    Sequences {
        input_ids: tensor(&all(&|document| document.to_vec()), shape, device),
        targets: tensor(&all(&next), shape, device),
        position_ids: tensor(
            &all(&|document| (0..document.len() as i64).collect()),
            shape,
            device,
        ),
        documents: Some(documents.iter().map(|document| document.len()).collect()),
        attention_mask: None,
        pictures: None,
    }
}

fn of(name: &str, dtype: FloatDType) -> (ModelConfig, CausalLm) {
    load(&model_dir(name), &Device::flex().autodiff(), dtype).unwrap()
}

/// The loss of packed documents is the mean of those of single ones, and so are the gradients, in layers with windows too.
#[test]
fn packed_documents_are_as_if_each_were_alone() {
    let device = Device::flex().autodiff();
    for name in [
        "llama",
        "qwen3",
        "mistral_sw8",
        "glm4",
        "olmo2",
        "qwen3_next",
        "qwen3_5",
    ] {
        let (config, model) = of(name, FloatDType::F64);
        let total: usize = DOCUMENTS.iter().map(|document| document.len() - 1).sum();
        let mut expected = Tensor::<1>::zeros([1], (&device, DType::F64));
        for document in DOCUMENTS {
            let single =
                model.training_losses(tensor(document, [1, document.len()], &device), None);
            let weight = (document.len() - 1) as f64 / total as f64;
            expected = expected + single.next_token * weight;
        }
        let number = |loss: &Tensor<1>| loss.clone().without_autodiff().into_scalar::<f64>();
        let wanted_loss = number(&expected);
        let wanted = GradientsParams::from_grads(expected.backward(), &model);
        let sequences = packed(&DOCUMENTS, [2, 7], &device);
        sequences.check(&config).unwrap();
        for policy in [Policy::auto(), Policy::reference()] {
            let _policy = scope(policy);
            let found = model.sequence_losses(sequences.clone()).next_token;
            let loss = number(&found);
            let error = (loss - wanted_loss).abs();
            assert!(
                error < 1e-10 * wanted_loss,
                "{name}: {loss} and {wanted_loss}"
            );
            let found = GradientsParams::from_grads(found.backward(), &model);
            assert!(farthest(&model, &found, &wanted) < 1e-8, "{name}");
        }
    }
}

fn farthest(model: &CausalLm, one: &GradientsParams, other: &GradientsParams) -> f64 {
    use burn::module::{ModuleVisitor, Param};
    struct Compare<'a>(&'a GradientsParams, &'a GradientsParams, f64);
    impl ModuleVisitor for Compare<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let (Some(one), Some(other)) = (self.0.get::<D>(param.id), self.1.get::<D>(param.id))
            else {
                return;
            };
            let [one, other] = [one, other].map(|gradient| to_f64(&gradient.into_data()));
            // The difference is finite, so that `max` keeps it.
            self.2 = self.2.max(relative_to(1e-12, &one, &other));
        }
    }
    let mut compare = Compare(one, other, 0.0);
    model.visit(&mut compare);
    assert!(one.len() > 10 && one.len() == other.len());
    compare.2
}

/// Tokens without a target don't count in the loss, and tokens behind a document do not change it.
#[test]
fn ignored_targets_and_padding_have_no_effect() {
    let device = Device::flex().autodiff();
    let (_, model) = of("llama", FloatDType::F64);
    let number = |sequences: Sequences| {
        let loss = model.sequence_losses(sequences).next_token;
        loss.without_autodiff().into_scalar::<f64>()
    };
    let alone = number(packed(&DOCUMENTS[..1], [1, 5], &device));
    let plain = model
        .training_losses(tensor(DOCUMENTS[0], [1, 5], &device), None)
        .next_token;
    assert!((alone - plain.without_autodiff().into_scalar::<f64>()).abs() < 1e-12);
    let mut padded = packed(&[DOCUMENTS[0], &[0, 0]], [1, 7], &device);
    let targets = [
        9,
        27,
        17,
        5,
        Sequences::IGNORED,
        Sequences::IGNORED,
        Sequences::IGNORED,
    ];
    padded.targets = tensor(&targets, [1, 7], &device);
    assert!((number(padded.clone()) - alone).abs() < 1e-12);
    // A causal mask hides later tokens, without lengths too.
    padded.documents = None;
    assert!((number(padded) - alone).abs() < 1e-12);
}

/// The load-balancing loss counts the tokens that a mask of the batch does, however the gradients are computed.
#[test]
fn padding_is_no_token_of_the_load_balancing_loss() {
    let device = Device::flex().autodiff();
    let none = Sequences::IGNORED;
    let tensor = |values: [i64; 10]| tensor(&values, [2, 5], &device);
    let ids = tensor([3, 9, 27, 17, 5, 4, 8, 0, 0, 0]);
    let mask = tensor([1, 1, 1, 1, 1, 1, 1, 0, 0, 0]);
    let sequences = Sequences {
        input_ids: ids.clone(),
        targets: tensor([9, 27, 17, 5, none, 8, none, none, none, none]),
        position_ids: tensor([0, 1, 2, 3, 4, 0, 1, 2, 3, 4]),
        documents: None,
        attention_mask: Some(mask.clone()),
        pictures: None,
    };
    let numbers = |losses: &Losses| {
        let balance = losses.load_balancing.as_ref();
        let parts = [Some(&losses.total), balance];
        parts.map(|part| {
            part.unwrap()
                .clone()
                .without_autodiff()
                .into_scalar::<f64>()
        })
    };
    let near = |one: [f64; 2], other: [f64; 2]| {
        let mut pairs = one.iter().zip(other);
        pairs.all(|(one, other)| (one - other).abs() < 1e-9)
    };
    for name in ["mixtral", "qwen3_moe"] {
        let (config, model) = of(name, FloatDType::F64);
        sequences.check(&config).unwrap();
        let batch = Batch::new(ids.clone()).masked(&mask).unwrap();
        let wanted = numbers(&model.losses_of(batch).1);
        let found = numbers(&model.sequence_losses(sequences.clone()));
        assert!(near(found, wanted), "{name}: {found:?} and {wanted:?}");
        let found = numbers(&model.recomputed_losses(sequences.clone(), (1.0, 1), |_| ()));
        assert!(near(found, wanted), "{name}, recomputed: {found:?}");
        let counted = Sequences {
            attention_mask: None,
            ..sequences.clone()
        };
        let [_, counted] = numbers(&model.sequence_losses(counted));
        assert!((counted - wanted[1]).abs() > 1e-3, "{name}: {counted}");
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    let device = Device::flex();
    let (config, _) = of("llama", FloatDType::F32);
    let good = packed(&DOCUMENTS, [2, 7], &device);
    let said = |change: &dyn Fn(&mut Sequences), config: &ModelConfig| {
        let mut sequences = good.clone();
        change(&mut sequences);
        sequences.check(config).unwrap_err().to_string()
    };
    let other = || tensor(&[1; 14], [1, 14], &device);
    assert!(said(&|s| s.targets = other(), &config).starts_with("targets: expected shape [2, 7]"));
    assert!(said(&|s| s.position_ids = other(), &config).starts_with("position_ids"));
    assert!(said(&|s| s.attention_mask = Some(other()), &config).starts_with("attention_mask"));
    // The sums of the last overflow, and would then be right.
    for documents in [
        vec![5, 2, 4, 2],
        vec![14],
        vec![6, 8],
        vec![],
        vec![7, usize::MAX, 1, 7],
    ] {
        let said = said(&|s| s.documents = Some(documents.clone()), &config);
        assert!(said.contains("2 sequences of 7"), "{said}");
    }
    for name in [
        "gemma2_sw8",
        "gpt_oss_sw8",
        "deepseek_v2",
        "llama4_chunk8",
        "gemma3n_kvshare",
    ] {
        let (config, _) = of(name, FloatDType::F32);
        assert!(config.packs_no_documents().is_some(), "{name}");
        assert!(said(&|_| {}, &config).starts_with("documents"), "{name}");
    }
}
