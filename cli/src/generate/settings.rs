//! The options that replace settings of the checkpoint.

use crate::options;
use kernels_models::{Generation, ModelConfig, ModelError, Sampling};
use std::path::Path;

/// The choice of tokens.
#[derive(Debug, clap::Args)]
pub struct Choice {
    /// The number of tokens after which a text ends [default: `max_new_tokens` of generation_config.json, else 256].
    #[arg(long, value_name = "N", value_parser = options::whole::<usize>)]
    max_new_tokens: Option<usize>,
    /// Take the most probable token each time, whatever the checkpoint says.
    #[arg(long, conflicts_with_all = ["temperature", "top_k", "top_p", "min_p", "seed"])]
    greedy: bool,
    /// Divide the logits by this before a token is drawn. Below 1, probable tokens become more probable.
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    temperature: Option<f64>,
    /// Sample from this number of the most probable tokens; 0 means all [default: that of the checkpoint, else 50].
    #[arg(long, value_name = "N", value_parser = options::whole::<usize>)]
    top_k: Option<usize>,
    /// Draw from the smallest set of tokens that has this probability.
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    top_p: Option<f64>,
    /// Draw from tokens that are at least this times as probable as the first.
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    min_p: Option<f64>,
    /// Divide positive logits of tokens that are in the text already by this, and multiply negative ones with it.
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    repetition_penalty: Option<f64>,
    /// The seed of the draws [default: 0].
    #[arg(long, value_name = "N", value_parser = options::whole::<u64>)]
    seed: Option<u64>,
}

impl Choice {
    /// Returns the settings of a checkpoint with these options.
    ///
    /// # Errors
    /// Returns an error if the checkpoint's settings can't be used, or if an option is outside its range.
    pub fn generation(&self, folder: &Path, config: &ModelConfig) -> anyhow::Result<Generation> {
        let mut settings = Generation::open(folder, config)?;
        if let Some(max_new_tokens) = self.max_new_tokens {
            settings.max_new_tokens = max_new_tokens;
        }
        if let Some(penalty) = self.repetition_penalty {
            settings.repetition_penalty = penalty;
        }
        settings.sampling = match self.greedy {
            true => None,
            false => self.sampling(settings.sampling, &settings.suggested),
        };
        settings.check().map_err(|error| match error {
            ModelError::Setting { setting, problem } => {
                anyhow::anyhow!("--{}: {problem}", setting.replace('_', "-"))
            }
            other => other.into(),
        })?;
        Ok(settings)
    }

    /// Returns the checkpoint's way of drawing with these options, if it draws or if one of them asks for draws.
    fn sampling(&self, own: Option<Sampling>, suggested: &Sampling) -> Option<Sampling> {
        let asked = self.temperature.is_some()
            || self.top_k.is_some()
            || self.top_p.is_some()
            || self.min_p.is_some()
            || self.seed.is_some();
        let mut sampling = own.or_else(|| asked.then(|| suggested.clone()))?;
        sampling.temperature = self.temperature.unwrap_or(sampling.temperature);
        sampling.top_p = self.top_p.unwrap_or(sampling.top_p);
        sampling.min_p = self.min_p.unwrap_or(sampling.min_p);
        sampling.seed = self.seed.unwrap_or(sampling.seed);
        if let Some(top_k) = self.top_k {
            sampling.top_k = (top_k > 0).then_some(top_k);
        }
        Some(sampling)
    }
}
