//! Runs of vision towers that were saved alone.

use super::inputs::{Inputs, PIXEL_VALUES};
use super::outputs::Outputs;
use super::weighted::Weighted;
use super::{Args, scalar};
use anyhow::Context;
use burn::tensor::Device;
use burn_kernels::report;
use kernels_io::escape_path;
use kernels_models::load_vision_tower;

/// Computes the features of pictures, and with weights their loss and its gradients.
///
/// # Errors
/// Returns an error for a checkpoint or pictures that are invalid, and for weights that do not fit the results.
pub fn results(args: &Args, inputs: &Inputs, device: &Device) -> anyhow::Result<Outputs> {
    let dtype = args.dtype.float_dtype();
    let tower = load_vision_tower(&args.model, device, dtype)?;
    args.quantised.check(&tower, device)?;
    let checked = || {
        inputs.refuse_others(&[PIXEL_VALUES], "a vision tower")?;
        let (pixel_values, grid) = inputs.pictures(device, dtype)?;
        let grids = tower.config().grids(&pixel_values, &grid)?;
        anyhow::Ok((pixel_values, grids))
    };
    let of_inputs = || escape_path(&args.inputs);
    let (pixel_values, grids) = checked().with_context(of_inputs)?;

    report::reset();
    let features = tower.forward(pixel_values, &grids);
    let weighted = || {
        let mut results = Weighted::new(&inputs.loss_weights);
        results.add("embeddings", features.embeddings)?;
        for (at, features) in features.deepstack.into_iter().enumerate() {
            results.add(&format!("deepstack.{at}"), features)?;
        }
        results.finish(args.grads)
    };
    let (mut outputs, loss) = weighted().with_context(of_inputs)?;
    let Some(loss) = loss else {
        return Ok(outputs);
    };
    if args.grads {
        for (name, gradient) in tower.gradients(&loss.backward()) {
            outputs.insert(format!("grad.{name}"), gradient);
        }
    }
    outputs.insert("loss".to_owned(), scalar(loss, args.dtype)?);
    Ok(outputs)
}
