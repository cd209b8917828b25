use burn::tensor::{DType, Device, Tensor};
use kernels_runtime::semantics::HeadLayout;
use std::error::Error;
use std::fmt;

/// The keys and values of one layer of attention, kept from one step of decoding to the next.
///
/// [`append`](Self::append) writes the keys and values of new positions behind those of the earlier ones, in place, and
/// returns views of all that a new query may see. No earlier key is copied, but when the memory grows (it doubles) or,
/// with a window, when it is full of keys that no query sees any more. Attention whose queries are fewer than its keys
/// takes the last query to be at the last key, which is right for these views.
///
/// A cache is for inference: on a device with autodiff, each step copies the cache.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use burn_kernels::nn::KvCache;
/// use burn_kernels::semantics::HeadLayout;
///
/// let device = Device::flex();
/// let mut cache = KvCache::new(HeadLayout::Bnsd);
/// let prompt = || Tensor::<4>::ones([1, 2, 5, 8], &device);
/// cache.append(prompt(), prompt())?;
/// let token = || Tensor::<4>::ones([1, 2, 1, 8], &device);
/// let (k, v) = cache.append(token(), token())?;
/// assert_eq!((k.dims(), v.dims()), ([1, 2, 6, 8], [1, 2, 6, 8]));
/// assert_eq!(cache.positions(), 6);
/// # Ok::<(), burn_kernels::nn::CacheError>(())
/// ```
#[derive(Clone, Debug)]
pub struct KvCache {
    layout: HeadLayout,
    window: Option<usize>,
    limit: Option<usize>,
    kept: Option<Kept>,
}

/// The memory of a cache, in the layout `bnsd`: the positions of a head lie one after the other.
#[derive(Clone, Debug)]
struct Kept {
    /// `[batch, kv_heads, capacity, width]`.
    keys: Tensor<4>,
    /// `[batch, kv_heads, capacity, value_width]`.
    values: Tensor<4>,
    /// The first of the kept positions in memory.
    start: usize,
    len: usize,
    /// The number of positions that were appended in all.
    positions: usize,
}

/// The error of a cache that cannot take keys and values.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheError {
    /// The positions don't fit.
    Full {
        /// The number of positions that the cache has taken.
        positions: usize,
        /// The number of further positions.
        further: usize,
        /// The limit that was set.
        limit: usize,
    },
    /// The keys and values do not go with each other or with those in the cache.
    Mismatch(String),
}

/// The number of positions that memory is first made for. Capacities are multiples of it.
const PAGE: usize = 256;

/// The largest number of positions that memory is made for before they come.
const AHEAD: usize = 1 << 14;

impl KvCache {
    /// Makes an empty cache for keys and values in this layout. Memory is made for 256 positions when the first are
    /// appended, and grows twofold.
    pub fn new(layout: HeadLayout) -> Self {
        Self {
            layout,
            window: None,
            limit: None,
            kept: None,
        }
    }

    /// Keeps only the keys that queries with a sliding window of `window` positions see.
    ///
    /// # Panics
    /// Panics if the window is 0, or if the cache has keys already.
    pub fn with_window(mut self, window: usize) -> Self {
        assert!(window > 0, "a window of 0 positions keeps no key");
        assert!(
            self.kept.is_none(),
            "a window is set before the first position"
        );
        self.window = Some(window);
        self
    }

    /// Refuses more than `positions` positions in all. Memory is made for all of them at once, or for those of the window, if it
    /// is for 16,384 positions at most, and grows twofold beyond.
    pub fn with_limit(mut self, positions: usize) -> Self {
        self.limit = Some(positions);
        self
    }

    /// Appends the keys and values of new positions: `[batch, kv_heads, new, width]`, and values of any width, or with
    /// the second and third axis exchanged in the layout `bsnd`. Returns the keys and values of all positions that the
    /// new queries may see, in the same layout.
    ///
    /// The views must be dropped before the next call: memory that somebody else reads is copied and not written to.
    ///
    /// # Errors
    /// Returns an error without a new position, if the cache is full, or if the tensors do not go with each other or
    /// with those in the cache.
    /// The cache is then as it was.
    pub fn append(
        &mut self,
        keys: Tensor<4>,
        values: Tensor<4>,
    ) -> Result<(Tensor<4>, Tensor<4>), CacheError> {
        let [keys, values] = [keys, values].map(|tensor| self.exchanged(tensor));
        self.check(&keys, &values)?;
        let further = keys.dims()[2];
        let positions = self.positions();
        if let Some(limit) = self
            .limit
            .filter(|limit| further > limit.saturating_sub(positions))
        {
            return Err(CacheError::Full {
                positions,
                further,
                limit,
            });
        }
        let seen = self.seen_of(positions);
        // What may fail, the making of memory, comes before the cache is touched.
        let room = match &self.kept {
            Some(kept) => {
                let before = kept.capacity();
                kept.with_room(seen, further, || self.capacity(before, seen + further))
            }
            None => Some(Kept::new(&keys, &values, self.capacity(0, further))),
        };
        // Memory that two of them refer to would be copied.
        let before = self.kept.take();
        let kept = room
            .or(before)
            .expect("there is room for the first positions");
        let kept = kept.append(seen, keys, values);
        let views = kept.views().map(|tensor| self.exchanged(tensor));
        self.kept = Some(kept);
        Ok(views.into())
    }

    /// Returns the number of positions that were appended in all.
    pub fn positions(&self) -> usize {
        self.kept.as_ref().map_or(0, |kept| kept.positions)
    }

    /// Returns the number of positions whose keys and values are kept.
    pub fn kept(&self) -> usize {
        self.kept.as_ref().map_or(0, |kept| kept.len)
    }

    /// Forgets all positions and releases the memory.
    pub fn clear(&mut self) {
        self.kept = None;
    }

    /// Forgets the positions after the first `positions`, so that others can follow these. Returns `false`, and changes
    /// nothing, if keys that the next query would see are gone: with a window, memory holds few before those in it.
    pub fn cut(&mut self, positions: usize) -> bool {
        let seen = self.seen_of(positions);
        match &mut self.kept {
            Some(_) if positions == 0 => {
                self.clear();
                true
            }
            Some(kept) if positions < kept.positions => kept.cut(positions, seen),
            _ => true,
        }
    }

    /// Returns a cache after the same positions, with a small memory of its own: it holds the keys that the next query sees,
    /// and at most `more` before them, for a later [`cut`](Self::cut).
    pub fn tail(&self, more: usize) -> Self {
        let kept = self.kept.as_ref();
        Self {
            kept: kept.map(|kept| kept.tail(self.seen_of(kept.positions), more)),
            ..*self
        }
    }

    /// Returns how many of the earlier keys the next query sees.
    fn seen_of(&self, positions: usize) -> usize {
        match self.window {
            Some(window) => positions.min(window - 1),
            None => positions,
        }
    }

    /// Returns a capacity for so many positions, where it was `before`.
    fn capacity(&self, before: usize, needed: usize) -> usize {
        // Twice the window: keys move once in as many steps as the window has positions.
        let window = self.window.map(|window| window.saturating_mul(2));
        let most = window
            .unwrap_or(usize::MAX)
            .min(self.limit.unwrap_or(usize::MAX));
        let ahead = match (window, self.limit) {
            (_, Some(_)) => AHEAD,
            (Some(_), None) => 2 * PAGE,
            (None, None) => 0,
        };
        let roomy = most.min(ahead.max(before * 2));
        needed.max(roomy).next_multiple_of(PAGE)
    }

    /// Exchanges heads and positions if the layout of the caller is not that of the memory.
    fn exchanged(&self, tensor: Tensor<4>) -> Tensor<4> {
        match self.layout {
            HeadLayout::Bnsd => tensor,
            HeadLayout::Bsnd => tensor.swap_dims(1, 2),
        }
    }

    fn check(&self, keys: &Tensor<4>, values: &Tensor<4>) -> Result<(), CacheError> {
        let (k, v) = (Facts::of(keys), Facts::of(values));
        let mismatch = |text: String| Err(CacheError::Mismatch(text));
        if k.shape[..3] != v.shape[..3] || k.dtype != v.dtype || k.device != v.device {
            return mismatch(format!("keys are {k}, but values {v}"));
        }
        if k.shape[2] == 0 {
            return mismatch(format!("keys are {k}: there is nothing to append"));
        }
        let Some(kept) = &self.kept else {
            return Ok(());
        };
        for (name, new, kept) in [("keys", k, &kept.keys), ("values", v, &kept.values)] {
            let kept = Facts::of(kept);
            let [batch, heads, _, width] = kept.shape;
            let [new_batch, new_heads, _, new_width] = new.shape;
            if (new_batch, new_heads, new_width) != (batch, heads, width)
                || new.dtype != kept.dtype
                || new.device != kept.device
            {
                return mismatch(format!(
                    "{name} are {new}, but those in the cache are {kept}: it is of another model or batch"
                ));
            }
        }
        Ok(())
    }
}

impl Kept {
    fn new(keys: &Tensor<4>, values: &Tensor<4>, capacity: usize) -> Self {
        let [keys, values] = [keys, values].map(|like| room(like, capacity));
        Self {
            keys,
            values,
            start: 0,
            len: 0,
            positions: 0,
        }
    }

    fn capacity(&self) -> usize {
        self.keys.dims()[2]
    }

    /// Returns a copy of the positions that are seen with room for further ones, or `None` if there is room behind the last.
    fn with_room(
        &self,
        seen: usize,
        further: usize,
        capacity: impl FnOnce() -> usize,
    ) -> Option<Self> {
        let first = self.start + self.len - seen;
        if first + seen + further <= self.capacity() {
            return None;
        }
        let fits = seen + further <= self.capacity() / 2;
        let capacity = if fits {
            self.capacity()
        } else {
            capacity().max(self.capacity())
        };
        Some(Self {
            keys: moved(self.keys.clone(), first, seen, capacity),
            values: moved(self.values.clone(), first, seen, capacity),
            start: 0,
            len: seen,
            positions: self.positions,
        })
    }

    /// Writes behind the last position, and forgets those that are not seen.
    fn append(self, seen: usize, keys: Tensor<4>, values: Tensor<4>) -> Self {
        let further = keys.dims()[2];
        let at = self.start + self.len;
        let written = |memory: Tensor<4>, new: Tensor<4>| {
            let [batch, heads, _, width] = new.dims();
            memory.slice_assign([0..batch, 0..heads, at..at + further, 0..width], new)
        };
        Self {
            keys: written(self.keys, keys),
            values: written(self.values, values),
            start: at - seen,
            len: seen + further,
            positions: self.positions + further,
        }
    }

    /// Forgets the positions after the first `positions`, if the `seen` ones before them are in memory.
    fn cut(&mut self, positions: usize, seen: usize) -> bool {
        let end = (self.start + self.len).checked_sub(self.positions - positions);
        let Some(start) = end.and_then(|end| end.checked_sub(seen)) else {
            return false;
        };
        (self.start, self.len, self.positions) = (start, seen, positions);
        true
    }

    /// Copies the last `seen` positions, and at most `more` before them.
    fn tail(&self, seen: usize, more: usize) -> Self {
        let end = self.start + self.len;
        let count = end.min(seen.saturating_add(more));
        let copied = |tensor: &Tensor<4>| moved(tensor.clone(), end - count, count, count.max(1));
        Self {
            keys: copied(&self.keys),
            values: copied(&self.values),
            start: count - seen,
            len: seen,
            positions: self.positions,
        }
    }

    fn views(&self) -> [Tensor<4>; 2] {
        [&self.keys, &self.values].map(|tensor| tensor.clone().narrow(2, self.start, self.len))
    }
}

/// Returns memory for keys or values.
fn room(like: &Tensor<4>, capacity: usize) -> Tensor<4> {
    let [batch, heads, _, width] = like.dims();
    Tensor::zeros(
        [batch, heads, capacity, width],
        (&like.device(), like.dtype()),
    )
}

/// Returns new memory that begins with `count` positions of another, from `first` on.
fn moved(tensor: Tensor<4>, first: usize, count: usize, capacity: usize) -> Tensor<4> {
    let [batch, heads, _, width] = tensor.dims();
    let room = room(&tensor, capacity);
    if count == 0 {
        return room;
    }
    let part = tensor.narrow(2, first, count);
    room.slice_assign([0..batch, 0..heads, 0..count, 0..width], part)
}

/// The properties in which keys and values must agree, in the layout `bnsd`.
struct Facts {
    shape: [usize; 4],
    dtype: DType,
    device: Device,
}

impl Facts {
    fn of(tensor: &Tensor<4>) -> Self {
        Self {
            shape: tensor.dims(),
            dtype: tensor.dtype(),
            device: tensor.device(),
        }
    }
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [batch, heads, positions, width] = self.shape;
        write!(
            f,
            "{:?} on {:?}, of {batch} sequences, {heads} heads, {positions} positions and width {width}",
            self.dtype, self.device
        )
    }
}

impl fmt::Display for CacheError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full {
                positions,
                further,
                limit,
            } => write!(
                f,
                "the cache of keys and values is full: it has {positions} positions and a limit of {limit}, so \
                 {further} more don't fit"
            ),
            Self::Mismatch(text) => write!(f, "the cache of keys and values: {text}"),
        }
    }
}

impl Error for CacheError {}
