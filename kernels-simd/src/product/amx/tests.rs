use super::super::gemm::places;
use super::super::tested;
use super::*;
use crate::Output;
use half::bf16;
use std::cell::Cell;

/// The unit that takes the place of AMX.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Instead {
    Pairs,
    Widened,
}

thread_local! {
    static INSTEAD: Cell<Option<Instead>> = const { Cell::new(None) };
}

/// Returns the unit that takes the place of AMX on this thread, which does as if the machine had none.
pub(super) fn instead() -> Option<Instead> {
    INSTEAD.get()
}

/// Runs `work` as if the machine had this unit in place of AMX, on a thread that shares it with no other: these would have AMX.
fn with_instead(instead: Instead, work: impl Fn() + Sync) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    pool.expect("a thread can be started").install(|| {
        INSTEAD.set(Some(instead));
        work();
    });
}

/// Runs `work` as if the machine had no AMX, with fast pairs and with slow ones, and then with AMX.
pub(in super::super) fn without_and_with(work: impl Fn() + Sync) {
    for instead in [Instead::Pairs, Instead::Widened] {
        with_instead(instead, &work);
    }
    if tested(available(), "AMX") {
        work();
    }
}

/// Runs `work` with vectors in place of AMX, and with AMX.
fn with_each_unit(work: impl Fn() + Sync) {
    for (instead, available, what) in [
        (Instead::Pairs, vectors::available(), "AVX512-BF16"),
        (Instead::Widened, widened::available(), "AVX-512"),
    ] {
        if tested(available, what) {
            with_instead(instead, &work);
        }
    }
    if tested(available(), "AMX") {
        work();
    }
}

/// Returns whole numbers, which bf16 holds. Sums of their products are exact in f32.
fn value(i: usize) -> f32 {
    ((i * 7919) % 101) as f32 - 50.0
}

/// An operand of `count × k` elements at given distances, in exactly the memory that it needs.
struct Operand {
    data: Vec<bf16>,
    count: usize,
    k: usize,
    stride: usize,
    k_stride: usize,
}

impl Operand {
    fn new(count: usize, k: usize, (stride, k_stride): (usize, usize), seed: usize) -> Self {
        let length = match (count, k) {
            (0, _) | (_, 0) => 0,
            _ => (count - 1) * stride + (k - 1) * k_stride + 1,
        };
        let data = (0..length)
            .map(|i| bf16::from_f32(value(i + seed)))
            .collect();
        Self {
            data,
            count,
            k,
            stride,
            k_stride,
        }
    }

    fn at(&self, row: usize, term: usize) -> f64 {
        self.data[row * self.stride + term * self.k_stride].to_f64()
    }

    fn source(&self) -> Source<'_, bf16> {
        Source {
            data: &self.data,
            count: self.count,
            k: self.k,
            stride: self.stride,
            k_stride: self.k_stride,
        }
    }

    /// Returns weights, with a feature for each row.
    fn features(&self) -> Matrix<'_, bf16> {
        Matrix {
            data: &self.data,
            inputs: self.k,
            features: self.count,
            input_stride: self.k_stride,
            feature_stride: self.stride,
        }
    }

    /// Returns distances with adjacent terms, adjacent rows, gaps, and neither.
    fn layouts(count: usize, k: usize) -> [(usize, usize); 5] {
        [
            (k, 1),
            (k + 3, 1),
            (1, count),
            (1, count + 5),
            (2, 2 * count + 1),
        ]
    }
}

/// The terms are too many to be summed at once, and their sums are rounded.
#[test]
fn sums_at_an_edge_have_the_bits_of_those_in_a_whole_block() {
    const WHOLE: usize = 64;
    let k = 1100;
    let fraction = |operand: &mut Operand| {
        for (i, value) in operand.data.iter_mut().enumerate() {
            *value = bf16::from_f32((i as f32 * 0.7).sin());
        }
    };
    let [mut left, mut right] = [1, 2].map(|seed| Operand::new(WHOLE, k, (k, 1), seed));
    fraction(&mut left);
    fraction(&mut right);
    let product = |[m, n]: [usize; 2], add| {
        let tiles = [
            packed(left.source().part(0..m), Side::Left),
            packed(right.source().part(0..n), Side::Right),
        ];
        let mut sums = vec![0.1; m * n];
        let out = Out {
            sums: places(&mut sums),
            stride: n,
            add,
        };
        // SAFETY: `sums` are initialised.
        unsafe { multiply([m, k, n], Parts::One, &tiles[0], &tiles[1], out) };
        sums
    };
    with_each_unit(|| {
        for add in [false, true] {
            let whole = product([WHOLE; 2], add);
            for sizes @ [m, n] in [[40, 40], [7, 33], [33, 1]] {
                let part = product(sizes, add);
                let lines = whole.chunks(WHOLE).zip(part.chunks(n)).take(m);
                for (line, (whole, part)) in lines.enumerate() {
                    assert_eq!(part, &whole[..n], "{sizes:?}, line {line}, added: {add}");
                }
            }
        }
    });
}

/// Compares a product with that in f64.
fn check(left: &Operand, right: &Operand) {
    let sizes @ [m, k, n] = [left.count, left.k, right.count];
    let tiles = [
        packed(left.source(), Side::Left),
        packed(right.source(), Side::Right),
    ];
    for (stride, add) in [(n, false), (n, true), (n + 3, true), (n + 20, false)] {
        let mut sums = vec![7.0; (m.max(1) - 1) * stride + n];
        let out = Out {
            sums: places(&mut sums),
            stride,
            add,
        };
        // SAFETY: `sums` are initialised.
        unsafe { multiply(sizes, Parts::One, &tiles[0], &tiles[1], out) };
        for (at, sum) in sums.into_iter().enumerate() {
            let (row, column) = (at / stride, at % stride);
            let expected = match column < n && row < m {
                true => {
                    let terms = (0..k).map(|term| left.at(row, term) * right.at(column, term));
                    terms.sum::<f64>() + if add { 7.0 } else { 0.0 }
                }
                false => 7.0,
            };
            assert_eq!(
                f64::from(sum),
                expected,
                "{sizes:?}: row {row}, column {column}, {stride} apart"
            );
        }
    }
}

#[test]
fn products_of_all_sizes() {
    with_each_unit(|| {
        for m in [1, 15, 16, 17, 32, 33, 48, 65] {
            for n in [1, 16, 17, 31, 32, 64, 97] {
                for k in [0, 1, 2, 31, 32, 33, 70] {
                    let left = Operand::new(m, k, (k, 1), 0);
                    check(&left, &Operand::new(n, k, (1, n), 13));
                }
            }
        }
        // More terms than are summed at a time.
        for k in [511, 512, 514, 1100] {
            check(
                &Operand::new(34, k, (k, 1), 5),
                &Operand::new(35, k, (k, 1), 13),
            );
        }
    });
}

#[test]
fn operands_of_all_layouts() {
    with_each_unit(|| {
        for [m, k, n] in [[33, 70, 40], [64, 64, 32], [20, 1, 5]] {
            for of_left in Operand::layouts(m, k) {
                for of_right in Operand::layouts(n, k) {
                    check(
                        &Operand::new(m, k, of_left, 0),
                        &Operand::new(n, k, of_right, 13),
                    );
                }
            }
        }
    });
}

/// Compares rounded results with the exact ones, rounded once.
fn check_rounded(
    out: Output<bf16>,
    columns: usize,
    terms: usize,
    exact: impl Fn(usize, usize, usize) -> f64,
) {
    for (at, value) in out.into_values().into_iter().enumerate() {
        let (row, column) = (at / columns, at % columns);
        let sum: f64 = (0..terms).map(|term| exact(row, column, term)).sum();
        let expected = bf16::from_f32(sum as f32);
        assert_eq!(value, expected, "row {row}, column {column} of {columns}");
    }
}

/// Tests sizes around the rows that are rounded at a time and around the columns of a part.
#[test]
fn layers_and_gradients_of_weights_are_rounded_once() {
    with_each_unit(|| {
        for [m, k, n] in [[16, 3, 1], [70, 64, 65], [130, 40, 600]] {
            let (x, w) = (
                Operand::new(m, k, (k, 1), 0),
                Operand::new(n, k, (1, n), 13),
            );
            let bias: Vec<f32> = (0..n).map(value).collect();
            for parallel in [false, true] {
                let mut out = Output::new([m, n]);
                product_rounded(&x.data, w.features(), Some(&bias), out.rest(), parallel);
                check_rounded(out, n, k, |row, column, term| {
                    let first = if term == 0 {
                        f64::from(bias[column])
                    } else {
                        0.0
                    };
                    first + x.at(row, term) * w.at(column, term)
                });
                // `k` rows of `x` and of `w`, both read by columns.
                let across = Operand::new(m, k, (1, m), 5);
                let mut out = Output::new([m, n]);
                columns_times(k, (&across.data, m), (&w.data, n), out.rest(), parallel);
                check_rounded(out, n, k, |row, column, term| {
                    across.at(row, term) * w.at(column, term)
                });
            }
        }
    });
}

/// Tests sizes from which pairs multiply tensors, through the functions that choose.
#[test]
fn large_products_of_tensors_are_exact() {
    let [m, k, n] = [256, 272, 300];
    let (x, w) = (
        Operand::new(m, k, (k, 1), 0),
        Operand::new(n, k, (1, n), 13),
    );
    let across = Operand::new(m, k, (1, m), 5);
    without_and_with(|| {
        let mut out = Output::new([m, n]);
        super::super::product_rounded(&x.data, w.features(), None, out.rest());
        check_rounded(out, n, k, |row, column, term| {
            x.at(row, term) * w.at(column, term)
        });
        let mut out = Output::new([m, n]);
        super::super::columns_times(k, (&across.data, m), (&w.data, n), out.rest());
        check_rounded(out, n, k, |row, column, term| {
            across.at(row, term) * w.at(column, term)
        });
    });
}

/// Tests sums of numbers that f32 rounds.
#[test]
fn large_products_of_tensors_dont_depend_on_the_number_of_threads() {
    let [m, k, n] = [256, 272, 300];
    let thirds = |count: usize, seed: usize| {
        let third = |i: usize| bf16::from_f32(value(i + seed) / 3.0);
        (0..count).map(third).collect::<Vec<_>>()
    };
    let (left, right) = (thirds(k * m, 0), thirds(k * n, 13));
    let results = [1, 2, 3].map(|threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        let pool = pool.build().expect("threads can be started");
        let mut out = Output::<bf16>::new([m, n]);
        pool.install(|| {
            super::super::columns_times(k, (&left, m), (&right, n), out.rest());
        });
        out.into_values()
    });
    assert!(results[0] == results[1] && results[0] == results[2]);
}

#[test]
fn terms_in_f32_are_rounded_to_the_nearest() {
    let terms: Vec<f32> = (0..40 * 16)
        .map(|i| 128.0 + (i % 16) as f32 / 8.0)
        .collect();
    let rounded: Vec<bf16> = terms.iter().map(|term| bf16::from_f32(*term)).collect();
    for side in [Side::Left, Side::Right] {
        let bytes = |tiles: Vec<Tile>| bytemuck::cast_slice::<Tile, u16>(&tiles).to_vec();
        let [exact, nearest] = [
            bytes(packed(Source::rows(&rounded, 16, 40), side)),
            bytes(packed(Source::rows(&terms, 16, 40), side)),
        ];
        assert_eq!(exact, nearest);
        let [exact, nearest] = [
            bytes(packed(Source::columns(&rounded, 40, 16, 0..16), side)),
            bytes(packed(Source::columns(&terms, 40, 16, 0..16), side)),
        ];
        assert_eq!(exact, nearest);
    }
}

#[test]
fn operands_that_are_too_short_are_refused() {
    with_each_unit(|| {
        let refused = |tiles: usize, stride: usize, sums: usize| {
            let left = packed(Operand::new(3, 5, (5, 1), 0).source(), Side::Left);
            let right = vec![bytemuck::Zeroable::zeroed(); tiles];
            let mut sums = vec![0.0; sums];
            let call = std::panic::AssertUnwindSafe(|| {
                let out = Out {
                    sums: places(&mut sums),
                    stride,
                    add: false,
                };
                // SAFETY: nothing is added.
                unsafe { multiply([3, 5, 4], Parts::One, &left, &right, out) };
            });
            std::panic::catch_unwind(call).is_err()
        };
        assert!(!refused(2, 4, 12));
        assert!(refused(1, 4, 12), "a block of columns is missing");
        assert!(refused(2, 4, 11), "the last sum has no place");
        assert!(refused(2, 3, 12), "lines overlap");
        assert!(refused(2, usize::MAX, 12));
    });
}

#[test]
fn nothing_is_written_without_rows_or_columns() {
    with_each_unit(|| {
        for [m, n] in [[0, 3], [3, 0]] {
            let tiles = [m, n].map(|count| vec![bytemuck::Zeroable::zeroed(); tiles_of(count, 8)]);
            let mut sums = [7.0; 9];
            let out = Out {
                sums: places(&mut sums),
                stride: 3,
                add: false,
            };
            // SAFETY: nothing is added.
            unsafe { multiply([m, 8, n], Parts::One, &tiles[0], &tiles[1], out) };
            assert_eq!(sums, [7.0; 9]);
        }
    });
}
