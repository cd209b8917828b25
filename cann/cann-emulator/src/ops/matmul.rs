//! Matrix products in f32.

use crate::threads;

/// The number of inputs that are summed in order before their sum joins the others. So errors grow with the number of
/// blocks, not of inputs.
const DEPTH: usize = 128;
/// The numbers of rows that one thread multiplies. Each thread arranges the right matrix for itself, which takes as long
/// as some ten rows.
const FEWEST_ROWS: usize = 64;
const MOST_ROWS: usize = 256;
/// The additions and multiplications of a thread in a nanosecond, about.
const RATE: usize = 64;

/// Rounds to HF32, f32 with 11 bits behind the point: to nearest, with ties to even.
pub(crate) fn to_hf32(value: f32) -> f32 {
    /// The bits of f32 that HF32 lacks.
    const LOST: u32 = 12;
    if !value.is_finite() {
        return value;
    }
    let bits = value.to_bits();
    let even = bits >> LOST & 1;
    f32::from_bits((bits + (1 << (LOST - 1)) - 1 + even) >> LOST << LOST)
}

/// Rounds to f16.
pub(crate) fn to_half(value: f32) -> f32 {
    half::f16::from_f32(value).to_f32()
}

/// A matrix, or several of one size, one after the other.
#[derive(Clone, Copy)]
pub(crate) struct Factor<'a> {
    values: &'a [f32],
    by_columns: bool,
}

impl<'a> Factor<'a> {
    pub(crate) fn by_rows(values: &'a [f32]) -> Self {
        Self {
            values,
            by_columns: false,
        }
    }

    pub(crate) fn by_columns(values: &'a [f32]) -> Self {
        Self {
            values,
            by_columns: true,
        }
    }

    /// Returns matrix number `place` of `rows × columns`. A single matrix is all of them.
    fn of(self, place: usize, [rows, columns]: [usize; 2]) -> View<'a> {
        let size = rows * columns;
        let from = if self.values.len() == size {
            0
        } else {
            place * size
        };
        let [row_stride, column_stride] = match self.by_columns {
            true => [1, rows],
            false => [columns, 1],
        };
        View {
            values: &self.values[from..][..size],
            shape: [rows, columns],
            row_stride,
            column_stride,
        }
    }
}

/// A matrix in the order of its strides. `values` are all of its elements.
#[derive(Clone, Copy)]
struct View<'a> {
    values: &'a [f32],
    shape: [usize; 2],
    row_stride: usize,
    column_stride: usize,
}

impl<'a> View<'a> {
    /// Returns a matrix in a slice that begins with its first element and ends with its last.
    fn part(self, [row, column]: [usize; 2], shape: [usize; 2]) -> Self {
        let place = |row, column| row * self.row_stride + column * self.column_stride;
        let last = place(row + shape[0] - 1, column + shape[1] - 1);
        Self {
            values: &self.values[place(row, column)..=last],
            shape,
            ..self
        }
    }
}

/// Multiplies `batch` matrices of `rows × depth` by as many of `depth × columns`. Either may be a single matrix.
/// Returns the results row by row.
pub(crate) fn products(
    batch: usize,
    x: Factor<'_>,
    w: Factor<'_>,
    [rows, depth, columns]: [usize; 3],
) -> Vec<f32> {
    let mut y = vec![0.0; batch * rows * columns];
    if y.is_empty() || depth == 0 {
        return y;
    }
    let height = rows.div_ceil(8).clamp(FEWEST_ROWS, MOST_ROWS);
    let parts: Vec<_> = y
        .chunks_exact_mut(rows * columns)
        .map(|y| y.chunks_mut(height * columns).enumerate())
        .enumerate()
        .flat_map(|(matrix, parts)| parts.map(move |(part, y)| (matrix, part * height, y)))
        .collect();
    let nanoseconds = batch * rows * depth * columns / RATE;
    threads::each(parts.into_iter(), nanoseconds, |(matrix, row, y)| {
        let x = x.of(matrix, [rows, depth]);
        let w = w.of(matrix, [depth, columns]);
        multiply(x.part([row, 0], [y.len() / columns, depth]), w, y);
    });
    y
}

/// Multiplies a matrix of `rows × depth` by one of `depth × columns`. Returns the result row by row.
pub(crate) fn product(x: Factor<'_>, w: Factor<'_>, sizes: [usize; 3]) -> Vec<f32> {
    products(1, x, w, sizes)
}

/// Works like [`product`] on this thread alone.
pub(crate) fn product_here(
    x: Factor<'_>,
    w: Factor<'_>,
    [rows, depth, columns]: [usize; 3],
) -> Vec<f32> {
    let mut y = vec![0.0; rows * columns];
    if !y.is_empty() && depth > 0 {
        multiply(x.of(0, [rows, depth]), w.of(0, [depth, columns]), &mut y);
    }
    y
}

/// Writes the product of two matrices with elements to `y`, row by row.
fn multiply(x: View<'_>, w: View<'_>, y: &mut [f32]) {
    let ([rows, depth], columns) = (x.shape, w.shape[1]);
    assert_eq!(y.len(), rows * columns, "the product has another size");
    for from in (0..depth).step_by(DEPTH) {
        let inputs = DEPTH.min(depth - from);
        let x = x.part([0, from], [rows, inputs]);
        let w = w.part([from, 0], [inputs, columns]);
        // SAFETY: `part` has sliced both up to the last element of the sizes that are given here, and `y` has as many
        // elements as was asserted. It is borrowed mutably, so it is neither of the others.
        unsafe {
            gemm::gemm(
                rows,
                columns,
                inputs,
                y.as_mut_ptr(),
                1,
                columns as isize,
                from > 0,
                x.values.as_ptr(),
                x.column_stride as isize,
                x.row_stride as isize,
                w.values.as_ptr(),
                w.column_stride as isize,
                w.row_stride as isize,
                1.0,
                1.0,
                false,
                false,
                false,
                gemm::Parallelism::None,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hf32_has_eleven_bits_behind_the_point() {
        let ulp = 2.0_f32.powi(-11);
        assert_eq!(to_hf32(1.0 + ulp), 1.0 + ulp);
        assert_eq!(to_hf32(1.0 + ulp / 2.0), 1.0, "a tie to even");
        assert_eq!(to_hf32(1.0 + 1.5 * ulp), 1.0 + 2.0 * ulp, "a tie to even");
        assert_eq!(to_hf32(-(1.0 + 0.6 * ulp)), -(1.0 + ulp));
        assert_eq!(to_hf32(f32::MAX), f32::INFINITY);
        assert!(to_hf32(f32::NAN).is_nan());
    }

    /// Returns numbers between -1 and 1.
    fn noise(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state as f32 / u32::MAX as f32 * 2.0 - 1.0
        };
        (0..count).map(|_| next()).collect()
    }

    fn turned(values: &[f32], [rows, columns]: [usize; 2]) -> Vec<f32> {
        let at = |place: usize| values[place % rows * columns + place / rows];
        (0..rows * columns).map(at).collect()
    }

    #[test]
    fn products_of_any_size_and_order_are_sums() {
        for [batch, rows, depth, columns] in [
            [1, 1, 1, 1],
            [2, 0, 3, 4],
            [2, 3, 0, 4],
            [1, 70, 300, 33],
            [3, 65, 129, 7],
            [1, 600, 20, 1],
            [2, 1, 500, 90],
        ] {
            let x = noise(batch * rows * depth, 1);
            let w = noise(depth * columns, 2);
            let expected: Vec<f64> = (0..batch * rows * columns)
                .map(|at| {
                    let (row, column) = (at / columns, at % columns);
                    let product =
                        |k| f64::from(x[row * depth + k]) * f64::from(w[k * columns + column]);
                    (0..depth).map(product).sum()
                })
                .collect();
            let sizes = [rows, depth, columns];
            let x_turned: Vec<f32> = match rows * depth {
                0 => Vec::new(),
                size => x
                    .chunks_exact(size)
                    .flat_map(|x| turned(x, [rows, depth]))
                    .collect(),
            };
            let w_turned = turned(&w, [depth, columns]);
            for x in [Factor::by_rows(&x), Factor::by_columns(&x_turned)] {
                for w in [Factor::by_rows(&w), Factor::by_columns(&w_turned)] {
                    let mut all = vec![products(batch, x, w, sizes)];
                    all.extend((batch == 1).then(|| product_here(x, w, sizes)));
                    for made in all {
                        assert_eq!(made.len(), expected.len());
                        for (made, expected) in made.iter().zip(&expected) {
                            let error = (f64::from(*made) - expected).abs();
                            // Terms are at most 1, so a sum is rounded by less than this for each.
                            let allowed = 1e-7 * (depth as f64 + 1.0);
                            assert!(error < allowed, "{made} is not {expected}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_not_a_number_stays_so() {
        let x = [f32::NAN, 0.0, f32::INFINITY, 0.0];
        let w = [0.0, 1.0, 0.0, 1.0];
        let y = product(Factor::by_rows(&x), Factor::by_rows(&w), [2, 2, 2]);
        assert!(y[0].is_nan() && y[1].is_nan() && y[2].is_nan());
        assert_eq!(y[3], f32::INFINITY);
    }
}
