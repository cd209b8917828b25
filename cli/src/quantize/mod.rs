//! `kernels quantize`: the weights of a checkpoint in fewer bits.

mod bnb;
mod encode;
mod folder;
mod gguf;
mod head;
mod kind;
mod layers;
mod shard;
mod types;

use crate::output;
use anyhow::{bail, ensure};
use kernels_io::escape_path;
use std::path::PathBuf;

/// Write the weights of a checkpoint in fewer bits
///
/// A GGUF file of floats becomes a GGUF file in q8_0, q4_0 or q4_k_m, with the types that llama.cpp chooses for each
/// tensor. A folder in Hugging Face layout becomes such a folder in nf4 or int8 of bitsandbytes. The output appears
/// complete or not at all, and nothing is overwritten.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A GGUF file, for q8_0, q4_0 and q4_k_m, or a folder in Hugging Face layout, for nf4 and int8.
    #[arg(long, value_name = "DIR_OR_GGUF")]
    model: PathBuf,
    /// The format of the weights.
    #[arg(long, value_name = "FORMAT")]
    to: Format,
    /// The new file or folder.
    #[arg(long, value_name = "FILE_OR_DIR")]
    out: PathBuf,
    /// An importance matrix of llama.cpp. Not supported yet: codes are chosen without one.
    #[arg(long, value_name = "FILE", hide = true)]
    imatrix: Option<PathBuf>,
}

/// A format of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// GGUF: 8.5 bits a weight.
    #[value(name = "q8_0")]
    Q8_0,
    /// GGUF: 4.5 bits a weight.
    #[value(name = "q4_0")]
    Q4_0,
    /// GGUF: 4.5 bits a weight, and 6.6 for the output and half of two projections.
    #[value(name = "q4_k_m")]
    Q4KM,
    /// bitsandbytes: 4.13 bits a weight, by double quantisation.
    #[value(name = "nf4")]
    Nf4,
    /// bitsandbytes: 8 bits a weight.
    #[value(name = "int8")]
    Int8,
}

/// Runs the command.
///
/// # Errors Returns an error if the checkpoint can't be read or does not go with the format, if a weight is not finite,
/// or if the output can't be written.
pub fn run(args: &Args) -> anyhow::Result<()> {
    ensure!(
        args.imatrix.is_none(),
        "--imatrix is not supported; leave it out, or quantise with llama.cpp's `llama-quantize --imatrix`"
    );
    kernels_io::metadata(&args.model)?;
    let file = kernels_models::gguf::find(&args.model)?;
    let model = escape_path(&args.model);
    let summary = match (args.to, file) {
        (Format::Q8_0, Some(file)) => gguf::quantise(&file, types::Target::Q8_0, &args.out)?,
        (Format::Q4_0, Some(file)) => gguf::quantise(&file, types::Target::Q4_0, &args.out)?,
        (Format::Q4KM, Some(file)) => gguf::quantise(&file, types::Target::Q4KM, &args.out)?,
        (Format::Nf4, None) => folder::quantise(&args.model, bnb::Method::Nf4, &args.out)?,
        (Format::Int8, None) => folder::quantise(&args.model, bnb::Method::Int8, &args.out)?,
        (Format::Q8_0 | Format::Q4_0 | Format::Q4KM, None) => bail!(
            "--model: {model} is a folder in Hugging Face layout, and this format is made from a GGUF file; write one \
             first with llama.cpp's `convert_hf_to_gguf.py --outtype f16` (or bf16), or choose --to nf4 or int8"
        ),
        (Format::Nf4 | Format::Int8, Some(_)) => bail!(
            "--model: {model} is a GGUF file, and this format is made from a folder in Hugging Face layout; name the \
             folder that the file was made from, or choose --to q8_0, q4_0 or q4_k_m"
        ),
    };
    let out = escape_path(&args.out);
    output::note(format_args!("{out}: {summary}"));
    Ok(())
}
