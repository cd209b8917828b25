//! `kernels merge`: one checkpoint of a base and an adapter.

use crate::companions::{copy, copy_companions};
use crate::{loading, output};
use anyhow::ensure;
use burn::tensor::Device;
use kernels_io::{Staging, escape_path};
use kernels_models::{AdapterConfig, ModelConfig, load_merged, save_into};
use std::path::{Path, PathBuf};

/// Add an adapter to the weights of its base, and write the checkpoint
///
/// The new folder holds what PEFT's `merge_and_unload` and `save_pretrained` write: the weights in the dtypes of the base,
/// config.json, generation_config.json, and the tokenizer with its chat template. Those of the adapter's folder come first, if
/// it holds such files. The new folder appears complete or not at all.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder of the base: a checkpoint in Hugging Face layout.
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    /// The folder of the adapter in PEFT's layout, such as adapter/ of a run of `kernels finetune`.
    #[arg(long, value_name = "DIR")]
    adapter: PathBuf,
    /// The new folder.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// The largest size of a file with several tensors, in bytes.
const SHARD: u64 = 5_000_000_000;

/// Runs the command.
///
/// # Errors
/// Returns an error if the base or the adapter can't be read, if they don't go with each other, or if the folder can't be
/// written.
pub fn run(args: &Args) -> anyhow::Result<()> {
    ensure!(
        !args.model.is_file(),
        "--model: {} is a file; the base of a merge is a folder in Hugging Face layout",
        escape_path(&args.model)
    );
    let config = ModelConfig::from_file(&args.model.join("config.json"))?;
    let adapters = AdapterConfig::of_folder(&args.adapter, &config)?;
    output::refuse_occupied(&args.out)?;
    let device = Device::flex();
    let (config, model) =
        loading::shown(|progress| load_merged(&args.model, &args.adapter, &device, progress))?;
    let staging = Staging::beside(&args.out)?;
    save_into(&model, &config, staging.path(), Some(SHARD))?;
    complete(args, staging.path())?;
    staging.publish()?;
    output::note(format_args!(
        "{} has the weights of {} with {} adapters added",
        escape_path(&args.out),
        escape_path(&args.model),
        adapters.targets.len()
    ));
    Ok(())
}

/// Adds the files of the tokenizer and of generation: those of the adapter, if it has its own, and otherwise the base's.
fn complete(args: &Args, to: &Path) -> anyhow::Result<()> {
    let from = match args.adapter.join("tokenizer.json").exists() {
        true => &args.adapter,
        false => &args.model,
    };
    copy_companions(from, to)?;
    let generation = "generation_config.json";
    [&args.model, &args.adapter]
        .iter()
        .try_for_each(|from| copy(&from.join(generation), &to.join(generation)))
}
