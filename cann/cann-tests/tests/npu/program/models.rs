//! Tests of the model families on an NPU, with the emulator: their goldens, and the section of `docs/models.md`.
//!
//! `BLESS=1 cargo test -p cann-tests --features npu the_page` writes the section anew; read what changed.

use super::alone;
use crate::comparison::{difference, relative};
use crate::models::{check_gradients, ints, model_dir, read, to_f64};
use crate::page;
use burn::tensor::FloatDType;
use burn_kernels::policy::{self, Policy};
use burn_kernels::{npu, report};
use kernels_models::load;

/// Compares logits, loss and gradients in f32 with those of transformers. Operations without an operator of CANN are an
/// error, since none may run on the host.
fn golden_holds(name: &str) {
    let device = npu::device(0).unwrap().autodiff();
    let _policy = policy::scope("all".parse::<Policy>().unwrap());
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
    assert_eq!(burn_cann::backend::fallbacks(), []);
}

/// Live verification computes in f64, on the host.
const SETTINGS: [(&str, &str); 1] = [("BURN_KERNELS_VERIFY", "off")];

/// Declares a test in a process of its own for each model.
macro_rules! goldens {
    ($($name:ident)+) => {
        mod goldens {
            use super::{SETTINGS, alone, golden_holds};
            $(#[test]
            fn $name() {
                alone(&SETTINGS, || golden_holds(stringify!($name)));
            })+
        }
    };
}

// One variant of each family. `commands.rs` has those that `kernels run` computes.
goldens! {
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
    qwen3_omni_talker
    qwen3_omni_thinker
    qwen3_vl
    qwen3_vl_moe
    seed_oss
}

#[test]
fn the_page_says_what_npus_run() {
    alone(&SETTINGS, || {
        let table = page::table(&npu::device(0).unwrap(), 'n');
        let old = std::fs::read_to_string(page::path()).unwrap();
        page::compare(&page::with_section(&old, page::ON_AN_NPU, &table));
    });
}
