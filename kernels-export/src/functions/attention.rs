//! Attention.

use super::Results;
use super::norm::view_of;
use crate::call::{Error, refused};
use crate::made::Made;
use crate::numbers::{Finite, Limit};
use crate::tensor::Tensor;
use kernels_simd::attention::{self, Operands};
use kernels_simd::keys::HeadLayout;
use std::ops::Range;

/// The operands of attention.
pub(super) struct Attention {
    pub(super) q: Tensor,
    pub(super) k: Tensor,
    pub(super) v: Tensor,
    pub(super) bias: Option<Tensor>,
    pub(super) sinks: Option<Tensor>,
    pub(super) mask: Option<Tensor>,
    pub(super) causal: bool,
    pub(super) window: usize,
    pub(super) scale: Finite,
    pub(super) cap: Option<Limit>,
    pub(super) layout: HeadLayout,
}

impl Attention {
    pub(super) fn forward(self) -> Results<2> {
        let [[batch, heads, queries, _], of_v] = heads(&self.q, &self.v)?;
        let visible = self.visible()?;
        let visible = |sequence, query| visible.of(sequence, query);
        let found = attention::forward(&self.operands(&visible)?);
        let y = laid_out([batch, heads, queries, of_v[3]], self.layout);
        Ok([
            Some(Made::new(found.y, &y)),
            Some(Made::new(found.lse, &[batch, heads, queries])),
        ])
    }

    pub(super) fn backward(
        self,
        dy: Tensor,
        y: Tensor,
        lse: Tensor,
        wants_bias: bool,
    ) -> Results<5> {
        let [of_q, of_v] = heads(&self.q, &self.v)?;
        let [of_k, _] = heads(&self.k, &self.v)?;
        let visible = self.visible()?;
        let visible = |sequence, query| visible.of(sequence, query);
        let given = [&dy.view()?, &y.view()?, &lse.view()?];
        let found = attention::backward(&self.operands(&visible)?, given, wants_bias);
        let made = |values, sizes| Some(Made::new(values, &laid_out(sizes, self.layout)));
        Ok([
            made(found.q, of_q),
            made(found.k, of_k),
            made(found.v, of_v),
            Made::like(found.bias, &self.bias),
            Made::like(found.sinks, &self.sinks),
        ])
    }

    fn operands<'a>(
        &'a self,
        visible: &'a (dyn Fn(usize, usize) -> Range<usize> + Sync),
    ) -> Result<Operands<'a>, Error> {
        Ok(Operands {
            q: self.q.view()?,
            k: self.k.view()?,
            v: self.v.view()?,
            bias: view_of(&self.bias)?,
            sinks: view_of(&self.sinks)?,
            visible,
            scale: self.scale.0,
            cap: self.cap.map(|cap| cap.0),
            layout: self.layout,
        })
    }

    fn visible(&self) -> Result<Visible, Error> {
        let [[batch, _, queries, _], [_, _, keys, _]] = heads(&self.q, &self.k)?;
        let ranges = match &self.mask {
            Some(mask) => {
                let fits = matches!(mask.sizes(), &[sequences, 1, rows, columns]
                    if [1, batch].contains(&sequences) && rows == queries && columns == keys);
                if !fits {
                    return refused(format!(
                        "mask: a shape of [{batch} or 1, 1, {queries}, {keys}] is expected, and not {:?}",
                        mask.sizes()
                    ));
                }
                Some(ranges(&mask.rows_of_bools()?, queries)?)
            }
            None => None,
        };
        Ok(Visible {
            ranges,
            queries,
            keys,
            causal: self.causal,
            window: self.window,
        })
    }
}

/// Returns the sizes of tensors of heads.
fn heads(first: &Tensor, second: &Tensor) -> Result<[[usize; 4]; 2], Error> {
    match (first.sizes().try_into(), second.sizes().try_into()) {
        (Ok(first), Ok(second)) => Ok([first, second]),
        _ => refused(format!(
            "tensors of shapes {:?} and {:?} are not heads, with four axes",
            first.sizes(),
            second.sizes()
        )),
    }
}

fn laid_out([batch, heads, rows, width]: [usize; 4], layout: HeadLayout) -> [usize; 4] {
    match layout {
        HeadLayout::Bnsd => [batch, heads, rows, width],
        HeadLayout::Bsnd => [batch, rows, heads, width],
    }
}

/// The keys that queries see.
#[derive(Debug, PartialEq)]
struct Visible {
    /// The keys of each query, for one sequence or for each, if there is a mask.
    ranges: Option<Vec<Range<usize>>>,
    queries: usize,
    keys: usize,
    causal: bool,
    /// The largest number of keys that a query sees, including its own; 0 means no limit.
    window: usize,
}

impl Visible {
    fn of(&self, sequence: usize, query: usize) -> Range<usize> {
        let range = match &self.ranges {
            Some(ranges) => ranges[(sequence * self.queries + query) % ranges.len()].clone(),
            None => 0..self.keys,
        };
        // The last query sees the last key.
        let own = (query + self.keys + 1).saturating_sub(self.queries);
        let end = if self.causal {
            range.end.min(own)
        } else {
            range.end
        };
        let start = match self.window {
            0 => range.start,
            window => range.start.max(own.saturating_sub(window)),
        };
        start.min(end)..end
    }
}

/// Returns the keys that each query sees in a mask. Between sequences, the ends may decrease; within one, neither may.
fn ranges(rows: &[&[u8]], queries: usize) -> Result<Vec<Range<usize>>, Error> {
    let mut found: Vec<Range<usize>> = Vec::with_capacity(rows.len());
    for (at, row) in rows.iter().enumerate() {
        let query = at % queries;
        let last = if query == 0 {
            0..0
        } else {
            found[at - 1].clone()
        };
        let range = match row.iter().position(|seen| *seen != 0) {
            // A query that sees nothing is put between its neighbours.
            None => last.end..last.end,
            Some(start) => {
                let count = row[start..].iter().take_while(|seen| **seen != 0).count();
                start..start + count
            }
        };
        let others = row[range.end..].iter().any(|seen| *seen != 0);
        if others || range.start < last.start || range.end < last.end {
            return refused(format!(
                "mask: the keys that query {query} sees must be neighbours, and neither end may decrease from one query to the next"
            ));
        }
        found.push(range);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_read_as_ranges() {
        let causal: [&[u8]; 3] = [&[1, 0, 0], &[1, 1, 0], &[1, 1, 1]];
        assert_eq!(ranges(&causal, 3).unwrap(), [0..1, 0..2, 0..3]);
        // The first token is padding; then the last two are.
        let left: [&[u8]; 3] = [&[0, 0, 0], &[0, 1, 0], &[0, 1, 1]];
        assert_eq!(ranges(&left, 3).unwrap(), [0..0, 1..2, 1..3]);
        let right: [&[u8]; 3] = [&[1, 0, 0], &[0, 0, 0], &[0, 0, 0]];
        assert_eq!(ranges(&right, 3).unwrap(), [0..1, 1..1, 1..1]);
        let two: Vec<&[u8]> = [causal, left].concat();
        assert_eq!(ranges(&two, 3).unwrap().len(), 6);
        for wrong in [
            [&[1_u8, 0, 1] as &[u8]; 2],
            [&[0, 1, 1], &[1, 1, 1]],
            [&[1, 1, 0], &[1, 0, 0]],
        ] {
            assert!(ranges(&wrong, 2).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn windows_end_at_the_query_itself() {
        let visible = |causal, window| {
            let visible = Visible {
                ranges: None,
                queries: 3,
                keys: 5,
                causal,
                window,
            };
            [0, 1, 2].map(|query| visible.of(0, query))
        };
        assert_eq!(visible(true, 0), [0..3, 0..4, 0..5]);
        assert_eq!(visible(true, 2), [1..3, 2..4, 3..5]);
        assert_eq!(visible(false, 0), [0..5, 0..5, 0..5]);
    }
}
