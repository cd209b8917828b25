//! The gradients of a block of queries.

use super::backward::{Given, is_half};
use super::lanes::Lanes;
use super::rows::{SumAlong, gather, transposed};
use super::scores::{Along, Gradient, Multiply, Place, adjust, clear_others, scale};
use super::units::BiasSums;
use super::view::{View, parts};
use super::{KEYS, QUERIES};
use crate::cpu::Element;
use crate::cpu::lanes::dispatch;
use crate::cpu::product::{Block, Gemm, Tiled, leave_remainders, multiply_blocks, multiply_tiled};
use crate::ops::attention::Sizes;
use std::ops::Range;

/// The gradients of a head of keys and of its values.
pub(super) struct Sums<A> {
    pub(super) dk: Vec<A>,
    pub(super) dv: Vec<A>,
}

/// The number of blocks of keys whose scores a block of queries of a half type keeps: 1.5 MiB, for 2048 keys. Those of
/// further keys are computed twice.
const KEPT: usize = 32;

/// The scores of a block of keys.
struct Scored<A> {
    scores: Vec<A>,
    /// `dy · v` of each pair, and then the gradient of the score.
    d_scores: Vec<A>,
    /// The slopes of the cap, if there is one.
    slopes: Vec<A>,
    /// The place of the queries that see a key, or `None` if none does.
    place: Option<Place>,
}

impl<A: Gemm> Scored<A> {
    fn new() -> Self {
        Self {
            scores: vec![Gemm::ZERO; KEYS * QUERIES],
            d_scores: vec![Gemm::ZERO; KEYS * QUERIES],
            slopes: Vec::new(),
            place: None,
        }
    }
}

/// Operands in bf16 in tiles, where the machine has them.
struct Tiles<A> {
    /// The queries and the gradients of their results, as columns. Queries are exact in bf16 before they are scaled, so the
    /// scores are scaled in place of them.
    queries: Tiled,
    dy: Tiled,
    scales: Vec<A>,
    /// The same as terms of the gradients of keys and values.
    queries_as_terms: Tiled,
    dy_as_terms: Tiled,
    /// Keys or values.
    stored: Tiled,
    /// Probabilities, first rounded and then what rounding left out, or gradients of scores, which are rounded.
    weights: Tiled,
}

impl<A: Gemm> Tiles<A> {
    fn new<T: Element<Acc = A>>() -> Option<Self> {
        Some(Self {
            queries: Tiled::new::<T>()?,
            dy: Tiled::new::<T>()?,
            scales: Vec::new(),
            queries_as_terms: Tiled::new::<T>()?,
            dy_as_terms: Tiled::new::<T>()?,
            stored: Tiled::new::<T>()?,
            weights: Tiled::new::<T>()?,
        })
    }

    /// Takes the rows of a block of queries.
    fn load(&mut self, queries: &[A], dy: &[A], sizes: Sizes, count: usize) {
        let Sizes {
            width, value_width, ..
        } = sizes;
        let [queries, dy] =
            [(queries, width), (dy, value_width)].map(|(rows, width)| Block::rows(rows, width));
        self.queries.right(queries.transposed(), [width, count]);
        self.dy.right(dy.transposed(), [value_width, count]);
        self.queries_as_terms.right(queries, [count, width]);
        self.dy_as_terms.right(dy, [count, value_width]);
    }

    /// Adds gradients of values, for probabilities of `keys × lanes`.
    fn add_to_values(&mut self, p: &[A], sizes: [usize; 2], dv: (&mut [A], usize)) {
        self.weights.left(Block::rows(p, sizes[1]), sizes);
        multiply_tiled(&self.weights, &self.dy_as_terms, dv, true);
    }
}

/// The memory of a block of queries.
pub(super) struct Buffers<A> {
    tiles: Option<Tiles<A>>,
    /// The queries, scaled if there are no tiles, and the gradients of their results, as rows and transposed.
    queries: Vec<A>,
    queries_transposed: Vec<A>,
    dy: Vec<A>,
    dy_transposed: Vec<A>,
    lse: Vec<A>,
    /// `Σ dy · y` of each query, with the result before it was rounded.
    along: Vec<A>,
    /// The scores that are kept, and those of one block more.
    scored: Vec<Scored<A>>,
    /// The number of blocks of keys whose scores are kept until their gradients are computed.
    kept: usize,
    pub(super) dq: Vec<A>,
    /// Keys and values of half types.
    keys: Vec<A>,
    values: Vec<A>,
}

impl<A: Gemm> Buffers<A> {
    pub(super) fn new<T: Element<Acc = A>>(sizes: Sizes) -> Self {
        Self {
            tiles: Tiles::new::<T>(),
            queries: Vec::new(),
            queries_transposed: Vec::new(),
            dy: Vec::new(),
            dy_transposed: Vec::new(),
            lse: Vec::new(),
            along: Vec::new(),
            scored: Vec::new(),
            kept: if is_half::<T>() { KEPT } else { 0 },
            dq: vec![Gemm::ZERO; QUERIES * sizes.width],
            keys: Vec::new(),
            values: Vec::new(),
        }
    }

    /// Loads a block of queries.
    pub(super) fn load<T: Element<Acc = A>>(&mut self, given: &Given<'_, T>, lanes: &Lanes) {
        let view = given.view;
        let Sizes {
            heads,
            queries,
            width,
            value_width,
            ..
        } = view.sizes;
        let count = lanes.len();
        gather(lanes, &given.dy, A::ONE, &mut self.dy);
        match &mut self.tiles {
            Some(tiles) => {
                gather(lanes, &view.q, A::ONE, &mut self.queries);
                tiles.scales.resize(count, view.scale);
                tiles.load(&self.queries, &self.dy, view.sizes, count);
            }
            None => {
                gather(lanes, &view.q, view.scale, &mut self.queries);
                transposed(&self.queries, [count, width], &mut self.queries_transposed);
                transposed(&self.dy, [count, value_width], &mut self.dy_transposed);
            }
        }
        self.lse.clear();
        for (head, query) in lanes.queries() {
            let lse = given.lse[(lanes.batch * heads + head) * queries + query];
            let hidden = lse == A::of(f64::NEG_INFINITY);
            self.lse.push(if hidden { Gemm::ZERO } else { lse });
        }
        self.lse.resize(count, Gemm::ZERO);
        self.along.clear();
        self.along.resize(count, Gemm::ZERO);
        self.dq.fill(Gemm::ZERO);
    }

    /// Sums `Σ dy · y`.
    pub(super) fn sum_along<T: Element<Acc = A>>(&mut self, given: &Given<'_, T>, lanes: &Lanes) {
        dispatch(SumAlong {
            lanes,
            y: &given.y,
            dy: &self.dy,
            along: &mut self.along,
        });
    }

    /// Sums `Σ dy · y` as `Σ p · (dy · v)`, over all keys. `y` of a half type is rounded, and where the terms of a gradient
    /// cancel, that would be most of its error.
    pub(super) fn sum_along_scores<T: Element<Acc = A>>(
        &mut self,
        view: &View<'_, T>,
        lanes: &Lanes,
        of: (usize, usize),
    ) {
        for (index, keys) in parts(lanes.all_keys()).enumerate() {
            let scored = self.score(view, lanes, of, (index, keys));
            let Some(place) = &self.scored[scored].place else {
                continue;
            };
            dispatch(Along {
                place,
                scores: &self.scored[scored].scores,
                d_scores: &self.scored[scored].d_scores,
                lse: &self.lse,
                along: &mut self.along,
            });
        }
    }

    /// Computes the scores of a block of keys, `dy · v` in place of their gradients, and the slopes of a cap. Returns their
    /// index in `scored`.
    fn score<T: Element<Acc = A>>(
        &mut self,
        view: &View<'_, T>,
        lanes: &Lanes,
        of: (usize, usize),
        (index, keys): (usize, Range<usize>),
    ) -> usize {
        let index = index.min(self.kept);
        while self.scored.len() <= index {
            self.scored.push(Scored::new());
        }
        let scored = &mut self.scored[index];
        let seeing = lanes.that_see(&keys);
        if seeing.is_empty() {
            scored.place = None;
            return index;
        }
        let place = Place {
            stride: lanes.len(),
            lanes: seeing,
            keys,
        };
        self.products(view, of, index, &place);
        let scored = &mut self.scored[index];
        if view.cap.is_some() {
            scored.slopes.resize(KEYS * QUERIES, Gemm::ZERO);
        }
        let slopes = view.cap.map(|_| &mut scored.slopes[..]);
        adjust(view, lanes, &place, &mut scored.scores, slopes);
        scored.place = Some(place);
        index
    }

    /// Computes the scores of a block of keys, and `dy · v`.
    fn products<T: Element<Acc = A>>(
        &mut self,
        view: &View<'_, T>,
        (batch, kv_head): (usize, usize),
        index: usize,
        place: &Place,
    ) {
        let scored = &mut self.scored[index];
        let (stride, from, keys) = (place.stride, place.lanes.start, place.keys.clone());
        let Sizes {
            width, value_width, ..
        } = view.sizes;
        if let Some(tiles) = &mut self.tiles {
            let stored = view.k.stored(batch, kv_head, keys.start);
            tiles.stored.left_of(stored, [keys.len(), width]);
            let out = (&mut scored.scores[..], stride);
            multiply_tiled(&tiles.stored, &tiles.queries, out, false);
            let scores = &mut scored.scores[..keys.len() * stride];
            scale(scores, stride, place.lanes.clone(), &tiles.scales);
            let stored = view.v.stored(batch, kv_head, keys.start);
            tiles.stored.left_of(stored, [keys.len(), value_width]);
            let out = (&mut scored.d_scores[..], stride);
            return multiply_tiled(&tiles.stored, &tiles.dy, out, false);
        }
        let k = view.k.block(batch, kv_head, keys.clone(), &mut self.keys);
        let v = view.v.block(batch, kv_head, keys.clone(), &mut self.values);
        // Heads of no elements have no lines.
        let [q_lines, dy_lines] = [&self.queries_transposed, &self.dy_transposed]
            .map(|lines| &lines[from.min(lines.len())..]);
        multiply_blocks(
            [keys.len(), width, place.lanes.len()],
            k,
            Block::rows(q_lines, stride),
            (&mut scored.scores[from..], stride),
            false,
        );
        multiply_blocks(
            [keys.len(), value_width, place.lanes.len()],
            v,
            Block::rows(dy_lines, stride),
            (&mut scored.d_scores[from..], stride),
            false,
        );
    }

    /// Returns the factor of the gradients of keys that [`add`](Self::add) leaves out.
    pub(super) fn scale_of_keys<T: Element<Acc = A>>(&self, view: &View<'_, T>) -> A {
        match self.tiles {
            Some(_) => view.scale,
            None => A::ONE,
        }
    }

    /// Adds the gradients of a block of keys. Those of keys lack [a factor](Self::scale_of_keys), and those of queries the
    /// scale.
    pub(super) fn add<T: Element<Acc = A>>(
        &mut self,
        view: &View<'_, T>,
        lanes: &Lanes,
        of: (usize, usize),
        (index, keys): (usize, Range<usize>),
        sums: &mut Sums<A>,
        d_bias: Option<&mut BiasSums<'_, A>>,
    ) {
        let scored = match index < self.kept {
            true => index,
            false => self.score(view, lanes, of, (index, keys.clone())),
        };
        let Scored {
            scores,
            d_scores,
            slopes,
            place: Some(place),
        } = &mut self.scored[scored]
        else {
            return;
        };
        let (stride, from, count) = (place.stride, place.lanes.start, place.lanes.len());
        let Sizes {
            width, value_width, ..
        } = view.sizes;
        dispatch(Gradient {
            place,
            scores,
            d_scores,
            lse: &self.lse,
            along: &self.along,
        });
        if let Some(d_bias) = d_bias {
            d_bias.add(lanes, place, d_scores);
        }
        if view.cap.is_some() {
            pulp::Arch::new().dispatch(Multiply {
                place,
                d_scores,
                slopes,
            });
        }
        if let Some(tiles) = &mut self.tiles {
            let [dk, dv] = [(&mut sums.dk, width), (&mut sums.dv, value_width)]
                .map(|(sums, width)| &mut sums[keys.start * width..]);
            let sizes = [keys.len(), stride];
            clear_others(place, scores);
            let p = &mut scores[..keys.len() * stride];
            tiles.add_to_values(p, sizes, (&mut *dv, value_width));
            leave_remainders(p);
            tiles.add_to_values(p, sizes, (&mut *dv, value_width));
            clear_others(place, d_scores);
            let ds = Block::rows(d_scores, stride);
            tiles.weights.left(ds, sizes);
            multiply_tiled(&tiles.weights, &tiles.queries_as_terms, (dk, width), true);
            tiles.weights.left(ds.transposed(), [stride, keys.len()]);
            let stored = view.k.stored(of.0, of.1, keys.start);
            tiles.stored.right_of(stored, [keys.len(), width]);
            let dq = (&mut self.dq[..], width);
            return multiply_tiled(&tiles.weights, &tiles.stored, dq, true);
        }
        let k = view.k.block(of.0, of.1, keys.clone(), &mut self.keys);
        let (p, ds) = (&scores[from..], &d_scores[from..]);
        let [q, dy] = [(&self.queries, width), (&self.dy, value_width)]
            .map(|(rows, width)| Block::rows(&rows[from * width..], width));
        multiply_blocks(
            [keys.len(), count, value_width],
            Block::rows(p, stride),
            dy,
            (&mut sums.dv[keys.start * value_width..], value_width),
            true,
        );
        multiply_blocks(
            [keys.len(), count, width],
            Block::rows(ds, stride),
            q,
            (&mut sums.dk[keys.start * width..], width),
            true,
        );
        multiply_blocks(
            [count, keys.len(), width],
            Block::rows(ds, stride).transposed(),
            k,
            (&mut self.dq[from * width..], width),
            true,
        );
    }

    /// Adds the gradients of the sinks: `−e^(sink − lse) · Σ dy · y`.
    pub(super) fn add_sinks<T: Element<Acc = A>>(
        &self,
        view: &View<'_, T>,
        lanes: &Lanes,
        first_head: usize,
        sinks: &mut [A],
    ) {
        for (lane, (head, _)) in lanes.queries[..lanes.count].iter().enumerate() {
            let p = (view.sinks[*head] - self.lse[lane]).exp();
            sinks[head - first_head] += -(p * self.along[lane]);
        }
    }
}
