//! `docs/models.md` is what the registry gives. `cann/cann-tests` tests its section on NPUs.
//!
//! `BLESS=1 cargo test --workspace --test main models_page` writes it anew; read what changed.

use crate::page;

use crate::models::{MODELS, PARTS, fixtures};
use burn::tensor::Device;
use burn_kernels::registry;
use burn_kernels::semantics::SemanticsKey;
use kernels_models::{Architecture, ModelConfig};
use std::collections::{BTreeMap, BTreeSet};

const START: &str = "\
# Model families

This page is generated from the registry of sites: tests of `cli` and, on NPUs, of `cann/cann-tests` run a small model of
each family and fail if a table differs. `kernels plan --model DIR` shows the sites of a checkpoint of your own.

A cell says what the sites of an operation run in training in bf16: the *kernel*, or the plain composition, the
*reference*, with the reason in a footnote. On an NPU, a kernel is one of CANN's operators or a few of them, which
`kernels plan --device npu` names. A dash stands for an operation that the family does not have, or that is a
part of another: where queries and keys are normalised, their norm and rotation are one operation, but two in Qwen3.5.
Llama 4's block scales the input of its experts, so it is not a sum of experts, and not a site. A short convolution and
a gated delta rule are the linear attention of some layers.

Families are text models for causal language modelling, with the class names of transformers. Of models of several
modalities, these are the sites of the text model. Qwen2.5-VL, Qwen3-VL and Qwen3.5, dense or sparse, also read pictures: the
norms, units, rotations, attention and products of their vision towers are sites, too. Qwen2.5-Omni's is read if it
was saved alone, and other towers are not. Of Omni models, the thinker is the text model, and the parts that speak are
families, too: talkers, the code predictor, and the transformer of the vocoder, without the vocoder's convolutions.
";

const CLASSES: &str = "\
LLaMA-Factory's kernel for gated units replaced the `forward` of 25 classes. These sites compute them here, for the
family in the last column:
";

/// The classes, each with its family here or the reason why it has none.
const LLAMA_FACTORY: [(&str, Result<Architecture, &str>); 25] = {
    use Architecture::*;
    [
        ("Qwen3VLMoeTextMLP", Ok(Qwen3VlMoe)),
        ("Qwen3VLTextMLP", Ok(Qwen3Vl)),
        ("Qwen3OmniMoeThinkerTextMLP", Ok(Qwen3OmniMoeThinker)),
        ("Qwen3OmniMoeMLP", Ok(Qwen3OmniMoeCodePredictor)),
        ("Qwen3OmniMoeTalkerTextMLP", Ok(Qwen3OmniMoeTalker)),
        ("Qwen3OmniMoeCode2WavMlp", Ok(Qwen3OmniMoeCode2Wav)),
        ("Qwen3NextMLP", Ok(Qwen3Next)),
        ("Qwen3MoeMLP", Ok(Qwen3Moe)),
        ("Qwen3MLP", Ok(Qwen3)),
        ("Qwen2MLP", Ok(Qwen2)),
        ("Qwen2MoeMLP", Ok(Qwen2Moe)),
        ("Qwen2_5_VLMLP", Err(TOWER)),
        ("Qwen2_5OmniMLP", Err(TOWER)),
        ("Llama4TextMLP", Ok(Llama4)),
        ("LlamaMLP", Ok(Llama)),
        ("Glm4MLP", Ok(Glm4)),
        ("Glm4MoeMLP", Ok(Glm4Moe)),
        ("Glm4vMoeTextMLP", Ok(Glm4vMoe)),
        ("Gemma3MLP", Ok(Gemma3)),
        ("Gemma2MLP", Ok(Gemma2)),
        ("Gemma3nTextMLP", Ok(Gemma3n)),
        ("Phi3MLP", Ok(Phi3)),
        ("DeepseekV2MLP", Ok(DeepseekV2)),
        ("DeepseekV3MLP", Ok(DeepseekV3)),
        ("SeedOssMLP", Ok(SeedOss)),
    ]
};

/// The family of classes that are units of vision towers.
const TOWER: &str = "vision towers of Qwen2.5-VL, and of Qwen2.5-Omni if saved alone";

/// The site of units of vision towers.
const TOWER_UNIT: &str = "kernels_models::layers::vision::qwen2_5::VisionMlp::forward";

/// Returns the sites of the dense MLPs of a family: those of layers without a mixture, and of shared experts.
fn units(family: Architecture) -> BTreeSet<String> {
    let unit = |name: &String| {
        let mut sites = registry::sites();
        let site = sites.find(|site| site.name() == *name).unwrap();
        // Units that are functions are part of something else.
        name.ends_with("::forward") && matches!(site.spec().key, SemanticsKey::Glu(_))
    };
    let mut units = BTreeSet::new();
    for name in MODELS.into_iter().chain(PARTS) {
        let path = fixtures().join("models").join(name).join("config.json");
        let mut config = ModelConfig::from_file(&path).unwrap();
        if config.architecture == family {
            // Some mixtures of the fixtures have no dense layer. A shared expert is of the same kind as dense layers.
            if let Some(moe) = &mut config.moe
                && moe.shared_expert_intermediate_size.is_none()
            {
                moe.mlp_only_layers = vec![0];
            }
            let reached = config.reached_sites(&Device::flex().autodiff()).unwrap();
            units.extend(reached.into_iter().filter(unit));
        }
    }
    units
}

fn classes() -> String {
    let mut text = format!("{CLASSES}\n| class | site | family |\n|---|---|---|\n");
    let mut known: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (class, family) in LLAMA_FACTORY {
        let row = match family {
            Err(TOWER) => {
                assert!(registry::sites().any(|site| site.name() == TOWER_UNIT));
                format!("| `{class}` | `{TOWER_UNIT}` | {TOWER} |\n")
            }
            Err(why) => format!("| `{class}` | absent | {why} |\n"),
            Ok(family) => {
                let name = family.class_name();
                let units = known.entry(name).or_insert_with(|| units(family));
                assert!(!units.is_empty(), "{class}");
                let sites: Vec<String> = units.iter().map(|site| format!("`{site}`")).collect();
                format!("| `{class}` | {} | `{name}` |\n", sites.join(", "))
            }
        };
        text.push_str(&row);
    }
    text
}

#[test]
fn the_page_is_what_the_registry_gives() {
    let _alone = crate::alone_with_the_report();
    let old = std::fs::read_to_string(page::path()).unwrap_or_default();
    let npu = page::section(&old, page::ON_AN_NPU);
    let sections = [
        ("On a CPU", page::table(&Device::flex(), 'c')),
        (page::ON_AN_NPU, npu.trim_end().to_owned() + "\n"),
        ("LLaMA-Factory's classes", classes()),
    ];
    let sections = sections.map(|(heading, text)| format!("\n## {heading}\n\n{text}"));
    page::compare(&(START.to_owned() + &sections.concat()));
    // The section on NPUs has the same families and operations.
    let rows = |text: &str| -> Vec<String> {
        let rows = text.lines().filter(|line| line.starts_with('|'));
        rows.map(|row| row.split('|').nth(1).unwrap().to_owned())
            .collect()
    };
    assert_eq!(rows(npu), rows(page::section(&old, "On a CPU")));
}
