//! Compares the table of semantics with the sites that the models of this crate reach.

use crate::counting::alone;
use std::collections::BTreeMap;

use crate::common::{MODELS, PARTS, ints, model_dir, read};
use burn::tensor::{Device, FloatDType};
use burn_kernels::policy::{self, Policy};
use burn_kernels::registry::sites;
use burn_kernels::report;
use burn_kernels::semantics::{
    AddRmsNormKey, AttentionKey, HeadLayout, QkNormRopeKey, SemanticsKey,
};
use kernels_models::{Architecture, ModelConfig, load, semantics};

/// Runs a model. Returns its `model_type` and the keys of the sites that it reached.
fn reached(name: &str) -> (&'static str, Vec<SemanticsKey>) {
    report::reset();
    let device = Device::default();
    let (config, model) = load(&model_dir(name), &device, FloatDType::F32).unwrap();
    let golden = read(&model_dir(name).join("golden.safetensors"));
    // The sites in another's body are reached where that one's kernel is off.
    for policy in ["all", "none"] {
        let _policy = policy::scope(policy.parse::<Policy>().unwrap());
        model.forward(ints(&golden["input_ids"], &device), None);
    }
    (config.architecture.text_model_type(), called())
}

/// Does the same for a part that is not a language model, without its weights.
fn reached_by_part(name: &str) -> (&'static str, Vec<SemanticsKey>) {
    let config = ModelConfig::from_file(&model_dir(name).join("config.json")).unwrap();
    report::reset();
    config.reached_sites(&Device::default()).unwrap();
    (config.architecture.text_model_type(), called())
}

/// Returns the keys of the sites that were called.
fn called() -> Vec<SemanticsKey> {
    let rows = report::report().rows;
    let called = |site: &str| rows.iter().any(|row| row.site == site && row.calls > 0);
    let keys = sites()
        .filter(|site| called(&site.name()))
        .map(|site| site.spec().key);
    keys.collect()
}

/// The models read heads in the layout that projections write; `transformers` exchanges the axes first.
fn as_projected(attention: AttentionKey) -> SemanticsKey {
    SemanticsKey::Attention(AttentionKey {
        layout: HeadLayout::Bsnd,
        ..attention
    })
}

fn prepared(both: QkNormRopeKey) -> SemanticsKey {
    SemanticsKey::QkNormRope(QkNormRopeKey {
        layout: HeadLayout::Bsnd,
        ..both
    })
}

/// Every architecture has a fixture. Its model calls sites with all keys of its row in the table.
#[test]
fn annotated_models_agree_with_the_table() {
    let _alone = alone();
    let mut keys: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for name in MODELS {
        let (model_type, found) = reached(name);
        keys.entry(model_type).or_default().extend(found);
    }
    for name in PARTS {
        let (model_type, found) = reached_by_part(name);
        keys.entry(model_type).or_default().extend(found);
    }
    for architecture in Architecture::ALL {
        let model_type = architecture.text_model_type();
        let model = semantics::of(model_type).unwrap();
        let found = &keys[model_type];
        let always = [
            SemanticsKey::RmsNorm(model.norm),
            SemanticsKey::Rope(model.rope),
        ];
        // Gemma 3n scales its sums before it normalises them.
        let sums = architecture != Architecture::Gemma3n;
        let sum = SemanticsKey::AddRmsNorm(AddRmsNormKey::of_norm(model.norm));
        let sum = sums.then_some(sum);
        let attention = [Some(model.attention), model.local_attention];
        let mut attention = attention.iter().flatten().copied().map(as_projected);
        assert!(
            attention.any(|key| found.contains(&key)),
            "{model_type}: no attention in {found:?}"
        );
        let qk_norm_rope = model.qk_norm_rope.map(prepared);
        // If all layers are sparse, the table's MLP is that of the experts.
        let has_mlp = |key: &SemanticsKey| matches!(key, SemanticsKey::Glu(_));
        let dense = model.experts.is_none() || found.iter().any(has_mlp);
        let mlp = dense.then_some(SemanticsKey::Glu(model.mlp));
        let experts = model.experts.map(SemanticsKey::MoeExperts);
        let block = model.block.map(SemanticsKey::MoeBlock);
        let sometimes = [sum, mlp, qk_norm_rope, experts, block];
        for key in always.into_iter().chain(sometimes.into_iter().flatten()) {
            assert!(found.contains(&key), "{model_type}: {key} not in {found:?}");
        }
    }
}
