//! The loss of a run, and its options.

use super::data::Kind;
use super::distill::DistillArgs;
use super::grpo::RolloutArgs;
use crate::training::preference::Objective;
use anyhow::{bail, ensure};
use kernels_models::preference::{Divergence, NllAverage, PairLoss, RewardLoss, UnpairedLoss};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// A loss. Those of answers are in [`kernels_models::preference`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    /// The cross-entropy of the learned tokens (supervised tuning).
    Sft,
    /// DPO; with --label-smoothing, conservative DPO.
    Dpo,
    /// Robust DPO.
    Robust,
    /// The hinge loss of SLiC.
    Hinge,
    /// IPO.
    Ipo,
    /// Length-normalised DPO (TRL's sigmoid_norm).
    DpoNorm,
    /// APO-zero of pairs.
    ApoZero,
    /// APO-down of pairs.
    ApoDown,
    /// ORPO.
    Orpo,
    /// SimPO.
    Simpo,
    /// CPO.
    Cpo,
    /// KTO.
    Kto,
    /// APO-zero of single answers (TRL's apo_zero_unpaired).
    ApoZeroUnpaired,
    /// The loss of reward models (Bradley–Terry).
    Reward,
    /// GRPO and its variants: the model completes prompts, and learns from the rewards of its completions.
    Grpo,
    /// Distillation: the divergence from the probabilities of a teacher, on the data of sft.
    Distill,
}

/// The average of the negative log-likelihood of chosen answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Average {
    /// Over the tokens of a step, as TRL does.
    Tokens,
    /// Over answers, of each one's mean, as LLaMA-Factory does.
    Sequences,
}

/// The options of a loss.
#[derive(Clone, Debug, clap::Args, Serialize)]
#[group(skip)]
#[serde(rename_all = "kebab-case")]
pub struct LossArgs {
    /// The loss. All but sft, distill and grpo train on preferences: records with `chosen` and `rejected`, or for kto
    /// and apo-zero-unpaired with `label` or `kto_tag`. Those of grpo have a `prompt`, and may have a `completion` with
    /// its `reward`.
    #[arg(long, value_enum, default_value_t = Loss::Sft)]
    loss: Loss,
    /// The factor of rewards [default: 2.5 for simpo, otherwise 0.1]; for grpo that of the divergence from the
    /// reference [default: none].
    #[arg(long, value_name = "NUMBER", value_parser = super::parse::above_zero)]
    beta: Option<f64>,
    /// The part of pairs that may be in the wrong order, below 0.5, for dpo, robust, simpo and cpo [default: 0].
    #[arg(long, value_name = "PART", value_parser = super::parse::part)]
    label_smoothing: Option<f64>,
    /// The margin of simpo [default: 1.375].
    #[arg(long, value_name = "NUMBER", value_parser = super::parse::from_zero)]
    gamma: Option<f64>,
    /// The weight of the negative log-likelihood of chosen answers, for losses of pairs [default: 1 for orpo and cpo,
    /// otherwise 0].
    #[arg(long, value_name = "NUMBER", value_parser = super::parse::from_zero)]
    nll_weight: Option<f64>,
    /// The average of that [default: tokens].
    #[arg(long, value_enum)]
    nll_average: Option<Average>,
    /// The weight of desirable answers, for kto and apo-zero-unpaired [default: 1].
    #[arg(long, value_name = "NUMBER", value_parser = super::parse::from_zero)]
    desirable_weight: Option<f64>,
    /// The weight of other answers, for kto and apo-zero-unpaired [default: 1].
    #[arg(long, value_name = "NUMBER", value_parser = super::parse::from_zero)]
    undesirable_weight: Option<f64>,
    /// The weight of the squared sum of a pair's scores, for reward: it keeps their mean near 0 [default: 0].
    #[arg(long, value_name = "NUMBER", value_parser = super::parse::from_zero)]
    centring: Option<f64>,
    /// The number that logits are divided by, for grpo (where completions are drawn so too) and distill [default: 1].
    #[arg(long, value_name = "NUMBER", value_parser = super::parse::temperature)]
    temperature: Option<f64>,
    #[command(flatten)]
    #[serde(flatten)]
    pub rollouts: RolloutArgs,
    #[command(flatten)]
    #[serde(flatten)]
    distillation: DistillArgs,
    /// Train without a reference model, for losses of pairs that have one.
    #[arg(long)]
    reference_free: bool,
    /// The checkpoint of the reference model [default: the model as the run begins].
    #[arg(long, value_name = "DIR", conflicts_with = "reference_free")]
    #[serde(serialize_with = "crate::options::as_absolute")]
    pub reference: Option<PathBuf>,
    /// Compute the reference's log-probabilities of all answers before the first step, and free it. Not for kto.
    #[arg(long, conflicts_with = "reference_free")]
    pub precompute_reference: bool,
}

impl Loss {
    /// Returns the name of the loss, as the option takes it.
    fn name(self) -> String {
        let value = clap::ValueEnum::to_possible_value(&self);
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

impl LossArgs {
    /// Returns the records that the loss takes, if it is of answers.
    pub fn kind(&self) -> Option<Kind> {
        match self.loss {
            Loss::Sft | Loss::Distill => None,
            Loss::Grpo => Some(Kind::Prompts),
            Loss::Kto | Loss::ApoZeroUnpaired => Some(Kind::Single),
            Loss::Reward => Some(Kind::Scored),
            _ => Some(Kind::Pairs),
        }
    }

    /// Returns the loss of answers, or `None` for that of tokens.
    ///
    /// # Errors
    /// Returns an error that names an option of another loss, or one that is out of its range.
    pub fn objective(&self) -> anyhow::Result<Option<Objective>> {
        self.check_options()?;
        let beta = self.beta.unwrap_or(match self.loss {
            Loss::Simpo => 2.5,
            _ => 0.1,
        });
        let smoothing = self.label_smoothing.unwrap_or(0.0);
        ensure!(
            smoothing < 0.5,
            "--label-smoothing is {smoothing}, but half of the pairs or more can't be in the wrong order; it must be below 0.5"
        );
        let pairs = match self.loss {
            Loss::Sft | Loss::Distill => return Ok(None),
            Loss::Grpo => {
                let kl = self.beta.unwrap_or(0.0);
                return self.rollouts.objective(kl, self.temperature()).map(Some);
            }
            Loss::Kto | Loss::ApoZeroUnpaired => {
                return Ok(Some(Objective::Single(UnpairedLoss {
                    beta,
                    desirable_weight: self.desirable_weight.unwrap_or(1.0),
                    undesirable_weight: self.undesirable_weight.unwrap_or(1.0),
                    has_baseline: self.loss == Loss::Kto,
                })));
            }
            Loss::Reward => {
                let centring = self.centring.unwrap_or(0.0);
                return Ok(Some(Objective::Rewards(RewardLoss { centring })));
            }
            Loss::Dpo | Loss::Cpo => PairLoss::Sigmoid { beta, smoothing },
            Loss::Robust => PairLoss::Robust { beta, smoothing },
            Loss::Hinge => PairLoss::Hinge { beta },
            Loss::Ipo => PairLoss::Ipo { beta },
            Loss::DpoNorm => PairLoss::SigmoidNorm { beta },
            Loss::ApoZero => PairLoss::ApoZero { beta },
            Loss::ApoDown => PairLoss::ApoDown { beta },
            Loss::Orpo => PairLoss::Orpo { beta },
            Loss::Simpo => PairLoss::Simpo {
                beta,
                gamma: self.gamma.unwrap_or(1.375),
                smoothing,
            },
        };
        let weight = self.nll_weight.unwrap_or(match self.loss {
            Loss::Orpo | Loss::Cpo => 1.0,
            _ => 0.0,
        });
        if weight == 0.0 && self.nll_average.is_some() {
            bail!("--nll-average is the average of a term that --nll-weight leaves out");
        }
        let average = match self.nll_average {
            Some(Average::Sequences) => NllAverage::Sequences,
            _ => NllAverage::Tokens,
        };
        let nll = (weight > 0.0).then_some((weight, average));
        Ok(Some(Objective::Pairs(pairs, nll)))
    }

    /// Returns `true` if the loss compares with answers behind the prompts of others.
    ///
    /// # Errors
    /// Returns an error as [`objective`](Self::objective) does.
    pub fn has_baseline(&self) -> anyhow::Result<bool> {
        let objective = self.objective()?;
        Ok(matches!(objective, Some(Objective::Single(loss)) if loss.has_baseline))
    }

    /// Returns the folder of the teacher and the divergence from it, if the loss is one.
    ///
    /// # Errors
    /// Returns an error without a teacher.
    pub fn distillation(&self) -> anyhow::Result<Option<(&Path, Divergence)>> {
        let is_own = self.loss == Loss::Distill;
        is_own
            .then(|| self.distillation.parts(self.temperature()))
            .transpose()
    }

    /// Returns the number that logits are divided by.
    pub fn temperature(&self) -> f64 {
        self.temperature.unwrap_or(1.0)
    }

    /// Returns `true` for the divergence from a teacher.
    pub fn is_distillation(&self) -> bool {
        self.loss == Loss::Distill
    }

    /// Returns `true` for the loss of reward models.
    pub fn is_reward(&self) -> bool {
        self.loss == Loss::Reward
    }

    /// Returns `true` if the loss compares with a reference model.
    pub fn has_reference(&self) -> bool {
        use Loss::*;
        match self.loss {
            Sft | Distill | Orpo | Simpo | Cpo | Reward => false,
            Grpo => self.beta.is_some(),
            _ => !self.reference_free,
        }
    }

    /// Refuses options that the loss does not have.
    fn check_options(&self) -> anyhow::Result<()> {
        use Loss::*;
        const COMPARED: &[Loss] = &[Dpo, Robust, Hinge, Ipo, DpoNorm, ApoZero, ApoDown];
        const SINGLE: &[Loss] = &[Kto, ApoZeroUnpaired];
        const GRPO: &[Loss] = &[Grpo];
        const DISTILL: &[Loss] = &[Distill];
        let pairs = [COMPARED, &[Orpo, Simpo, Cpo]].concat();
        let all = [&pairs, SINGLE].concat();
        let grpo = self.rollouts.given().into_iter();
        let grpo = grpo.map(|(option, given)| (option, given, GRPO));
        let distill = self.distillation.given().into_iter();
        let distill = distill.map(|(option, given)| (option, given, DISTILL));
        let usual = [
            (
                "--beta",
                self.beta.is_some(),
                &[&all[..], &[Grpo]].concat()[..],
            ),
            (
                "--temperature",
                self.temperature.is_some(),
                &[Grpo, Distill],
            ),
            (
                "--label-smoothing",
                self.label_smoothing.is_some(),
                &[Dpo, Robust, Simpo, Cpo],
            ),
            ("--gamma", self.gamma.is_some(), &[Simpo]),
            ("--nll-weight", self.nll_weight.is_some(), &pairs),
            ("--nll-average", self.nll_average.is_some(), &pairs),
            (
                "--desirable-weight",
                self.desirable_weight.is_some(),
                SINGLE,
            ),
            (
                "--undesirable-weight",
                self.undesirable_weight.is_some(),
                SINGLE,
            ),
            ("--centring", self.centring.is_some(), &[Reward]),
            ("--reference-free", self.reference_free, COMPARED),
            (
                "--reference",
                self.reference.is_some(),
                &[COMPARED, SINGLE, &[Grpo]].concat(),
            ),
            (
                "--precompute-reference",
                self.precompute_reference,
                // KTO compares with answers behind prompts that follow from the order of a run.
                &[COMPARED, &[ApoZeroUnpaired]].concat(),
            ),
        ];
        for (option, given, losses) in usual.into_iter().chain(grpo).chain(distill) {
            if given && !losses.contains(&self.loss) {
                let names: Vec<String> = losses.iter().map(|loss| loss.name()).collect();
                bail!(
                    "{option} is an option of --loss {}, and not of {}",
                    names.join(", "),
                    self.loss.name()
                );
            }
        }
        ensure!(
            self.loss != Grpo || self.beta.is_some() || self.reference.is_none(),
            "--reference needs --beta, the weight of the divergence from it"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        loss: LossArgs,
    }

    fn objective(line: &str) -> anyhow::Result<Option<Objective>> {
        let line = ["kernels"].into_iter().chain(line.split_whitespace());
        Line::try_parse_from(line)?.loss.objective()
    }

    #[test]
    fn each_loss_has_its_defaults() {
        let pairs = |line: &str| match objective(line).unwrap() {
            Some(Objective::Pairs(loss, nll)) => (loss, nll),
            other => panic!("{line}: {other:?}"),
        };
        assert_eq!(objective("").unwrap(), None);
        let dpo = PairLoss::Sigmoid {
            beta: 0.1,
            smoothing: 0.0,
        };
        assert_eq!(pairs("--loss dpo"), (dpo, None));
        let tokens = Some((1.0, NllAverage::Tokens));
        assert_eq!(pairs("--loss cpo"), (dpo, tokens));
        assert_eq!(pairs("--loss orpo"), (PairLoss::Orpo { beta: 0.1 }, tokens));
        let simpo = PairLoss::Simpo {
            beta: 2.5,
            gamma: 1.375,
            smoothing: 0.0,
        };
        assert_eq!(pairs("--loss simpo"), (simpo, None));
        assert_eq!(
            pairs("--loss ipo --beta 0.3 --nll-weight 0.5 --nll-average sequences"),
            (
                PairLoss::Ipo { beta: 0.3 },
                Some((0.5, NllAverage::Sequences))
            )
        );
        let kto = UnpairedLoss {
            beta: 0.1,
            desirable_weight: 1.0,
            undesirable_weight: 2.0,
            has_baseline: true,
        };
        let found = objective("--loss kto --undesirable-weight 2").unwrap();
        assert_eq!(found, Some(Objective::Single(kto)));
    }

    #[test]
    fn options_of_another_loss_are_refused() {
        for (line, expected) in [
            ("--beta 0.1", "--beta is an option of --loss dpo, robust"),
            (
                "--loss dpo --gamma 1",
                "--gamma is an option of --loss simpo, and not of dpo",
            ),
            (
                "--loss ipo --label-smoothing 0.1",
                "--label-smoothing is an option",
            ),
            ("--loss robust --label-smoothing 0.5", "must be below 0.5"),
            ("--loss kto --nll-weight 1", "--nll-weight is an option"),
            (
                "--loss dpo --desirable-weight 1",
                "--desirable-weight is an option",
            ),
            (
                "--loss orpo --reference-free",
                "--reference-free is an option",
            ),
            ("--loss simpo --reference x", "--reference is an option"),
            (
                "--loss kto --precompute-reference",
                "--precompute-reference is an option",
            ),
            (
                "--loss dpo --nll-average tokens",
                "--nll-average is the average",
            ),
            ("--loss dpo --beta 0", "expected a number above 0"),
            (
                "--loss ipo --beta 1e-30",
                "expected a number of at least 0.000000001",
            ),
            ("--loss ppo", "invalid value"),
            (
                "--loss dpo --completions 4",
                "--completions is an option of --loss grpo",
            ),
            (
                "--loss sft --teacher x",
                "--teacher is an option of --loss distill",
            ),
            (
                "--loss dpo --temperature 2",
                "--temperature is an option of --loss grpo, distill",
            ),
            (
                "--loss dpo --centring 1",
                "--centring is an option of --loss reward",
            ),
            ("--loss grpo --completions 1", "give at least 2"),
            ("--loss grpo --kl-by-ratio", "which --beta asks for"),
            ("--loss grpo --reference x", "--reference needs --beta"),
            ("--loss grpo --beta=-1", "expected a number above 0"),
            ("--loss distill --mixture 2", "from 0 to 1"),
        ] {
            let said = objective(line).unwrap_err().to_string();
            assert!(said.contains(expected), "{line}: {said}");
        }
    }
}
