//! `kernels list`: what is linked into this program.

use crate::output;
use crate::table::Table;
use burn_kernels::registry::{self, KernelSpec, Site};
use serde_json::{Value, json};

/// List the kernels and annotated sites that are linked into this program
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.json {
        let kernels: Vec<_> = registry::kernels().collect();
        let sites = registry::sites()
            .map(site_json)
            .collect::<Result<Vec<_>, _>>()?;
        output::json(&json!({ "kernels": kernels, "sites": sites }))
    } else {
        output::text(format_args!("{}\n\n{}", kernel_table(), site_table()))
    }
}

fn site_json(site: &Site) -> serde_json::Result<Value> {
    let mut json = serde_json::to_value(site.spec())?;
    json["name"] = site.name().into();
    Ok(json)
}

fn kernel_table() -> Table<5> {
    let mut table = Table::new(["kernel", "version", "implementation", "dtypes", "gradient"]);
    for kernel in registry::kernels() {
        for row in implementation_rows(kernel) {
            table.row(row);
        }
    }
    table
}

fn implementation_rows(kernel: &KernelSpec) -> Vec<[String; 5]> {
    let rows = kernel.implementations.iter().map(|implementation| {
        let dtypes: Vec<_> = implementation.dtypes.iter().map(|d| d.name()).collect();
        [
            kernel.id.to_owned(),
            kernel.version.to_string(),
            implementation.name.to_owned(),
            dtypes.join(" "),
            if implementation.gradient { "yes" } else { "no" }.to_owned(),
        ]
    });
    rows.collect()
}

fn site_table() -> Table<4> {
    let mut table = Table::new(["site", "kernel", "computes", "written at"]);
    for site in registry::sites() {
        let spec = site.spec();
        table.row([
            site.name(),
            spec.kernel.to_owned(),
            spec.key.to_string(),
            format!("{}:{}", spec.file, spec.line),
        ]);
    }
    table
}
