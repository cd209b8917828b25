//! Runs of models other than language models.

use super::Args;
use super::inputs::{INPUT_IDS, INPUTS_EMBEDS, Inputs};
use super::outputs::Outputs;
use super::weighted::{self, Weighted};
use anyhow::Context;
use burn::tensor::{Device, FloatDType, Tensor};
use burn_kernels::report;
use kernels_io::escape_path;
use kernels_models::{Code2Wav, CodePredictor};

/// The results of a run, and their loss `[1]` if there is one.
pub type Results = (Outputs, Option<Tensor<1>>);

/// The options and inputs of a run, and its device and dtype.
pub struct Run<'a> {
    pub args: &'a Args,
    pub inputs: &'a Inputs,
    pub device: &'a Device,
    pub dtype: FloatDType,
}

impl Run<'_> {
    /// Checks the inputs by `check`, whose errors are of the file of inputs.
    pub fn checked<T>(&self, check: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
        check().with_context(|| escape_path(&self.args.inputs))
    }

    /// Computes the logits and the loss of the codes of frames.
    pub fn code_predictor(&self, model: &CodePredictor) -> anyhow::Result<Results> {
        let (first, codes) = self.checked(|| {
            weighted::refuse(&self.inputs.loss_weights)?;
            let taken = [INPUTS_EMBEDS, INPUT_IDS];
            self.inputs.refuse_others(&taken, "a code predictor")?;
            let first = self.inputs.inputs_embeds(self.device, self.dtype)?;
            let codes = self.inputs.input_ids(self.device)?;
            model.check_inputs(&first, &codes)?;
            Ok((first, codes))
        })?;
        report::reset();
        let (logits, loss) = model.loss(first, codes);
        let outputs = Outputs::from([("logits".to_owned(), logits.try_into_data()?)]);
        Ok((outputs, Some(loss)))
    }

    /// Computes the hidden states of the transformer of a vocoder.
    pub fn code2wav(&self, model: &Code2Wav) -> anyhow::Result<Results> {
        let embedded = self.checked(|| {
            let (taken, name) = ([INPUTS_EMBEDS], "the transformer of a vocoder");
            self.inputs.refuse_others(&taken, name)?;
            let embedded = self.inputs.inputs_embeds(self.device, self.dtype)?;
            model.check_inputs(&embedded)?;
            Ok(embedded)
        })?;
        report::reset();
        let hidden = model.forward(embedded);
        self.checked(|| {
            let mut results = Weighted::new(&self.inputs.loss_weights);
            results.add("hidden", hidden)?;
            results.finish(self.args.grads)
        })
    }
}
