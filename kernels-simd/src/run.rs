use super::lanes::{Context, Task, dispatch, plain};
use super::share;
use super::{Output, Real, Unwritten};
use std::ops::Range;

/// The number of elements that a thread takes at a time, few enough that a chunk's rows stay in the second-level
/// cache.
pub const CHUNK: usize = 16 * 1024;

/// The number of elements from which it pays to wake other threads, which takes some ten microseconds.
pub const PARALLEL: usize = 128 * 1024;

/// The work on a range of rows.
///
/// This is a trait and not a closure, because only a method can be `#[inline(always)]`, and only code that is
/// inlined into a [`Context`] is compiled for its instructions.
pub trait Kernel<const N: usize>: Sync {
    /// The type of the elements of the results.
    type Out: Copy + Send;
    /// The type that the kernel computes in.
    type Acc: Real;
    /// The type of an additional value for each row, such as rstd; `()` for none.
    type PerRow: Copy + Send;
    /// The type of an additional result of a range, such as a partial sum.
    type Sum: Send;

    /// Computes the rows of `range`. Writes all of `outputs` and of `per_row`, which are the range's
    /// parts. Implementations are `#[inline(always)]`.
    fn rows<C: Context>(
        &self,
        c: C,
        range: Range<usize>,
        outputs: [Unwritten<'_, Self::Out>; N],
        per_row: Unwritten<'_, Self::PerRow>,
    ) -> Self::Sum;
}

/// Splits `count` rows of `width` elements into chunks and runs `kernel` on each, in parallel if
/// it pays, compiled for the widest SIMD instructions of this machine. Each of the `outputs` is
/// divided evenly among the rows; `per_row` has one element for each row, or none at all.
///
/// Returns the kernel's sums in the order of the rows. Chunks depend only on the shape, so
/// results don't depend on the number of threads.
///
/// # Panics
/// Panics if an output can't be divided evenly.
pub fn run<K: Kernel<N>, const N: usize>(
    kernel: &K,
    count: usize,
    width: usize,
    outputs: [&mut Output<K::Out>; N],
    per_row: &mut Output<K::PerRow>,
) -> Vec<K::Sum> {
    let work = |chunk: Chunk<'_, K::Out, K::PerRow, N>| dispatch(Work { kernel, chunk });
    spread(count, width, outputs, per_row, &work)
}

/// Does what [`run`] does with the instructions that every machine has, for kernels that take little time beside the
/// operations around them. They are compiled once.
pub fn run_plain<K: Kernel<N>, const N: usize>(
    kernel: &K,
    count: usize,
    width: usize,
    outputs: [&mut Output<K::Out>; N],
    per_row: &mut Output<K::PerRow>,
) -> Vec<K::Sum> {
    let work = |chunk: Chunk<'_, K::Out, K::PerRow, N>| plain(Work { kernel, chunk });
    spread(count, width, outputs, per_row, &work)
}

/// Runs `work` on each chunk. Kernels of one dtype share this function.
fn spread<T: Copy + Send, A: Copy + Send, S: Send, const N: usize>(
    count: usize,
    width: usize,
    outputs: [&mut Output<T>; N],
    per_row: &mut Output<A>,
    work: &(dyn Fn(Chunk<'_, T, A, N>) -> S + Sync),
) -> Vec<S> {
    let rows = (CHUNK / width.max(1)).max(1);
    let chunks = split(count, rows, outputs, per_row);
    if count.saturating_mul(width) >= PARALLEL {
        share::map_many(chunks, work)
    } else {
        chunks.into_iter().map(work).collect()
    }
}

struct Work<'a, K: Kernel<N>, const N: usize> {
    kernel: &'a K,
    chunk: Chunk<'a, K::Out, K::PerRow, N>,
}

impl<K: Kernel<N>, const N: usize> Task for Work<'_, K, N> {
    type Acc = K::Acc;
    type Output = K::Sum;

    #[inline(always)]
    fn run<C: Context>(self, c: C) -> K::Sum {
        let (range, outputs, per_row) = self.chunk;
        self.kernel.rows(c, range, outputs, per_row)
    }
}

/// A range of rows with its parts of the outputs.
type Chunk<'a, T, A, const N: usize> = (Range<usize>, [Unwritten<'a, T>; N], Unwritten<'a, A>);

fn split<'a, T: Copy, A: Copy, const N: usize>(
    count: usize,
    rows: usize,
    outputs: [&'a mut Output<T>; N],
    per_row: &'a mut Output<A>,
) -> Vec<Chunk<'a, T, A, N>> {
    let widths = outputs.each_ref().map(|output| a_row(output, count));
    let per_row_width = a_row(per_row, count);
    let mut outputs = outputs.map(Output::rest);
    let mut per_row = per_row.rest();
    let mut chunks = Vec::with_capacity(count.div_ceil(rows));
    let mut start = 0;
    while start < count {
        let end = (start + rows).min(count);
        let mut widths = widths.iter();
        let parts = outputs.each_mut().map(|output| {
            let width = widths.next().expect("as many widths as outputs");
            output.part((end - start) * width)
        });
        chunks.push((
            start..end,
            parts,
            per_row.part((end - start) * per_row_width),
        ));
        start = end;
    }
    chunks
}

/// Returns the number of elements of a row of an output.
fn a_row<T: Copy>(output: &Output<T>, count: usize) -> usize {
    let rest = output.len().checked_rem(count).unwrap_or(output.len());
    assert!(
        rest == 0,
        "a result of {} elements is not divided among {count} rows",
        output.len()
    );
    output.len() / count.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel that writes each row's number.
    struct Numbers(usize);

    impl Kernel<1> for Numbers {
        type Out = usize;
        type Acc = f32;
        type PerRow = usize;
        type Sum = Range<usize>;

        #[inline(always)]
        fn rows<C: Context>(
            &self,
            _: C,
            range: Range<usize>,
            [mut out]: [Unwritten<'_, usize>; 1],
            mut per_row: Unwritten<'_, usize>,
        ) -> Range<usize> {
            for row in range.clone() {
                per_row.push(row);
                out.row(self.0).fill(row);
            }
            range
        }
    }

    #[test]
    fn chunks_cover_every_row_once_and_keep_their_order() {
        let shapes = [(0, 4), (1, 4), (5, 0), (1000, 200), (3, CHUNK * 3)];
        // Miri does not know how Rayon's threads share a list, and takes minutes for the large shapes.
        let few = if cfg!(miri) { 3 } else { shapes.len() };
        for (count, width) in &shapes[..few] {
            let (count, width) = (*count, *width);
            let mut out = Output::new([count * width]);
            let mut numbers = Output::new([count]);
            let ranges = run(&Numbers(width), count, width, [&mut out], &mut numbers);
            assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start));
            assert!(numbers.into_values().into_iter().eq(0..count));
            let out = out.into_values().into_iter();
            assert!(out.eq((0..count * width).map(|i| i / width)));
        }
    }

    #[test]
    #[should_panic(expected = "a result of 7 elements is not divided among 3 rows")]
    fn an_output_of_another_size_is_refused() {
        let mut out = Output::new([7]);
        run(&Numbers(2), 3, 2, [&mut out], &mut Output::none());
    }
}
