//! The lengths of sequences: arrays on the host, with one entry for all sequences, or one for each.

use crate::abi::prelude::*;
use crate::ops::attention::Sizes;

/// Takes the numbers of queries. They have no effect on sequences of one query.
pub(super) fn take_query_lengths(
    operands: &Operands,
    array: *const aclIntArray,
    sizes: Sizes,
) -> Outcome<Vec<usize>> {
    if sizes.queries == 1 {
        return Ok(vec![1; sizes.batch]);
    }
    take(
        operands,
        "actualSeqLengths",
        array,
        sizes.batch,
        sizes.queries,
    )
}

/// Takes the numbers of keys.
pub(super) fn take_key_lengths(
    operands: &Operands,
    array: *const aclIntArray,
    sizes: Sizes,
) -> Outcome<Vec<usize>> {
    take(
        operands,
        "actualSeqLengthsKv",
        array,
        sizes.batch,
        sizes.keys,
    )
}

/// Returns one length for each sequence. Without an array, all are as long as the axis. Entries beyond the last
/// sequence have no effect.
fn take(
    operands: &Operands,
    name: &str,
    array: *const aclIntArray,
    batch: usize,
    longest: usize,
) -> Outcome<Vec<usize>> {
    if array.is_null() {
        return Ok(vec![longest; batch]);
    }
    let given: Arc<[i64]> = operands.ints(name, array)?;
    ensure!(given.len() == 1 || given.len() >= batch;
        "{name} has {} lengths; one is taken, or one for each of {batch} sequences", given.len());
    let mut lengths = Vec::with_capacity(batch);
    for sequence in 0..batch {
        let length = given[if given.len() == 1 { 0 } else { sequence }];
        let fits = usize::try_from(length)
            .ok()
            .filter(|length| *length <= longest);
        ensure!(fits.is_some(); "{name} is {given:?}; lengths are 0 to {longest}");
        lengths.extend(fits);
    }
    Ok(lengths)
}
