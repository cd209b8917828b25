//! The way in which a model completes prompts itself, and its completions are judged.

use super::data::{Example, Prompt, Recorded};
use super::grpo::RolloutArgs;
use super::judge::{COMPLETION, Judge};
use crate::text::Tokenizer;
use crate::training::random::SplitMix64;
use anyhow::bail;
use kernels_models::{CausalLm, Finish, Generation, ModelConfig, Sampling};
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::path::Path;

/// The way in which completions are written and judged.
pub struct Writer {
    tokenizer: Tokenizer,
    settings: Generation,
    completions: usize,
    judge: RefCell<Judge>,
    seed: u64,
}

/// A completion with its reward, and true if it was cut off before a token that ends it.
pub struct Judged {
    pub own: Recorded,
    pub is_cut: bool,
}

/// Returns `true` for a completion without a token that ends it. A template may have further text behind that.
pub fn is_cut(own: &Recorded, ends: &[u32]) -> bool {
    let learned = own.example.learned.iter().cloned();
    !learned
        .flat_map(|range| &own.example.ids[range])
        .any(|id| ends.contains(id))
}

/// Returns the way in which a checkpoint generates, with all tokens that end a completion.
///
/// # Errors
/// Returns an error if its settings can't be read.
pub fn generation(
    folder: &Path,
    config: &ModelConfig,
    tokenizer: &Tokenizer,
) -> anyhow::Result<Generation> {
    let mut settings = Generation::open(folder, config)?;
    let end = tokenizer
        .special("eos_token")
        .and_then(|token| tokenizer.id(token));
    if let Some(end) = end.filter(|end| !settings.end_tokens.contains(end)) {
        settings.end_tokens.push(end);
    }
    Ok(settings)
}

impl Writer {
    /// Prepares it with the settings of [`generation`].
    ///
    /// # Errors
    /// Returns an error if completions have no rewards.
    pub fn new(
        (args, temperature, seed): (&RolloutArgs, f64, u64),
        (mut settings, mut tokenizer): (Generation, Tokenizer),
    ) -> anyhow::Result<Self> {
        let judge = match (&args.reward_program, &args.reward_regex) {
            (Some(command), _) => Judge::Command(command.clone(), args.timeout()),
            (None, Some(regex)) => Judge::of_regex(regex)?,
            (None, None) => bail!(
                "the prompts have no completions with rewards, so the model writes some; --reward-program COMMAND or \
                 --reward-regex REGEX judges them"
            ),
        };
        // The choice is that of the probabilities that the loss knows: of all tokens, without penalties.
        settings.repetition_penalty = 1.0;
        settings.max_new_tokens = args.max_new_tokens();
        let mut sampling = Sampling::default();
        sampling.temperature = temperature;
        settings.sampling = Some(sampling);
        settings.check()?;
        tokenizer.hide(&settings.end_tokens);
        Ok(Self {
            tokenizer,
            settings,
            completions: args.completions(),
            judge: RefCell::new(judge),
            seed,
        })
    }

    /// Has a model complete a part of a step's prompts. The draws follow from the seed, the step and the part.
    ///
    /// # Errors
    /// Returns an error if the device fails, or the judge.
    pub fn complete(
        &self,
        prompts: &[&Prompt],
        (step, part): (usize, usize),
        model: &CausalLm,
    ) -> anyhow::Result<Vec<Vec<Judged>>> {
        let each = self.completions;
        let repeated = prompts
            .iter()
            .flat_map(|prompt| vec![prompt.ids.clone(); each]);
        let mut settings = self.settings.clone();
        if let Some(sampling) = &mut settings.sampling {
            let seed = SplitMix64::of(self.seed, !(step as u64)).next();
            sampling.seed = SplitMix64::of(seed, part as u64).next();
        }
        let repeated: Vec<Vec<u32>> = repeated.collect();
        let written = model.generate(&repeated, &settings, |_| ControlFlow::Continue(()))?;
        let records = written.iter().enumerate().map(|(at, written)| {
            let mut fields = prompts[at / each].fields.clone();
            let text = self.tokenizer.decode(&written.ids)?;
            fields.insert(COMPLETION.to_owned(), Value::String(text));
            Ok(fields)
        });
        let records = records.collect::<anyhow::Result<Vec<Map<String, Value>>>>()?;
        let rewards = self.judge.borrow_mut().rewards(&records)?;
        let judged = written.into_iter().zip(repeated).zip(rewards);
        let judged = judged.map(|((written, mut ids), reward)| {
            let start = ids.len();
            ids.extend(&written.ids);
            Judged {
                own: Recorded {
                    example: {
                        let learned = std::iter::once(start..ids.len()).collect();
                        Example::new(ids, learned)
                    },
                    reward,
                    old: None,
                },
                is_cut: written.finish != Finish::End,
            }
        });
        let mut judged = judged.peekable();
        let mut groups = Vec::with_capacity(prompts.len());
        while judged.peek().is_some() {
            groups.push(judged.by_ref().take(each).collect());
        }
        Ok(groups)
    }
}
