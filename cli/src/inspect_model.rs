//! `kernels inspect-model`: what a checkpoint holds, and why it would not load.

use crate::output;
use crate::screen::Width;
use anyhow::{Context, ensure};
use burn::tensor::Device;
use bytesize::ByteSize;
use kernels_io::{Cell, Page, Table, Tone};
use kernels_models::{Inspection, ModelConfig, RopeScaling, StoredType, WindowConfig, inspect};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Show what a checkpoint holds, and every reason why it would not load
///
/// Reads the configuration, the lists of tensors, and the tokenizer if there is one, and of weights only the scales of
/// quantised ones. The exit code is 1 if the checkpoint would not load.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder of a checkpoint (config.json and safetensors files, or one GGUF file), or a GGUF file.
    #[arg(value_name = "DIR|FILE")]
    model: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    width: Width,
}

/// Runs the command.
///
/// # Errors
/// Returns an error if there is nothing at the path, or if the checkpoint would not load.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let shown = kernels_io::escape_path(&args.model);
    let found = inspect(&args.model, &Device::flex()).context("cannot inspect the checkpoint")?;
    #[cfg(feature = "text")]
    let found = with_text(found, &args.model);
    if args.json {
        output::json(&as_json(&found))?;
    } else {
        let mut page = Page::new(args.width.look());
        page.table(&summary(&found));
        page.line("");
        if !found.types.is_empty() {
            page.table(&types(&found));
            page.line("");
        }
        if !found.quantised.is_empty() {
            page.table(&encodings(&found));
            page.line("");
            page.table(&by_layer(&found));
            page.line("");
        }
        show_problems(&found, &mut page);
        output::page(&page)?;
    }
    ensure!(
        found.problems.is_empty(),
        "{shown} would not load: {} above",
        reasons(&found)
    );
    Ok(())
}

/// Opens the settings of generation, and the tokenizer if there is one, as `generate` and `finetune` do.
#[cfg(feature = "text")]
fn with_text(mut found: Inspection, path: &std::path::Path) -> Inspection {
    use crate::text::{TextError, Tokenizer};
    let Some(config) = &found.config else {
        return found;
    };
    let vocab_size = config.vocab_size;
    if let Err(error) = kernels_models::Generation::open(path, config) {
        found.problems.push(error.to_string());
    }
    match Tokenizer::open(path, vocab_size).map(|tokenizer| tokenizer.beyond_model()) {
        Err(TextError::Missing { .. }) | Ok(None) => {}
        // A model in a GGUF file runs without its tokenizer.
        Err(error) if found.files.iter().any(|file| file.extension() == Some("gguf".as_ref())) => found
            .remarks
            .push(format!("`generate` refuses its tokenizer: {error}")),
        Err(error) => found.problems.push(error.to_string()),
        Ok(Some((token, id))) => found.remarks.push(format!(
            "the tokenizer has the token `{}` with the id {id}, and the model {vocab_size} embeddings (vocab_size); a text \
             that holds the token is refused",
            kernels_io::escape(&token)
        )),
    }
    found
}

fn reasons(found: &Inspection) -> String {
    match found.problems.len() {
        1 => "1 reason".to_owned(),
        count => format!("{count} reasons"),
    }
}

fn size(bytes: u64) -> String {
    ByteSize::b(bytes).display().iec().to_string()
}

/// Returns the facts about the model, one in each row.
fn summary(found: &Inspection) -> Table<2> {
    let mut table = Table::without_heading();
    let mut row = |name: &str, text: String| table.row([name, text.as_str()]);
    if let Some(config) = &found.config {
        row("family", family(config));
        row("layers", layers(config));
        row("attention", attention(config));
        if let Some(moe) = &config.moe {
            let (experts, taken) = (moe.num_experts, moe.num_experts_per_tok);
            let width = moe.moe_intermediate_size;
            row(
                "experts",
                format!("{experts} of width {width}, {taken} for each token"),
            );
        }
        row("vocabulary", format!("{} tokens", config.vocab_size));
        row(
            "longest",
            format!("{} tokens", config.max_position_embeddings),
        );
        row("positions", positions(config));
        match config.is_reward_model() {
            true => row("head", "one score (a reward model)".to_owned()),
            false => row("tied", tied(config).to_owned()),
        }
    }
    if let Some(parameters) = found.parameters {
        row("parameters", parameters.to_string());
    }
    row("stored", size(found.bytes()));
    row("files", found.files.len().to_string());
    row("quantised", quantisation(found));
    if let Some([single, half]) = held(found) {
        let (single, half) = (size(single), size(half));
        row("in memory", format!("{single} in f32, {half} in bf16"));
    }
    table
}

fn family(config: &ModelConfig) -> String {
    let architecture = config.architecture;
    format!("{architecture} ({})", architecture.model_type())
}

fn layers(config: &ModelConfig) -> String {
    let sparse = (0..config.num_hidden_layers).filter(|&layer| config.is_sparse(layer));
    let experts = match sparse.count() {
        0 => String::new(),
        count => format!(", {count} of them with experts"),
    };
    format!(
        "{}, {} wide, with an MLP of {}{experts}",
        config.num_hidden_layers, config.hidden_size, config.intermediate_size
    )
}

fn attention(config: &ModelConfig) -> String {
    let mut text = format!(
        "{} heads of width {}, {} of keys and values",
        config.num_attention_heads, config.head_dim, config.num_key_value_heads
    );
    if config.latent.is_some() {
        text += ", latent";
    }
    if let Some(linear) = &config.linear {
        text += &format!(
            "; linear attention in {} layers, with {} heads of width {}, {} of keys",
            linear.layers.len(),
            linear.linear_num_value_heads,
            linear.linear_value_head_dim,
            linear.linear_num_key_heads
        );
    }
    if let Some(WindowConfig { size, layers, .. }) = &config.sliding_window {
        text += &format!(", a window of {size} in {} layers", layers.len());
    }
    text
}

fn positions(config: &ModelConfig) -> String {
    let scaling = match &config.rope.scaling {
        RopeScaling::Default => String::new(),
        RopeScaling::Linear { factor } => format!(", linear scaling by {factor}"),
        RopeScaling::Llama3 { factor, .. } => format!(", scaling of Llama 3 by {factor}"),
        RopeScaling::Yarn { factor, .. } => format!(", YaRN by {factor}"),
        RopeScaling::LongRope { .. } => ", longrope".to_owned(),
    };
    format!("base {}{scaling}", config.rope.theta)
}

fn tied(config: &ModelConfig) -> &'static str {
    match config.tie_word_embeddings {
        true => "the output projection is the embedding",
        false => "nothing",
    }
}

/// Returns the encodings of weights, and how many of these stay quantised.
fn quantisation(found: &Inspection) -> String {
    let names: Vec<_> = found.quantised.keys().map(String::as_str).collect();
    if names.is_empty() {
        return "no".to_owned();
    }
    let all: usize = found.quantised.values().map(|own| own.tensors).sum();
    let memory = match found.kept.tensors {
        0 => "loading decodes them to floats".to_owned(),
        kept => format!("{kept} of {all} tensors stay quantised on the CPU, in f32, bf16 and f16"),
    };
    format!("{}; {memory}", names.join(", "))
}

/// Returns the bytes of the weights of a quantised model in f32 and in bf16 on the CPU, where some stay as they are.
fn held(found: &Inspection) -> Option<[u64; 2]> {
    let floats = found.parameters?.checked_sub(found.kept.elements)?;
    let held = |bytes: u64| found.kept.bytes + bytes * floats;
    (!found.quantised.is_empty()).then(|| [4, 2].map(held))
}

fn types(found: &Inspection) -> Table<4> {
    let mut table = Table::new(["stored type", "tensors", "elements", "size"]);
    for (name, own) in &found.types {
        table.row([
            name.clone(),
            own.tensors.to_string(),
            own.elements.to_string(),
            size(own.bytes),
        ]);
    }
    table
}

fn encodings(found: &Inspection) -> Table<5> {
    let mut table = Table::new([
        "quantised as",
        "tensors",
        "weights",
        "size",
        "bits a weight",
    ]);
    for (name, own) in &found.quantised {
        table.row([
            name.clone(),
            own.tensors.to_string(),
            own.elements.to_string(),
            size(own.bytes),
            format!("{:.2}", own.bits()),
        ]);
    }
    table
}

/// Returns the weights of each layer. Layers of one size that follow each other have one row.
fn by_layer(found: &Inspection) -> Table<4> {
    let mut table = Table::new(["layer", "weights", "size", "bits a weight"]);
    let size_of = |own: &StoredType| (own.elements, own.bytes);
    let alike = found
        .layers
        .chunk_by(|(_, one), (_, other)| size_of(one) == size_of(other));
    for layers in alike {
        let ((first, own), (last, _)) = (&layers[0], &layers[layers.len() - 1]);
        let name = match layers.len() {
            1 => first.clone(),
            _ => format!("{first} to {last}, each"),
        };
        table.row([
            name,
            own.elements.to_string(),
            size(own.bytes),
            format!("{:.2}", own.bits()),
        ]);
    }
    table
}

fn show_problems(found: &Inspection, page: &mut Page) {
    let mut table = Table::without_heading();
    let problems = found.problems.iter().map(|text| (Tone::Bad, "error", text));
    let remarks = found
        .remarks
        .iter()
        .map(|text| (Tone::Caution, "note", text));
    for (tone, kind, text) in problems.chain(remarks) {
        table.row([Cell::new(tone, kind), Cell::lines(Tone::Plain, text)]);
    }
    page.table(&table);
    if found.problems.is_empty() {
        page.toned(Tone::Good, "it would load");
    }
}

fn as_json(found: &Inspection) -> Value {
    let files = found.files.iter().map(|file| file.to_string_lossy());
    let types: Vec<_> = found
        .types
        .iter()
        .map(|(name, own)| {
            json!({
                "type": name,
                "tensors": own.tensors,
                "elements": own.elements,
                "bytes": own.bytes,
            })
        })
        .collect();
    let quantised: Vec<_> = found
        .quantised
        .iter()
        .map(|(name, own)| {
            json!({
                "encoding": name,
                "tensors": own.tensors,
                "weights": own.elements,
                "bytes": own.bytes,
                "bits_per_weight": own.bits(),
            })
        })
        .collect();
    let layers: Vec<_> = found
        .layers
        .iter()
        .map(|(name, own)| {
            json!({
                "layer": name,
                "weights": own.elements,
                "bytes": own.bytes,
                "bits_per_weight": own.bits(),
            })
        })
        .collect();
    let model = found
        .config
        .as_ref()
        .map(|config| model_json(config, found.parameters));
    json!({
        "loads": found.problems.is_empty(),
        "model": model,
        "files": files.collect::<Vec<_>>(),
        "bytes": found.bytes(),
        "types": types,
        "quantised": quantised,
        "layers": layers,
        "kept": {"tensors": found.kept.tensors, "weights": found.kept.elements, "bytes": found.kept.bytes},
        "held_bytes": held(found).map(|[single, half]| json!({"f32": single, "bf16": half})),
        "problems": found.problems,
        "remarks": found.remarks,
    })
}

fn model_json(config: &ModelConfig, parameters: Option<u64>) -> Value {
    json!({
        "architecture": config.architecture.class_name(),
        "model_type": config.architecture.model_type(),
        "num_hidden_layers": config.num_hidden_layers,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_attention_heads": config.num_attention_heads,
        "num_key_value_heads": config.num_key_value_heads,
        "head_dim": config.head_dim,
        "vocab_size": config.vocab_size,
        "max_position_embeddings": config.max_position_embeddings,
        "tie_word_embeddings": config.tie_word_embeddings,
        "reward_model": config.is_reward_model(),
        "linear_layers": config.linear.as_ref().map(|linear| linear.layers.len()),
        "num_experts": config.moe.as_ref().map(|moe| moe.num_experts),
        "num_experts_per_tok": config.moe.as_ref().map(|moe| moe.num_experts_per_tok),
        "parameters": parameters,
    })
}
