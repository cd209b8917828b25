//! Scales of groups, as ggml searches them: a few scales around the usual one are tried, each with the scale that fits
//! its codes best by least squares.
//!
//! Products and sums are in f32, in ggml's order and not fused, because the search compares rounded errors.

/// Rounds to the nearest integer, ties to even. Numbers of more than 22 bits become others, as in ggml, whose callers
/// limit the result.
pub(super) fn nearest(number: f32) -> i32 {
    let bits = (number + 12_582_912.0).to_bits();
    (bits & 0x007f_ffff) as i32 - 0x0040_0000
}

/// Codes of a group from 0 on, with their scale and the minimum's negative.
pub(super) struct Above<const N: usize> {
    pub(super) codes: [u8; N],
    pub(super) scale: f32,
    pub(super) least: f32,
}

/// The scales that are tried: `steps + 1` of them, whose number of codes is the usual one plus `first`, plus `step`
/// each.
pub(super) struct Search {
    pub(super) first: f32,
    pub(super) step: f32,
    pub(super) steps: u8,
}

/// The scales that are tried by an importance matrix.
pub(super) const BY_IMPORTANCE: Search = Search {
    first: -0.9,
    step: 0.05,
    steps: 36,
};

/// Fits codes from 0 to `top`, an offset of at most 0 and a scale to weighted numbers.
pub(super) fn above_least<const N: usize>(
    numbers: &[f32; N],
    weights: &[f32; N],
    top: u8,
    search: &Search,
) -> Above<N> {
    let (mut least, mut most) = (numbers[0], numbers[0]);
    let (mut sum_w, mut sum_x) = (weights[0], weights[0] * numbers[0]);
    for (&number, &weight) in numbers.iter().zip(weights).skip(1) {
        least = if number < least { number } else { least };
        most = if number > most { number } else { most };
        sum_w += weight;
        sum_x += weight * number;
    }
    least = if least > 0.0 { 0.0 } else { least };
    if most == least {
        return Above {
            codes: [0; N],
            scale: 0.0,
            least: -least,
        };
    }
    let codes_of = |inverse: f32, least: f32| {
        numbers.map(|number| nearest(inverse * (number - least)).clamp(0, top.into()) as u8)
    };
    let error = |codes: &[u8; N], scale: f32, offset: f32| {
        let each = codes.iter().zip(numbers).zip(weights);
        each.fold(0.0, |sum: f32, ((&code, &number), &weight)| {
            let difference = scale * f32::from(code) + offset - number;
            sum + weight * (difference * difference)
        })
    };
    let inverse = f32::from(top) / (most - least);
    let mut best = Above {
        codes: codes_of(inverse, least),
        scale: 1.0 / inverse,
        least,
    };
    let mut best_error = error(&best.codes, best.scale, best.least);
    for step in 0..=search.steps {
        // The range begins at the best offset so far, as in ggml.
        let count = search.first + search.step * f32::from(step) + f32::from(top);
        let codes = codes_of(count / (most - best.least), best.least);
        let (mut sum_l, mut sum_l2, mut sum_xl) = (0.0, 0.0, 0.0);
        for ((&code, &number), &weight) in codes.iter().zip(numbers).zip(weights) {
            let code = f32::from(code);
            sum_l += weight * code;
            sum_l2 += weight * code * code;
            sum_xl += weight * code * number;
        }
        let determinant = sum_w * sum_l2 - sum_l * sum_l;
        if determinant > 0.0 {
            let mut scale = (sum_w * sum_xl - sum_x * sum_l) / determinant;
            let mut least = (sum_l2 * sum_x - sum_l * sum_xl) / determinant;
            if least > 0.0 {
                least = 0.0;
                scale = sum_xl / sum_l2;
            }
            let own = error(&codes, scale, least);
            if own < best_error {
                best_error = own;
                best = Above {
                    codes,
                    scale,
                    least,
                };
            }
        }
    }
    best.least = -best.least;
    best
}

/// The size below which all numbers of a group count as 0.
pub(super) const NOTHING: f32 = 1e-15;

/// Fits codes from `−middle` to `middle − 1`, which are returned plus `middle`, and a scale to weighted numbers.
pub(super) fn around_zero<const N: usize>(
    numbers: &[f32; N],
    weights: &[f32; N],
    middle: i32,
) -> ([u8; N], f32) {
    let mut largest = 0.0_f32;
    for &number in numbers {
        largest = if number.abs() > largest.abs() {
            number
        } else {
            largest
        };
    }
    if largest.abs() < NOTHING {
        return ([0; N], 0.0);
    }
    let code = |number: f32, inverse: f32| nearest(inverse * number).clamp(-middle, middle - 1);
    let codes_of = |inverse: f32| numbers.map(|number| (code(number, inverse) + middle) as u8);
    let sums = |inverse: f32| {
        let both = numbers.iter().zip(weights);
        both.fold((0.0_f32, 0.0_f32), |(xl, l2), (&number, &weight)| {
            let code = code(number, inverse) as f32;
            (xl + weight * number * code, l2 + weight * code * code)
        })
    };
    let inverse = -(middle as f32) / largest;
    let mut codes = codes_of(inverse);
    let (sum_xl, sum_l2) = sums(inverse);
    let mut scale = if sum_l2 == 0.0 { 0.0 } else { sum_xl / sum_l2 };
    let mut best = scale * sum_xl;
    for step in (-9_i8..=9).filter(|&step| step != 0) {
        let inverse = -(middle as f32 + 0.1 * f32::from(step)) / largest;
        let (sum_xl, sum_l2) = sums(inverse);
        if sum_l2 > 0.0 && sum_xl * sum_xl > best * sum_l2 {
            codes = codes_of(inverse);
            scale = sum_xl / sum_l2;
            best = scale * sum_xl;
        }
    }
    (codes, scale)
}

/// Fits codes from 0 to `top` and a scale to weighted numbers from 0 on: the best of a few scales, and then, number by
/// number, codes that fit better.
pub(super) fn from_zero<const N: usize>(
    numbers: &[f32; N],
    weights: &[f32; N],
    top: u8,
) -> ([u8; N], f32) {
    let largest = numbers.iter().fold(
        0.0,
        |most: f32, &number| {
            if most > number { most } else { number }
        },
    );
    if largest < NOTHING {
        return ([0; N], 0.0);
    }
    let limit = i32::from(top);
    let codes_of = |inverse: f32| numbers.map(|number| nearest(inverse * number).min(limit) as f32);
    let error = |codes: &[f32; N], scale: f32| {
        let each = codes.iter().zip(numbers).zip(weights);
        each.fold(0.0, |sum: f32, ((&code, &number), &weight)| {
            let difference = number - scale * code;
            sum + weight * difference * difference
        })
    };
    let usual = f32::from(top) / largest;
    let mut best = usual;
    let codes = numbers.map(|number| f32::from(nearest(usual * number) as u8));
    let mut best_error = error(&codes, 1.0 / usual);
    for step in (-4_i8..=4).filter(|&step| step != 0) {
        let inverse = (0.1 * f32::from(step) + f32::from(top)) / largest;
        let own = error(&codes_of(inverse), 1.0 / inverse);
        if own < best_error {
            (best_error, best) = (own, inverse);
        }
    }
    let first = codes_of(best);
    let mut codes = first.map(|code| code as i32 as u8);
    let (mut sum_xl, mut sum_l2) = (0.0_f32, 0.0_f32);
    for ((&code, &number), &weight) in first.iter().zip(numbers).zip(weights) {
        sum_xl += weight * number * code;
        sum_l2 += weight * code * code;
    }
    for _ in 0..5 {
        let mut changed = false;
        for ((code, &number), &weight) in codes.iter_mut().zip(numbers).zip(weights) {
            let old = f32::from(*code);
            let mut without_xl = sum_xl - weight * number * old;
            let mut without_l2 = sum_l2 - weight * old * old;
            if !(without_xl > 0.0 && without_l2 > 0.0) {
                continue;
            }
            let new = nearest(number * without_l2 / without_xl).min(limit);
            if new == i32::from(*code) {
                continue;
            }
            without_xl += weight * number * new as f32;
            without_l2 += weight * new as f32 * new as f32;
            if without_xl * without_xl * sum_l2 > sum_xl * sum_xl * without_l2 {
                (*code, sum_xl, sum_l2) = (new as u8, without_xl, without_l2);
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    let scale = if sum_l2 > 0.0 { sum_xl / sum_l2 } else { 0.0 };
    (codes, scale)
}
