//! `docs/models.md` is what the registry gives. `cann/cann-tests` tests its section on NPUs.
//!
//! `BLESS=1 cargo test --workspace --test main models_page` writes it anew; read what changed.

use crate::page;

use crate::models::{MODELS, fixtures};
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
part of another: where queries and keys are normalised, their norm and rotation are one operation. Llama 4's block scales
the input of its experts, so it is not a sum of experts, and not a site. A short convolution and a gated delta rule are
the linear attention of some layers.

Families are text models for causal language modelling, with the class names of transformers. Of models of several
modalities, the text model is read, and not the towers.
";

const CLASSES: &str = "\
LLaMA-Factory's kernel for gated units replaced the `forward` of 25 classes. These sites compute them here, for the
family in the last column:
";

/// The classes, each with its family here or the reason why it has none.
const LLAMA_FACTORY: [(&str, Result<Architecture, &str>); 25] = {
    use Architecture::*;
    const OMNI: Result<Architecture, &str> = Err("the Omni families");
    [
        ("Qwen3VLMoeTextMLP", Ok(Qwen3VlMoe)),
        ("Qwen3VLTextMLP", Ok(Qwen3Vl)),
        ("Qwen3OmniMoeThinkerTextMLP", OMNI),
        ("Qwen3OmniMoeMLP", OMNI),
        ("Qwen3OmniMoeTalkerTextMLP", OMNI),
        ("Qwen3OmniMoeCode2WavMlp", OMNI),
        ("Qwen3NextMLP", Ok(Qwen3Next)),
        ("Qwen3MoeMLP", Ok(Qwen3Moe)),
        ("Qwen3MLP", Ok(Qwen3)),
        ("Qwen2MLP", Ok(Qwen2)),
        ("Qwen2MoeMLP", Ok(Qwen2Moe)),
        (
            "Qwen2_5_VLMLP",
            Err("vision towers; the text model has Qwen2MLP"),
        ),
        ("Qwen2_5OmniMLP", OMNI),
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

/// Returns the sites of the dense MLPs of a family: those of layers without a mixture, and of shared experts.
fn units(family: Architecture) -> BTreeSet<String> {
    let unit = |name: &String| {
        let mut sites = registry::sites();
        let site = sites.find(|site| site.name() == *name).unwrap();
        // Units that are functions are part of something else.
        name.ends_with("::forward") && matches!(site.spec().key, SemanticsKey::Glu(_))
    };
    let mut units = BTreeSet::new();
    for name in MODELS {
        let path = fixtures().join("models").join(name).join("config.json");
        let mut config = ModelConfig::from_file(&path).unwrap();
        if config.architecture == family {
            // Some mixtures of the fixtures have no dense layer.
            if let Some(moe) = &mut config.moe {
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
