//! `kernels plan`: shows the implementation that each site would run, and the reasons against the others.

mod built;

use crate::choice::{self, DeviceChoice, DtypeChoice, ModeChoice};
use crate::list::OTHER_PROGRAMS;
use crate::output;
use crate::screen::Width;
use anyhow::{Context, ensure};
use built::Built;
use burn::tensor::Device;
use burn_kernels::dispatch::{self, Mode, Plan, PlanRow};
use kernels_io::{Limit, Page};
use kernels_models::ModelConfig;
use std::path::{Path, PathBuf};

/// Show which implementation each site would run on a device, and why not another
///
/// Without `--bin` and `--model` the sites are those of `kernels` itself.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Plan the sites of this built program, with the kernels of `kernels`. The policy can name kernels, but not sites
    /// of FILE.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["out", "check"])]
    bin: Option<PathBuf>,
    /// Plan the sites that this checkpoint reaches, a folder or a GGUF file. Only its configuration is read.
    #[arg(long, value_name = "DIR|FILE", conflicts_with = "bin")]
    model: Option<PathBuf>,
    /// The device to plan for.
    #[arg(long, default_value = "cpu")]
    device: DeviceChoice,
    /// The dtype of the tensors.
    #[arg(long, value_enum, default_value_t = DtypeChoice::F32)]
    dtype: DtypeChoice,
    /// The mode: training needs gradients, inference does not.
    #[arg(long, value_enum, default_value_t = ModeChoice::Training)]
    mode: ModeChoice,
    #[command(flatten)]
    policy: choice::PolicyArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    width: Width,
    /// Write the plan to a TOML file, for later use with `--check`.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Compare with a plan that `--out` wrote. Fails and lists the changes if anything changed.
    #[arg(long, value_name = "FILE", conflicts_with = "out")]
    check: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// Returns an error if the policy requires a kernel (`+ID`, `strict`) that can't run on this device with this dtype, if
/// the plan differs from the one in the file, or if a file can't be read or written.
pub fn run(args: &Args) -> anyhow::Result<()> {
    args.policy.install()?;
    let mode = args.mode.mode();
    let (device, dtype) = (args.device.device()?, args.dtype.dtype());
    let mut page = Page::new(args.width.look());
    if let Some(path) = &args.bin {
        let planned = Built::read(path)?.plan(&device, dtype, mode)?;
        if args.json {
            output::json(&planned.json()?)?;
        } else {
            planned.show(&mut page);
            output::page(&page)?;
        }
        return ensure_met(planned.plan());
    }
    let mut plan = dispatch::plan_for(&device, dtype, mode)?;
    if let Some(folder) = &args.model {
        keep_sites_of(folder, mode, &mut plan)?;
    }
    if args.json {
        output::json(&plan)?;
    } else {
        page.page(&plan.page(page.look(), None, PlanRow::cell));
        page.line("");
        page.paragraph(match &args.model {
            Some(_) => OF_A_MODEL,
            None => OTHER_PROGRAMS,
        });
        output::page(&page)?;
    }
    ensure_met(&plan)?;
    if let Some(path) = &args.out {
        output::write_file(path, plan.to_toml().as_bytes())?;
    }
    match &args.check {
        Some(path) => check(&plan, path),
        None => Ok(()),
    }
}

/// A note on what the plan of a checkpoint shows.
const OF_A_MODEL: &str = "These are the sites of the checkpoint's family. A site in the body of another, such as the \
     rotation in a norm with rotation, is reached only where that one's kernel does not run.";

/// Removes the sites that a checkpoint does not reach.
fn keep_sites_of(folder: &Path, mode: Mode, plan: &mut Plan) -> anyhow::Result<()> {
    let config = ModelConfig::of_checkpoint(folder)?;
    // A small model of the kind runs on the CPU, which is there whatever the plan is for.
    let device = match mode {
        Mode::Training => Device::flex().autodiff(),
        Mode::Inference => Device::flex(),
    };
    let reached = config.reached_sites(&device)?;
    plan.sites.retain(|row| reached.contains(&row.site));
    Ok(())
}

fn ensure_met(plan: &Plan) -> anyhow::Result<()> {
    let unmet: Vec<_> = plan
        .sites
        .iter()
        .filter_map(|row| row.unmet.as_deref())
        .collect();
    ensure!(unmet.is_empty(), "{}", unmet.join("\n"));
    Ok(())
}

fn check(plan: &Plan, path: &Path) -> anyhow::Result<()> {
    const LIMIT: Limit = Limit::mib("a plan", 16);
    let toml = kernels_io::read_text(path, LIMIT)?;
    plan.check(&toml)
        .with_context(|| kernels_io::escape_path(path))
}
