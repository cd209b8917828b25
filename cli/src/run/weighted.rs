//! Results of models without a loss of their own: any number of tensors, each with a name.
//!
//! The file of inputs may weigh them. Their loss is then the sum of all products of a result and its weights, so that the
//! weights are the gradients that the backward pass starts from.

use super::outputs::Outputs;
use super::tensors::Floats;
use anyhow::{bail, ensure};
use burn::tensor::{DType, FloatDType, Tensor};
use std::collections::BTreeMap;

/// The beginning of the names of results.
pub const RESULT: &str = "out.";

/// The beginning of the names of their weights.
pub const WEIGHTS: &str = "loss_weights.";

/// The results so far, and their loss.
pub struct Weighted<'a> {
    weights: &'a BTreeMap<String, Floats>,
    outputs: Outputs,
    unweighted: Option<String>,
    loss: Option<Tensor<1>>,
}

impl<'a> Weighted<'a> {
    /// Begins without a result. `weights` are by the names of results.
    pub fn new(weights: &'a BTreeMap<String, Floats>) -> Self {
        Self {
            weights,
            outputs: Outputs::new(),
            unweighted: None,
            loss: None,
        }
    }

    /// Adds a result. Its weights are rounded to at least f32.
    ///
    /// # Errors
    /// Returns an error for weights of another shape, and if the result can't be read from its device.
    pub fn add<const D: usize>(&mut self, name: &str, result: Tensor<D>) -> anyhow::Result<()> {
        match self.weights.get(name) {
            None => {
                self.unweighted.get_or_insert_with(|| name.to_owned());
            }
            Some(weights) => {
                let (shape, found) = (result.dims(), weights.shape());
                ensure!(
                    shape.as_slice() == found,
                    "tensor `{WEIGHTS}{name}`: expected the shape of the result, {shape:?}, found {found:?}"
                );
                let wide = match result.dtype() {
                    DType::F64 => FloatDType::F64,
                    _ => FloatDType::F32,
                };
                let weights = weights.tensor::<D>(&result.device(), wide);
                let product = (result.clone().cast(wide) * weights).sum();
                self.loss = Some(match self.loss.take() {
                    Some(loss) => loss + product,
                    None => product,
                });
            }
        }
        let name = format!("{RESULT}{name}");
        self.outputs.insert(name, result.try_into_data()?);
        Ok(())
    }

    /// Returns the results, and their loss `[1]` if there are weights.
    ///
    /// # Errors
    /// Returns an error for weights of something that is not a result. If there is a loss, or `is_required`, also for a
    /// result without weights.
    pub fn finish(self, is_required: bool) -> anyhow::Result<(Outputs, Option<Tensor<1>>)> {
        let is_result = |name: &str| self.outputs.contains_key(&format!("{RESULT}{name}"));
        if let Some(name) = self.weights.keys().find(|name| !is_result(name)) {
            let results: Vec<String> = self.outputs.keys().map(|own| format!("`{own}`")).collect();
            bail!(
                "tensor `{WEIGHTS}{name}` does not belong to a result; results are {}",
                results.join(", "),
                name = kernels_io::escape(name)
            );
        }
        if let Some(name) = self
            .unweighted
            .filter(|_| is_required || self.loss.is_some())
        {
            bail!(
                "tensor `{WEIGHTS}{name}` is missing: gradients are those of the weighted sum of all results"
            );
        }
        Ok((self.outputs, self.loss))
    }
}

/// Refuses weights of a model with a loss of its own.
///
/// # Errors
/// Returns an error that names the first.
pub fn refuse(weights: &BTreeMap<String, Floats>) -> anyhow::Result<()> {
    let first = weights.keys().next().map(|name| kernels_io::escape(name));
    match first {
        None => Ok(()),
        Some(name) => bail!(
            "tensor `{WEIGHTS}{name}` weights a result, but this model has a loss of its own; leave it out"
        ),
    }
}
