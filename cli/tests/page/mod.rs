//! `docs/models.md`: tables of what the sites of every family run, made from reports of their test models.
#![allow(dead_code, reason = "each test file uses a part of it")]

use crate::models::{MODELS, PARTS, model_dir};
use burn::tensor::{Device, FloatDType, Int, Tensor};
use burn_kernels::registry;
use burn_kernels::report;
use burn_kernels::semantics::{SemanticsKey, as_written};
use kernels_models::{Architecture, Model, QuantisedWeights, load, load_part};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The columns of the tables.
const OPERATIONS: [&str; 12] = [
    "norm",
    "sum and norm",
    "unit",
    "rotation",
    "norm and rotation",
    "attention",
    "convolution",
    "delta rule",
    "linear",
    "experts",
    "block",
    "loss",
];

/// Returns the column of an operation. Models have no others.
fn column(key: &SemanticsKey) -> usize {
    match key {
        SemanticsKey::RmsNorm(_) => 0,
        SemanticsKey::AddRmsNorm(_) => 1,
        SemanticsKey::Glu(_) => 2,
        SemanticsKey::Rope(_) => 3,
        SemanticsKey::QkNormRope(_) => 4,
        SemanticsKey::Attention(_) => 5,
        SemanticsKey::CausalConv1d(_) => 6,
        SemanticsKey::GatedDeltaRule(_) => 7,
        SemanticsKey::Linear(_) => 8,
        SemanticsKey::MoeExperts(_) => 9,
        SemanticsKey::MoeBlock(_) => 10,
        SemanticsKey::CrossEntropy(_)
        | SemanticsKey::LinearCrossEntropy(_)
        | SemanticsKey::LinearDivergence(_) => 11,
        other => panic!("no column for {other}"),
    }
}

/// The paths that the calls of an operation ran.
#[derive(Default)]
struct Ran {
    kernel: bool,
    /// The sites that took their reference: semantics and reason.
    reference: BTreeSet<String>,
}

/// Returns a table of what training in bf16 runs on a device. Its footnotes begin with a letter.
pub fn table(device: &Device, letter: char) -> String {
    let mut rows: BTreeMap<&str, [Ran; 12]> = BTreeMap::new();
    for name in MODELS {
        let device = device.clone().autodiff();
        let (config, model) = load(&model_dir(name), &device, FloatDType::BF16).unwrap();
        report::reset();
        let ids = Tensor::<1, Int>::arange(0..24, &device).reshape([2, 12]);
        model.loss(ids.clone(), None);
        model.training_losses(ids, None);
        device.sync().unwrap();
        let row = rows.entry(config.architecture.class_name()).or_default();
        add_report(row);
    }
    for name in PARTS {
        add_part(name, &device.clone().autodiff(), &mut rows);
    }
    written(&rows, letter)
}

/// Adds the row of a part of an Omni model.
fn add_part(name: &str, device: &Device, rows: &mut BTreeMap<&str, [Ran; 12]>) {
    let decoded = QuantisedWeights::Decoded;
    let loaded = load_part(
        &model_dir(name),
        None,
        device,
        FloatDType::BF16,
        decoded,
        &mut |_| {},
    );
    let (config, model) = loaded.unwrap();
    report::reset();
    let embedded = |count| {
        let zeros = Tensor::<3>::zeros([2, count, config.hidden_size], device);
        zeros.cast(FloatDType::BF16)
    };
    match &model {
        Model::CodePredictor(model) => {
            model.loss(embedded(2), Tensor::<2, Int>::zeros([2, 4], device));
        }
        Model::Code2Wav(model) => drop(model.forward(embedded(12))),
        Model::Language(_) => unreachable!("{name} is a part"),
    }
    device.sync().unwrap();
    add_report(rows.entry(config.architecture.class_name()).or_default());
}

/// Adds the calls that the report counts.
fn add_report(row: &mut [Ran; 12]) {
    let keys: BTreeMap<String, &SemanticsKey> = registry::sites()
        .map(|site| (site.name(), &site.spec().key))
        .collect();
    for called in report::report().rows {
        let Some(call) = called.call.filter(|_| called.calls > 0) else {
            continue;
        };
        let key = keys[&called.site];
        let ran = &mut row[column(key)];
        match call.reason {
            None => ran.kernel = true,
            Some(reason) => {
                let semantics = as_written(key);
                let lack = call.lack.map(|lack| format!(" ({lack})"));
                let lack = lack.unwrap_or_default();
                let note = format!("`{}`, {semantics}: {reason}{lack}", called.kernel);
                ran.reference.insert(note);
            }
        }
    }
}

fn written(rows: &BTreeMap<&str, [Ran; 12]>, letter: char) -> String {
    let mut notes: Vec<String> = Vec::new();
    let mut text = format!("| family | {} |\n", OPERATIONS.join(" | "));
    text.push_str(&"|---".repeat(1 + OPERATIONS.len()));
    text.push_str("|\n");
    for family in Architecture::ALL.map(Architecture::class_name) {
        let cells = rows[family].iter().map(|ran| cell(ran, &mut notes, letter));
        let cells: Vec<String> = cells.collect();
        text.push_str(&format!("| `{family}` | {} |\n", cells.join(" | ")));
    }
    for (number, note) in notes.iter().enumerate() {
        text.push_str(&format!("\n[^{letter}{}]: {note}.\n", number + 1));
    }
    text
}

/// Returns the cell of an operation. Its footnotes are added to the others.
fn cell(ran: &Ran, notes: &mut Vec<String>, letter: char) -> String {
    let marks = ran.reference.iter().map(|note| {
        let known = notes.iter().position(|known| known == note);
        let number = known.unwrap_or_else(|| {
            notes.push(note.clone());
            notes.len() - 1
        });
        format!("[^{letter}{}]", number + 1)
    });
    let marks: String = marks.collect();
    match (ran.kernel, marks.is_empty()) {
        (true, true) => "kernel".to_owned(),
        (true, false) => format!("kernel, reference{marks}"),
        (false, false) => format!("reference{marks}"),
        (false, true) => "–".to_owned(),
    }
}

/// The heading of the section that needs NPUs.
pub const ON_AN_NPU: &str = "On an NPU";

pub fn path() -> PathBuf {
    let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let page = |folder: &Path| Some(folder.join("docs/models.md")).filter(|path| path.exists());
    folders.find_map(page).expect("it is in the repository")
}

/// Returns the text of a section of a page, without its heading.
pub fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let start = format!("\n## {heading}\n\n");
    let (_, rest) = page.split_once(&start).unwrap_or_default();
    rest.split("\n## ").next().unwrap_or_default()
}

/// Returns a page with other text in one of its sections.
pub fn with_section(page: &str, heading: &str, text: &str) -> String {
    let start = format!("\n## {heading}\n\n");
    let (before, rest) = page.split_once(&start).expect("the page has the section");
    let after = rest.split_once("\n## ").map_or("", |(_, after)| after);
    format!("{before}{start}{text}\n## {after}")
}

/// Compares the page with the expected one, or writes it.
pub fn compare(expected: &str) {
    let found = std::fs::read_to_string(path()).unwrap_or_default();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path(), expected).unwrap();
        return;
    }
    let differs = found.lines().zip(expected.lines()).find(|(a, b)| a != b);
    assert!(
        found == expected,
        "docs/models.md is not what the registry gives; BLESS=1 writes it anew. First difference: {differs:#?}"
    );
}
