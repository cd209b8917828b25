//! Measures what `benches/compare_torch.py` measures with PyTorch: operations and decoder layers, as a user's code has
//! them.
//!
//! `python3 benches/compare.py` runs both in turn and compares them. By itself,
//!
//! ```sh
//! cargo bench --workspace --bench compare
//! ```
//!
//! prints a table; `-- --json FILE` also writes it as JSON, and `-- --only NAME…` measures only these rows, each NAME a
//! key or its beginning, such as `swiglu/2048`. Times are medians of runs after two that warm up. The allocator keeps
//! freed memory, as in the program.
//!
//! All layers are annotated structs and functions ([`layers`], [`decoder`]), so that a row measures what the attribute
//! makes of them. The rows `…_model` are one-layer models of `kernels-models` ([`families`]). The report says for each
//! row which path its sites took, so that no row measures a reference unseen.
//! Backward passes begin with given gradients ([`seed`]), in PyTorch too, and those of losses by themselves.

mod decoder;
mod families;
mod groups;
mod layers;
mod measure;
mod operations;
mod seed;
mod setting;

use clap::Parser;
use groups::Row;
use measure::Measured;
use serde::Serialize;
use std::path::PathBuf;

/// Measure operations and decoder layers that `benches/compare_torch.py` measures with PyTorch
#[derive(Debug, Parser)]
struct Args {
    /// Write the results as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Measure only the rows of these keys, or of keys that begin with them: `swiglu`, `swiglu/2048/bf16`.
    #[arg(long, value_name = "NAME", num_args = 1..)]
    only: Vec<String>,
    /// Print the keys of the rows, and measure nothing.
    #[arg(long)]
    list: bool,
    /// Run each row once after its warm-up, to check that it runs.
    #[arg(long)]
    quick: bool,
    /// `cargo bench` passes it. Without it, as `cargo test` runs benchmarks, each row runs once.
    #[arg(long, hide = true)]
    bench: bool,
}

/// A row of the results.
#[derive(Serialize)]
struct ResultRow {
    key: String,
    #[serde(flatten)]
    measured: Measured,
}

fn main() -> anyhow::Result<()> {
    // The allocator has to be set up before there are threads.
    burn_kernels::memory::keep_freed();
    let args = Args::parse();
    burn_kernels::init()?;
    // As `kernels train` runs. PyTorch's own thread is one of those that compute, too.
    burn_kernels::threads::on_pool(|| run(&args))
}

fn run(args: &Args) -> anyhow::Result<()> {
    let rows = groups::selected(&args.only)?;
    if args.list {
        rows.iter().for_each(|row| println!("{}", row.key()));
        return Ok(());
    }
    let quick = args.quick || !args.bench;
    println!("| row | median | path |");
    println!("|---|---|---|");
    let measure = |row: &Row| {
        let measured = measure::measure(row.prepare(), quick);
        println!(
            "| {} | {:.3} ms | {} |",
            row.key(),
            measured.ms,
            measured.path
        );
        ResultRow {
            key: row.key(),
            measured,
        }
    };
    let results: Vec<ResultRow> = rows.iter().map(measure).collect();
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&serde_json::json!({ "rows": results }))? + "\n";
        kernels_io::write_whole(path, text.as_bytes())?;
    }
    Ok(())
}
