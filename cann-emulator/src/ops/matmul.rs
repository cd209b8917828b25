//! Matrix products in f32.

/// The columns of a block. Four rows of its sums fit the first-level cache.
const COLUMNS: usize = 256;
/// The number of inputs that are summed in order before their sum joins the others. So errors grow with the number of
/// blocks, not of inputs.
const DEPTH: usize = 128;

/// Multiplies a matrix of `rows × depth` by one of `depth × columns`, both row by row.
pub(crate) fn product(x: &[f32], w: &[f32], rows: usize, depth: usize, columns: usize) -> Vec<f32> {
    let mut y = vec![0.0; rows * columns];
    for from in (0..columns).step_by(COLUMNS) {
        let width = COLUMNS.min(columns - from);
        for top in (0..depth).step_by(DEPTH) {
            let inputs = top..depth.min(top + DEPTH);
            let mut row = 0;
            while row < rows {
                let count = if rows - row >= 4 { 4 } else { 1 };
                let mut sums = [[0.0; COLUMNS]; 4];
                for at in inputs.clone() {
                    let w = &w[at * columns + from..][..width];
                    for (own, sums) in sums.iter_mut().enumerate().take(count) {
                        let x = x[(row + own) * depth + at];
                        for (sum, w) in sums[..width].iter_mut().zip(w) {
                            *sum += x * w;
                        }
                    }
                }
                for (own, sums) in sums.iter().enumerate().take(count) {
                    let y = &mut y[(row + own) * columns + from..][..width];
                    for (y, sum) in y.iter_mut().zip(sums) {
                        *y += sum;
                    }
                }
                row += count;
            }
        }
    }
    y
}
