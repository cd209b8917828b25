use crate::keys::HeadLayout;

/// The sizes of the axes of a call, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The number of sequences.
    pub batch: usize,
    /// The number of heads of the queries.
    pub heads: usize,
    /// The number of heads of keys and values, a divisor of `heads`.
    pub kv_heads: usize,
    /// The number of queries of a sequence.
    pub queries: usize,
    /// The number of keys of a sequence.
    pub keys: usize,
    /// The width of a head of queries and keys.
    pub width: usize,
    /// The width of a head of values and of the result.
    pub value_width: usize,
}

impl Sizes {
    /// Returns the sizes of `q`, `k` and `v`, each `[batch, heads, rows, width]`.
    ///
    /// # Panics
    /// Panics if they don't go together.
    pub(super) fn of(heads: [&[usize]; 3]) -> Self {
        let [
            &[batch, heads, queries, width],
            &[_, kv_heads, keys, _],
            &[_, _, _, value_width],
        ] = heads
        else {
            panic!("tensors of sizes {heads:?} must be heads of four axes")
        };
        let whole = heads.checked_rem(kv_heads).is_none_or(|rest| rest == 0);
        assert!(
            whole && (kv_heads > 0 || heads == 0),
            "{heads} heads don't share {kv_heads} heads of keys"
        );
        Self {
            batch,
            heads,
            kv_heads,
            queries,
            keys,
            width,
            value_width,
        }
    }

    /// Returns the sizes of heads with a row of `width` elements for each query.
    pub(super) fn heads_of_queries(&self, width: usize) -> [usize; 4] {
        [self.batch, self.heads, self.queries, width]
    }

    /// Returns the number of heads of queries that share a head of keys.
    pub fn group(&self) -> usize {
        self.heads.checked_div(self.kv_heads).unwrap_or(0)
    }

    /// Returns the sizes of a tensor with a row of `width` elements for each query, in a layout.
    pub fn of_queries(&self, layout: HeadLayout, width: usize) -> [usize; 4] {
        match layout {
            HeadLayout::Bnsd => [self.batch, self.heads, self.queries, width],
            HeadLayout::Bsnd => [self.batch, self.queries, self.heads, width],
        }
    }

    /// Returns the sizes of a tensor with a row of `width` elements for each key, in a layout.
    pub fn of_keys(&self, layout: HeadLayout, width: usize) -> [usize; 4] {
        match layout {
            HeadLayout::Bnsd => [self.batch, self.kv_heads, self.keys, width],
            HeadLayout::Bsnd => [self.batch, self.keys, self.kv_heads, width],
        }
    }
}
