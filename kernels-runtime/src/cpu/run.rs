use rayon::prelude::*;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Elements a thread takes at a time, few enough that a chunk's rows stay in the second-level
/// cache.
pub(crate) const CHUNK: usize = 16 * 1024;

/// From how many elements on it pays to wake other threads, which takes some ten microseconds.
pub(crate) const PARALLEL: usize = 128 * 1024;

/// The work on a range of rows.
///
/// A trait and not a closure, because only a method can be `#[inline(always)]`, and only what is
/// inlined into [`pulp`]'s context is compiled for its instructions.
pub(crate) trait Kernel<const N: usize>: Sync {
    /// The elements of the results.
    type Out: Send;
    /// The type of the value that each row has besides, such as rstd; `()` if there is none.
    type PerRow: Send;
    /// What a range yields besides, such as a partial sum.
    type Sum: Send;

    /// Computes the rows of `range`: writes every place of `outputs` and of `per_row`, which are
    /// the range's parts. Implementations are `#[inline(always)]`.
    fn rows(
        &self,
        range: Range<usize>,
        outputs: [&mut [MaybeUninit<Self::Out>]; N],
        per_row: &mut [MaybeUninit<Self::PerRow>],
    ) -> Self::Sum;
}

/// Splits `count` rows of `width` elements into chunks and runs `kernel` on each, in parallel if
/// it pays, compiled for the widest SIMD instructions of this machine. Each of the `outputs` is
/// divided evenly among the rows; `per_row` has one place a row, or none at all.
///
/// Returns the kernel's sums in the order of the rows. Chunks depend on the shape alone, so
/// results don't depend on the number of threads.
pub(crate) fn run<K: Kernel<N>, const N: usize>(
    kernel: &K,
    count: usize,
    width: usize,
    outputs: [&mut [MaybeUninit<K::Out>]; N],
    per_row: &mut [MaybeUninit<K::PerRow>],
) -> Vec<K::Sum> {
    let arch = pulp::Arch::new();
    let work = |chunk: Chunk<'_, K::Out, K::PerRow, N>| arch.dispatch(Work { kernel, chunk });
    spread(count, width, outputs, per_row, &work)
}

/// Runs `work` on each chunk. Kernels of one dtype share it: Rayon's part is compiled for each of
/// the types here, and takes longer to compile than a kernel does.
fn spread<T: Send, A: Send, S: Send, const N: usize>(
    count: usize,
    width: usize,
    outputs: [&mut [MaybeUninit<T>]; N],
    per_row: &mut [MaybeUninit<A>],
    work: &(dyn Fn(Chunk<'_, T, A, N>) -> S + Sync),
) -> Vec<S> {
    let rows = (CHUNK / width.max(1)).max(1);
    let chunks = split(count, rows, outputs, per_row);
    if count * width >= PARALLEL {
        chunks.into_par_iter().map(work).collect()
    } else {
        chunks.into_iter().map(work).collect()
    }
}

struct Work<'a, K: Kernel<N>, const N: usize> {
    kernel: &'a K,
    chunk: Chunk<'a, K::Out, K::PerRow, N>,
}

impl<K: Kernel<N>, const N: usize> pulp::WithSimd for Work<'_, K, N> {
    type Output = K::Sum;

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) -> K::Sum {
        let (range, outputs, per_row) = self.chunk;
        self.kernel.rows(range, outputs, per_row)
    }
}

/// A range of rows with its parts of the outputs.
type Chunk<'a, T, A, const N: usize> = (
    Range<usize>,
    [&'a mut [MaybeUninit<T>]; N],
    &'a mut [MaybeUninit<A>],
);

fn split<'a, T, A, const N: usize>(
    count: usize,
    rows: usize,
    mut outputs: [&'a mut [MaybeUninit<T>]; N],
    mut per_row: &'a mut [MaybeUninit<A>],
) -> Vec<Chunk<'a, T, A, N>> {
    let mut chunks = Vec::with_capacity(count.div_ceil(rows));
    let widths = outputs.each_ref().map(|places| places.len() / count.max(1));
    let mut start = 0;
    while start < count {
        let end = (start + rows).min(count);
        let mut widths = widths.iter();
        let parts = outputs.each_mut().map(|places| {
            let width = widths.next().expect("as many widths as outputs");
            let (part, rest) = std::mem::take(places).split_at_mut((end - start) * width);
            *places = rest;
            part
        });
        // A kernel without per-row results passes an empty slice.
        let taken = (end - start).min(per_row.len());
        let (part, rest) = std::mem::take(&mut per_row).split_at_mut(taken);
        per_row = rest;
        chunks.push((start..end, parts, part));
        start = end;
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes each row's number.
    struct Numbers(usize);

    impl Kernel<1> for Numbers {
        type Out = usize;
        type PerRow = usize;
        type Sum = Range<usize>;

        #[inline(always)]
        fn rows(
            &self,
            range: Range<usize>,
            [out]: [&mut [MaybeUninit<usize>]; 1],
            per_row: &mut [MaybeUninit<usize>],
        ) -> Range<usize> {
            for (i, row) in range.clone().enumerate() {
                per_row[i].write(row);
                out[i * self.0..(i + 1) * self.0].fill(MaybeUninit::new(row));
            }
            range
        }
    }

    #[test]
    fn chunks_cover_every_row_once_and_keep_their_order() {
        for (count, width) in [(0, 4), (1, 4), (1000, 200), (3, CHUNK * 3), (5, 0)] {
            let mut out = vec![MaybeUninit::new(usize::MAX); count * width];
            let mut numbers = vec![MaybeUninit::new(usize::MAX); count];
            let ranges = run(&Numbers(width), count, width, [&mut out], &mut numbers);
            assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start));
            // SAFETY: every element was initialised by `vec!`.
            let read = |place: &MaybeUninit<usize>| unsafe { place.assume_init() };
            assert!(numbers.iter().map(read).eq(0..count));
            assert!(
                out.iter()
                    .map(read)
                    .eq((0..count * width).map(|i| i / width))
            );
        }
    }
}
