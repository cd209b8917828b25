use super::super::super::tested;
use super::*;

/// Returns numbers of all 24 bits, between -1 and 1.
fn numbers(len: usize, seed: usize) -> Vec<f32> {
    (0..len)
        .map(|i| ((i * 7919 + seed * 104_729) as f32 * 0.618_034).sin())
        .collect()
}

/// An operand of `count × k` elements at given distances, in exactly the memory that it needs.
struct Numbers {
    data: Vec<f32>,
    count: usize,
    k: usize,
    stride: usize,
    k_stride: usize,
}

impl Numbers {
    fn new(count: usize, k: usize, (stride, k_stride): (usize, usize), seed: usize) -> Self {
        Self {
            data: numbers((count - 1) * stride + (k - 1) * k_stride + 1, seed),
            count,
            k,
            stride,
            k_stride,
        }
    }

    fn at(&self, row: usize, term: usize) -> &f32 {
        &self.data[row * self.stride + term * self.k_stride]
    }

    fn set(&mut self, row: usize, term: usize, value: f32) {
        self.data[row * self.stride + term * self.k_stride] = value;
    }

    fn source(&self) -> Source<'_, f32> {
        Source {
            data: &self.data,
            count: self.count,
            k: self.k,
            stride: self.stride,
            k_stride: self.k_stride,
        }
    }
}

/// Returns the product, into lines that are `gap` elements longer than its rows, added to `first` if it is given.
fn product_of(left: &Numbers, right: &Numbers, gap: usize, first: Option<f32>) -> Vec<f32> {
    let stride = right.count + gap;
    let mut sums = vec![first.unwrap_or(f32::NAN); left.count * stride];
    for line in sums.chunks_mut(stride) {
        line[right.count..].fill(7.0);
    }
    let out = Out {
        first: sums.as_mut_ptr(),
        stride,
        add: first.is_some(),
    };
    // SAFETY: `sums` has the elements, and they are initialised.
    unsafe { multiply(left.source(), right.source(), out) };
    for line in sums.chunks_mut(stride) {
        assert!(line[right.count..].iter().all(|beside| *beside == 7.0));
    }
    let rows = sums.chunks(stride).map(|line| &line[..right.count]);
    rows.flatten().copied().collect()
}

/// Returns the exact element of a product, and the sum of the magnitudes of its terms.
fn exact(left: &Numbers, right: &Numbers, row: usize, column: usize) -> (f64, f64) {
    let terms =
        (0..left.k).map(|term| f64::from(*left.at(row, term)) * f64::from(*right.at(column, term)));
    terms.fold((0.0, 0.0), |(sum, size), term| {
        (sum + term, size + term.abs())
    })
}

/// Compares a product with that in f64. The bound is the error of a sum of `k` terms in f32, with one rounding for each
/// 32 of them and each of the six products, and what these products leave out.
fn check(left: &Numbers, right: &Numbers) {
    for (gap, first) in [(0, None), (3, Some(0.5))] {
        let sums = product_of(left, right, gap, first);
        for (at, sum) in sums.into_iter().enumerate() {
            let (row, column) = (at / right.count, at % right.count);
            let (exact, size) = exact(left, right, row, column);
            let first = f64::from(first.unwrap_or(0.0));
            let roundings = 2.0 + left.k as f64 / 32.0;
            let bound = (size + first) * roundings * f64::from(f32::EPSILON);
            let error = (f64::from(sum) - exact - first).abs();
            assert!(
                error <= bound,
                "{} × {} × {}, row {row}, column {column}: {error}, more than {bound}",
                left.count,
                left.k,
                right.count
            );
        }
    }
}

#[test]
fn products_of_all_sizes() {
    if !tested(available(), "AMX") {
        return;
    }
    for m in [1, 15, 16, 17, 32, 33, 48, 65] {
        for n in [1, 16, 17, 31, 32, 64, 97] {
            for k in [1, 2, 31, 32, 33, 70] {
                let left = Numbers::new(m, k, (k, 1), 0);
                check(&left, &Numbers::new(n, k, (1, n), 13));
            }
        }
    }
    // More terms, rows and columns than are copied at a time.
    for [m, k, n] in [
        [35, TERMS + 33, COLUMNS + 50],
        [ELEMENTS / 64 + 40, 40, RESIDENT / 64 + 40],
    ] {
        let left = Numbers::new(m, k, (k, 1), 5);
        check(&left, &Numbers::new(n, k, (k, 1), 13));
    }
}

#[test]
fn operands_of_all_layouts() {
    if !tested(available(), "AMX") {
        return;
    }
    let layouts = |count: usize, k: usize| {
        [
            (k, 1),
            (k + 3, 1),
            (1, count),
            (1, count + 5),
            (2, 2 * count + 1),
        ]
    };
    for [m, k, n] in [[33, 70, 40], [64, 64, 32], [20, 1, 5]] {
        for of_left in layouts(m, k) {
            for of_right in layouts(n, k) {
                check(
                    &Numbers::new(m, k, of_left, 0),
                    &Numbers::new(n, k, of_right, 13),
                );
            }
        }
    }
}

/// Returns the root of the mean square of errors.
fn error(sums: &[f32], left: &Numbers, right: &Numbers) -> f64 {
    let squares = sums.iter().enumerate().map(|(at, sum)| {
        let (exact, _) = exact(left, right, at / right.count, at % right.count);
        (f64::from(*sum) - exact).powi(2)
    });
    (squares.sum::<f64>() / sums.len() as f64).sqrt()
}

#[test]
fn products_are_as_exact_as_those_in_f32() {
    if !tested(available(), "AMX") {
        return;
    }
    for k in [64, 500, 3000] {
        let left = Numbers::new(64, k, (k, 1), 3);
        let right = Numbers::new(64, k, (1, 64), 8);
        let mut in_vectors = vec![0.0; 64 * 64];
        let out = Out {
            first: in_vectors.as_mut_ptr(),
            stride: 64,
            add: false,
        };
        // SAFETY: there are 64 × 64 elements.
        unsafe { in_f32(left.source(), right.source(), out) };
        let here = error(&product_of(&left, &right, 0, None), &left, &right);
        let there = error(&in_vectors, &left, &right);
        println!("{k}: {here} {there}");
        assert!(here <= there, "{k} terms: {here}, more than {there}");
    }
}

/// Tests numbers whose parts would spoil a product: it is as in f32.
#[test]
fn numbers_at_the_ends_of_the_range() {
    if !tested(available(), "AMX") {
        return;
    }
    let cases: [(f32, f32); 10] = [
        (f32::INFINITY, 0.5),
        (f32::NEG_INFINITY, -2.0),
        (f32::INFINITY, 0.0),
        (f32::MAX, 0.25),
        (f32::MIN, 1.0),
        (f32::NAN, 1.0),
        (f32::from_bits(u32::MAX), 1.0),
        (f32::from_bits(i32::MAX as u32), 0.0),
        (
            2.0_f32.powi(-120) * 1.000_001,
            2.0_f32.powi(100) * 1.000_001,
        ),
        (2.0_f32.powi(-140), 2.0_f32.powi(127)),
    ];
    let (m, k, n) = (50, 40, 70);
    for (of_left, of_right) in cases {
        for swapped in [false, true] {
            let (of_left, of_right) = match swapped {
                true => (of_right, of_left),
                false => (of_left, of_right),
            };
            let mut left = Numbers::new(m, k, (k, 1), 3);
            let mut right = Numbers::new(n, k, (1, n), 8);
            // Other terms of this element are too small to be seen beside it.
            for term in 0..k {
                left.set(33, term, 0.0);
            }
            left.set(33, 7, of_left);
            right.set(20, 7, of_right);
            for first in [None, Some(0.0)] {
                let sums = product_of(&left, &right, 1, first);
                let expected = of_left * of_right;
                let sum = sums[33 * n + 20];
                assert!(
                    sum == expected || sum.is_nan() && expected.is_nan(),
                    "{of_left} · {of_right}: {sum}, not {expected}"
                );
                for (at, sum) in sums.into_iter().enumerate() {
                    let (row, column) = (at / n, at % n);
                    if row != 33 && column != 20 {
                        let (exact, _) = exact(&left, &right, row, column);
                        assert!((f64::from(sum) - exact).abs() < 1e-5, "{row}, {column}");
                    }
                }
            }
        }
    }
}

/// Tests products whose parts, or whose operands' parts, are below what tiles hold.
#[test]
fn small_numbers_keep_their_digits() {
    if !tested(available(), "AMX") {
        return;
    }
    for powers in [[-115, 3], [-60, -58], [-3, -112], [-102, 0], [-80, 5]] {
        let [mut left, mut right] =
            [(40, 3), (50, 8)].map(|(count, seed)| Numbers::new(count, 130, (130, 1), seed));
        for (operand, power) in [&mut left, &mut right].into_iter().zip(powers) {
            for number in &mut operand.data {
                *number *= 2.0_f32.powi(power);
            }
        }
        for (at, sum) in product_of(&left, &right, 0, None).into_iter().enumerate() {
            let (exact, size) = exact(&left, &right, at / 50, at % 50);
            let error = (f64::from(sum) - exact).abs();
            assert!(error <= size * 1e-6, "{powers:?}: {sum}, not {exact}");
        }
    }
}

#[test]
fn nothing_is_written_without_rows_or_columns() {
    if !tested(available(), "AMX") {
        return;
    }
    let many = Numbers::new(700, 520, (520, 1), 0);
    for [rows, columns] in [[0..0, 0..700], [0..700, 0..0], [700..700, 0..3]] {
        let out = Out {
            first: std::ptr::dangling_mut(),
            stride: 700,
            add: false,
        };
        // SAFETY: the result has no elements.
        unsafe { multiply(many.source().part(rows), many.source().part(columns), out) };
    }
}

/// Tests that neither the position in a block nor the numbers outside of a tile change the bits of an element.
#[test]
fn parts_have_the_bits_of_the_whole() {
    if !tested(available(), "AMX") {
        return;
    }
    let (m, k, n) = (100, TERMS + 70, 150);
    let mut left = Numbers::new(m, k, (k, 1), 3);
    let mut right = Numbers::new(n, k, (1, n), 8);
    left.set(40, 3, f32::INFINITY);
    right.set(30, TERMS + 9, f32::MAX);
    let whole = product_of(&left, &right, 0, Some(0.25));
    for rows in [0..16, 16..100, 32..64, 48..80] {
        for columns in [0..150, 16..144, 48..64, 80..130] {
            let mut sums = vec![0.25; rows.len() * columns.len()];
            let out = Out {
                first: sums.as_mut_ptr(),
                stride: columns.len(),
                add: true,
            };
            let left = left.source().part(rows.clone());
            let right = right.source().part(columns.clone());
            // SAFETY: `sums` has the elements of the part, which are initialised.
            unsafe { multiply(left, right, out) };
            for (line, row) in sums.chunks(columns.len()).zip(rows.clone()) {
                for (sum, column) in line.iter().zip(columns.clone()) {
                    assert_eq!(
                        sum.to_bits(),
                        whole[row * n + column].to_bits(),
                        "row {row}, column {column}"
                    );
                }
            }
        }
    }
}

#[test]
#[should_panic(expected = "reaches beyond the memory")]
fn operands_that_are_too_short_are_refused() {
    if !tested(available(), "AMX") {
        panic!("reaches beyond the memory");
    }
    let short = Numbers::new(3, 5, (5, 1), 0);
    let long = Source {
        count: 4,
        ..short.source()
    };
    let mut sums = [0.0; 12];
    let out = Out {
        first: sums.as_mut_ptr(),
        stride: 3,
        add: false,
    };
    // SAFETY: `sums` has the elements.
    unsafe { multiply(long, short.source(), out) };
}
