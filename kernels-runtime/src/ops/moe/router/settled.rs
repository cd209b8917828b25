//! The choices that rounding cannot change. Only these can be compared with a computation that rounds
//! differently.

use super::Routing;
use crate::semantics::{Grouping, Scoring};
use burn::tensor::{Tensor, TensorData};

/// The part of a choice that has to stay the same.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Among {
    /// The set of chosen experts.
    Chosen,
    /// The chosen experts and their order.
    Order,
}

/// Returns, for each token, whether its choice stays the same if scores and correction are off by
/// `tolerance` relative to their size. `logits` is `[tokens, experts]`, `bias` is `[experts]`.
pub(crate) fn settled(
    logits: &Tensor<2>,
    bias: Option<&Tensor<1>>,
    routing: &Routing,
    among: Among,
    tolerance: f64,
) -> Vec<bool> {
    let experts = routing.num_experts();
    let bias = match bias {
        Some(bias) => bias.to_data().iter::<f64>().collect(),
        None => vec![0.0; experts],
    };
    let logits: Vec<f64> = logits.to_data().iter::<f64>().collect();
    let each = logits.chunks(experts).map(|row| {
        let scores = scores(row, routing.key().scoring);
        let compared: Vec<Compared> = scores
            .iter()
            .zip(&bias)
            .map(|(score, bias)| Compared {
                value: score + bias,
                size: score.abs() + bias.abs(),
            })
            .collect();
        is_settled(&compared, routing, among, tolerance)
    });
    each.collect()
}

/// A value to compare, and the sum of the magnitudes of its terms.
#[derive(Clone, Copy)]
struct Compared {
    value: f64,
    size: f64,
}

/// Returns the scores. Those of a softmax of the chosen experts have the order of a softmax of all.
fn scores(logits: &[f64], scoring: Scoring) -> Vec<f64> {
    match scoring {
        Scoring::Sigmoid => logits.iter().map(|l| 1.0 / (1.0 + (-l).exp())).collect(),
        Scoring::Softmax | Scoring::SoftmaxOfChosen => {
            let largest = logits.iter().fold(f64::NEG_INFINITY, |max, l| max.max(*l));
            let powers: Vec<f64> = logits.iter().map(|l| (l - largest).exp()).collect();
            let sum: f64 = powers.iter().sum();
            powers.iter().map(|power| power / sum).collect()
        }
    }
}

fn is_settled(compared: &[Compared], routing: &Routing, among: Among, tolerance: f64) -> bool {
    let k = routing.top_k();
    let Some((groups, chosen)) = routing.group_limit() else {
        return are_apart(compared.to_vec(), k, among, tolerance);
    };
    let size = compared.len() / groups;
    let mut scored: Vec<(Compared, &[Compared])> = compared
        .chunks(size)
        .map(|group| (score(group, routing.key().grouping), group))
        .collect();
    let of_groups = scored.iter().map(|(score, _)| *score).collect();
    scored.sort_by(|a, b| b.0.value.total_cmp(&a.0.value));
    let members: Vec<Compared> = scored[..chosen]
        .iter()
        .flat_map(|(_, group)| group.iter().copied())
        .collect();
    are_apart(of_groups, chosen, Among::Chosen, tolerance)
        && are_apart(members, k, among, tolerance)
}

fn score(group: &[Compared], grouping: Grouping) -> Compared {
    let mut sorted = group.to_vec();
    sorted.sort_by(|a, b| b.value.total_cmp(&a.value));
    let best = &sorted[..if grouping == Grouping::TopTwo { 2 } else { 1 }];
    Compared {
        value: best.iter().map(|one| one.value).sum(),
        size: best.iter().map(|one| one.size).sum(),
    }
}

/// Returns whether the best `k` differ from the others, and for [`Among::Order`] from each other, by more than the
/// tolerance.
fn are_apart(mut compared: Vec<Compared>, k: usize, among: Among, tolerance: f64) -> bool {
    compared.sort_by(|a, b| b.value.total_cmp(&a.value));
    let first = match among {
        Among::Chosen => k,
        Among::Order => 1,
    };
    let last = k.min(compared.len() - 1);
    (first..=last).all(|next| {
        let (a, b) = (compared[next - 1], compared[next]);
        a.value - b.value > tolerance * a.size.max(b.size)
    })
}

/// Returns ones for true and zeros for false, `[rows, 1]`, on the device and in the dtype of `like`.
pub(crate) fn mask<const D: usize>(rows: &[bool], like: &Tensor<D>) -> Tensor<2> {
    let ones: Vec<f32> = rows.iter().map(|row| f32::from(u8::from(*row))).collect();
    let data = TensorData::new(ones, [rows.len(), 1]).convert_dtype(like.dtype());
    Tensor::from_data(data, (&like.device().inner(), like.dtype()))
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use super::*;
    use crate::semantics::RouterKey;
    use burn::tensor::Device;

    fn settled_rows<const N: usize>(
        rows: [[f32; 4]; N],
        bias: Option<[f32; 4]>,
        routing: Routing,
        among: Among,
    ) -> Vec<bool> {
        let device = Device::flex();
        let logits = Tensor::from_floats(rows, &device);
        let bias = bias.map(|bias| Tensor::from_floats(bias, &device));
        settled(&logits, bias.as_ref(), &routing, among, 1e-3)
    }

    #[test]
    fn what_is_near_the_edge_of_the_choice_is_not_settled() {
        let rows = [
            [3.0, 2.0, 1.0, 0.0],
            [3.0, 1.0, 1.0005, 0.0],
            [3.0, 3.0, 1.0, 0.0],
            [f32::NAN, 2.0, 1.0, 0.0],
        ];
        let routing = Routing::new(RouterKey::QWEN3_MOE, 4, 2).unwrap();
        let of = |among| settled_rows(rows, None, routing, among);
        assert_eq!(of(Among::Chosen), [true, false, true, false]);
        assert_eq!(of(Among::Order), [true, false, false, false]);
    }

    #[test]
    fn a_choice_of_everything_is_settled() {
        let routing = Routing::new(RouterKey::QWEN3_MOE, 4, 4).unwrap();
        let rows = [[1.0; 4]];
        assert_eq!(settled_rows(rows, None, routing, Among::Chosen), [true]);
        assert_eq!(settled_rows(rows, None, routing, Among::Order), [false]);
    }

    #[test]
    fn groups_and_corrections_are_compared_too() {
        let key = RouterKey {
            grouping: Grouping::Max,
            ..RouterKey::DEEPSEEK_V3
        };
        let routing = Routing::new(key, 4, 1).unwrap();
        let limited = routing.limited_to_groups(2, 1).unwrap();
        // Two groups with the same best score; within the first, the choice is clear.
        let rows = [[2.0, 0.0, 2.0, 0.0]];
        let bias = Some([0.0; 4]);
        assert_eq!(settled_rows(rows, bias, limited, Among::Chosen), [false]);
        let bias = Some([1.0, 0.0, 0.0, 0.0]);
        assert_eq!(settled_rows(rows, bias, limited, Among::Chosen), [true]);
    }
}
