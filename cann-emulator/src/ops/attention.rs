//! Attention of one head, in f32.

use super::matmul::product;

/// What a head gives, and the greatest score and the sum of exponentials of each row, for the gradient.
pub struct Head {
    pub output: Vec<f32>,
    pub greatest: Vec<f32>,
    pub sums: Vec<f32>,
}

/// The sizes of a head.
#[derive(Clone, Copy)]
pub struct Sizes {
    pub queries: usize,
    pub keys: usize,
    pub width: usize,
}

/// `softmax(scale · query · keyᵀ) · value`, without the scores where `mask` is true. Of a row without any
/// score, `zero_rows` says whether the result is zero or the mean of all values.
pub fn head(
    [query, key, value]: [&[f32]; 3],
    mask: Option<&[bool]>,
    sizes: Sizes,
    scale: f32,
    zero_rows: bool,
) -> Head {
    let Sizes {
        queries,
        keys,
        width,
    } = sizes;
    let mut turned = vec![0.0; key.len()];
    for (place, value) in key.iter().enumerate() {
        turned[place % width * keys + place / width] = *value;
    }
    let mut scores = product(query, &turned, queries, width, keys);
    let (mut greatest, mut sums) = (Vec::new(), Vec::new());
    for (row, scores) in scores.chunks_mut(keys).enumerate() {
        let hidden = |place: usize| mask.is_some_and(|mask| mask[row * keys + place]);
        let without = (0..keys).all(hidden);
        for (place, score) in scores.iter_mut().enumerate() {
            *score = match (hidden(place), without) {
                (false, _) => *score * scale,
                (true, false) => f32::NEG_INFINITY,
                // All are as good as each other.
                (true, true) => 0.0,
            };
        }
        let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        scores
            .iter_mut()
            .for_each(|score| *score = (*score - most).exp());
        let total = super::sum(scores);
        let divisor = if without && zero_rows {
            f32::INFINITY
        } else {
            total
        };
        scores.iter_mut().for_each(|score| *score /= divisor);
        greatest.push(most);
        sums.push(total);
    }
    let output = product(&scores, value, queries, keys, width);
    Head {
        output,
        greatest,
        sums,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes {
        queries: 2,
        keys: 3,
        width: 1,
    };

    #[test]
    fn masked_scores_don_t_count() {
        let operands: [&[f32]; 3] = [&[1.0, 2.0], &[0.0, 1.0, 5.0], &[1.0, 2.0, 100.0]];
        let mask = [false, false, true, false, true, true];
        let found = head(operands, Some(&mask), SIZES, 1.0, true);
        let second = 1f32.exp() / (1.0 + 1f32.exp());
        assert!((found.output[0] - (1.0 + second)).abs() < 1e-6);
        assert_eq!(found.output[1], 1.0);
        assert_eq!((found.greatest[1], found.sums[1]), (0.0, 1.0));
    }

    #[test]
    fn a_row_without_scores_is_zero_or_the_mean() {
        let operands: [&[f32]; 3] = [&[1.0, 2.0], &[0.0, 1.0, 5.0], &[1.0, 2.0, 6.0]];
        let mask = [true; 6];
        let of = |zero_rows| head(operands, Some(&mask), SIZES, 1.0, zero_rows).output;
        assert_eq!(of(true), [0.0, 0.0]);
        assert!(of(false).iter().all(|value| (value - 3.0).abs() < 1e-6));
    }
}
