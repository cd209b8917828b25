//! Checksums that bind a run to the weights that it reads again when it goes on.

use super::Args;
use super::answers;
use super::model::Trained;
use crate::training::identity::Fingerprint;
use kernels_io::Limit;
use std::path::Path;

/// The checksums of weights that a run reads again when it goes on.
#[derive(Default)]
pub struct Sums {
    /// The checksum of the checkpoint, if the run stays bound to it.
    pub base: Option<String>,
    /// The checksum of the reference or the teacher, if there is one.
    pub reference: Option<String>,
}

impl Sums {
    /// Computes the checksums of a run. `refers` is true if it compares with a reference model. A teacher is bound like
    /// a reference.
    ///
    /// # Errors
    /// Returns an error if weights can't be read.
    pub fn new(
        args: &Args,
        (base, trained): (&Path, &Trained),
        refers: bool,
    ) -> anyhow::Result<Self> {
        let teacher = args.loss.distillation()?.map(|(folder, _)| folder);
        let named = answers::folder(args).filter(|_| refers).or(teacher);
        let adapts = !matches!(trained, Trained::Whole);
        // A whole model is in the states of the run, but not as the run began.
        let needs_base = adapts || refers && args.loss.reference.is_none();
        let base = needs_base.then(|| kernels_models::weights_checksum(base));
        let reference = match (named, trained) {
            (Some(folder), _) => Some(kernels_models::weights_checksum(folder)?),
            (None, Trained::Old(folder)) if refers => Some(sum_of_adapters(folder)?),
            _ => None,
        };
        Ok(Self {
            base: base.transpose()?,
            reference,
        })
    }
}

/// Returns the checksum of the weights of adapters.
fn sum_of_adapters(folder: &Path) -> anyhow::Result<String> {
    const LIMIT: Limit = Limit::mib("adapters", 16 << 10);
    let weights = kernels_io::read(&folder.join("adapter_model.safetensors"), LIMIT)?;
    let mut sum = Fingerprint::default();
    sum.add(&weights);
    Ok(sum.to_string())
}
