use super::*;
use half::bf16;

/// Returns whole numbers, which bf16 holds. Sums of their products are exact in f32.
fn values(len: usize, seed: usize) -> Vec<f32> {
    let value = |i: usize| ((i * 7919 + seed) % 101) as f32 - 50.0;
    (0..len).map(value).collect()
}

/// Returns the products of an operand, stored and not, with `n` columns, in lines of three elements more, each added to 7.
fn added_to_seven(stored: &Stored, left: &Tiled, right: &Tiled, n: usize) -> [Vec<f32>; 2] {
    let mut products = [(); 2].map(|()| vec![7.0; left.count * (n + 3)]);
    let [of_stored, of_left] = products.each_mut().map(|out| (&mut out[..], n + 3));
    multiply_stored((stored, 0, left.count), right.all(), of_stored, true);
    multiply_tiled(left, right.all(), of_left, true);
    products
}

#[test]
fn numbers_and_elements_of_tensors_are_multiplied_alike() {
    let Some(mut left) = Tiled::new::<bf16>() else {
        super::super::tested(false, "AMX");
        return;
    };
    let mut right = Tiled::new::<bf16>().expect("tiles");
    for [m, k, n] in [[64, 96, 32], [17, 33, 70], [16, 0, 16], [32, 32, 32]] {
        let (a, b) = (values(m * k, 1), values(k * n, 5));
        let halves = |values: &[f32]| -> Vec<bf16> {
            values.iter().map(|value| bf16::from_f32(*value)).collect()
        };
        let mut stored = Stored::new::<bf16>().expect("tiles");
        stored.push(Block::rows(&halves(&a)[..], k), [m, k]);
        left.left(Block::rows(&a[..], k), [m, k]);
        right.right(Block::rows(&b[..], n), [k, n]);
        for out in added_to_seven(&stored, &left, &right, n) {
            for (at, out) in out.into_iter().enumerate() {
                let (row, column) = (at / (n + 3), at % (n + 3));
                let terms = (0..k).filter(|_| column < n);
                let sum: f32 = terms
                    .map(|term| a[row * k + term] * b[term * n + column])
                    .sum();
                assert_eq!(out, 7.0 + sum, "{m} × {k} × {n}: {row}, {column}");
            }
        }
    }
}

/// Writes numbers below 1 in two parts, as attention writes its exponentials.
fn in_two_parts(to: &mut Tiled, numbers: &[f32], sizes @ [terms, columns]: [usize; 2]) {
    let bits = |value: f32| u32::from(bf16::from_f32(value).to_bits());
    let number = |term: usize, column: usize| match term < terms && column < columns {
        true => numbers[term * columns + column],
        false => 0.0,
    };
    let mut parts = to.two_parts(sizes);
    let mut first = 0;
    while let Some([upper, rest]) = parts.next() {
        for (pair, (upper, rest)) in upper.iter_mut().zip(rest).enumerate() {
            for lane in 0..LANES {
                let pair = [2 * pair, 2 * pair + 1].map(|term| number(term, first + lane));
                let rests = pair.map(|value| value - bf16::from_f32(value).to_f32());
                upper[lane] = f32::from_bits(bits(pair[0]) | bits(pair[1]) << 16);
                rest[lane] = f32::from_bits(bits(rests[0]) | bits(rests[1]) << 16);
            }
        }
        first += LANES;
    }
    assert!(first >= columns || terms == 0, "columns in lines of tiles");
}

#[test]
fn stored_operands_are_multiplied_by_numbers_in_two_parts() {
    let (Some(mut stored), Some(mut right)) = (Stored::new::<bf16>(), Tiled::new::<bf16>()) else {
        super::super::tested(false, "AMX");
        return;
    };
    let all = [
        [64, 64, 96],
        [17, 20, 33],
        [128, 33, 16],
        [5, 0, 16],
        [64, 64, 48],
    ];
    let left = |index: usize, [m, k, _]: [usize; 3]| -> Vec<bf16> {
        let values = values(m * k, index);
        values.into_iter().map(bf16::from_f32).collect()
    };
    for (index, sizes @ [m, k, _]) in all.into_iter().enumerate() {
        stored.push_twice(Block::rows(&left(index, sizes)[..], k), [m, k]);
    }
    for (index, sizes @ [m, k, n]) in all.into_iter().enumerate() {
        let left = left(index, sizes);
        let numbers: Vec<f32> = (0..k * n).map(|i| (i as f32 * 0.37).sin()).collect();
        in_two_parts(&mut right, &numbers, [k, n]);
        // Fewer rows are the first of the operand.
        for rows in [m, m.min(3)] {
            let mut out = vec![7.0_f32; rows * n];
            multiply_stored((&stored, index, rows), right.all(), (&mut out[..], n), true);
            for (at, out) in out.into_iter().enumerate() {
                let (row, column) = (at / n, at % n);
                let product = |term: usize| {
                    left[row * k + term].to_f64() * f64::from(numbers[term * n + column])
                };
                let exact = 7.0 + (0..k).map(product).sum::<f64>();
                let size = (0..k).map(|term| product(term).abs()).sum::<f64>() + 7.0;
                let error = (f64::from(out) - exact).abs();
                assert!(
                    error <= size * 2_f64.powi(-16),
                    "{sizes:?}: {row}, {column}"
                );
            }
        }
    }
}

#[test]
#[should_panic(expected = "terms of the two operands")]
fn a_stored_operand_has_the_terms_of_the_other() {
    let (Some(mut stored), Some(mut right)) = (Stored::new::<bf16>(), Tiled::new::<bf16>()) else {
        super::super::tested(false, "AMX");
        panic!("terms of the two operands");
    };
    stored.push(Block::rows(&[bf16::ONE; 64][..], 4), [16, 4]);
    right.right(Block::rows(&[1.0_f32; 80][..], 16), [5, 16]);
    multiply_stored(
        (&stored, 0, 16),
        right.all(),
        (&mut [0.0_f32; 256][..], 16),
        false,
    );
}

#[test]
fn rounded_numbers_and_their_remainders_have_16_bits() {
    let numbers: Vec<f32> = (0..77).map(|i| (i as f32 * 0.37).sin()).collect();
    let mut remainders = numbers.clone();
    leave_remainders(&mut remainders[..]);
    for (number, remainder) in numbers.into_iter().zip(remainders) {
        assert_eq!(bf16::from_f32(number).to_f32() + remainder, number);
        let kept = bf16::from_f32(remainder).to_f32();
        assert!((remainder - kept).abs() <= number.abs() * 2_f32.powi(-16));
    }
}

/// Returns numbers of all 24 bits, between -1 and 1.
fn numbers(len: usize, seed: usize) -> Vec<f32> {
    let number = |i: usize| ((i * 7919 + seed * 104_729) as f32 * 0.618_034).sin();
    (0..len).map(number).collect()
}

/// The bound is the error of a sum in f32, with one rounding for each 32 terms and each of the six products.
#[test]
fn numbers_in_three_parts_are_multiplied_as_in_f32() {
    let Some(mut right) = Tiled::new::<f32>() else {
        super::super::tested(false, "AMX");
        return;
    };
    let mut left = Tiled::new::<f32>().expect("tiles");
    for [m, k, n] in [[64, 96, 32], [17, 33, 70], [16, 0, 16], [5, 600, 48]] {
        let (a, b) = (numbers(m * k, 1), numbers(k * n, 5));
        let mut stored = Stored::new::<f32>().expect("tiles");
        stored.push(Block::rows(&a[..], k), [m, k]);
        left.left(Block::rows(&a[..], k), [m, k]);
        right.right(Block::rows(&b[..], n), [k, n]);
        assert!(stored.is_in_range() && left.is_in_range() && right.is_in_range());
        for out in added_to_seven(&stored, &left, &right, n) {
            for (at, out) in out.into_iter().enumerate() {
                let (row, column) = (at / (n + 3), at % (n + 3));
                let terms = (0..k)
                    .filter(|_| column < n)
                    .map(|term| f64::from(a[row * k + term]) * f64::from(b[term * n + column]));
                let (sum, size) = terms.fold((7.0, 7.0), |(sum, size), term| {
                    (sum + term, size + term.abs())
                });
                let roundings = 2.0 + k as f64 / 32.0;
                let error = (f64::from(out) - sum).abs();
                assert!(
                    error <= size * roundings * f64::from(f32::EPSILON),
                    "{m} × {k} × {n}: {row}, {column}: {error}"
                );
            }
        }
    }
}

#[test]
fn numbers_that_tiles_would_change_are_out_of_range() {
    let Some(mut tiled) = Tiled::new::<f32>() else {
        super::super::tested(false, "AMX");
        return;
    };
    let cases = [
        (0.0, true),
        (2_f32.powi(-40), true),
        (-(2_f32.powi(30)), true),
        (2_f32.powi(-41), false),
        (2_f32.powi(31), false),
        (f32::MIN_POSITIVE, false),
        (f32::MAX, false),
        (f32::INFINITY, false),
        (f32::NAN, false),
        // The first part is zero. The third one is NaN, and so is a product.
        (f32::from_bits(u32::MAX), true),
    ];
    for (number, expected) in cases {
        let mut values = [0.0; 40 * 40];
        values[39 * 40 + 35] = number;
        tiled.left(Block::rows(&values[..], 40), [40, 40]);
        assert_eq!(tiled.is_in_range(), expected, "{number} on the left");
        tiled.right(Block::rows(&values[..], 40), [40, 40]);
        assert_eq!(tiled.is_in_range(), expected, "{number} on the right");
        let mut stored = Stored::new::<f32>().expect("tiles");
        stored.push(Block::rows(&values[..], 40), [40, 40]);
        stored.push(Block::rows(&[0.5_f32; 4][..], 2), [2, 2]);
        assert_eq!(stored.is_in_range(), expected, "{number}, stored");
        let mut out = [0.0_f32; 40 * 40];
        multiply_stored((&stored, 0, 40), tiled.all(), (&mut out[..], 40), false);
        let is_lost = number.is_nan() && !out[39 * 40 + 35].is_nan();
        assert!(!is_lost, "{number} becomes a number");
    }
}

#[test]
fn f32_and_bf16_alone_have_tiles() {
    assert!(Tiled::new::<f64>().is_none() && Stored::new::<f64>().is_none());
    assert!(Tiled::new::<half::f16>().is_none());
    let parts = Tiled::new::<bf16>().map(|tiled| tiled.are_exact());
    assert!(parts.is_none_or(|are_exact| !are_exact));
    let parts = Tiled::new::<f32>().map(|tiled| tiled.are_exact());
    assert!(parts.is_none_or(|are_exact| are_exact));
}

#[test]
fn some_columns_have_the_products_of_all() {
    fn check<T: Element>() -> bool {
        let (Some(mut left), Some(mut right)) = (Tiled::new::<T>(), Tiled::new::<T>()) else {
            return false;
        };
        let (m, k, n) = (40, 70, 112);
        left.left(Block::rows(&numbers(m * k, 1)[..], k), [m, k]);
        right.right(Block::rows(&numbers(k * n, 5)[..], n), [k, n]);
        let mut all = vec![0.0_f32; m * n];
        multiply_tiled(&left, right.all(), (&mut all[..], n), false);
        for range in [0..16, 32..112, 64..96, 96..112, 64..64] {
            let mut some = vec![7.0_f32; m * n];
            let to = (&mut some[range.start..], n);
            multiply_tiled(&left, right.columns(range.clone()), to, false);
            for (at, (some, all)) in some.into_iter().zip(&all).enumerate() {
                let expected = if range.contains(&(at % n)) { *all } else { 7.0 };
                assert_eq!(
                    some,
                    expected,
                    "{range:?}: row {}, column {}",
                    at / n,
                    at % n
                );
            }
        }
        true
    }
    super::super::tested(check::<bf16>() && check::<f32>(), "AMX");
}

#[test]
#[should_panic(expected = "columns 16..32 of 40")]
fn columns_begin_where_tiles_are_multiplied_together() {
    let Some(mut right) = Tiled::new::<f32>() else {
        super::super::tested(false, "AMX");
        panic!("columns 16..32 of 40");
    };
    right.right(Block::rows(&[0.5_f32; 80][..], 40), [2, 40]);
    right.columns(16..32);
}
