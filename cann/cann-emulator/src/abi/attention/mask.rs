//! The keys that are hidden from a query, by the mask and the sparse mode.

use super::call::{Attributes, Plan};
use super::prefix::{PREFIXED, check_agrees, check_prefixed};
use super::sequences::Part;
use crate::abi::prelude::*;
use crate::ops::attention::Sizes;

/// The length of each side of the compressed modes' mask.
pub(super) const COMPRESSED: usize = 2048;

/// A function that returns `true` if a key is hidden from a query of a head.
type Unseen = Box<dyn Fn(usize, usize, usize) -> bool + Sync>;

/// Takes the mask, with the shape that its mode needs.
pub(super) fn take_mask(
    operands: &mut Operands,
    mask: *const aclTensor,
    attributes: &Attributes,
    plan: &mut Plan,
) -> Outcome<()> {
    let Some(mask) = operands.optional("attenMask", mask)? else {
        // Without a mask the mode has no effect: all scores are computed.
        return Ok(());
    };
    plan.with_mask = true;
    check_dtype("attenMask", &mask, &[ACL_BOOL, ACL_UINT8])?;
    let Sizes {
        batch,
        heads,
        queries,
        keys,
        ..
    } = plan.sizes;
    let shapes = match plan.mode {
        0 | 1 if plan.sequences.is_none() => vec![
            vec![batch, heads, queries, keys],
            vec![batch, 1, queries, keys],
            vec![1, 1, queries, keys],
            vec![queries, keys],
        ],
        2..=4 => vec![vec![COMPRESSED; 2], vec![1, 1, COMPRESSED, COMPRESSED]],
        5 if plan.sequences.is_none() => vec![
            vec![batch, heads, queries, keys],
            vec![batch, 1, queries, keys],
        ]
        .into_iter()
        // Only a single batch may leave out its axis.
        .chain((batch == 1).then(|| vec![queries, keys]))
        .collect(),
        6 => vec![
            PREFIXED.to_vec(),
            [1, 1].into_iter().chain(PREFIXED).collect(),
        ],
        other => fail!(
            "sparseMode {other} is not emulated; {} are",
            if plan.sequences.is_some() {
                "2 to 4 and 6"
            } else {
                "0 to 6"
            }
        ),
    };
    ensure!(shapes.contains(&mask.shape);
        "attenMask has the shape {:?}; mode {} takes {shapes:?}", mask.shape, plan.mode);
    // Mode 0 reads only the keys in the window. Windows that don't hold all keys are not emulated.
    ensure!(
        plan.mode != 0 || attributes.before >= queries as i64 && attributes.behind >= keys as i64;
        "preTokens {} and nextTokens {} leave some of {queries} × {keys} scores out",
        attributes.before, attributes.behind
    );
    for sizes in plan.all_sizes() {
        if plan.mode == 4 {
            check_band(plan.band, sizes)?;
        }
        ensure!(plan.mode != 3 || plan.sequences.is_none() || sizes.queries <= sizes.keys;
            "a sequence has {} queries and {} keys; mode 3 needs as many keys or more",
            sizes.queries, sizes.keys);
    }
    Ok(())
}

/// Checks that the band of mode 4 holds a score.
pub(super) fn check_band([before, behind]: [i64; 2], sizes: Sizes) -> Outcome<()> {
    let Sizes { queries, keys, .. } = sizes;
    // The band of a row is before ..= behind around its diagonal, which ends at the last row and the last column.
    let holds =
        before.saturating_add(behind) >= 0 && behind > -(keys as i64) && before > -(queries as i64);
    ensure!(holds;
        "preTokens {before} and nextTokens {behind} leave all of {queries} × {keys} scores out");
    Ok(())
}

impl Plan {
    /// Returns a function that returns `true` for hidden keys, for all sequences or one of them.
    pub(super) fn masked(
        &self,
        memory: &Memory,
        mask: Option<&Tensor>,
        part: &Part,
    ) -> Outcome<Unseen> {
        let Sizes {
            batch,
            heads,
            queries,
            keys,
            ..
        } = part.sizes;
        let Some(mask) = mask else {
            return Ok(Box::new(|_, _, _| false));
        };
        if self.mode == 6 {
            check_prefixed(memory, mask)?;
            return Ok(Box::new(self.behind_prefix(part)));
        }
        if (2..=4).contains(&self.mode) {
            check_causal(memory, mask)?;
            let ahead = if self.mode == 2 {
                0
            } else {
                keys as i64 - queries as i64
            };
            let [before, behind] = match self.mode {
                4 => self.band,
                _ => [i64::MAX, 0],
            };
            return Ok(Box::new(move |_, query, key| {
                let (diagonal, key) = (query as i64 + ahead, key as i64);
                key > diagonal.saturating_add(behind) || key < diagonal.saturating_sub(before)
            }));
        }
        let values = mask
            .expanded(&[batch, heads, queries, keys])
            .values::<i64>(memory)?;
        if self.prefix.is_some() {
            check_agrees(&values, [queries, keys], self.behind_prefix(part))?;
        }
        Ok(Box::new(move |head, query, key| {
            values[(head * queries + query) * keys + key] != 0
        }))
    }
}

/// Checks the first row and column of the causal modes' mask: the first query sees only the first key, and all queries
/// see that key.
pub(super) fn check_causal(memory: &Memory, mask: &Tensor) -> Outcome<()> {
    let mut edge = mask.clone();
    let before = edge.rank().saturating_sub(2);
    edge.shape.drain(..before);
    edge.strides.drain(..before);
    let row = Tensor {
        shape: vec![1, COMPRESSED],
        ..edge.clone()
    }
    .values::<i64>(memory)?;
    let column = Tensor {
        shape: vec![COMPRESSED, 1],
        ..edge
    }
    .values::<i64>(memory)?;
    ensure!(
        row[0] == 0 && row[1..].iter().all(|bit| *bit == 1) && column.iter().all(|bit| *bit == 0);
        "attenMask of a causal mode must be 1 above its diagonal and 0 elsewhere"
    );
    Ok(())
}
