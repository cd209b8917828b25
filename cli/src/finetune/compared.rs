//! The table in `docs/preferences.md`, which counts the results of each loss that are compared with TRL's and others.
//!
//! The tests that compare read every case of the same files. `BLESS=1 cargo test --lib the_table_of_losses` writes the
//! table anew.

use super::grpo::Variant;
use super::loss::Loss;
use super::pipeline::fixtures;
use clap::ValueEnum;
use safetensors::SafeTensors;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const HEADING: &str = "\n## What is compared\n\n";
const NEXT: &str = "\n## ";

/// The numbers of compared results.
#[derive(Default)]
struct Compared {
    /// Losses, metrics and gradients of formulas.
    formulas: [usize; 3],
    /// Losses, metrics and gradients of a model.
    of_model: [usize; 3],
    /// Steps on records.
    steps: usize,
}

type Rows = BTreeMap<String, Compared>;

fn file(name: &str) -> PathBuf {
    fixtures().join("preference").join(name)
}

fn json(name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(file(name)).unwrap()).unwrap()
}

fn names(name: &str) -> Vec<String> {
    let bytes = std::fs::read(file(name)).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    file.names()
        .into_iter()
        .map(|name| name.to_string())
        .collect()
}

fn name<T: ValueEnum>(value: T) -> String {
    value.to_possible_value().unwrap().get_name().to_owned()
}

fn of_variant(variant: Variant) -> String {
    format!("grpo --variant {}", name(variant))
}

/// Returns the row of a loss of completions.
fn of_policy(params: &Value) -> String {
    of_variant(match params["loss"].as_str().unwrap() {
        "grpo" if params["level"] == "sequence" => Variant::Gspo,
        "grpo" => Variant::Grpo,
        "bnpo" => Variant::Bnpo,
        "dr_grpo" => Variant::DrGrpo,
        "dapo" => Variant::Dapo,
        other => panic!("{other}"),
    })
}

/// Returns the row of another loss, by TRL's name.
fn of_answers(kind: &str) -> String {
    name(match kind {
        "sigmoid" => Loss::Dpo,
        "sigmoid_norm" => Loss::DpoNorm,
        "cpo_hinge" => Loss::Hinge,
        "cpo_ipo" => Loss::Ipo,
        other => Loss::from_str(&other.replace('_', "-"), false).unwrap(),
    })
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn formulas(rows: &mut Rows) {
    let known = json("formulas.json");
    for group in ["pairs", "kto", "reward", "grpo"] {
        for case in list(&known[group]["cases"]) {
            let params = &case["params"];
            let row = match group {
                "pairs" => of_answers(case["kind"].as_str().unwrap()),
                "kto" => of_answers(params["loss"].as_str().unwrap_or("kto")),
                "reward" => name(Loss::Reward),
                _ => of_policy(params),
            };
            let gradients = ["d_sums", "d_logps", "d_chosen"];
            // TRL has other rewards in its CPO with the loss of IPO.
            let has_metrics = case["kind"] != "cpo_ipo" && case["metrics"].is_object();
            let found = [
                case["loss"].is_number(),
                has_metrics,
                gradients.iter().any(|name| case[name].is_array()),
            ];
            let row = &mut rows.entry(row).or_default().formulas;
            add(row, found);
        }
    }
    let names = names("divergences.safetensors");
    for name_of_case in &names {
        let values = name_of_case.contains(".divergence.");
        let gradients = name_of_case.contains(".d_hidden.");
        let row = &mut rows.entry(name(Loss::Distill)).or_default().formulas;
        add(row, [values, false, gradients]);
    }
}

fn of_model(rows: &mut Rows) {
    let gradients = names("llama.safetensors");
    for (loss, case) in json("llama.json")["losses"].as_object().unwrap() {
        let row = match case["kind"].as_str().unwrap() {
            "grpo" => of_policy(&case["params"]["grpo"]),
            kind => of_answers(kind),
        };
        let gradient = format!("norm.{loss}.f64");
        let found = [
            case["loss"].is_number(),
            case["metrics"].is_object(),
            gradients.contains(&gradient),
        ];
        add(&mut rows.entry(row).or_default().of_model, found);
    }
}

fn steps(rows: &mut Rows) {
    for (case, golden) in json("pipeline.json")["cases"].as_object().unwrap() {
        let row = name(match case.as_str() {
            "dpo_ipo" => Loss::Ipo,
            "simpo" => Loss::Simpo,
            "cpo" => Loss::Cpo,
            case if case.starts_with("kto") => Loss::Kto,
            _ => Loss::Dpo,
        });
        rows.entry(row).or_default().steps += list(&golden["steps"]).len();
    }
    let rewards = json("rewards.json");
    // Of texts whose end pads, TRL reads another token after the first step.
    let of_rewards = list(&rewards["reward"]["steps"]).len() + 1;
    rows.entry(name(Loss::Reward)).or_default().steps += of_rewards;
    for variant in [Variant::Grpo, Variant::Dapo] {
        assert!(rewards[name(variant)]["loss"].is_number());
        rows.entry(of_variant(variant)).or_default().steps += 1;
    }
}

fn add(row: &mut [usize; 3], found: [bool; 3]) {
    for (count, found) in row.iter_mut().zip(found) {
        *count += usize::from(found);
    }
}

/// Returns the names of all rows, in the order of the options.
fn in_order() -> Vec<String> {
    let losses = Loss::value_variants().iter();
    losses
        .filter(|loss| **loss != Loss::Sft)
        .flat_map(|loss| match loss {
            Loss::Grpo => Variant::value_variants()
                .iter()
                .map(|v| of_variant(*v))
                .collect(),
            loss => vec![name(*loss)],
        })
        .collect()
}

fn table() -> String {
    let mut rows = Rows::new();
    formulas(&mut rows);
    of_model(&mut rows);
    steps(&mut rows);
    let names = in_order();
    let unknown: Vec<&String> = rows.keys().filter(|row| !names.contains(row)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    let shown = |numbers: &[usize]| {
        let some = numbers.iter().filter(|number| **number > 0);
        let some: Vec<String> = some.map(usize::to_string).collect();
        match some.is_empty() {
            true => "–".to_owned(),
            false => some.join(" + "),
        }
    };
    let mut text = String::from(
        "| `--loss` | loss | metrics | gradient | steps on records |\n|---|---|---|---|---|\n",
    );
    for row in names {
        let found = rows.remove(&row).unwrap_or_default();
        assert!(
            found.formulas[0] > 0 && found.formulas[2] > 0,
            "nothing is compared with {row}"
        );
        let both = |at: usize| shown(&[found.formulas[at], found.of_model[at]]);
        let cells = [both(0), both(1), both(2), shown(&[found.steps])];
        text.push_str(&format!("| `{row}` | {} |\n", cells.join(" | ")));
    }
    text
}

#[test]
fn the_table_of_losses_is_that_of_the_page() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/preferences.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(HEADING).unwrap();
    let (section, after) = rest.split_once(NEXT).unwrap();
    let (intro, _) = section.split_once("\n\n").unwrap();
    let expected = format!("{before}{HEADING}{intro}\n\n{}{NEXT}{after}", table());
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, expected).unwrap();
        return;
    }
    assert!(
        page == expected,
        "docs/preferences.md has another table; BLESS=1 writes it anew:\n{}",
        table()
    );
}
