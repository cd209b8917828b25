//! The mask, and the keys that it hides.

use super::super::mask::{COMPRESSED, check_band, check_causal};
use super::call::Plan;
use crate::abi::prelude::*;
use crate::ops::attention::Sizes;

/// A function that returns `true` if a key is hidden from a query.
pub(super) type Unseen = Box<dyn Fn(usize, usize) -> bool + Sync>;

/// Takes the mask, with the shape that its mode needs.
pub(super) fn take_mask(
    operands: &mut Operands,
    mask: *const aclTensor,
    plan: &mut Plan,
) -> Outcome<()> {
    ensure!((0..=4).contains(&plan.mode); "sparseMode {} is not emulated; 0 to 4 are", plan.mode);
    let Some(mask) = operands.optional("attenMask", mask)? else {
        ensure!(plan.mode == 0; "attenMask is NULL, and sparseMode {} needs one", plan.mode);
        return Ok(());
    };
    plan.with_mask = true;
    check_dtype("attenMask", &mask, &[ACL_BOOL, ACL_INT8, ACL_UINT8])?;
    check_contiguous("attenMask", &mask)?;
    let shapes = shapes(plan);
    ensure!(shapes.contains(&mask.shape);
        "attenMask has the shape {:?}; mode {} with {} queries takes {shapes:?}",
        mask.shape, plan.mode, plan.sizes.queries);
    check_tokens(plan)
}

fn shapes(plan: &Plan) -> Vec<Vec<usize>> {
    let Sizes {
        batch,
        queries,
        keys,
        ..
    } = plan.sizes;
    match plan.mode {
        0 | 1 if queries == 1 => vec![
            vec![batch, keys],
            vec![batch, 1, keys],
            vec![batch, 1, 1, keys],
        ],
        0 | 1 => vec![
            vec![queries, keys],
            vec![1, queries, keys],
            vec![batch, queries, keys],
            vec![1, 1, queries, keys],
            vec![batch, 1, queries, keys],
        ],
        _ => vec![
            vec![COMPRESSED; 2],
            vec![1, COMPRESSED, COMPRESSED],
            vec![1, 1, COMPRESSED, COMPRESSED],
        ],
    }
}

/// Checks the numbers of keys before and behind the diagonal.
fn check_tokens(plan: &Plan) -> Outcome<()> {
    let Sizes { queries, keys, .. } = plan.sizes;
    let [before, behind] = plan.band;
    // Mode 0 reads only the keys in the window. Windows that don't hold all keys are not emulated.
    ensure!(plan.mode != 0 || queries == 1 || before >= queries as i64 && behind >= keys as i64;
        "preTokens {before} and nextTokens {behind} leave some of {queries} × {keys} scores out");
    let sequences = (0..plan.sizes.batch).map(|sequence| plan.of(sequence));
    match plan.mode {
        // A sequence without queries or keys has no scores to hold.
        4 => sequences
            .filter(|own| own.queries > 0 && own.keys > 0)
            .try_for_each(|own| check_band(plan.band, own)),
        _ => Ok(()),
    }
}

impl Plan {
    /// Returns the sizes of one sequence.
    pub(super) fn of(&self, sequence: usize) -> Sizes {
        Sizes {
            batch: 1,
            queries: self.queries[sequence],
            keys: self.keys[sequence],
            ..self.sizes
        }
    }

    /// Returns a function that returns `true` for the hidden keys of a sequence.
    pub(super) fn masked(
        &self,
        memory: &Memory,
        mask: Option<&Tensor>,
        sequence: usize,
    ) -> Outcome<Unseen> {
        let Some(mask) = mask else {
            return Ok(Box::new(|_, _| false));
        };
        let own = self.of(sequence);
        if self.mode >= 2 {
            check_causal(memory, mask)?;
            let ahead = match self.mode {
                2 => 0,
                _ => own.keys as i64 - own.queries as i64,
            };
            let [before, behind] = match self.mode {
                4 => self.band,
                _ => [i64::MAX, 0],
            };
            return Ok(Box::new(move |query, key| {
                let (diagonal, key) = (query as i64 + ahead, key as i64);
                key > diagonal.saturating_add(behind) || key < diagonal.saturating_sub(before)
            }));
        }
        let (rows, columns) = (self.sizes.queries, self.sizes.keys);
        let masks = mask.count() / (rows * columns);
        let values = mask.values::<i64>(memory)?;
        let start = sequence.min(masks - 1) * rows * columns;
        Ok(Box::new(move |query, key| {
            values[start + query * columns + key] != 0
        }))
    }
}
