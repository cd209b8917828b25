//! The modes 5 and 6: each query sees the keys of a prefix, which has its own length in each batch, and those that the
//! causal mask from the last row and column shows.

use super::call::Plan;
use super::mask::{COMPRESSED, check_causal};
use super::sequences::Part;
use crate::abi::prelude::*;
use crate::ops::attention::Sizes;

/// The shape of the mask of mode 6: the causal mask above a prefix of half the columns.
pub(super) const PREFIXED: [usize; 2] = [3072, COMPRESSED];

/// Takes the lengths of the prefixes, if the mode reads them.
pub(super) fn take_prefix(
    operands: &Operands,
    prefix: *const aclIntArray,
    plan: &Plan,
) -> Outcome<Option<Vec<usize>>> {
    if !plan.with_mask || ![5, 6].contains(&plan.mode) {
        return Ok(None);
    }
    // Mode 5 has the whole mask. Without lengths, CANN computes all its blocks.
    if plan.mode == 5 && prefix.is_null() {
        return Ok(None);
    }
    let lengths = operands.ints("prefix", prefix)?;
    let count = match &plan.sequences {
        Some(sequences) => sequences.len(),
        None => plan.sizes.batch,
    };
    let most = if plan.sequences.is_some() { 1024 } else { 2048 };
    ensure!(lengths.len() == count && count <= most;
        "prefix has {} lengths for {count} batches; each needs one, and at most {most} are taken",
        lengths.len());
    for part in plan.parts() {
        for (batch, length) in lengths[part.first..][..part.sizes.batch].iter().enumerate() {
            let Sizes { queries, keys, .. } = part.sizes;
            ensure!((keys.saturating_sub(queries) as i64..=keys as i64).contains(length);
                "the prefix of batch {} has {length} keys; with {queries} queries and {keys} keys \
                 it has {} to {keys}", part.first + batch, keys.saturating_sub(queries));
        }
    }
    let lengths = lengths.iter().map(|length| usize::try_from(*length));
    Ok(Some(lengths.map(|length| length.unwrap_or(0)).collect()))
}

impl Plan {
    /// Returns a function that returns `true` for keys behind the prefix that the causal mask hides.
    pub(super) fn behind_prefix(
        &self,
        part: &Part,
    ) -> impl Fn(usize, usize, usize) -> bool + 'static {
        let Sizes {
            batch,
            heads,
            queries,
            keys,
            ..
        } = part.sizes;
        let lengths = self.prefix.as_deref().unwrap_or_default();
        let lengths = lengths[part.first..][..batch].to_vec();
        move |head, query, key| key >= lengths[head / heads] && key + queries > query + keys
    }
}

/// Checks the mask of mode 6 by its first row and column, and by its last row.
pub(super) fn check_prefixed(memory: &Memory, mask: &Tensor) -> Outcome<()> {
    check_causal(memory, mask)?;
    let rows = mask.rank() - 2;
    let last = Tensor {
        shape: vec![1, COMPRESSED],
        strides: mask.strides[rows..].to_vec(),
        offset: mask.offset + (PREFIXED[0] as i64 - 1) * mask.strides[rows],
        ..mask.clone()
    };
    let (seen, hidden) = {
        let values = last.values::<i64>(memory)?;
        let (left, right) = values.split_at(COMPRESSED / 2);
        (left.to_vec(), right.to_vec())
    };
    ensure!(seen.iter().all(|bit| *bit == 0) && hidden.iter().all(|bit| *bit == 1);
        "attenMask of mode 6 must be 0 in the left and 1 in the right half of its last 1024 rows");
    Ok(())
}

/// Checks that the mask of mode 5 shows no key that the prefix hides: CANN may leave it out.
pub(super) fn check_agrees(
    mask: &[i64],
    [queries, keys]: [usize; 2],
    hidden: impl Fn(usize, usize, usize) -> bool,
) -> Outcome<()> {
    let wrong = mask.iter().enumerate().find(|(place, bit)| {
        let (row, key) = (place / keys, place % keys);
        **bit == 0 && hidden(row / queries, row % queries, key)
    });
    ensure!(wrong.is_none();
        "attenMask shows a key to a query that is behind the prefix and above the diagonal");
    Ok(())
}
