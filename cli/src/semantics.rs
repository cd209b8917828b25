//! `kernels semantics`: what published architectures compute, as the attributes to write.

use crate::output;
use crate::table::Table;
use anyhow::bail;
use kernels_models::semantics::{self, ModelSemantics};
use serde_json::{Value, json};

/// Show what published architectures compute, as the attributes to write in a model of one's own
#[derive(Debug, clap::Args)]
pub struct Args {
    /// `model_type` of a `config.json`; without it, all of them.
    model_type: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// There is no such `model_type` in the table.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let models: Vec<&ModelSemantics> = match &args.model_type {
        None => semantics::all().iter().collect(),
        Some(model_type) => match semantics::of(model_type) {
            Some(model) => vec![model],
            None => bail!("nothing is known of `{model_type}`; known are {}", known()),
        },
    };
    if args.json {
        return output::json(
            &models
                .iter()
                .map(|model| as_json(model))
                .collect::<Vec<_>>(),
        );
    }
    match args.model_type {
        Some(_) => output::text(written(models[0])),
        None => output::text(table(&models)),
    }
}

fn known() -> String {
    let names: Vec<_> = semantics::all().iter().map(|m| m.model_type).collect();
    names.join(", ")
}

fn as_json(model: &ModelSemantics) -> Value {
    json!({
        "model_type": model.model_type,
        "norm": model.norm,
        "mlp": model.mlp,
        "rope": model.rope,
        "experts": model.experts,
        "block": model.block,
        "note": model.note,
    })
}

fn written(model: &ModelSemantics) -> String {
    let note = model.note.map(|note| format!("\n// {note}"));
    model.attributes().join("\n") + &note.unwrap_or_default()
}

fn table(models: &[&ModelSemantics]) -> Table<6> {
    let mut table = Table::new([
        "model_type",
        "norm",
        "mlp",
        "rope",
        "experts",
        "sparse block",
    ]);
    for model in models {
        table.row([
            model.model_type.to_owned(),
            model.norm.to_string(),
            model.mlp.to_string(),
            model.rope.to_string(),
            or_none(model.experts),
            or_none(model.block),
        ]);
    }
    table
}

fn or_none(key: Option<impl ToString>) -> String {
    key.map_or_else(|| "none".to_owned(), |key| key.to_string())
}
