use rayon::prelude::*;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Elements a thread takes at a time: enough to hide the cost of waking it (some microseconds),
/// little enough that the rows of a chunk stay in the second-level cache.
const CHUNK: usize = 16 * 1024;

/// Compiles and runs `kernel` for the widest SIMD instructions of this machine.
#[inline]
pub(crate) fn simd<R>(kernel: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(kernel)
}

/// Splits `count` rows of `width` elements into chunks and runs `kernel` on each, in parallel if
/// there are several, in SIMD. `outputs` are the places of the results, each with its number of
/// elements a row; the kernel gets its chunk's rows and its part of each.
///
/// Returns the kernels' results in the order of the rows. Chunks depend on the shape alone, so
/// sums over them don't depend on the number of threads.
pub(crate) fn run<T: Send, A: Send, R: Send, const N: usize>(
    count: usize,
    width: usize,
    outputs: [(&mut [MaybeUninit<T>], usize); N],
    per_row: &mut [MaybeUninit<A>],
    kernel: impl Fn(Range<usize>, [&mut [MaybeUninit<T>]; N], &mut [MaybeUninit<A>]) -> R + Sync,
) -> Vec<R> {
    let rows = (CHUNK / width.max(1)).max(1);
    let chunks = split(count, rows, outputs, per_row);
    let work = |(range, outputs, per_row)| simd(|| kernel(range, outputs, per_row));
    if chunks.len() > 1 {
        chunks.into_par_iter().map(work).collect()
    } else {
        chunks.into_iter().map(work).collect()
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
    mut outputs: [(&'a mut [MaybeUninit<T>], usize); N],
    mut per_row: &'a mut [MaybeUninit<A>],
) -> Vec<Chunk<'a, T, A, N>> {
    let mut chunks = Vec::with_capacity(count.div_ceil(rows));
    let mut start = 0;
    while start < count {
        let end = (start + rows).min(count);
        let parts = outputs.each_mut().map(|(places, width)| {
            let (part, rest) = std::mem::take(places).split_at_mut((end - start) * *width);
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

    #[test]
    fn chunks_cover_every_row_once_and_keep_their_order() {
        for (count, width) in [(0, 4), (1, 4), (1000, 100), (3, CHUNK * 2), (5, 0)] {
            let mut out = vec![MaybeUninit::new(0_usize); count * width];
            let mut sums = vec![MaybeUninit::new(0_usize); count];
            let ranges = run(
                count,
                width,
                [(&mut out[..], width)],
                &mut sums,
                |range, [out], sums| {
                    assert_eq!(out.len(), range.len() * width);
                    for (row, sum) in range.clone().zip(sums.iter_mut()) {
                        sum.write(row);
                    }
                    range
                },
            );
            assert_eq!(ranges.iter().map(ExactSizeIterator::len).sum::<usize>(), count);
            assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start));
        }
    }
}
