//! `kernels semantics`: shows what published architectures compute, as attributes.

use crate::output;
use crate::screen::Width;
use anyhow::bail;
use burn_kernels::semantics::as_written;
use kernels_io::{Page, Table};
use kernels_models::semantics::{self, ModelSemantics};
use serde_json::{Value, json};
use std::fmt::Display;

/// Show what published architectures compute, as the attributes to write in your own model
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The `model_type` of a `config.json`. Without it, all are listed.
    model_type: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    width: Width,
}

/// Runs the command.
///
/// # Errors
/// Returns an error if the `model_type` is not in the table.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let models: Vec<&ModelSemantics> = match &args.model_type {
        None => semantics::all().iter().collect(),
        Some(model_type) => match semantics::of(model_type) {
            Some(model) => vec![model],
            None => bail!("unknown architecture `{model_type}`; known are {}", known()),
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
        None => {
            let mut page = Page::new(args.width.look());
            page.table(&table(&models));
            output::page(&page)
        }
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
            as_written(model.norm),
            as_written(model.mlp),
            as_written(model.rope),
            or_none(model.experts),
            or_none(model.block),
        ]);
    }
    table
}

fn or_none(key: Option<impl Display>) -> String {
    key.map_or_else(|| "none".to_owned(), as_written)
}
