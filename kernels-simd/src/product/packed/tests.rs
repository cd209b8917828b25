//! Tests of sizes around those of tiles and blocks, compared with sums of one term after the other.

use super::*;

/// An order of the elements of a matrix.
#[derive(Clone, Copy, Debug)]
enum Order {
    Rows,
    Columns,
    /// Rows of every second element.
    Spaced,
}

impl Order {
    const ALL: [Self; 3] = [Self::Rows, Self::Columns, Self::Spaced];

    fn strides(self, rows: usize, columns: usize) -> Strides {
        let (row, column) = match self {
            Self::Rows => (columns, 1),
            Self::Columns => (1, rows),
            Self::Spaced => (2 * columns, 2),
        };
        Strides { row, column }
    }
}

/// Whole numbers, whose sums f32 holds exactly. There are no more than the strides reach, so a memory checker detects
/// a read beyond them.
struct Matrix {
    values: Vec<f32>,
    strides: Strides,
}

impl Matrix {
    fn new(rows: usize, columns: usize, order: Order, seed: usize) -> Self {
        let strides = order.strides(rows, columns);
        let value = |i: usize| ((i * 7919 + seed) % 101) as f32 - 50.0;
        let values = (0..strides.reach(rows, columns)).map(value).collect();
        Self { values, strides }
    }

    fn at(&self, row: usize, column: usize) -> f32 {
        self.values[row * self.strides.row + column * self.strides.column]
    }
}

fn is_tested() -> bool {
    super::super::tested(has_instructions(), "AVX2")
}

#[test]
fn products_of_all_sizes() {
    if !is_tested() {
        return;
    }
    for sizes in [
        [1, 1, 1],
        [ROWS, 8, COLUMNS],
        [ROWS - 1, 7, COLUMNS - 1],
        [ROWS + 1, 9, COLUMNS + 1],
        [2, 3, 50],
        [70, 2, 3],
        [20, DEPTH, 40],
        [13, DEPTH + 1, 35],
        [12, 2 * DEPTH + 13, 33],
        [BLOCK_ROWS + 7, 10, 70],
        [9, 11, BLOCK_COLUMNS + 17],
        [BLOCK_ROWS + 1, DEPTH + 3, BLOCK_COLUMNS + 1],
        [5, 0, 4],
        [0, 4, 3],
        [3, 4, 0],
    ] {
        let orders = Order::ALL.map(|left| Order::ALL.map(|right| [left, right]));
        for orders in orders.into_iter().flatten() {
            for add in [false, true] {
                check(sizes, orders, add, multiply);
            }
        }
    }
}

/// A product of this module.
type Multiply = unsafe fn([usize; 3], (*const f32, Strides), (*const f32, Strides), Out, bool);

fn check([m, k, n]: [usize; 3], orders: [Order; 2], add: bool, multiply: Multiply) {
    let left = Matrix::new(m, k, orders[0], 1);
    let right = Matrix::new(k, n, orders[1], 5);
    let stride = n + 3;
    let mut out = vec![7.0; m * stride];
    // SAFETY: the machine was checked before; all operands have the length that sizes and strides require.
    unsafe {
        let out = Out {
            first: out.as_mut_ptr(),
            stride,
        };
        let (left, right) = (
            (left.values.as_ptr(), left.strides),
            (right.values.as_ptr(), right.strides),
        );
        multiply([m, k, n], left, right, out, add);
    }
    for (at, found) in out.into_iter().enumerate() {
        let (row, column) = (at / stride, at % stride);
        if column >= n {
            assert_eq!(found, 7.0, "a place between rows was written");
            continue;
        }
        let terms = (0..k).map(|term| left.at(row, term) * right.at(term, column));
        let expected = terms.sum::<f32>() + if add { 7.0 } else { 0.0 };
        assert_eq!(
            found, expected,
            "{m} × {k} × {n} at {row}, {column}, {orders:?}"
        );
    }
}

#[test]
fn blocks_of_all_sizes() {
    if !is_tested() {
        return;
    }
    for [m, k, n] in [
        [1, 1, COLUMNS],
        [ROWS + 1, 9, COLUMNS],
        [64, 64, 6 * COLUMNS],
        [BLOCK_ROWS, DEPTH, 2 * COLUMNS],
        [5, 0, COLUMNS],
    ] {
        for order in Order::ALL {
            for add in [false, true] {
                check([m, k, n], [order, Order::Rows], add, multiply_block);
            }
        }
    }
}

/// Numbers whose sums are rounded.
#[test]
fn bits_do_not_depend_on_the_part() {
    if !is_tested() {
        return;
    }
    let [m, k, n] = [2 * ROWS + 5, DEPTH + 40, 3 * COLUMNS + 9];
    let number = |i: usize| (i as f32 * 0.37).sin();
    let left: Vec<f32> = (0..m * k).map(number).collect();
    let right: Vec<f32> = (0..k * n).map(number).collect();
    let part = |rows: std::ops::Range<usize>, columns: std::ops::Range<usize>| {
        let mut out = vec![f32::NAN; rows.len() * columns.len()];
        let along = |row| Strides { row, column: 1 };
        // SAFETY: the machine was checked before; the part is one of the product.
        unsafe {
            let left = (left.as_ptr().add(rows.start * k), along(k));
            let right = (right.as_ptr().add(columns.start), along(n));
            let place = Out {
                first: out.as_mut_ptr(),
                stride: columns.len(),
            };
            multiply([rows.len(), k, columns.len()], left, right, place, false);
        }
        out
    };
    let whole = part(0..m, 0..n);
    for (rows, columns) in [(0..m, 3..n), (4..5, 0..n), (7..m, 20..37)] {
        let found = part(rows.clone(), columns.clone());
        let expected = rows.flat_map(|row| whole[row * n..][columns.clone()].to_vec());
        assert!(found.into_iter().eq(expected), "{columns:?}");
    }
}
