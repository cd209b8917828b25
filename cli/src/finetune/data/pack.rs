//! Several examples in one sequence.

use super::Example;
use std::collections::BTreeSet;

/// The examples of one sequence, by their numbers.
pub type Row = Vec<usize>;

/// Puts examples into rows of at most `length` tokens: each, from the longest on, into the row that it fills best.
pub fn pack(examples: &[Example], length: usize) -> Vec<Row> {
    let size = |number: usize| examples[number].ids.len();
    let mut order: Vec<usize> = (0..examples.len()).collect();
    order.sort_by_key(|number| (std::cmp::Reverse(size(*number)), *number));
    let mut rows: Vec<Row> = Vec::new();
    // The rows by the number of tokens that they have left.
    let mut open = BTreeSet::<(usize, usize)>::new();
    for number in order {
        let needed = size(number);
        let best = open.range((needed, 0)..).next().copied();
        let (left, row) = best.unwrap_or_else(|| {
            rows.push(Row::new());
            (length, rows.len() - 1)
        });
        open.remove(&(left, row));
        rows[row].push(number);
        open.insert((left.saturating_sub(needed), row));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_has_a_place_and_no_row_is_too_long() {
        let sizes = [3, 9, 1, 5, 5, 2, 10, 4, 7];
        let examples: Vec<Example> = sizes
            .iter()
            .map(|size| Example::new(vec![0; *size], Vec::new()))
            .collect();
        let rows = pack(&examples, 10);
        let mut all: Vec<usize> = rows.iter().flatten().copied().collect();
        all.sort_unstable();
        assert_eq!(all, (0..sizes.len()).collect::<Vec<_>>());
        for row in &rows {
            assert!(row.iter().map(|number| sizes[*number]).sum::<usize>() <= 10);
        }
        // 46 tokens need five rows.
        assert_eq!(rows.len(), 5);
    }
}
