//! `kernels run`: computes logits, loss and gradients of a checkpoint for given token ids.

mod inputs;
mod outputs;
mod parts;
mod tensors;
mod vision;
mod weighted;

use crate::choice::{self, DeviceChoice, DtypeChoice};
use crate::{loading, output, screen};
use anyhow::ensure;
use burn::tensor::{DType, Device, Tensor, TensorData};
use burn_kernels::report;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use kernels_models::{
    CausalLm, Model, ModelConfig, OmniPart, is_vision_tower, load_part, load_reward_model,
    load_with_vision, stored_gradients,
};
use outputs::Outputs;
use parts::{Results, Run};
use std::path::PathBuf;

/// Run a checkpoint on token ids and write logits, loss and gradients, for parity checks
///
/// The input file holds `input_ids` [b, s] and optionally `position_ids` and `attention_mask`, all i64 or i32.
/// `position_ids` is [b, s], or [3, b, s] (time, height, width) for models whose tokens have three positions; without
/// it, each row has 0..s. `attention_mask` [b, s] is 1 for tokens and 0 for padding before or after the tokens of a
/// row; logits at padding are meaningless. `inputs_embeds` [b, s, width], f32, replaces the embedded ids, which are
/// then the targets of the loss alone. Tensors with names of results (`logits…`, `loss…`, `out….…`, `grad.…`, `act.…`)
/// are ignored, so that a file of expected values can be the input. Any other name is an error.
///
/// With `pixel_values` [patches, values], f32, and `image_grid_thw` [pictures, 3], a model reads pictures: the tokens that its
/// configuration calls `image_token_id` stand for their parts. Without `position_ids`, positions are then those of
/// `get_rope_index` in transformers. `mm_token_type_ids` is ignored, because it follows from the ids.
///
/// The output file holds `logits` [b, s, vocabulary] in the dtype of the run and `loss` [] (f64 in an f64 run, else
/// f32). The loss is the mean cross-entropy of each token that follows a token, plus the load-balancing loss of a mixture of
/// experts if the checkpoint's `output_router_logits` is set. With --grads the file also holds `grad.<tensor name>` for every
/// tensor of the checkpoint, in its shape and the dtype of the run.
///
/// `--part` chooses the part of a checkpoint of one of Qwen's Omni models: by default the thinker, from text to text. A
/// talker is a language model of codes of sound. A code predictor takes `inputs_embeds` [b, 2, width], the talker's
/// last hidden state and its embedding of a frame's first code, and in `input_ids` the other codes. The transformer of
/// a vocoder, `code2wav`, takes `inputs_embeds` alone. A vision tower that was saved alone takes pictures.
///
/// Models without a loss of their own write `out.NAME` for each result, such as `out.embeddings` and `out.deepstack.N` of a
/// vision tower. With `loss_weights.NAME`, f32 in the shape of each result, the loss is the sum of the products of results and
/// weights, which --grads needs.
///
/// For a reward model (a `…ForSequenceClassification` with one label), the output file holds `scores` [b] alone: those
/// of each row's last token by the mask, in f32 (f64 in an f64 run).
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder of the checkpoint (config.json and safetensors files, or one GGUF file), or a GGUF file.
    #[arg(long, value_name = "DIR|FILE")]
    model: PathBuf,
    /// The part of a checkpoint of one of Qwen's Omni models.
    #[arg(long, value_name = "PART", value_parser = part_parser())]
    part: Option<OmniPart>,
    /// The safetensors file with the token ids, or with pictures.
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

/// Reads the name of a part.
fn part_parser() -> impl TypedValueParser<Value = OmniPart> {
    let names = PossibleValuesParser::new(OmniPart::ALL.map(OmniPart::name));
    names.map(|name| {
        let mut parts = OmniPart::ALL.into_iter();
        let part = parts.find(|part| part.name() == name);
        part.expect("names are those of parts")
    })
}

/// Runs the command.
///
/// # Errors
/// Returns an error that names the file and the field or tensor if the checkpoint, the inputs or the output path are
/// invalid.
pub fn run(args: &Args) -> anyhow::Result<()> {
    args.policy.install_preferring(args.quantised.preferred())?;
    refuse_lost_files(args)?;
    let inputs = inputs::read(&args.inputs)?;
    let device = device(args)?;
    let run = Run {
        args,
        inputs: &inputs,
        device: &device,
        dtype: args.dtype.float_dtype(),
    };
    let outputs = if is_vision_tower(&args.model)? {
        ensure!(args.part.is_none(), "--part: a vision tower has no parts");
        vision::results(&run)?
    } else if ModelConfig::of_checkpoint_part(&args.model, args.part)?.is_reward_model() {
        rewards(&run)?
    } else {
        results(&run)?
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

/// Refuses outputs that can't be written, and those that would replace the inputs, the model's file or each other.
fn refuse_lost_files(args: &Args) -> anyhow::Result<()> {
    let read = [
        (args.inputs.as_path(), "--inputs"),
        (args.model.as_path(), "--model"),
    ];
    let outputs = (args.outputs.as_path(), "--outputs");
    output::refuse_unwritable(outputs.0, outputs.1)?;
    for other in read {
        output::refuse_one_file(outputs, other)?;
    }
    let Some(report) = &args.report else {
        return Ok(());
    };
    let report = (report.as_path(), "--report");
    output::refuse_unwritable(report.0, report.1)?;
    for other in read {
        output::refuse_one_file(report, other)?;
    }
    output::refuse_one_file(report, outputs)
}

/// Computes the scores of a reward model.
fn rewards(run: &Run<'_>) -> anyhow::Result<Outputs> {
    let Run {
        args,
        inputs,
        device,
        dtype,
    } = *run;
    ensure!(
        !args.grads,
        "--grads writes gradients of the loss of tokens, which a reward model does not have"
    );
    let (_, model) = load_reward_model(&args.model, device, dtype)?;
    args.quantised.check(&model, device)?;
    let batch = run.checked(|| {
        weighted::refuse(&inputs.loss_weights)?;
        let batch = inputs.batch(device, dtype)?;
        model.check_batch(&batch)?;
        Ok(batch)
    })?;
    report::reset();
    let scores = model.rewards(batch).try_into_data()?;
    Ok(Outputs::from([("scores".to_owned(), scores)]))
}

/// Computes the results of any other model.
fn results(run: &Run<'_>) -> anyhow::Result<Outputs> {
    let Run {
        args,
        inputs,
        device,
        dtype,
    } = *run;
    // The gradients of every weight are written.
    let quantised = args.quantised.form(args.grads);
    let (path, part) = (&args.model, args.part);
    // Only the thinker of an Omni model reads pictures.
    let sees = inputs.has_pictures() && part.is_none_or(|part| part == OmniPart::Thinker);
    let model = loading::shown(|progress| match sees {
        false => Ok(load_part(path, part, device, dtype, quantised, progress)?.1),
        true => {
            let (_, model) = load_with_vision(path, device, dtype, quantised, progress)?;
            Ok(Model::Language(model))
        }
    })?;
    args.quantised.check(&model, device)?;
    let (mut outputs, loss) = match &model {
        Model::Language(model) => language(run, model)?,
        Model::CodePredictor(model) => run.code_predictor(model)?,
        Model::Code2Wav(model) => run.code2wav(model)?,
    };
    if let (Some(loss), true) = (&loss, args.grads) {
        let gradients = stored_gradients(path, part, &model, &loss.backward())?;
        for (name, gradient) in gradients {
            outputs.insert(format!("grad.{name}"), gradient);
        }
    }
    if let Some(loss) = loss {
        outputs.insert("loss".to_owned(), scalar(loss, args.dtype)?);
    }
    Ok(outputs)
}

/// Computes the logits and the loss of a language model.
fn language(run: &Run<'_>, model: &CausalLm) -> anyhow::Result<Results> {
    let batch = run.checked(|| {
        weighted::refuse(&run.inputs.loss_weights)?;
        let batch = run.inputs.batch(run.device, run.dtype)?;
        model.check_batch_with_loss(&batch)?;
        Ok(batch)
    })?;
    report::reset();
    let (logits, loss) = model.loss_of(batch);
    let outputs = Outputs::from([("logits".to_owned(), logits.try_into_data()?)]);
    Ok((outputs, Some(loss)))
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
