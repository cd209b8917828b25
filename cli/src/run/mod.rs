//! `kernels run`: computes logits, loss and gradients of a checkpoint for given token ids.

mod inputs;
mod outputs;

use crate::choice::{self, DeviceChoice, DtypeChoice};
use crate::{loading, output, screen};
use anyhow::{Context, ensure};
use burn::tensor::{DType, Device, Tensor, TensorData};
use burn_kernels::report;
use kernels_io::escape_path;
use kernels_models::{Batch, CausalLm, ModelConfig, load_reward_model};
use outputs::Outputs;
use std::path::PathBuf;

/// Run a checkpoint on token ids and write logits, loss and gradients, for parity checks
///
/// The input file holds `input_ids` [b, s] and optionally `position_ids` and `attention_mask`, all i64 or i32.
/// `position_ids` is [b, s], or [3, b, s] (time, height, width) for models whose tokens have three positions; without it,
/// each row has 0..s. `attention_mask` [b, s] is 1 for tokens and 0 for padding before or after the tokens of a row; logits
/// at padding are meaningless. Tensors with names of results (`logits…`, `loss…`, `grad.…`, `act.…`) are ignored, so that a
/// file of expected values can be the input. Any other name is an error.
///
/// The output file holds `logits` [b, s, vocabulary] in the dtype of the run and `loss` [] (f64 in an f64 run, else
/// f32). The loss is the mean cross-entropy of each token that follows a token, plus the load-balancing loss of a mixture of
/// experts if the checkpoint's `output_router_logits` is set. With --grads the file also holds `grad.<tensor name>` for every
/// tensor of the checkpoint, in its shape and the dtype of the run; experts that the checkpoint stacks are named one by
/// one.
///
/// Of a reward model (a `…ForSequenceClassification` with one label) the output file holds `scores` [b] alone: those of
/// each row's last token by the mask, in f32 (f64 in an f64 run).
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder of the checkpoint (config.json and safetensors files, or one GGUF file), or a GGUF file.
    #[arg(long, value_name = "DIR|FILE")]
    model: PathBuf,
    /// The safetensors file with the token ids.
    #[arg(long, value_name = "FILE")]
    inputs: PathBuf,
    /// The safetensors file to write. It appears complete or not at all.
    #[arg(long, value_name = "FILE")]
    outputs: PathBuf,
    /// Also write the gradient of the loss for every parameter.
    #[arg(long)]
    grads: bool,
    /// The dtype to compute in; the parameters are converted to it.
    #[arg(long, value_enum, default_value_t = DtypeChoice::F32)]
    dtype: DtypeChoice,
    #[command(flatten)]
    quantised: loading::QuantisedArgs,
    #[command(flatten)]
    policy: choice::PolicyArgs,
    /// The device to run on.
    #[arg(long, default_value = "cpu")]
    pub device: DeviceChoice,
    /// Write the dispatch report as JSON to this file instead of to standard error.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// Returns an error that names the file and the field or tensor if the checkpoint, the inputs or the output path are
/// invalid.
pub fn run(args: &Args) -> anyhow::Result<()> {
    args.policy.install_preferring(args.quantised.preferred())?;
    output::refuse_unwritable(&args.outputs, "--outputs")?;
    let inputs = inputs::read(&args.inputs)?;
    let device = device(args)?;
    let is_reward_model = ModelConfig::of_checkpoint(&args.model)?.is_reward_model();
    ensure!(
        !is_reward_model || !args.grads,
        "--grads writes gradients of the loss of tokens, which a reward model does not have"
    );
    // Gradients are those of every weight.
    let quantised = args.quantised.form(args.grads);
    let dtype = args.dtype.float_dtype();
    let (_, model) = match is_reward_model {
        true => load_reward_model(&args.model, &device, dtype)?,
        false => loading::load(&args.model, &device, dtype, quantised)?,
    };
    args.quantised.check(&model, &device)?;
    let batch = inputs.batch(&device);
    let batch = batch.with_context(|| escape_path(&args.inputs))?;
    let checked = match is_reward_model {
        true => model.check_batch(&batch),
        false => model.check_batch_with_loss(&batch),
    };
    checked.with_context(|| escape_path(&args.inputs))?;

    report::reset();
    let outputs = match is_reward_model {
        true => Outputs::from([("scores".to_owned(), model.rewards(batch).try_into_data()?)]),
        false => compute(&model, batch, args)?,
    };
    outputs::write(&args.outputs, &outputs)?;
    output::note_tuned()?;
    match &args.report {
        Some(path) => output::write_json(path, &report::report()),
        None => {
            let shown_by = Some("`--report FILE` writes every site");
            output::note_page(&report::report().page(screen::stderr(), shown_by));
            Ok(())
        }
    }
}

fn compute(model: &CausalLm, batch: Batch, args: &Args) -> anyhow::Result<Outputs> {
    let (logits, loss) = model.loss_of(batch);
    let gradients = if args.grads {
        model.gradients(&loss.backward())
    } else {
        Default::default()
    };
    let mut outputs = Outputs::new();
    outputs.insert("logits".to_owned(), logits.try_into_data()?);
    outputs.insert("loss".to_owned(), scalar(loss, args.dtype)?);
    for (name, gradient) in gradients {
        outputs.insert(format!("grad.{name}"), gradient);
    }
    Ok(outputs)
}

/// Returns the device for parameters and token ids, with autodiff if gradients are requested.
fn device(args: &Args) -> anyhow::Result<Device> {
    let device = args.device.device()?;
    Ok(if args.grads {
        device.autodiff()
    } else {
        device
    })
}

/// Reshapes a loss of shape `[1]` to a scalar of shape `[]`.
fn scalar(loss: Tensor<1>, dtype: DtypeChoice) -> anyhow::Result<TensorData> {
    let dtype = match dtype {
        DtypeChoice::F64 => DType::F64,
        DtypeChoice::F32 | DtypeChoice::Bf16 | DtypeChoice::F16 => DType::F32,
    };
    let (bytes, _, dtype) = loss.try_into_data_dtype(dtype)?.into_parts();
    Ok(TensorData::from_bytes(bytes, [0; 0], dtype))
}
