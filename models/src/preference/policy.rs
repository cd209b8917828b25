//! Losses of completions with rewards: group-relative policy optimisation and its relatives.

use super::Metric;
use super::numbers::{above_zero, from_zero, input, read, read_all};
use crate::error::ModelError;
use burn::tensor::{Bool, Tensor};

/// The log-probabilities of completions, `[completions, tokens]` each, with padding or without. What the mask leaves out is
/// ignored, whatever it is.
#[derive(Clone, Debug)]
pub struct Rollouts {
    /// Those of the trained model, `l`.
    pub policy: Tensor<2>,
    /// Those of the model that wrote the completions, `l_old`. `None` if that is the trained model as it is.
    pub old: Option<Tensor<2>>,
    /// Those of the reference model, `l_ref`, if `kl` is above 0.
    pub reference: Option<Tensor<2>>,
    /// 1 for the tokens that count and 0 for others, in the dtype of `policy`. Truncated completions can be left out as a whole.
    pub mask: Tensor<2>,
    /// The advantage of each completion, `[completions]`; see [`advantages`].
    pub advantages: Tensor<1>,
}

/// The ratio `ρ` of the probabilities of the trained model and of that which wrote a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ratio {
    /// `e^{l − l_old}` of each token: GRPO (Shao et al., arXiv:2402.03300).
    Token,
    /// `e^{mean(l − l_old)}` of each completion: GSPO (Zheng et al., arXiv:2507.18071).
    Sequence,
}

/// The way from the losses of tokens to that of a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Aggregation {
    /// The mean over completions of their tokens' means: GRPO.
    Sequences,
    /// The mean over the tokens of the batch: BNPO.
    Tokens,
    /// The sum, divided by the completions times this number, the largest length of a completion: Dr. GRPO (Liu et al.,
    /// arXiv:2503.20783).
    MaxLength(usize),
    /// The sum, divided by this number, that of the tokens that count in the whole step: DAPO (Yu et al., arXiv:2503.14476).
    /// The losses of a step's batches are added up, not averaged.
    StepTokens(usize),
}

/// The clipped loss of completions with rewards. A token has
/// `−min(ρ·Â, clip(ρ, 1 − epsilon_low, 1 + epsilon_high)·Â) + kl·k3`, with Schulman's estimate `k3 = e^d − d − 1` of the
/// divergence from the reference, `d = l_ref − l`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PolicyLoss {
    /// The ratio.
    pub ratio: Ratio,
    /// The lower clip, 0.2 in the paper; about 3e-4 for GSPO. Above 0.
    pub epsilon_low: f64,
    /// The upper clip: 0.2 in the paper, 0.28 in DAPO; about 4e-4 for GSPO. Above 0.
    pub epsilon_high: f64,
    /// A bound of `ρ` in the unclipped term, which is otherwise unbounded where `Â < 0` (INTELLECT-2, arXiv:2505.07291). Above
    /// `1 + epsilon_high`.
    pub delta: Option<f64>,
    /// The coefficient of the divergence, `β` in TRL; 0 for none.
    pub kl: f64,
    /// True to multiply `k3` by `ρ`, as TRL 1.16 does by default (DeepSeek-V3.2). It changes the gradient even where `ρ` is 1.
    pub kl_by_ratio: bool,
    /// The aggregation.
    pub aggregation: Aggregation,
}

impl PolicyLoss {
    /// Checks the settings.
    ///
    /// # Errors
    /// Returns [`ModelError::Setting`] for a number out of its range.
    pub fn check(self) -> Result<(), ModelError> {
        above_zero("epsilon_low", self.epsilon_low)?;
        above_zero("epsilon_high", self.epsilon_high)?;
        from_zero("kl", self.kl)?;
        let fail = |setting, problem| Err(ModelError::Setting { setting, problem });
        if let Some(delta) = self.delta
            && (delta.is_nan() || delta <= 1.0 + self.epsilon_high)
        {
            let problem = format!("must be above 1 + epsilon_high, but is {delta}");
            return fail("delta", problem);
        }
        if self.kl_by_ratio && self.kl == 0.0 {
            return fail("kl_by_ratio", "is set, but kl is 0".into());
        }
        match self.aggregation {
            Aggregation::MaxLength(0) | Aggregation::StepTokens(0) => {
                fail("aggregation", "divides by 0".into())
            }
            _ => Ok(()),
        }
    }

    /// Returns the loss, `[1]`, with the metrics that TRL logs: `clip_ratio/low_mean`, `clip_ratio/high_mean`,
    /// `clip_ratio/region_mean` and `kl`. This reads the device. On policy the value of the loss says little: it is 0 for
    /// `Aggregation::Sequences` without a divergence, because advantages add up to 0.
    ///
    /// # Errors
    /// Returns an error as [`check`](Self::check) does, and [`ModelError::Input`] if the tensors have different shapes, if the
    /// mask has another number than 0 and 1, or if a reference is missing or has no use.
    pub fn loss(self, rollouts: &Rollouts) -> Result<(Tensor<1>, Vec<Metric>), ModelError> {
        self.check()?;
        self.check_rollouts(rollouts)?;
        let counts = counted(&rollouts.mask)?;
        let mask = rollouts.mask.clone().detach();
        let outside = mask.clone().equal_elem(0.0);
        // Padding may be infinite or not a number, which a product with 0 would keep.
        let inside = |tensor: Tensor<2>| tensor.mask_fill(outside.clone(), 0.0);
        let constant = |tensor: &Tensor<2>| inside(tensor.clone().detach());
        let policy = inside(rollouts.policy.clone());
        let [completions, tokens] = policy.dims();
        let lengths = mask.clone().sum_dim(1).clamp_min(1.0);
        let old = rollouts.old.as_ref().map(constant);
        let apart = policy.clone() - old.unwrap_or_else(|| policy.clone().detach());
        let ratio = match self.ratio {
            Ratio::Token => apart,
            Ratio::Sequence => {
                let mean = apart.sum_dim(1) / lengths.clone();
                mean.expand([completions, tokens])
            }
        };
        let ratio = ratio.exp();
        let advantages: Tensor<2> = rollouts.advantages.clone().detach().unsqueeze_dim(1);
        let advantages = inside(advantages.expand([completions, tokens]));
        let (low, high) = (1.0 - self.epsilon_low, 1.0 + self.epsilon_high);
        let bounded = match self.delta {
            Some(delta) => ratio.clone().clamp_max(delta),
            None => ratio.clone(),
        };
        let clipped = ratio.clone().clamp(low, high) * advantages.clone();
        let mut losses = (bounded.clone() * advantages.clone())
            .min_pair(clipped)
            .neg();
        let mut logged = clips(bounded, &advantages, (low, high));
        if let Some(reference) = &rollouts.reference {
            let d = constant(reference) - policy;
            let k3 = d.clone().exp() - d - 1.0;
            let k3 = match self.kl_by_ratio {
                true => k3 * ratio,
                false => k3,
            };
            logged.push(k3.clone());
            losses = losses + k3 * self.kl;
        }
        let metrics = self.metrics(logged, &counts)?;
        let losses = inside(losses);
        let loss = match self.aggregation {
            Aggregation::Sequences => (losses.sum_dim(1) / lengths).mean(),
            Aggregation::Tokens => losses.sum() / mask.sum().clamp_min(1.0),
            Aggregation::MaxLength(length) => {
                losses.sum() * (1.0 / (completions as f64 * length as f64))
            }
            Aggregation::StepTokens(tokens) => losses.sum() * (1.0 / tokens as f64),
        };
        Ok((loss, metrics))
    }

    /// Returns the metrics of the [`LOGGED`] tensors.
    fn metrics(
        self,
        logged: Vec<Tensor<2>>,
        counts: &[Vec<bool>],
    ) -> Result<Vec<Metric>, ModelError> {
        let tokens = counts[0].len();
        let metric = |(name, values): (&'static str, Vec<f64>)| {
            let rows = values.chunks(tokens).zip(counts);
            let of_tokens = |(row, counts): (&[f64], &Vec<bool>)| -> Vec<f64> {
                let all = row.iter().zip(counts);
                all.filter(|(_, counts)| **counts)
                    .map(|(value, _)| *value)
                    .collect()
            };
            let values: Vec<f64> = match self.ratio {
                // A completion has one ratio, which is clipped if it is for any of its tokens.
                Ratio::Sequence if name != KL => rows
                    .map(|row| of_tokens(row).first().copied().unwrap_or(0.0))
                    .collect(),
                _ => rows.flat_map(of_tokens).collect(),
            };
            Metric::of_values(name, &values)
        };
        let read = read_all("policy", logged)?;
        Ok(LOGGED.into_iter().zip(read).map(metric).collect())
    }

    fn check_rollouts(self, rollouts: &Rollouts) -> Result<(), ModelError> {
        let shape = rollouts.policy.dims();
        if shape.contains(&0) {
            return Err(input("policy", format!("shape {shape:?} holds no token")));
        }
        let (old, reference) = (rollouts.old.as_ref(), rollouts.reference.as_ref());
        for (name, tensor) in [
            ("old", old),
            ("reference", reference),
            ("mask", Some(&rollouts.mask)),
        ] {
            let found = tensor.map_or(shape, Tensor::dims);
            if found != shape {
                return Err(input(
                    name,
                    format!("expected shape {shape:?}, found {found:?}"),
                ));
            }
        }
        let [found] = rollouts.advantages.dims();
        if found != shape[0] {
            let problem = format!("expected {} numbers, found {found}", shape[0]);
            return Err(input("advantages", problem));
        }
        match (rollouts.reference.is_some(), self.kl > 0.0) {
            (true, false) => Err(input("reference", "has no use, because kl is 0".into())),
            (false, true) => Err(input("reference", "is missing, but kl is above 0".into())),
            _ => Ok(()),
        }
    }
}

const KL: &str = "kl";

/// The names of the metrics: the [`clips`] and the divergence.
const LOGGED: [&str; 4] = [
    "clip_ratio/low_mean",
    "clip_ratio/high_mean",
    "clip_ratio/region_mean",
    KL,
];

/// Returns 1 where a clip has taken the gradient of a ratio, and 0 elsewhere: for the lower clip, for the upper one, and for
/// either.
fn clips(ratio: Tensor<2>, advantages: &Tensor<2>, (low, high): (f64, f64)) -> Vec<Tensor<2>> {
    let dtype = ratio.dtype();
    let below = ratio.clone().lower_elem(low);
    let low = below.bool_and(advantages.clone().lower_elem(0.0));
    let above = ratio.greater_elem(high);
    let high = above.bool_and(advantages.clone().greater_elem(0.0));
    let region = low.clone().bool_or(high.clone());
    let number = |clipped: Tensor<2, Bool>| clipped.float().cast(dtype);
    [low, high, region].map(number).into()
}

/// Returns the tokens that count, completion by completion.
fn counted(mask: &Tensor<2>) -> Result<Vec<Vec<bool>>, ModelError> {
    let [_, tokens] = mask.dims();
    let values = read("mask", mask.clone())?;
    if let Some(at) = values.iter().position(|value| ![0.0, 1.0].contains(value)) {
        let problem = format!(
            "token {} of completion {} has {}, but only 0 and 1 are allowed",
            at % tokens,
            at / tokens,
            values[at]
        );
        return Err(input("mask", problem));
    }
    let rows = values.chunks(tokens);
    Ok(rows
        .map(|row| row.iter().map(|value| *value == 1.0).collect())
        .collect())
}

/// The number by which rewards less their group's mean are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdvantageScale {
    /// The standard deviation of the group plus 1e-4: GRPO.
    Group,
    /// The standard deviation of all rewards plus 1e-4.
    Batch,
    /// 1: Dr. GRPO.
    None,
}

/// Returns the advantages `Â` of completions in groups of one prompt each, in order: `(reward − mean) / scale`. Standard
/// deviations have `n − 1` degrees of freedom.
///
/// # Errors
/// Returns [`ModelError::Input`] if a reward is not a number, if groups have fewer than two completions, or if the rewards
/// are not of whole groups.
pub fn advantages(
    rewards: &[f64],
    group: usize,
    scale: AdvantageScale,
) -> Result<Vec<f64>, ModelError> {
    if group < 2 {
        return Err(input(
            "group",
            format!("must be at least 2, but is {group}"),
        ));
    }
    if rewards.is_empty() || !rewards.len().is_multiple_of(group) {
        let problem = format!("{} are not of groups of {group}", rewards.len());
        return Err(input("rewards", problem));
    }
    if let Some(at) = rewards.iter().position(|reward| !reward.is_finite()) {
        let problem = format!(
            "reward {at} must be a finite number, but is {}",
            rewards[at]
        );
        return Err(input("rewards", problem));
    }
    const LEAST: f64 = 1e-4;
    let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
    let deviation = |all: &[f64]| {
        let mean = mean(all);
        let squares = all.iter().map(|reward| (reward - mean).powi(2));
        (squares.sum::<f64>() / (all.len() - 1) as f64).sqrt()
    };
    let shared = match scale {
        AdvantageScale::Group => None,
        AdvantageScale::Batch => Some(deviation(rewards) + LEAST),
        AdvantageScale::None => Some(1.0),
    };
    let groups = rewards.chunks(group).flat_map(|of_group| {
        let scale = shared.unwrap_or_else(|| deviation(of_group) + LEAST);
        let mean = mean(of_group);
        of_group.iter().map(move |reward| (reward - mean) / scale)
    });
    Ok(groups.collect())
}
