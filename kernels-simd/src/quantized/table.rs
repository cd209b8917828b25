//! Rows of a table of embeddings in quantised form.

use super::panels::{DECODED, decode_here};
use crate::product::{Gemm, with_memory};
use crate::{DType, Element, Output, Unwritten, Values, share, with_type};
use kernels_quant::QuantizedWeight;

/// Returns rows of a weight, each decoded to the bits of [`QuantizedWeight::decode_rows`] and rounded once to `dtype`.
/// Only these rows are decoded.
///
/// # Panics
/// Panics if the weight does not have one of the rows.
pub fn rows_of(weight: &QuantizedWeight<'_>, rows: &[usize], dtype: DType) -> Values {
    with_type!(dtype, T => T::values(rows_in::<T>(weight, rows)))
}

fn rows_in<T: Element>(weight: &QuantizedWeight<'_>, rows: &[usize]) -> Vec<T>
where
    T::Acc: Gemm,
{
    let [height, columns] = weight.shape();
    if let Some(row) = rows.iter().find(|row| **row >= height) {
        panic!("row {row} of a weight of {height} rows");
    }
    let mut out = Output::<T>::new([rows.len(), columns]);
    let mut rest = out.rest();
    let together = (DECODED / columns).max(1);
    let mut parts = Vec::new();
    for rows in rows.chunks(together) {
        parts.push((rows, rest.part(rows.len() * columns)));
    }
    drop(rest);
    share::each_of_many(parts, |(rows, mut part): (&[usize], Unwritten<'_, T>)| {
        with_memory(columns, |decoded: &mut [T::Acc]| {
            for row in rows {
                decode_here(weight, *row, decoded);
                let rounded = decoded.iter().map(|number| T::round(*number));
                part.row(columns).write(rounded);
            }
        });
    });
    out.into_values()
}
