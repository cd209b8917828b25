//! Calls of inference over a part of a cache, compared with the reference in f64.

use crate::npu::*;
use burn::tensor::Tensor as Exact;
use burn_cann::{DType, Device, Layout, Stream, Tensor};
use kernels_runtime::npu::{OnNpu, Seen};
use kernels_runtime::ops::attention::npu::{Hidden, Operator, Plan, decide_inference};
use kernels_runtime::ops::attention::{Attention, Inputs, Lengths, Operands, Settings, reference};
use kernels_runtime::semantics::*;

pub const HALVES: [DType; 2] = [DType::F16, DType::BF16];
pub const LAYOUTS: [HeadLayout; 2] = [HeadLayout::Bnsd, HeadLayout::Bsnd];

/// The memory of keys or values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    /// `[batch, heads, room, width]`, as `KvCache` keeps them.
    ByHead,
    /// `[batch, room, heads, width]`.
    ByToken,
}

/// A call of inference over a part of a cache.
#[derive(Clone, Debug)]
pub struct Call {
    pub key: AttentionKey,
    pub settings: Settings,
    pub lengths: Option<Vec<usize>>,
    pub cache: Cache,
    /// The number of positions of the cache in front of those that are passed, and behind them.
    pub around: [usize; 2],
    pub batch: usize,
    pub queries: usize,
    pub keys: usize,
    pub width: usize,
    pub value_width: usize,
    pub lie: Lie,
}

pub const HEADS: usize = 4;
pub const GROUPS: usize = 2;

impl Call {
    /// Returns a step of decoding over a cache with room.
    pub fn new(key: AttentionKey) -> Self {
        Self {
            key,
            settings: Settings::default(),
            lengths: None,
            cache: Cache::ByHead,
            around: [0, 5],
            batch: 2,
            queries: 1,
            keys: 11,
            width: 16,
            value_width: 16,
            lie: Lie::Contiguous,
        }
    }

    pub fn windowed(self, window: usize) -> Self {
        Self {
            settings: Settings {
                window: Some(window),
                ..self.settings
            },
            ..self
        }
    }

    fn lengths(&self) -> Lengths {
        self.lengths
            .as_ref()
            .map_or_else(Lengths::default, |lengths| Lengths::new(lengths))
    }

    /// Returns a tensor of queries or of the result, or its shape.
    fn of_queries(&self, width: usize) -> [usize; 4] {
        in_layout(self.key.layout, [self.batch, HEADS, self.queries, width])
    }

    /// Makes a cache that is NaN everywhere but at the positions that are passed. Returns these as a view, and their exact
    /// numbers.
    fn keys(&self, stream: &Stream, dtype: DType, width: usize, seed: u64) -> (Tensor, Held) {
        let [before, behind] = self.around;
        let room = before + self.keys + behind;
        let axis = match self.cache {
            Cache::ByHead => 2,
            Cache::ByToken => 1,
        };
        let mut shape = [self.batch, GROUPS, room, width];
        if self.cache == Cache::ByToken {
            shape.swap(1, 2);
        }
        let whole = Layout::contiguous(shape).unwrap();
        let view = whole.slice(axis, before..before + self.keys).unwrap();
        let view = match (self.cache, self.key.layout) {
            (Cache::ByHead, HeadLayout::Bnsd) | (Cache::ByToken, HeadLayout::Bsnd) => view,
            _ => view.transpose(1, 2).unwrap(),
        };
        let places = places(&view);
        let numbers = noise(places.len(), seed);
        let mut memory = vec![f64::NAN; shape.iter().product()];
        for (place, number) in places.iter().zip(&numbers) {
            memory[*place] = *number;
        }
        let (tensor, rounded) =
            crate::npu::common::maths::tensor(stream, dtype, &memory, &[memory.len()]);
        let held = Held {
            values: places.iter().map(|place| rounded[*place]).collect(),
            shape: view.shape().to_vec(),
        };
        (tensor.with_layout(view).unwrap(), held)
    }

    /// Compares the result with the reference. Returns the plan, and the operators and copies that were put on the stream.
    pub fn compare(&self, device: &Device, stream: &Stream, dtype: DType) -> (Plan, Vec<String>) {
        let what = format!("{}, {self:?}", self.key);
        let shape = self.of_queries(self.width);
        let (q, q_held) = put(stream, dtype, &shape, 1, self.lie);
        let (k, k_held) = self.keys(stream, dtype, self.width, 2);
        let (v, v_held) = self.keys(stream, dtype, self.value_width, 3);
        let has_sinks = self.key.sink == Sinks::Learned;
        let sinks = has_sinks.then(|| put(stream, dtype, &[HEADS], 5, Lie::Contiguous));
        let operands = Operands::new(
            Seen(q),
            Seen(k),
            Seen(v),
            None,
            sinks.as_ref().map(|(sinks, _)| Seen(sinks.clone())),
            self.settings,
            self.lengths(),
            self.key,
        )
        .expect(&what);
        let plan = decide_inference(device, &operands).expect(&what);
        let inferred = || Attention::forward(stream, &operands, None).expect(&what).y;
        let (y, put_on) = at_most_uploading(inferred);
        let inputs = Inputs {
            q: q_held.plain(),
            k: k_held.plain(),
            v: v_held.plain(),
            bias: None,
            sinks: sinks.map(|(_, held)| held.plain::<1>()),
            lengths: self.lengths(),
        };
        let expected: Exact<4> = reference(inputs, self.settings, self.key);
        let shape = self.of_queries(self.value_width);
        assert_near(&what, stream, &y, dtype, &shape, &elements(expected));
        let is_infer = matches!(plan.operator, Operator::Infer | Operator::InferWithSinks);
        let version = match plan.operator {
            Operator::InferWithSinks => "aclnnFusedInferAttentionScoreV4",
            _ => "aclnnFusedInferAttentionScoreV3",
        };
        let calls = |prefix: &str| {
            put_on
                .iter()
                .filter(|call| call.starts_with(prefix))
                .count()
        };
        assert_eq!(calls(version), usize::from(is_infer), "{what}: {put_on:?}");
        assert_eq!(
            calls("aclnnFlashAttention"),
            usize::from(!is_infer && plan.operator != Operator::Composed),
            "{what}: {put_on:?}"
        );
        (plan, put_on)
    }
}

fn in_layout(layout: HeadLayout, [batch, heads, tokens, width]: [usize; 4]) -> [usize; 4] {
    match layout {
        HeadLayout::Bnsd => [batch, heads, tokens, width],
        HeadLayout::Bsnd => [batch, tokens, heads, width],
    }
}

/// Returns the places of the elements, in order.
fn places(layout: &Layout) -> Vec<usize> {
    let mut places = vec![layout.offset()];
    for (&size, &stride) in layout.shape().iter().zip(layout.strides()) {
        let steps = |place: usize| (0..size).map(move |index| place + index * stride);
        places = places.into_iter().flat_map(steps).collect();
    }
    places
}

pub fn count(put_on: &[String], name: &str) -> usize {
    put_on.iter().filter(|call| *call == name).count()
}

/// Checks that the operator read keys and values where they lie, and that nothing came from the host.
#[track_caller]
pub fn in_place(what: &str, (plan, put_on): (Plan, Vec<String>), hidden: Hidden) {
    assert_eq!(
        (plan.operator, plan.mask),
        (Operator::Infer, hidden),
        "{what}"
    );
    for copy in ["aclnnInplaceCopy", "aclrtMemcpyAsync"] {
        assert_eq!(count(&put_on, copy), 0, "{what}: {put_on:?}");
    }
}
