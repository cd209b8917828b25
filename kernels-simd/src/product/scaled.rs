//! Products of the columns of two tensors in a half type, times a number.

use super::memory::with_memory;
use super::outer::{Right, outer_over};
use super::panel::{load, read};
use super::{Gemm, Matrix};
#[cfg(target_arch = "x86_64")]
use super::{amx, gemm::places, pairs, panel::same};
use crate::{Element, Real, Unwritten, is_half, share, write_scaled};
#[cfg(target_arch = "x86_64")]
use half::bf16;

/// The number of lines that a thread takes at a time. Their sums and their columns stay in the second-level cache, and the
/// right matrix, which may not, is read once for all of them.
const LINES: usize = 128;

/// A matrix of `lines` columns, divided into groups of columns that follow each other: contiguous rows of `group` columns.
/// The last group may have fewer.
#[derive(Clone, Copy)]
pub struct InGroups<'a, T> {
    pub values: &'a [T],
    pub lines: usize,
    pub group: usize,
}

impl<'a, T> InGroups<'a, T> {
    /// Returns all columns of `count` rows in order, at most [`LINES`] at a time.
    fn parts(self, count: usize) -> impl Iterator<Item = Matrix<'a, T>> {
        let groups = (0..self.lines).step_by(self.group.max(1));
        groups.flat_map(move |start| {
            let width = self.group.min(self.lines - start);
            let values = &self.values[count * start..][..count * width];
            (0..width).step_by(LINES).map(move |first| Matrix {
                data: &values[first..],
                inputs: count,
                features: LINES.min(width - first),
                input_stride: width,
                feature_stride: 1,
            })
        })
    }
}

/// Computes `out[l, j] = factor · Σ_r left[r, l] · right[r, j]` over `count` rows, and rounds each number once. `right` has the
/// width of its rows. `left` may be much wider: only `right` is copied as a whole.
///
/// Results don't depend on the number of threads.
///
/// # Panics
/// Panics if `T` is not a half type, or if the sizes don't go together.
pub fn columns_times_scaled<T: Element>(
    count: usize,
    left: InGroups<'_, T>,
    (right, length): (&[T], usize),
    factor: T::Acc,
    mut out: Unwritten<'_, T>,
) where
    T::Acc: Gemm,
{
    // Others would be read in place, with further columns between those of a part.
    assert!(is_half::<T>(), "products of half types are scaled");
    let InGroups {
        values,
        lines,
        group,
    } = left;
    assert!(
        values.len() == count * lines
            && right.len() == count * length
            && out.len() == lines * length
            && (group > 0 || lines == 0),
        "{} and {} elements are not {count} rows for a product of {} elements, {group} columns at a time",
        values.len(),
        right.len(),
        out.len()
    );
    if count == 0 || out.len() == 0 {
        // Zero times the factor, as where gradients are kept and scaled: NaN stays, and so does the sign.
        out.filled(T::round(<T::Acc as Real>::ZERO * factor));
        return;
    }
    let parts = left.parts(count);
    let parts = parts.map(|columns| (columns, out.part(columns.features * length)));
    let parts = parts.collect();
    #[cfg(target_arch = "x86_64")]
    if pairs::available::<T>() && amx::takes(count) {
        let right = amx::Source::columns(in_bf16(right), count, length, 0..length);
        let right = amx::packed_by_threads(right, amx::Side::Right);
        return each_scaled(parts, length, factor, |columns, sums| {
            sums_in_tiles(columns, (&right, length), sums);
        });
    }
    let right = load(right);
    let right = Right::new::<T>(&right, count, length);
    each_scaled(parts, length, factor, |columns, sums| {
        let mut scratch = Vec::new();
        let columns = read(columns, &mut scratch);
        outer_over((columns.data, columns.features), &right, sums);
    });
}

/// Computes each part of the columns with `sums_of`, and writes it, times the factor.
fn each_scaled<T: Element>(
    parts: Vec<(Matrix<'_, T>, Unwritten<'_, T>)>,
    length: usize,
    factor: T::Acc,
    sums_of: impl Fn(Matrix<'_, T>, &mut [T::Acc]) + Sync,
) where
    T::Acc: Gemm,
{
    share::each(parts, |(columns, mut part)| {
        with_memory(columns.features * length, |sums| {
            sums_of(columns, sums);
            let factors = [factor; LINES];
            write_scaled(sums, length, &factors[..columns.features], &mut part);
        });
    });
}

#[cfg(target_arch = "x86_64")]
fn in_bf16<T: Element>(values: &[T]) -> &[bf16] {
    same(values).expect("tiles are of bf16")
}

/// Writes the sums of some columns and a matrix in tiles.
#[cfg(target_arch = "x86_64")]
fn sums_in_tiles<T: Element>(
    columns: Matrix<'_, T>,
    (right, length): (&[amx::Tile], usize),
    sums: &mut [T::Acc],
) where
    T::Acc: Gemm,
{
    let left = amx::Source {
        data: in_bf16(columns.data),
        count: columns.features,
        k: columns.inputs,
        stride: columns.feature_stride,
        k_stride: columns.input_stride,
    };
    let sums = T::Acc::as_f32_mut(sums).expect("bf16 is summed in f32");
    let out = amx::Out {
        sums: places(sums),
        stride: length,
        add: false,
    };
    // SAFETY: nothing is added.
    unsafe { amx::rows_times_tiles(left, right, length, out) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Output;
    use half::{bf16, f16};

    fn values<T: Element>(len: usize, seed: usize) -> Vec<T>
    where
        T::Acc: Real,
    {
        let number = |i: usize| ((i * 7919 + seed * 104_729) % 1009) as f64 / 504.5 - 1.0;
        (0..len).map(|i| T::round(T::Acc::of(number(i)))).collect()
    }

    /// Computes products of groups around the parts, and returns all results.
    fn check<T: Element<Acc = f32>>(half: f64) -> Vec<f32> {
        let mut all = Vec::new();
        for (count, lines, group, length) in [
            (1, 1, 1, 1),
            (3, 70, 64, 9),
            (16, 600, 512, 33),
            (40, 700, 2048, 64),
            (33, 257, 257, 17),
            (0, 5, 3, 2),
            (2, 0, 0, 3),
            (4, 5, 2, 0),
        ] {
            let (left, right) = (
                values::<T>(count * lines, 1),
                values::<T>(count * length, 2),
            );
            let at = |row: usize, line: usize| {
                let start = line / group * group;
                let width = group.min(lines - start);
                f64::from(left[count * start + row * width + line - start].load())
            };
            let mut out = Output::<T>::new([lines, length]);
            let in_groups = InGroups {
                values: &left,
                lines,
                group,
            };
            columns_times_scaled(count, in_groups, (&right, length), 0.75, out.rest());
            let out = out.into_values();
            for (place, got) in out.iter().enumerate() {
                let (line, column) = (place / length, place % length);
                let term = |row| at(row, line) * f64::from(right[row * length + column].load());
                let exact = 0.75 * (0..count).map(term).sum::<f64>();
                let error = (f64::from(got.load()) - exact).abs();
                // One rounding, and the sum's own in f32.
                assert!(
                    error <= half * exact.abs() + 1e-6 * count as f64,
                    "{count} × {lines} × {length} at {line}, {column}: {got:?}, not {exact}"
                );
            }
            all.extend(out.iter().map(|value| value.load()));
        }
        all
    }

    #[test]
    fn columns_in_groups_are_multiplied_and_rounded_once() {
        check::<f16>(2.0_f64.powi(-11));
        let check = || _ = check::<bf16>(2.0_f64.powi(-8));
        #[cfg(target_arch = "x86_64")]
        amx::tests::without_and_with(check);
        #[cfg(not(target_arch = "x86_64"))]
        check();
    }

    #[test]
    fn results_dont_depend_on_the_number_of_threads() {
        let results = [1, 3].map(|threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
            let pool = pool.build().expect("threads can be started");
            pool.install(|| check::<bf16>(2.0_f64.powi(-8)))
        });
        assert_eq!(results[0], results[1]);
    }
}
