//! `kernels quantize`: the weights of a checkpoint in fewer bits.

mod bnb;
mod convert;
mod encode;
mod folder;
mod gguf;
mod head;
mod importance;
mod kind;
mod layers;
mod shard;
mod types;
mod vocabulary;
mod write;

use crate::output;
use anyhow::{bail, ensure};
pub use importance::Importance;
use kernels_io::escape_path;
use kernels_quant::Dtype;
use std::path::PathBuf;

/// Write the weights of a checkpoint in fewer bits
///
/// A GGUF file of floats, or a folder in Hugging Face layout, becomes a GGUF file in q8_0, q4_0 or q4_k_m, with the types
/// that llama.cpp chooses for each tensor, or in floats. A folder also becomes such a folder in nf4 or int8 of
/// bitsandbytes. The output appears complete or not at all, and nothing is overwritten.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A folder in Hugging Face layout, or a GGUF file for the formats of GGUF.
    #[arg(long, value_name = "DIR_OR_GGUF")]
    model: PathBuf,
    /// The format of the weights.
    #[arg(long, value_name = "FORMAT")]
    to: Format,
    /// The new file or folder.
    #[arg(long, value_name = "FILE_OR_DIR")]
    out: PathBuf,
    /// An importance matrix, by which the codes of q4_0 and q4_k_m are chosen: a file of llama.cpp's `llama-imatrix`.
    #[arg(long, value_name = "FILE")]
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
    /// GGUF: floats of single precision.
    F32,
    /// GGUF: matrices in half precision.
    F16,
    /// GGUF: matrices in bfloat16.
    Bf16,
    /// bitsandbytes: 4.13 bits a weight, by double quantisation.
    #[value(name = "nf4")]
    Nf4,
    /// bitsandbytes: 8 bits a weight.
    #[value(name = "int8")]
    Int8,
}

/// A container with the way it holds weights.
enum Form {
    Gguf(types::Target),
    Bnb(bnb::Method),
}

impl Format {
    fn form(self) -> Form {
        use types::Target;
        match self {
            Self::Q8_0 => Form::Gguf(Target::Q8_0),
            Self::Q4_0 => Form::Gguf(Target::Q4_0),
            Self::Q4KM => Form::Gguf(Target::Q4KM),
            Self::F32 => Form::Gguf(Target::Floats(Dtype::F32)),
            Self::F16 => Form::Gguf(Target::Floats(Dtype::F16)),
            Self::Bf16 => Form::Gguf(Target::Floats(Dtype::BF16)),
            Self::Nf4 => Form::Bnb(bnb::Method::Nf4),
            Self::Int8 => Form::Bnb(bnb::Method::Int8),
        }
    }
}

/// Runs the command.
///
/// # Errors
/// Returns an error if the checkpoint can't be read or does not go with the format, if a weight is not finite, or
/// if the output can't be written.
pub fn run(args: &Args) -> anyhow::Result<()> {
    ensure!(
        args.imatrix.is_none() || matches!(args.to, Format::Q4_0 | Format::Q4KM),
        "--imatrix goes with --to q4_0 and q4_k_m; other formats have the same codes without it"
    );
    kernels_io::metadata(&args.model)?;
    let file = kernels_models::gguf::find(&args.model)?;
    let model = escape_path(&args.model);
    let importance = args.imatrix.as_deref().map(Importance::open).transpose()?;
    let importance = importance.as_ref();
    let summary = match (args.to.form(), file) {
        (Form::Gguf(target), Some(file)) => gguf::quantise(&file, target, importance, &args.out)?,
        (Form::Gguf(target), None) => {
            convert::quantise(&args.model, target, importance, &args.out)?
        }
        (Form::Bnb(method), None) => folder::quantise(&args.model, method, &args.out)?,
        (Form::Bnb(_), Some(_)) => bail!(
            "--model: {model} is a GGUF file, and this format is made from a folder in Hugging Face layout; name the \
             folder that the file was made from, or choose --to q8_0, q4_0 or q4_k_m"
        ),
    };
    let out = escape_path(&args.out);
    output::note(format_args!("{out}: {summary}"));
    Ok(())
}
