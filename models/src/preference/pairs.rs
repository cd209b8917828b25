//! Losses of pairs: one answer is preferred to the other.

use super::numbers::{
    above_zero, below, from_zero, input, log_1m_exp, log_sigmoid, read_all, sigmoid,
};
use super::{Answers, Metric};
use crate::error::ModelError;
use burn::tensor::{Tensor, activation};

/// The log-probabilities of pairs.
#[derive(Clone, Debug)]
pub struct Pairs {
    /// Those of the chosen answers.
    pub chosen: Answers,
    /// Those of the rejected answers, in the same order.
    pub rejected: Answers,
}

/// A loss of pairs, with its settings. The loss of a batch is the mean over its pairs.
///
/// Every `beta` must be above 0. `smoothing` is the part of pairs whose answers may be in the wrong order; it must be at
/// least 0 and below ½.
///
/// `Sigmoid` to `ApoDown` compare with a reference. [`Answers::reference`] may be `None` for both answers, which is the
/// reference-free variant, `S_ref = 0`. `Orpo` and `Simpo` have none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PairLoss {
    /// DPO: `−log σ(β·Δ)` (Rafailov et al., arXiv:2305.18290). With smoothing `ε` it is conservative DPO,
    /// `−(1 − ε)·log σ(β·Δ) − ε·log σ(−β·Δ)` (Mitchell, 2023).
    ///
    /// Without a reference, and with the [negative log-likelihood](NllAverage) of the chosen answers added, it is CPO (Xu et
    /// al., arXiv:2401.08417).
    ///
    /// TRL since 1.0 ignores its `label_smoothing` here; LLaMA-Factory and older versions of TRL do as this does.
    Sigmoid {
        /// `β`, 0.1 in TRL and LLaMA-Factory.
        beta: f64,
        /// `ε`, usually 0.
        smoothing: f64,
    },
    /// Robust DPO: `[−(1 − ε)·log σ(β·Δ) + ε·log σ(−β·Δ)] / (1 − 2ε)` (Chowdhury et al., arXiv:2403.00409). It may be
    /// negative. LLaMA-Factory lacks it.
    Robust {
        /// `β`.
        beta: f64,
        /// `ε`.
        smoothing: f64,
    },
    /// `max(0, 1 − β·Δ)` (SLiC; Zhao et al., arXiv:2305.10425), with the slope 0 at the kink.
    Hinge {
        /// `β`.
        beta: f64,
    },
    /// IPO: `(r_w / n_w − r_l / n_l − 1 / 2β)²` (Azar et al., arXiv:2310.12036), of means, as TRL and LLaMA-Factory compute it;
    /// the paper has sums. Its rewards are of sums, as TRL's are; LLaMA-Factory logs means.
    Ipo {
        /// `β`, `τ` in the paper.
        beta: f64,
    },
    /// Length-normalised DPO: `−log σ(β·(r_w / n_w − r_l / n_l))` (Tülu 3, arXiv:2411.15124). TRL's `sigmoid_norm`;
    /// LLaMA-Factory lacks it.
    SigmoidNorm {
        /// `β`. As it multiplies means, it is larger than that of `Sigmoid`: 5 in the paper.
        beta: f64,
    },
    /// APO-zero: `σ(−β·r_w) + σ(β·r_l)`, for chosen answers that are better than the model's (D'Oosterlinck et al.,
    /// arXiv:2408.06266).
    ApoZero {
        /// `β`.
        beta: f64,
    },
    /// APO-down: `σ(β·r_w) + σ(−β·Δ)`, for chosen answers that are worse than the model's (as above).
    ApoDown {
        /// `β`.
        beta: f64,
    },
    /// The odds ratio of ORPO: `−β·log σ(log odds_w − log odds_l)` with `log odds = A − log(1 − e^A)` (Hong et al.,
    /// arXiv:2403.07691). The [negative log-likelihood](NllAverage) of the chosen answers is the other term of that
    /// loss: of prompt and answer, averaged over tokens, in TRL, and of the answer alone, averaged over sequences, in
    /// LLaMA-Factory.
    Orpo {
        /// `β`, `λ` in the paper; 0.1 in TRL and LLaMA-Factory.
        beta: f64,
    },
    /// SimPO: `−log σ(β·(A_w − A_l) − γ)` (Meng et al., arXiv:2405.14734), smoothed as `Sigmoid` is. TRL adds the negative
    /// log-likelihood unless `cpo_alpha` is 0; the paper and LLaMA-Factory don't.
    Simpo {
        /// `β`, 2.5 in the paper. The 0.1 of DPO is far too small for means.
        beta: f64,
        /// `γ`, the margin; 1.375 in the paper, 0.5 in TRL and LLaMA-Factory. It must be at least 0.
        gamma: f64,
        /// `ε`, usually 0.
        smoothing: f64,
    },
}

impl PairLoss {
    /// Checks the settings.
    ///
    /// # Errors
    /// Returns [`ModelError::Setting`] for a number out of its range.
    pub fn check(self) -> Result<(), ModelError> {
        above_zero("beta", self.beta())?;
        if let Self::Sigmoid { smoothing, .. }
        | Self::Robust { smoothing, .. }
        | Self::Simpo { smoothing, .. } = self
        {
            below("smoothing", smoothing, 0.5)?;
        }
        match self {
            Self::Simpo { gamma, .. } => from_zero("gamma", gamma),
            _ => Ok(()),
        }
    }

    fn beta(self) -> f64 {
        match self {
            Self::Sigmoid { beta, .. }
            | Self::Robust { beta, .. }
            | Self::Hinge { beta }
            | Self::Ipo { beta }
            | Self::SigmoidNorm { beta }
            | Self::ApoZero { beta }
            | Self::ApoDown { beta }
            | Self::Orpo { beta }
            | Self::Simpo { beta, .. } => beta,
        }
    }

    /// Returns `true` if the loss compares with a reference model.
    pub fn has_reference(self) -> bool {
        !self.is_of_means()
    }

    /// Returns `true` if the loss depends on `A` alone. Rewards and logged log-probabilities are then of means.
    fn is_of_means(self) -> bool {
        matches!(self, Self::Orpo { .. } | Self::Simpo { .. })
    }

    /// Returns the loss of each pair, `[pairs]`.
    ///
    /// # Errors
    /// Returns an error as [`check`](Self::check) does, and [`ModelError::Input`] if the tensors have different lengths,
    /// or if one answer alone has a reference, or one that the loss does not have.
    pub fn per_pair(self, pairs: &Pairs) -> Result<Tensor<1>, ModelError> {
        self.check()?;
        self.check_pairs(pairs)?;
        let Pairs { chosen, rejected } = pairs;
        let (w, l) = (chosen.ratios(), rejected.ratios());
        let per_token = || w.clone() / chosen.tokens.clone() - l.clone() / rejected.tokens.clone();
        let smoothed = |x: Tensor<1>, smoothing: f64| match smoothing {
            0.0 => log_sigmoid(x).neg(),
            e => log_sigmoid(x.clone()) * (e - 1.0) - log_sigmoid(x.neg()) * e,
        };
        Ok(match self {
            Self::Sigmoid { beta, smoothing } => smoothed((w - l) * beta, smoothing),
            Self::Robust { beta, smoothing: e } => {
                let x = (w - l) * beta;
                let loss = log_sigmoid(x.clone()) * (e - 1.0) + log_sigmoid(x.neg()) * e;
                loss * (1.0 / (1.0 - 2.0 * e))
            }
            Self::Hinge { beta } => activation::relu((w - l) * -beta + 1.0),
            Self::Ipo { beta } => {
                let apart = per_token() - 1.0 / (2.0 * beta);
                apart.clone() * apart
            }
            Self::SigmoidNorm { beta } => log_sigmoid(per_token() * beta).neg(),
            Self::ApoZero { beta } => sigmoid(w * -beta) + sigmoid(l * beta),
            Self::ApoDown { beta } => sigmoid(w.clone() * beta) + sigmoid((w - l) * -beta),
            Self::Orpo { beta } => {
                let odds = |answers: &Answers| {
                    let mean = answers.means();
                    mean.clone() - log_1m_exp(mean)
                };
                log_sigmoid(odds(chosen) - odds(rejected)) * -beta
            }
            Self::Simpo {
                beta,
                gamma,
                smoothing,
            } => smoothed(per_token() * beta - gamma, smoothing),
        })
    }

    /// Returns the rewards of the chosen and the rejected answers, `[pairs]` each: `β·r`, and `β·A` for ORPO and SimPO.
    ///
    /// # Errors
    /// Returns an error as [`per_pair`](Self::per_pair) does.
    pub fn rewards(self, pairs: &Pairs) -> Result<[Tensor<1>; 2], ModelError> {
        self.check()?;
        self.check_pairs(pairs)?;
        let reward = |answers: &Answers| match self.is_of_means() {
            true => answers.means() * self.beta(),
            false => answers.ratios() * self.beta(),
        };
        Ok([reward(&pairs.chosen), reward(&pairs.rejected)])
    }

    /// Returns TRL's metrics: `rewards/chosen`, `rewards/rejected`, `rewards/accuracies` (the part of pairs whose chosen
    /// answer has the higher reward, so 0 where both models are equal), `logps/chosen` and `logps/rejected`, of `S`, or of
    /// `A` for ORPO and SimPO. `rewards/margins` is the difference of the first two. This reads the device.
    ///
    /// # Errors
    /// Returns an error as [`per_pair`](Self::per_pair) does, and if the device fails.
    pub fn metrics(self, pairs: &Pairs) -> Result<Vec<Metric>, ModelError> {
        let [chosen, rejected] = self.rewards(pairs)?;
        let logged = |answers: &Answers| match self.is_of_means() {
            true => answers.means(),
            false => answers.policy.clone(),
        };
        let [sums_w, sums_l] = [logged(&pairs.chosen), logged(&pairs.rejected)];
        let read = read_all("policy", vec![chosen, rejected, sums_w, sums_l])?;
        let wins = read[0].iter().zip(&read[1]);
        let wins: Vec<f64> = wins.map(|(w, l)| f64::from(u8::from(w > l))).collect();
        Ok(vec![
            Metric::of_values("rewards/chosen", &read[0]),
            Metric::of_values("rewards/rejected", &read[1]),
            Metric::of_values("rewards/accuracies", &wins),
            Metric::of_values("logps/chosen", &read[2]),
            Metric::of_values("logps/rejected", &read[3]),
        ])
    }

    fn check_pairs(self, Pairs { chosen, rejected }: &Pairs) -> Result<(), ModelError> {
        let (w, l) = (chosen.count()?, rejected.count()?);
        if w != l {
            return Err(input(
                "rejected",
                format!("expected {w} answers, found {l}"),
            ));
        }
        match (chosen.reference.is_some(), rejected.reference.is_some()) {
            (true, true) if !self.has_reference() => {
                Err(input("reference", "this loss has no reference".into()))
            }
            (w, l) if w != l => {
                let problem = "either both answers of a pair have a reference, or none".into();
                Err(input("reference", problem))
            }
            _ => Ok(()),
        }
    }
}

/// The average of negative log-likelihoods, which peers take in two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NllAverage {
    /// `−Σ S / Σ n`, as in TRL: long answers weigh more.
    Tokens,
    /// `−mean(S / n)`, as in LLaMA-Factory: answers weigh the same.
    Sequences,
}

impl NllAverage {
    /// Returns the negative log-likelihood of answers, `[1]`: the term of supervised tuning that is added to a loss of pairs,
    /// of the chosen answers (RPO; Pang et al., arXiv:2404.19733).
    ///
    /// # Errors
    /// Returns an error if the tensors have different lengths, or without an answer.
    pub fn nll(self, answers: &Answers) -> Result<Tensor<1>, ModelError> {
        if answers.count()? == 0 {
            return Err(input("policy", "there is no answer".into()));
        }
        Ok(match self {
            Self::Tokens => answers.policy.clone().sum().neg() / answers.tokens.clone().sum(),
            Self::Sequences => answers.means().mean().neg(),
        })
    }
}
