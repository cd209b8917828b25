//! Tests of the model families on an NPU, with the emulator: their goldens, and the section of `docs/models.md`.
//!
//! `BLESS=1 cargo test -p cann-tests --features npu the_page` writes the section anew; read what changed.

use super::alone;
use super::commands::GOLDENS;
use crate::comparison::{difference, relative};
use crate::models::half::Run;
use crate::models::{MODELS, SPARSE, check_gradients, ints, model_dir, read, to_f64};
use crate::page;
use burn::tensor::FloatDType;
use burn_kernels::live::{self, Sampling};
use burn_kernels::policy::{self, Policy};
use burn_kernels::semantics::SemanticsKey;
use burn_kernels::{npu, registry, report};
use kernels_models::load;
use serde_json::Value;
use std::collections::BTreeSet;

/// Compares logits, loss and gradients in f32 with those of transformers. Operations without an operator of CANN are an
/// error, since none may run on the host.
fn golden_holds(name: &str) {
    let device = npu::device(0).unwrap().autodiff();
    let _policy = policy::scope("all".parse::<Policy>().unwrap());
    let _verified = live::scope(Sampling::first());
    let (_, model) = load(&model_dir(name), &device, FloatDType::F32).unwrap();
    let golden = read(&model_dir(name).join("golden.safetensors"));
    report::reset();
    let (logits, loss) = model.loss(ints(&golden["input_ids"], &device), None);
    let gradients = model.gradients(&loss.backward());
    let report = report::report();
    assert!(report.fused_calls() > 15, "{report}");
    let expected = golden["logits"].values();
    let error = relative(&to_f64(&logits.into_data()), &expected);
    assert!(error < 2e-5, "{name}: logits off by {error:e}\n{report}");
    let error = difference(&to_f64(&loss.into_data()), &golden["loss"].values());
    assert!(error < 1e-5, "{name}: loss off by {error:e}\n{report}");
    check_gradients(name, &golden, &gradients);
    all_were_verified(name, &report);
    assert_eq!(burn_cann::backend::fallbacks(), []);
}

/// Compares logits and loss in bf16 with the exact ones, whose distance from those of transformers in bf16 is the
/// measure. Nobody's gradients in bf16 are a measure: live verification compares those of every kernel with exact ones.
fn golden_holds_in_bf16(name: &str) {
    let device = npu::device(0).unwrap().autodiff();
    let _policy = policy::scope("all".parse::<Policy>().unwrap());
    let _verified = live::scope(Sampling::first());
    let (config, model) = load(&model_dir(name), &device, FloatDType::BF16).unwrap();
    let golden = read(&model_dir(name).join("golden.safetensors"));
    report::reset();
    let ids = ints(&golden["input_ids"], &device);
    let loss = model.training_losses(ids, None).next_token;
    let gradients = model.gradients(&loss.backward());
    let run = Run::of(name, (&config, &model), &golden, &device);
    let report = report::report();
    assert!(report.fused_calls() > 15, "{report}");
    all_were_verified(name, &report);
    // A quarter is the room that other orders of operations get on CPUs too.
    run.positions_are_as_exact(name, name, 1.25);
    // A token that gets another of two experts of nearly the same weight has another loss. By that, transformers' mixtures
    // are off by up to 0.03, of a loss of 5; its dense models, by less than 0.006.
    let allowed = if SPARSE.contains(&name) { 0.06 } else { 0.01 };
    let error = difference(&to_f64(&loss.into_data()), &golden["loss_f64"].values());
    assert!(error < allowed, "{name}: loss off by {error:e}\n{report}");
    for (parameter, gradient) in &gradients {
        let finite = gradient.iter::<f64>().all(f64::is_finite);
        assert!(finite, "{name}: the gradient of {parameter}");
    }
    assert_eq!(burn_cann::backend::fallbacks(), []);
}

/// Fails unless live verification compared the kernel of every site that ran one, and found no difference.
#[track_caller]
pub(super) fn all_were_verified(name: &str, report: &report::Report) {
    let live = live::report();
    let sound = live
        .rows
        .iter()
        .all(|row| (row.differed, row.skipped) == (0, 0));
    assert!(sound, "{name}: {live}");
    // The kernels in a block have sites of their own, and only its body is compared.
    let blocks = registry::sites()
        .filter(|site| matches!(site.spec().key, SemanticsKey::MoeBlock(_)))
        .map(|site| site.name());
    let blocks: Vec<String> = blocks.collect();
    let sites: Vec<String> = registry::sites().map(|site| site.name()).collect();
    let fused = report.rows.iter().filter(|row| {
        let call = row.call.as_ref().filter(|_| row.calls > 0);
        call.is_some_and(|call| call.reason.is_none())
    });
    let fused = fused.filter(|row| sites.contains(&row.site) && !blocks.contains(&row.site));
    for row in fused {
        let checked = |own: &live::LiveRow| own.site == row.site && own.checked > 0;
        assert!(
            live.rows.iter().any(checked),
            "{name}: {}\n{live}",
            row.site
        );
    }
    assert!(!live.rows.is_empty(), "{name}: nothing was verified");
}

/// Live verification is off, because it would run more than the page describes.
const SETTINGS: [(&str, &str); 1] = [("BURN_KERNELS_VERIFY", "off")];

/// Declares a test in a process of its own for each model.
macro_rules! goldens {
    ($holds:ident in $module:ident: $($name:ident)+) => {
        mod $module {
            use super::{alone, $holds};

            pub const NAMES: &[&str] = &[$(stringify!($name)),+];

            $(#[test]
            fn $name() {
                alone(&[], || $holds(stringify!($name)));
            })+
        }
    };
}

// One variant of each family. `commands.rs` has those that `kernels run` computes.
goldens! {
    golden_holds in goldens:
    deepseek_v2
    deepseek_v2_group
    deepseek_v3_yarn
    gemma2_sw8
    gemma3_sw8_linear
    gemma3n_kvshare
    glm4
    glm4_moe_norms
    glm4v_moe
    gpt_oss_sw8
    llama4_chunk8
    olmo2
    phi3_longrope
    qwen2_5_omni_talker
    qwen2_5_omni_thinker
    qwen2_5_vl
    qwen3_5
    qwen3_5_moe
    qwen3_5_moe_text
    qwen3_5_text
    qwen3_next
    qwen3_omni_talker
    qwen3_omni_thinker
    qwen3_vl
    qwen3_vl_moe
    seed_oss
}

// One variant of each family.
goldens! {
    golden_holds_in_bf16 in goldens_in_bf16:
    deepseek_v2
    deepseek_v2_group
    deepseek_v3_yarn
    gemma2_sw8
    gemma3_sw8_linear
    gemma3n_kvshare
    glm4
    glm4_moe_norms
    glm4v_moe
    gpt_oss_sw8
    llama
    llama4_chunk8
    mistral_sw8
    mixtral
    olmo2
    phi3_longrope
    qwen2
    qwen2_5_omni_talker
    qwen2_5_omni_thinker
    qwen2_5_vl
    qwen2_moe
    qwen3
    qwen3_5
    qwen3_5_moe
    qwen3_5_moe_text
    qwen3_5_text
    qwen3_moe
    qwen3_next
    qwen3_omni_talker
    qwen3_omni_thinker
    qwen3_vl
    qwen3_vl_moe
    seed_oss
}

#[test]
fn every_class_has_goldens_in_both_types() {
    let class = |name: &&str| {
        let config = model_dir(name).join("config.json");
        let config: Value = serde_json::from_slice(&std::fs::read(config).unwrap()).unwrap();
        config["architectures"][0].as_str().unwrap().to_owned()
    };
    let classes =
        |names: &mut dyn Iterator<Item = &&str>| -> BTreeSet<String> { names.map(class).collect() };
    let all = classes(&mut MODELS.iter());
    assert_eq!(classes(&mut goldens::NAMES.iter().chain(&GOLDENS)), all);
    assert_eq!(classes(&mut goldens_in_bf16::NAMES.iter()), all);
}

#[test]
fn the_page_says_what_npus_run() {
    alone(&SETTINGS, || {
        let table = page::table(&npu::device(0).unwrap(), 'n');
        let old = std::fs::read_to_string(page::path()).unwrap();
        page::compare(&page::with_section(&old, page::ON_AN_NPU, &table));
    });
}
