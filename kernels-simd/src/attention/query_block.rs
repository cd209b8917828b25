//! The gradients of a block of queries.

use super::QUERIES;
use super::Sizes;
use super::backward::Given;
use super::gradient_tiles::GradientTiles;
use super::hidden::clear_hidden;
use super::lanes::Lanes;
use super::rows::{SumAlong, gather, transposed};
use super::scores::{Along, Gradient, Multiply, Place, Running, adjust, lower};
use super::units::BiasSums;
use super::view::View;
use crate::lanes::{dispatch, vectorize};
use crate::product::{Block, Gemm, multiply_blocks};
use crate::{Element, is_half};
use std::ops::Range;

/// The gradients of a head of keys and of its values.
pub(super) struct Sums<A> {
    pub(super) dk: Vec<A>,
    pub(super) dv: Vec<A>,
}

/// The number of keys whose scores a block of queries of a half type keeps: 1.5 MiB. Those of further keys are computed twice.
const KEPT: usize = 2048;

/// The size of an `lse` from which it does not hold the logarithm of a sum beside the largest score: probabilities in f32
/// would be off by more than `2^-14` of them. A bias of -10⁹ for all keys of a query is usual for one that is hidden.
const FAR: f64 = 1024.0;

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
    fn new(len: usize) -> Self {
        Self {
            scores: vec![Gemm::ZERO; len],
            d_scores: vec![Gemm::ZERO; len],
            slopes: Vec::new(),
            place: None,
        }
    }
}

/// The memory of a block of queries.
pub(super) struct Buffers<A> {
    tiles: Option<GradientTiles<A>>,
    /// Whether this block's products are computed in tiles.
    in_tiles: bool,
    /// The scaled queries, unless they are in tiles, and the gradients of their results, as rows and transposed.
    queries: Vec<A>,
    queries_transposed: Vec<A>,
    dy: Vec<A>,
    dy_transposed: Vec<A>,
    /// `lse` of each query: zero where it is `-∞`, and `∞` for lanes without a query, whose probabilities are then zero.
    lse: Vec<A>,
    /// The largest score of each query, if one of them is [far](FAR). Scores, sinks and `lse` are then without it.
    bases: Vec<A>,
    /// `Σ dy · y` of each query, with the result before it was rounded.
    along: Vec<A>,
    /// The scores that are kept, and those of one block more.
    scored: Vec<Scored<A>>,
    /// The number of blocks of keys whose scores are kept until their gradients are computed.
    kept: usize,
    /// The largest number of scores of a block.
    of_block: usize,
    dq: Vec<A>,
    /// Keys and values of half types.
    keys: Vec<A>,
    values: Vec<A>,
}

impl<A: Gemm> Buffers<A> {
    pub(super) fn new<T: Element<Acc = A>>(view: &View<'_, T>, of: (usize, usize)) -> Self {
        Self {
            tiles: GradientTiles::new(view, of),
            in_tiles: false,
            queries: Vec::new(),
            queries_transposed: Vec::new(),
            dy: Vec::new(),
            dy_transposed: Vec::new(),
            lse: Vec::new(),
            bases: Vec::new(),
            along: Vec::new(),
            scored: Vec::new(),
            kept: if is_half::<T>() { KEPT / view.keys } else { 0 },
            of_block: view.keys * QUERIES,
            dq: Vec::new(),
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
        self.in_tiles = self
            .tiles
            .as_mut()
            .is_some_and(|tiles| tiles.load(lanes, &view.q, view.scale, &self.dy));
        if !self.in_tiles {
            gather(lanes, &view.q, view.scale, &mut self.queries);
            transposed(&self.queries, [count, width], &mut self.queries_transposed);
            transposed(&self.dy, [count, value_width], &mut self.dy_transposed);
        }
        self.lse.clear();
        for (head, query) in lanes.queries() {
            let lse = given.lse[(lanes.batch * heads + head) * queries + query];
            let hidden = lse == A::of(f64::NEG_INFINITY);
            self.lse.push(if hidden { Gemm::ZERO } else { lse });
        }
        self.lse.resize(count, A::of(f64::INFINITY));
        self.bases.clear();
        self.along.clear();
        self.along.resize(count, Gemm::ZERO);
        self.dq.clear();
        self.dq.resize(count * width, Gemm::ZERO);
    }

    /// Sums the exponentials of all scores again, if an `lse` of the block of queries that is loaded is far.
    pub(super) fn near<T: Element<Acc = A>>(
        &mut self,
        view: &View<'_, T>,
        lanes: &Lanes,
        of: (usize, usize),
    ) {
        let is_far = |lse: &A| *lse >= A::of(FAR) || *lse <= A::of(-FAR);
        if !self.lse[..lanes.count].iter().any(is_far) {
            return;
        }
        let mut running = Running::new(lanes.len());
        for keys in self.blocks_of_keys(lanes) {
            let scored = self.score(view, lanes, of, (self.kept, keys));
            let Scored { scores, place, .. } = &mut self.scored[scored];
            if let Some(place) = place {
                running.add(place, scores);
            }
        }
        self.bases.resize(lanes.len(), Gemm::ZERO);
        for (lane, (head, _)) in lanes.queries().iter().enumerate() {
            if let Some(sink) = view.sinks.get(*head) {
                running.add_one(lane, *sink);
            }
            let sum = running.sums[lane];
            if sum > Gemm::ZERO {
                self.bases[lane] = running.largest[lane];
                self.lse[lane] = sum.ln();
            }
        }
    }

    /// Returns the blocks of keys of the block of queries that is loaded.
    pub(super) fn blocks_of_keys(
        &self,
        lanes: &Lanes,
    ) -> impl Iterator<Item = Range<usize>> + use<A> {
        lanes.blocks_of_keys(self.in_tiles)
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
        for (index, keys) in self.blocks_of_keys(lanes).enumerate() {
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
            self.scored.push(Scored::new(self.of_block));
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
            scored.slopes.resize(self.of_block, Gemm::ZERO);
        }
        let slopes = view.cap.map(|_| &mut scored.slopes[..]);
        adjust(view, lanes, &place, &mut scored.scores, slopes);
        if !self.bases.is_empty() {
            lower(&place, &mut scored.scores, &self.bases);
        }
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
        if let Some(tiles) = self.tiles.as_ref().filter(|_| self.in_tiles) {
            return tiles.products(place, &mut scored.scores, &mut scored.d_scores);
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
        let tiles = self.tiles.as_ref();
        tiles.map_or(A::ONE, |tiles| tiles.scale_of_keys(view.scale))
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
        clear_hidden(lanes, place, [&mut *scores, &mut *d_scores]);
        if let Some(d_bias) = d_bias {
            d_bias.add(lanes, place, d_scores);
        }
        if view.cap.is_some() {
            vectorize(Multiply {
                place,
                d_scores,
                slopes,
            });
        }
        if let Some(tiles) = self.tiles.as_mut().filter(|_| self.in_tiles) {
            let sums = [(&mut sums.dk, width), (&mut sums.dv, value_width)]
                .map(|(sums, width)| &mut sums[keys.start * width..]);
            return tiles.add(place, scores, d_scores, sums);
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

    /// Returns the gradients of the queries, a row for each, without the scale.
    pub(super) fn queries(&mut self, lanes: &Lanes) -> &[A] {
        if let Some(tiles) = self.tiles.as_ref().filter(|_| self.in_tiles) {
            tiles.write_queries(lanes, &mut self.dq);
        }
        &self.dq
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
            let base = self.bases.get(lane).copied().unwrap_or(Gemm::ZERO);
            let p = (view.sinks[*head] - base - self.lse[lane]).exp();
            sinks[head - first_head] += -(p * self.along[lane]);
        }
    }
}
