//! Tests of the choice of experts by their scores, against f64, and its documented limits.

use crate::common::*;
use cann_emulator::abi::moe::*;

#[derive(Clone, Copy)]
struct Attributes {
    k: i64,
    k_group: i64,
    groups: i64,
    by_two: i64,
    renorm: i64,
    norm_type: i64,
}

/// The weights, the experts and the scores of all experts.
type Routed = (Vec<f32>, Vec<i64>, Vec<f32>);

fn gate(
    x: &Tensor,
    bias: Option<&Tensor>,
    attributes: Attributes,
    [tokens, experts]: [usize; 2],
) -> Result<Routed, (i32, String)> {
    let shape = [tokens, attributes.k.max(1) as usize];
    let y = Tensor::empty(x.dtype, &shape);
    let places = Tensor::empty(ACL_INT32, &shape);
    let scores = Tensor::empty(F32, &[tokens, experts]);
    call!(
        aclnnMoeGatingTopK: x, bias.map_or(null(), |bias| bias.handle.cast_const()), attributes.k,
        attributes.k_group, attributes.groups, attributes.by_two, attributes.renorm,
        attributes.norm_type, true, 1.5, 1e-20, y, places, scores
    )?;
    Ok((y.read(), places.read_integers(), scores.read()))
}

/// Returns the places of the largest values, largest first.
fn best(values: &[f64], count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*b].total_cmp(&values[*a]));
    order.truncate(count);
    order
}

/// Routes one token in f64.
fn exact(x: &[f32], bias: &[f32], of: Attributes) -> (Vec<f64>, Vec<i64>) {
    let scores: Vec<f64> = match of.norm_type {
        1 => x
            .iter()
            .map(|x| 1.0 / (1.0 + (-f64::from(*x)).exp()))
            .collect(),
        _ => {
            let total: f64 = x.iter().map(|x| f64::from(*x).exp()).sum();
            x.iter().map(|x| f64::from(*x).exp() / total).collect()
        }
    };
    let mut compared: Vec<f64> = scores
        .iter()
        .zip(bias)
        .map(|(score, bias)| score + f64::from(*bias))
        .collect();
    let size = x.len() / of.groups as usize;
    let of_groups: Vec<f64> = compared
        .chunks(size)
        .map(|group| {
            best(group, 1 + of.by_two as usize)
                .iter()
                .map(|at| group[*at])
                .sum()
        })
        .collect();
    let kept = best(&of_groups, of.k_group as usize);
    for (at, value) in compared.iter_mut().enumerate() {
        if !kept.contains(&(at / size)) {
            *value = f64::NEG_INFINITY;
        }
    }
    let chosen = best(&compared, of.k as usize);
    let total: f64 = chosen.iter().map(|at| scores[*at]).sum();
    let divisor = if of.norm_type + of.renorm > 0 {
        total
    } else {
        1.0
    };
    let weights = chosen
        .iter()
        .map(|at| scores[*at] / divisor * 1.5)
        .collect();
    (weights, chosen.into_iter().map(|at| at as i64).collect())
}

#[test]
fn experts_are_chosen_as_in_f64() {
    let _session = Session::start();
    let (tokens, experts) = (5, 12);
    for dtype in [F32, F16, BF16] {
        let x = Tensor::floats(dtype, &[tokens, experts], &noise(tokens * experts, 7));
        let bias = Tensor::floats(dtype, &[experts], &noise(experts, 9));
        for (groups, k_group, by_two) in [(1, 1, 0), (4, 2, 0), (4, 2, 1), (3, 1, 1)] {
            for (renorm, norm_type) in [(0, 0), (1, 0), (0, 1)] {
                let attributes = Attributes {
                    k: 3,
                    k_group,
                    groups,
                    by_two,
                    renorm,
                    norm_type,
                };
                let found = gate(&x, Some(&bias), attributes, [tokens, experts]);
                let (weights, places, scores) = found.expect("documented");
                let bias = bias.read();
                let rows = x.read();
                let rows = rows
                    .chunks(experts)
                    .map(|row| exact(row, &bias, attributes));
                let (expected, chosen): (Vec<_>, Vec<_>) = rows.unzip();
                assert_close("y", &weights, &expected.concat(), dtype, 1e-5);
                assert_eq!(places, chosen.concat());
                let total: f32 = scores[..experts].iter().sum();
                assert_eq!((total - 1.0).abs() < 1e-5, norm_type == 0);
            }
        }
    }
}

#[test]
fn of_equal_scores_the_first_without_a_bias() {
    let _session = Session::start();
    let x = Tensor::floats(F32, &[1, 4], &[1.0, 2.0, 2.0, 2.0]);
    let attributes = Attributes {
        k: 2,
        k_group: 1,
        groups: 1,
        by_two: 0,
        renorm: 0,
        norm_type: 1,
    };
    let (weights, places, _) = gate(&x, None, attributes, [1, 4]).expect("documented");
    assert_eq!(places, [1, 2]);
    assert_close("y", &weights, &[0.75, 0.75], F32, 1e-6);
}

#[test]
fn what_is_not_documented_is_refused() {
    let _session = Session::start();
    let usual = Attributes {
        k: 2,
        k_group: 2,
        groups: 4,
        by_two: 1,
        renorm: 0,
        norm_type: 1,
    };
    let x = Tensor::floats(F32, &[2, 8], &noise(16, 1));
    gate(&x, None, usual, [2, 8]).expect("documented");
    for attributes in [
        Attributes { k: 5, ..usual },
        Attributes { k: 0, ..usual },
        Attributes { groups: 3, ..usual },
        Attributes { groups: 8, ..usual },
        Attributes {
            k_group: 5,
            ..usual
        },
        Attributes {
            k_group: 0,
            ..usual
        },
        Attributes { by_two: 2, ..usual },
        Attributes { renorm: 2, ..usual },
        Attributes {
            norm_type: 2,
            ..usual
        },
    ] {
        let refused = gate(&x, None, attributes, [2, 8]).expect_err("not documented");
        assert_eq!(refused.0, ACLNN_ERR_INNER_TILING_ERROR, "{}", refused.1);
    }
    // Each group counts as a multiple of 32 experts.
    let wide = Tensor::floats(F32, &[1, 256], &noise(256, 1));
    let many = Attributes {
        groups: 128,
        ..usual
    };
    let refused = gate(&wide, None, many, [1, 256]).expect_err("not documented");
    assert_eq!(refused.0, ACLNN_ERR_INNER_TILING_ERROR, "{}", refused.1);
    let other = Tensor::floats(F16, &[8], &noise(8, 1));
    gate(&x, Some(&other), usual, [2, 8]).expect_err("another type");
    let short = Tensor::floats(F32, &[7], &noise(7, 1));
    gate(&x, Some(&short), usual, [2, 8]).expect_err("another length");
}
