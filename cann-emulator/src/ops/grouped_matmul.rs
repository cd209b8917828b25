//! Matrix products by group.

use super::sum;

/// A matrix product with f32 sums: `rows × depth` by `depth × columns`.
pub fn matmul(x: &[f32], w: &[f32], rows: usize, depth: usize, columns: usize) -> Vec<f32> {
    let mut y = Vec::with_capacity(rows * columns);
    for row in 0..rows {
        for column in 0..columns {
            let products: Vec<f32> = (0..depth)
                .map(|at| x[row * depth + at] * w[at * columns + column])
                .collect();
            y.push(sum(&products));
        }
    }
    y
}

/// Ends of the groups, from ends (`counts` false) or from lengths.
pub fn ends(list: &[i64], counts: bool) -> Vec<i64> {
    if !counts {
        return list.to_vec();
    }
    let mut end = 0;
    list.iter()
        .map(|count| {
            end += count;
            end
        })
        .collect()
}
