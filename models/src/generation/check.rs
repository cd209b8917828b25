//! Checks of settings and prompts, before anything is computed.

use super::{Generation, Sampling};
use crate::config::ModelConfig;
use crate::error::ModelError;

impl Generation {
    /// Checks that every setting is in its range.
    ///
    /// # Errors
    ///
    /// Returns [`ModelError::Setting`] with the name of the first one that is not.
    pub fn check(&self) -> Result<(), ModelError> {
        require(
            "max_new_tokens",
            self.max_new_tokens > 0,
            "at least 1",
            self.max_new_tokens,
        )?;
        let penalty = self.repetition_penalty;
        let positive = penalty.is_finite() && penalty > 0.0;
        require("repetition_penalty", positive, "a number above 0", penalty)?;
        self.sampling.as_ref().map_or(Ok(()), Sampling::check)
    }
}

impl Sampling {
    fn check(&self) -> Result<(), ModelError> {
        let temperature = self.temperature;
        let positive = temperature.is_finite() && temperature > 0.0;
        let expected = "a number above 0 (without sampling, the most probable token is taken)";
        require("temperature", positive, expected, temperature)?;
        if let Some(top_k) = self.top_k {
            require("top_k", top_k > 0, "at least 1", top_k)?;
        }
        let top_p = self.top_p > 0.0 && self.top_p <= 1.0;
        require("top_p", top_p, "a number above 0 and at most 1", self.top_p)?;
        let min_p = (0.0..=1.0).contains(&self.min_p);
        require("min_p", min_p, "a number from 0 to 1", self.min_p)
    }
}

fn require(
    setting: &'static str,
    met: bool,
    expected: &str,
    found: impl std::fmt::Display,
) -> Result<(), ModelError> {
    match met {
        true => Ok(()),
        false => Err(ModelError::Setting {
            setting,
            problem: format!("expected {expected}, found {found}"),
        }),
    }
}

/// Checks that the model can take every prompt.
pub(super) fn prompts(prompts: &[&[u32]], config: &ModelConfig) -> Result<(), ModelError> {
    let (vocabulary, limit) = (config.vocab_size, config.max_position_embeddings);
    for (at, prompt) in prompts.iter().enumerate() {
        let foreign = prompt.iter().find(|&&id| id as usize >= vocabulary);
        let problem = if prompt.is_empty() {
            "it has no token; begin with the token that texts begin with".into()
        } else if prompt.len() > limit {
            format!(
                "its {} tokens are more than the configuration's max_position_embeddings, {limit}",
                prompt.len()
            )
        } else if let Some(id) = foreign {
            format!("token {id} is not in 0..{vocabulary} (vocab_size)")
        } else {
            continue;
        };
        let problem = match prompts.len() {
            1 => problem,
            _ => format!("prompt {}: {problem}", at + 1),
        };
        return Err(ModelError::Input {
            input: "prompts",
            problem,
        });
    }
    Ok(())
}
