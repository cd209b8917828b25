//! The options of losses of completions with rewards.

use crate::training::preference::Objective;
use anyhow::{bail, ensure};
use kernels_models::preference::{AdvantageScale, Aggregation, PolicyLoss, Ratio};
use serde::Serialize;
use std::time::Duration;

/// A variant of GRPO. They differ in ratios, clips, and the mean over tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// The mean over completions of their tokens' means.
    Grpo,
    /// Dr. GRPO: the sum over tokens by --max-new-tokens, and advantages without a deviation.
    DrGrpo,
    /// DAPO: the mean over the tokens of a step, and an upper clip of 0.28.
    Dapo,
    /// BNPO: the mean over the tokens of a batch.
    Bnpo,
    /// GSPO: ratios of whole completions, and clips of 3e-4 and 4e-4.
    Gspo,
}

/// The number by which rewards less their group's mean are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// The standard deviation of the rewards of one prompt.
    Group,
    /// That of the rewards of a step.
    Batch,
    /// 1.
    None,
}

/// The options of completions and their rewards.
#[derive(Clone, Debug, clap::Args, Serialize)]
#[group(skip)]
#[serde(rename_all = "kebab-case")]
pub struct RolloutArgs {
    /// The variant of grpo [default: grpo].
    #[arg(long, value_enum)]
    variant: Option<Variant>,
    /// The number of completions of each prompt, for grpo [default: 8].
    #[arg(long, value_name = "N", value_parser = super::parse::count)]
    completions: Option<usize>,
    /// The largest number of tokens of a completion, for grpo [default: 256].
    #[arg(long, value_name = "N", value_parser = super::parse::count)]
    max_new_tokens: Option<usize>,
    /// The updates of the model by each step's completions, for grpo [default: 1].
    #[arg(long, value_name = "N", value_parser = super::parse::count)]
    updates: Option<usize>,
    /// The lower clip of ratios, for grpo [default: 0.2, or 3e-4 for gspo].
    #[arg(long, value_name = "NUMBER", value_parser = super::parse::above_zero)]
    clip_low: Option<f64>,
    /// The upper clip of ratios, for grpo [default: 0.2, 0.28 for dapo, 4e-4 for gspo].
    #[arg(long, value_name = "NUMBER", value_parser = super::parse::above_zero)]
    clip_high: Option<f64>,
    /// The number by which rewards less their mean are divided, for grpo [default: group, or none for dr-grpo].
    #[arg(long, value_enum)]
    advantage_scale: Option<Scale>,
    /// Leave completions that were cut off before an end token out of the loss, for grpo. Their rewards still count for the
    /// advantages of others.
    #[arg(long)]
    pub mask_truncated: bool,
    /// Multiply the divergence from the reference by the ratio, for grpo with --beta, as TRL does.
    #[arg(long)]
    kl_by_ratio: bool,
    /// A shell command that judges completions, for grpo. It reads lines of JSON, each a record with its `completion`,
    /// and prints one number for each.
    #[arg(long, value_name = "COMMAND", conflicts_with = "reward_regex")]
    pub reward_program: Option<String>,
    /// A regular expression, for grpo: a completion in which it matches has the reward 1, and another one 0.
    #[arg(long, value_name = "REGEX")]
    pub reward_regex: Option<String>,
    /// The seconds that --reward-program has for each number [default: 60].
    #[arg(long, value_name = "SECONDS", value_parser = super::parse::above_zero)]
    reward_timeout: Option<f64>,
}

impl RolloutArgs {
    /// Returns the names of all options, and whether each is given.
    pub fn given(&self) -> [(&'static str, bool); 12] {
        [
            ("--variant", self.variant.is_some()),
            ("--completions", self.completions.is_some()),
            ("--max-new-tokens", self.max_new_tokens.is_some()),
            ("--updates", self.updates.is_some()),
            ("--clip-low", self.clip_low.is_some()),
            ("--clip-high", self.clip_high.is_some()),
            ("--advantage-scale", self.advantage_scale.is_some()),
            ("--mask-truncated", self.mask_truncated),
            ("--kl-by-ratio", self.kl_by_ratio),
            ("--reward-program", self.reward_program.is_some()),
            ("--reward-regex", self.reward_regex.is_some()),
            ("--reward-timeout", self.reward_timeout.is_some()),
        ]
    }

    /// Returns the loss, with this coefficient of the divergence.
    ///
    /// # Errors
    /// Returns an error if options don't go together.
    pub fn objective(&self, kl: f64, temperature: f64) -> anyhow::Result<Objective> {
        ensure!(
            self.completions() >= 2,
            "--completions is 1, but an advantage compares completions of one prompt; give at least 2"
        );
        if self.kl_by_ratio && kl == 0.0 {
            bail!("--kl-by-ratio is about the divergence from a reference, which --beta asks for");
        }
        if self.reward_timeout.is_some() && self.reward_program.is_none() {
            bail!("--reward-timeout is that of --reward-program, which is not given");
        }
        let variant = self.variant();
        let (low, high) = match variant {
            Variant::Dapo => (0.2, 0.28),
            Variant::Gspo => (3e-4, 4e-4),
            _ => (0.2, 0.2),
        };
        let loss = PolicyLoss {
            ratio: match variant {
                Variant::Gspo => Ratio::Sequence,
                _ => Ratio::Token,
            },
            epsilon_low: self.clip_low.unwrap_or(low),
            epsilon_high: self.clip_high.unwrap_or(high),
            delta: None,
            kl,
            kl_by_ratio: self.kl_by_ratio,
            aggregation: match variant {
                Variant::Grpo | Variant::Gspo => Aggregation::Sequences,
                Variant::DrGrpo => Aggregation::MaxLength(self.max_new_tokens()),
                Variant::Bnpo => Aggregation::Tokens,
                // Each step has its own number.
                Variant::Dapo => Aggregation::StepTokens(1),
            },
        };
        loss.check()?;
        Ok(Objective::Policy(loss, temperature))
    }

    fn variant(&self) -> Variant {
        self.variant.unwrap_or(Variant::Grpo)
    }

    /// Returns the number of completions of each prompt.
    pub fn completions(&self) -> usize {
        self.completions.unwrap_or(8)
    }

    /// Returns the largest number of tokens of a completion.
    pub fn max_new_tokens(&self) -> usize {
        self.max_new_tokens.unwrap_or(256)
    }

    /// Returns the number of updates of the model by each step's completions.
    pub fn updates(&self) -> usize {
        self.updates.unwrap_or(1)
    }

    /// Returns the number by which rewards less their mean are divided.
    pub fn scale(&self) -> AdvantageScale {
        let usual = match self.variant() {
            Variant::DrGrpo => Scale::None,
            _ => Scale::Group,
        };
        match self.advantage_scale.unwrap_or(usual) {
            Scale::Group => AdvantageScale::Group,
            Scale::Batch => AdvantageScale::Batch,
            Scale::None => AdvantageScale::None,
        }
    }

    /// Returns the time that a reward program has for each number.
    pub fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.reward_timeout.unwrap_or(60.0))
    }

    /// Removes that time, which changes no number of a run: one that goes on can have another.
    pub fn forget_timeout(&mut self) {
        self.reward_timeout = None;
    }
}
