//! Losses of preferences where numbers are infinite or none, and the tensors that gradients flow to.

use crate::common::to_f64;
use burn::tensor::{DType, Device, Tensor, TensorData};
use kernels_models::preference::{
    AdvantageScale, Aggregation, Answers, PairLoss, Pairs, PolicyLoss, Ratio, RewardLoss, Rollouts,
    UnpairedLoss, advantages,
};

fn tensor<const D: usize>(values: &[f64], shape: [usize; D], dtype: DType) -> Tensor<D> {
    let data = TensorData::new(values.to_vec(), shape);
    Tensor::from_data(data, (&Device::flex().autodiff(), dtype))
}

fn vector(values: &[f64]) -> Tensor<1> {
    tensor(values, [values.len()], DType::F64)
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    to_f64(&tensor.without_autodiff().into_data())
}

#[track_caller]
fn near(what: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(expected) {
        let error = (found - expected).abs();
        assert!(
            error <= tolerance * expected.abs().max(1.0),
            "{what}: {found}, not {expected}"
        );
    }
}

/// The odds of an answer that is certain are infinite, but the loss and its slope are not.
#[test]
fn certain_answers_have_a_finite_odds_ratio() {
    const BETA: f64 = 0.5;
    let (sums_w, sums_l) = ([0.0, 0.0, -3.0, -2.0], [0.0, -4.0, 0.0, -6.0]);
    let tokens = [4.0; 4];
    for (dtype, tolerance) in [
        (DType::F64, 1e-12),
        (DType::F32, 1e-5),
        (DType::BF16, 3e-2),
        (DType::F16, 4e-3),
    ] {
        let what = format!("{dtype:?}");
        let leaves = [sums_w, sums_l].map(|sums| tensor(&sums, [4], dtype).require_grad());
        let [chosen, rejected] = leaves.clone().map(|policy| Answers {
            policy,
            reference: None,
            tokens: tensor(&tokens, [4], dtype),
        });
        let loss = PairLoss::Orpo { beta: BETA };
        let each = loss.per_pair(&Pairs { chosen, rejected }).unwrap();
        let found = values(each.clone());
        // −β·log σ(log odds_w − log odds_l), where one of both is certain.
        let odds = |sum: f64| sum / 4.0 - (-(sum / 4.0f64).exp_m1()).ln();
        let apart: f64 = odds(-2.0) - odds(-6.0);
        let known = BETA * (-apart).exp().ln_1p();
        near(&what, &[found[0]], &[BETA * 2f64.ln()], tolerance);
        near(&what, &[found[1]], &[0.0], tolerance);
        near(&what, &[found[3]], &[known], tolerance);
        // The certain answer is the rejected one: about β times its odds, which the dtype bounds.
        assert!(
            found[2].is_finite() && found[2] > BETA * 5.0,
            "{what}: {found:?}"
        );
        let gradients = each.sum().backward();
        for leaf in &leaves {
            let slopes = values(leaf.grad(&gradients).unwrap());
            let all = slopes.iter().all(|slope| slope.is_finite());
            assert!(all, "{what}: {slopes:?}");
        }
        // d loss / d S = −β·σ(−apart)·(1 / (1 − e^A)) / n
        let slopes = values(leaves[0].grad(&gradients).unwrap());
        let certainty = 1.0 / (1.0 + apart.exp());
        let slope = -BETA * certainty / (1.0 - (-0.5f64).exp()) / 4.0;
        near(&what, &[slopes[3]], &[slope], tolerance);
    }
}

fn policy_loss(ratio: Ratio, aggregation: Aggregation) -> PolicyLoss {
    PolicyLoss {
        ratio,
        epsilon_low: 0.2,
        epsilon_high: 0.3,
        delta: None,
        kl: 0.1,
        kl_by_ratio: true,
        aggregation,
    }
}

/// Rows of log-probabilities, the last tokens of which don't count.
fn rollouts(padding: f64) -> (Tensor<2>, Rollouts) {
    let rows = |values: [f64; 3]| {
        let [a, b, c] = values;
        tensor(&[a, b, padding, c, padding, padding], [2, 3], DType::F64)
    };
    let policy = rows([-1.0, -2.0, -0.5]).require_grad();
    let rollouts = Rollouts {
        policy: policy.clone(),
        old: Some(rows([-1.5, -1.9, -0.4])),
        reference: Some(rows([-1.2, -2.5, -0.9])),
        mask: tensor(&[1.0, 1.0, 0.0, 1.0, 0.0, 0.0], [2, 3], DType::F64),
        advantages: vector(&[1.0, -1.0]),
    };
    (policy, rollouts)
}

#[test]
fn padding_changes_no_loss_whatever_it_holds() {
    for ratio in [Ratio::Token, Ratio::Sequence] {
        for aggregation in [
            Aggregation::Sequences,
            Aggregation::Tokens,
            Aggregation::StepTokens(3),
        ] {
            let of = |padding: f64| {
                let (policy, rollouts) = rollouts(padding);
                let loss = policy_loss(ratio, aggregation);
                let (value, metrics) = loss.loss(&rollouts).unwrap();
                let gradient = policy.grad(&value.backward()).unwrap();
                (values(value), values(gradient), metrics)
            };
            let expected = of(-0.7);
            assert!(expected.0[0].is_finite());
            for padding in [f64::NAN, f64::NEG_INFINITY, f64::INFINITY] {
                assert_eq!(
                    of(padding),
                    expected,
                    "{ratio:?}, {aggregation:?}, {padding}"
                );
            }
        }
    }
}

#[test]
fn a_mask_that_weighs_tokens_is_refused() {
    let (_, mut rollouts) = rollouts(0.0);
    rollouts.mask = tensor(&[1.0, 1.0, 0.0, 1.0, 0.5, 0.0], [2, 3], DType::F64);
    let loss = policy_loss(Ratio::Token, Aggregation::Tokens);
    let said = loss.loss(&rollouts).unwrap_err().to_string();
    assert!(
        said.contains("mask: token 1 of completion 1 has 0.5"),
        "{said}"
    );
}

/// What a loss compares with is constant, even if it is computed by a model in training.
#[test]
fn gradients_flow_to_the_policy_alone() {
    let leaf = |values: &[f64]| vector(values).require_grad();
    let (other, policy) = (leaf(&[-1.0, -2.0]), leaf(&[-1.5, -0.5]));
    let answers = || Answers {
        policy: policy.clone(),
        reference: Some(other.clone()),
        tokens: vector(&[2.0, 3.0]),
    };
    let dpo = PairLoss::Sigmoid {
        beta: 0.1,
        smoothing: 0.0,
    };
    let rejected = Answers {
        policy: policy.clone() * 2.0,
        ..answers()
    };
    let pairs = Pairs {
        chosen: answers(),
        rejected,
    };
    let kto = UnpairedLoss {
        beta: 0.1,
        desirable_weight: 1.0,
        undesirable_weight: 1.0,
        has_baseline: true,
    };
    let baseline = Some(other.clone().sum());
    let margins = Some(other.clone());
    let (student, given) = rollouts(-1.0);
    let matrix = tensor(&[-1.0; 6], [2, 3], DType::F64).require_grad();
    let given = Rollouts {
        old: Some(matrix.clone()),
        reference: Some(matrix.clone() * 0.5),
        advantages: other.clone(),
        ..given
    };
    let loss = policy_loss(Ratio::Token, Aggregation::Tokens);
    let of_rollouts = loss.loss(&given).unwrap().0.backward();
    assert!(student.grad(&of_rollouts).is_some());
    assert!(matrix.grad(&of_rollouts).is_none() && other.grad(&of_rollouts).is_none());
    for (what, loss) in [
        ("dpo", dpo.per_pair(&pairs)),
        ("kto", kto.per_answer(&answers(), &[true, false], baseline)),
        (
            "reward",
            RewardLoss::default().per_pair(policy.clone(), policy.clone() * 2.0, margins),
        ),
    ] {
        let gradients = loss.unwrap().sum().backward();
        assert!(policy.grad(&gradients).is_some(), "{what}");
        assert!(other.grad(&gradients).is_none(), "{what}");
    }
}

#[test]
fn advantages_of_a_batch_have_one_scale() {
    let rewards = [1.0, 2.0, 4.0, 0.0];
    // The mean is 1.75, and the squares add up to 8.75.
    let scale = (8.75f64 / 3.0).sqrt() + 1e-4;
    let found = advantages(&rewards, 2, AdvantageScale::Batch).unwrap();
    near(
        "batch",
        &found,
        &[-0.5, 0.5, 2.0, -2.0].map(|a| a / scale),
        1e-14,
    );
}
