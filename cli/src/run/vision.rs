//! Runs of vision towers that were saved alone.

use super::inputs::PIXEL_VALUES;
use super::outputs::Outputs;
use super::parts::Run;
use super::scalar;
use super::weighted::Weighted;
use burn_kernels::report;
use kernels_models::load_vision_tower;

/// Computes the features of pictures, and with weights their loss and its gradients.
///
/// # Errors
/// Returns an error for a checkpoint or pictures that are invalid, and for weights that do not fit the results.
pub fn results(run: &Run<'_>) -> anyhow::Result<Outputs> {
    let Run {
        args,
        inputs,
        device,
        dtype,
    } = *run;
    let tower = load_vision_tower(&args.model, device, dtype)?;
    args.quantised.check(&tower, device)?;
    let (pixel_values, grids) = run.checked(|| {
        inputs.refuse_others(&[PIXEL_VALUES], "a vision tower")?;
        let (pixel_values, grid) = inputs.pictures(device, dtype)?;
        let grids = tower.config().grids(&pixel_values, &grid)?;
        Ok((pixel_values, grids))
    })?;

    report::reset();
    let features = tower.forward(pixel_values, &grids);
    let (mut outputs, loss) = run.checked(|| {
        let mut results = Weighted::new(&inputs.loss_weights);
        results.add("embeddings", features.embeddings)?;
        for (at, features) in features.deepstack.into_iter().enumerate() {
            results.add(&format!("deepstack.{at}"), features)?;
        }
        results.finish(args.grads)
    })?;
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
