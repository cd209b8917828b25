//! Products of rows with weights, on the CPU.
//!
//! Rows are contiguous and in the accumulation type. Weights are read in place, in any order of their axes. With
//! AVX-512, products in f32 have special kernels, `tiles` and, for rows that don't fill a vector, `quads`, as long as
//! there are too few rows to copy weights for them. Large ones use tiles of AMX, each number in three parts of bf16, or a
//! kernel for AVX2 without wider vectors (`large`, `amx`, `packed`). Products in bf16 use tiles of AMX, or take
//! two elements at a time, if there are instructions for it (`amx`, `pairs`). Large products of tensors are then computed
//! from tiles, too, and those of many rows where f32 is faster than pairs. [`dot`] multiplies few rows, and the `gemm` crate
//! everything else. Half types are converted in panels.

#[cfg(target_arch = "x86_64")]
mod amx;
mod block;
mod dense;
mod dot;
mod few;
mod gemm;
#[cfg(target_arch = "x86_64")]
mod interleave;
#[cfg(target_arch = "x86_64")]
mod large;
mod matrix;
mod memory;
mod outer;
#[cfg(target_arch = "x86_64")]
mod packed;
#[cfg(target_arch = "x86_64")]
mod pairs;
mod panel;
#[cfg(target_arch = "x86_64")]
mod quads;
mod rounded;
mod rows;
mod scaled;
#[cfg(target_arch = "x86_64")]
mod tiled;
#[cfg(target_arch = "x86_64")]
mod tiles;
mod transpose;
#[cfg(not(target_arch = "x86_64"))]
mod without_tiles;
#[cfg(not(target_arch = "x86_64"))]
use without_tiles as tiled;

pub use block::{Block, multiply_blocks};
pub use gemm::Gemm;
pub use matrix::Matrix;
pub use memory::{InCacheLines, with_memory};
pub use outer::{Destination, Factors, Right, add_outer_here, outer, outer_here, outer_rounded};
pub use panel::{load, read};
pub use rounded::{add_product, columns_times, finish, in_columns, product_rounded};
pub use rows::Rows;
pub use scaled::{InGroups, columns_times_scaled};
pub use tiled::{
    Columns, Stored, Tiled, TwoParts, leave_remainders, multiply_stored, multiply_tiled,
};
pub use transpose::Transpose;

use crate::Element;
use crate::share;
use gemm::WIDE;

/// Returns whether large products in f32 are computed in tiles of AMX.
pub fn has_tiles_for_f32() -> bool {
    #[cfg(target_arch = "x86_64")]
    return amx::single::available();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Returns whether products in a type take its numbers as they are stored, and round others to it: bf16, where the machine
/// multiplies pairs.
pub fn takes_rounded<T: Element>() -> bool {
    #[cfg(target_arch = "x86_64")]
    return pairs::available::<T>();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// The number of features of a panel, which is read, and converted if necessary, at once. In f32 and with 1024
/// inputs, a panel has a quarter of a megabyte and stays in the second-level cache.
const PANEL: usize = 64;

/// The number of features of a part that is computed separately when threads share a product.
const PART: usize = 64;

/// Computes `out = rows · weights`, or `out += …` if `add`. `out` is `count × features`. If `spread`, rayon's
/// threads share the product. Its parts have one size, so that results don't depend on the number of threads, unless its
/// bits don't depend on the parts. For weights in bf16, rows may be rounded to bf16.
pub fn product<T: Element>(
    rows: &Rows<'_, T::Acc>,
    weights: Matrix<'_, T>,
    out: &mut [T::Acc],
    add: bool,
    spread: bool,
) where
    T::Acc: Gemm,
{
    let count = rows.count();
    assert!(
        out.len() == count * weights.features && rows.inputs() == weights.inputs,
        "a product of {count} rows of {} elements with {} inputs of {} features has no place in \
         {} elements",
        rows.inputs(),
        weights.inputs,
        weights.features,
        out.len()
    );
    if out.is_empty() {
        return;
    }
    if weights.inputs == 0 {
        // Lines of weights without elements may be anywhere.
        if !add {
            out.fill(Gemm::ZERO);
        }
        return;
    }
    if !spread || weights.features <= PART {
        return serial(rows, weights, out, weights.features, add);
    }
    if panel::in_place(weights) {
        let mut no_copy = Vec::new();
        if dense::shared(rows, panel::read(weights, &mut no_copy), out, add) {
            return;
        }
    }
    // Parts are columns of `out`, which no slice can hold. They are computed separately and copied.
    let starts = (0..weights.features).step_by(PART).collect();
    let parts = share::map(starts, |start| {
        let width = PART.min(weights.features - start);
        let mut out = vec![Gemm::ZERO; count * width];
        let weights = weights.features(start, 1, width);
        serial(rows, weights, &mut out, width, false);
        (start, out)
    });
    for (start, part) in parts {
        let width = part.len() / count.max(1);
        for (out, part) in out
            .chunks_exact_mut(weights.features)
            .zip(part.chunks_exact(width))
        {
            let out = &mut out[start..start + width];
            if add {
                out.iter_mut()
                    .zip(part)
                    .for_each(|(out, part)| *out += *part);
            } else {
                out.copy_from_slice(part);
            }
        }
    }
}

/// Computes `out = rows · weights`, or `out += …` if `add`, on this thread, for contiguous rows of a tensor.
///
/// # Panics
/// Panics if the sizes don't go together.
pub fn product_of_tensor<T: Element>(
    rows: &[T],
    weights: Matrix<'_, T>,
    out: &mut [T::Acc],
    add: bool,
) where
    T::Acc: Gemm,
{
    let Matrix {
        inputs, features, ..
    } = weights;
    let count = out.len() / features.max(1);
    assert!(
        rows.len() == count * inputs && out.len() == count * features,
        "{} elements and {features} features of {inputs} inputs have no product of {} elements",
        rows.len(),
        out.len()
    );
    #[cfg(target_arch = "x86_64")]
    if inputs > 0
        && pairs::available::<T>()
        && amx::takes(count)
        && let (Some(rows), Some(out)) = (panel::same(rows), T::Acc::as_f32_mut(out))
    {
        let rows = amx::Source::rows(rows, count, inputs);
        return amx::product_of_rows(rows, weights, out, add);
    }
    let rows = load(rows);
    product(&Rows::new(&rows, count, inputs), weights, out, add, false);
}

/// Computes the product on this thread. Rows of `out` are `stride` apart.
fn serial<T: Element>(
    rows: &Rows<'_, T::Acc>,
    weights: Matrix<'_, T>,
    out: &mut [T::Acc],
    stride: usize,
    add: bool,
) where
    T::Acc: Gemm,
{
    #[cfg(target_arch = "x86_64")]
    if pairs::product(rows, weights, out, stride, add) {
        return;
    }
    let in_place = panel::in_place(weights);
    let are_many = gemm::are_many(rows.count(), weights) && (in_place || !gemm::has_tiles());
    if weights.input_stride == 1 && !are_many {
        return inputs_together(rows, weights, out, stride, add);
    }
    let width = match (in_place, are_many) {
        (true, _) => weights.features,
        (false, true) => WIDE,
        (false, false) => PANEL,
    };
    let mut scratch = Vec::new();
    for start in (0..weights.features).step_by(width) {
        let width = width.min(weights.features - start);
        let panel = panel::read(weights.features(start, 1, width), &mut scratch);
        gemm::by_rows(rows, panel, &mut out[start..], stride, add);
    }
}

/// Computes the product with weights whose inputs are contiguous.
fn inputs_together<T: Element>(
    rows: &Rows<'_, T::Acc>,
    weights: Matrix<'_, T>,
    out: &mut [T::Acc],
    stride: usize,
    add: bool,
) where
    T::Acc: Gemm,
{
    if rows.all_whole() && rows.count() < dot::ROWS && dot::has::<T::Acc>() {
        return dot::dot(rows, weights, out, stride, add);
    }
    let (mut scratch, mut features) = (Vec::new(), Vec::new());
    for start in (0..weights.features).step_by(PANEL) {
        let width = PANEL.min(weights.features - start);
        let panel = panel::read(weights.features(start, 1, width), &mut scratch);
        let out = &mut out[start..];
        gemm::by_features(rows, panel, &mut features, out, stride, add);
        gemm::by_quads(rows, panel, out, stride, add);
    }
}

/// Returns whether the machine has what a test needs. Reports on stderr if it does not.
#[cfg(test)]
pub fn tested(available: bool, what: &str) -> bool {
    if !available {
        // Written past the test harness, which would swallow it.
        let text = format!("\n*** NOT TESTED: this machine has no {what}\n");
        std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes())
            .expect("stderr can be written");
    }
    available
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Output;
    use half::bf16;

    fn values(len: usize, seed: usize) -> Vec<f32> {
        (0..len)
            .map(|i| ((i * 7919 + seed * 104_729) % 1009) as f32 / 504.5 - 1.0)
            .collect()
    }

    fn exact<T: Element<Acc = f32>>(
        rows: &[f32],
        weights: Matrix<'_, T>,
        count: usize,
    ) -> Vec<f64> {
        let at = |i: usize, f: usize| {
            f64::from(weights.data[i * weights.input_stride + f * weights.feature_stride].load())
        };
        (0..count * weights.features)
            .map(|o| {
                let (row, feature) = (o / weights.features, o % weights.features);
                (0..weights.inputs)
                    .map(|i| f64::from(rows[row * weights.inputs + i]) * at(i, feature))
                    .sum()
            })
            .collect()
    }

    fn check<T: Element<Acc = f32>>(convert: fn(f32) -> T) {
        for (count, inputs, features) in [
            (1, 5, 3),
            (2, 64, 70),
            (7, 33, 300),
            (23, 17, 65),
            (24, 40, 257),
            (70, 129, 66),
            (70, 130, 66),
            (29, 64, 300),
            (5, 20, 9),
            (3, 1, 1),
            (0, 4, 4),
            // So many rows that weights are copied for them.
            (gemm::MANY_ROWS + 1, 130, 141),
        ] {
            // Numbers that the type holds exactly: products may round rows to it.
            let rows: Vec<f32> = values(count * inputs, 1)
                .into_iter()
                .map(|value| convert(value).load())
                .collect();
            let stored: Vec<T> = values(2 * inputs * features, 2)
                .into_iter()
                .map(convert)
                .collect();
            // Contiguous inputs, contiguous features, and every second feature.
            for (input_stride, feature_stride) in [(1, inputs), (features, 1), (2 * features, 2)] {
                let weights = Matrix {
                    data: &stored,
                    inputs,
                    features,
                    input_stride,
                    feature_stride,
                };
                let expected = exact(&rows, weights, count);
                for (add, spread) in [(false, false), (true, false), (false, true), (true, true)] {
                    let mut out = vec![if add { 0.5 } else { f32::NAN }; count * features];
                    product(
                        &Rows::new(&rows, count, inputs),
                        weights,
                        &mut out,
                        add,
                        spread,
                    );
                    for (out, exact) in out.iter().zip(&expected) {
                        let exact = exact + if add { 0.5 } else { 0.0 };
                        assert!(
                            (f64::from(*out) - exact).abs() < 1e-6 * inputs as f64,
                            "{count} × {inputs} × {features}, {input_stride}: {out}, not {exact}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn products_in_f32() {
        check::<f32>(|x| x);
    }

    #[test]
    fn outer_products_in_f32() {
        // The last ones have so many rows that the factors are copied.
        for (count, lines, length) in [(3, 5, 7), (193, 40, 130), (gemm::MANY_ROWS + 1, 129, 131)] {
            let (left, right) = (values(count * lines, 1), values(count * length, 2));
            let prepared = Right::new::<f32>(&right, count, length);
            for add in [false, true] {
                let mut out = match add {
                    true => vec![0.5; lines * length],
                    false => {
                        let mut out = Output::new([lines, length]);
                        outer_here::<f32>((&left, lines), &prepared, out.rest());
                        out.into_values()
                    }
                };
                if add {
                    add_outer_here((&left, lines), &prepared, &mut out);
                }
                for (place, out) in out.iter().enumerate() {
                    let (line, column) = (place / length, place % length);
                    let term = |row: usize| {
                        f64::from(left[row * lines + line])
                            * f64::from(right[row * length + column])
                    };
                    let exact = (0..count).map(term).sum::<f64>() + if add { 0.5 } else { 0.0 };
                    assert!(
                        (f64::from(*out) - exact).abs() < 1e-6 * count as f64,
                        "{count} × {lines} × {length} at {line}, {column}: {out}, not {exact}"
                    );
                }
            }
        }
    }

    /// Some have so many rows that threads share them otherwise, and parts that alone would have another product.
    #[test]
    fn results_dont_depend_on_the_number_of_threads() {
        for (count, lines, length) in [
            (3, 70, 90),
            (193, 130, 141),
            (1100, 100, 130),
            (600, 200, 310),
        ] {
            let (left, right) = (values(count * lines, 1), values(count * length, 2));
            let weights = Matrix {
                data: &right,
                inputs: length,
                features: count,
                input_stride: 1,
                feature_stride: length,
            };
            let rows = values(lines * length, 3);
            let results = [1, 2, 5].map(|threads| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
                let pool = pool.build().expect("threads can be started");
                pool.install(|| {
                    let mut times = vec![0.5; lines * count];
                    let rows = Rows::new(&rows, lines, length);
                    product(&rows, weights, &mut times, true, true);
                    let mut gradient = vec![0.5; lines * length];
                    let factors = Factors {
                        count,
                        left: (&left, lines),
                        right: (&right, length),
                    };
                    let out = Destination {
                        data: gemm::places(&mut gradient),
                        line_stride: length,
                        stride: 1,
                    };
                    // SAFETY: `gradient` is initialised.
                    unsafe { outer::<f32>(&factors, out, true, true) };
                    [times, gradient].map(|result| result.into_iter().map(f32::to_bits).collect())
                })
            });
            let results: [[Vec<u32>; 2]; 3] = results;
            assert!(
                results[0] == results[1] && results[0] == results[2],
                "{count}"
            );
        }
    }

    #[test]
    fn products_with_weights_in_bf16() {
        let check = || check::<bf16>(<bf16 as Element>::round);
        #[cfg(target_arch = "x86_64")]
        amx::tests::without_and_with(check);
        #[cfg(not(target_arch = "x86_64"))]
        check();
    }
}
