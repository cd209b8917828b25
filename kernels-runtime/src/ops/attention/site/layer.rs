//! Attention with its projections.

use super::heads::decided;
use crate::__private::first_use;
use crate::dispatch::{At, Decision};
use crate::kernel::prefix;
use crate::live::{self, Captured, detached};
use crate::mode::Mode;
use crate::ops::attention::{self, Inputs, Lengths, Settings};
use crate::ops::operands::refuse;
use crate::ops::reshape;
use crate::semantics::AttentionKey;
use burn::tensor::Tensor;

/// A projection, on `[batch, positions, width]`.
type Projection<'a> = &'a dyn Fn(Tensor<3>) -> Tensor<3>;

/// A norm of heads, `[batch, positions, heads, width]`.
type HeadNorm<'a> = &'a dyn Fn(Tensor<4>) -> Tensor<4>;

/// A rotation of the heads of queries and keys, `[batch, heads, positions, width]`.
type Rotation<'a> = &'a dyn Fn(Tensor<4>, Tensor<4>) -> (Tensor<4>, Tensor<4>);

/// The layers and numbers of attention with its projections.
#[derive(Clone, Copy)]
pub struct AttentionLayer<'a> {
    projections: [Projection<'a>; 4],
    heads: usize,
    kv_heads: usize,
    settings: Settings,
    q_norm: Option<HeadNorm<'a>>,
    k_norm: Option<HeadNorm<'a>>,
    rotary: Option<Rotation<'a>>,
    sinks: Option<&'a dyn Fn() -> Option<Tensor<1>>>,
    lengths: Option<&'a [usize]>,
    first_used: &'a [AttentionPart],
    /// True if the layers run on copies, for a check.
    is_detached: bool,
}

/// A part of attention that may hold parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttentionPart {
    /// The projection of the queries.
    Query,
    /// The projection of the keys.
    Key,
    /// The projection of the values.
    Value,
    /// The norm of the queries' heads.
    QueryNorm,
    /// The norm of the keys' heads.
    KeyNorm,
    /// The rotation of the heads.
    Rotary,
    /// The sinks.
    Sinks,
    /// The projection of the result.
    Output,
}

impl<'a> AttentionLayer<'a> {
    /// Makes a layer of the projections of queries, keys, values and the result, of the number of heads, and of the
    /// numbers of attention. There are as many heads of keys and values.
    pub const fn new(projections: [Projection<'a>; 4], heads: usize, settings: Settings) -> Self {
        Self {
            projections,
            heads,
            kv_heads: heads,
            settings,
            q_norm: None,
            k_norm: None,
            rotary: None,
            sinks: None,
            lengths: None,
            first_used: &[
                AttentionPart::Query,
                AttentionPart::Key,
                AttentionPart::Value,
                AttentionPart::QueryNorm,
                AttentionPart::KeyNorm,
                AttentionPart::Rotary,
                AttentionPart::Sinks,
                AttentionPart::Output,
            ],
            is_detached: false,
        }
    }

    /// Sets the number of heads of keys and values.
    #[must_use]
    pub const fn kv_heads(mut self, heads: usize) -> Self {
        self.kv_heads = heads;
        self
    }

    /// Sets the norm of the queries' heads.
    #[must_use]
    pub const fn q_norm(mut self, norm: HeadNorm<'a>) -> Self {
        self.q_norm = Some(norm);
        self
    }

    /// Sets the norm of the keys' heads.
    #[must_use]
    pub const fn k_norm(mut self, norm: HeadNorm<'a>) -> Self {
        self.k_norm = Some(norm);
        self
    }

    /// Sets the rotation of queries and keys.
    #[must_use]
    pub const fn rotary(mut self, rotation: Rotation<'a>) -> Self {
        self.rotary = Some(rotation);
        self
    }

    /// Sets the function that returns the sinks.
    #[must_use]
    pub const fn sinks(mut self, sinks: &'a dyn Fn() -> Option<Tensor<1>>) -> Self {
        self.sinks = Some(sinks);
        self
    }

    /// Sets the lengths of the sequences.
    #[must_use]
    pub const fn lengths(mut self, lengths: Option<&'a [usize]>) -> Self {
        self.lengths = lengths;
        self
    }

    /// Sets the order in which the parts are first used. It must list all parts that exist, each after those whose
    /// results it takes.
    #[must_use]
    pub const fn first_used(mut self, parts: &'a [AttentionPart]) -> Self {
        self.first_used = parts;
        self
    }

    /// Calls one of the layers.
    fn call<T>(&self, layer: impl FnOnce() -> T) -> T {
        match self.is_detached {
            true => detached::call(layer),
            false => layer(),
        }
    }

    /// Returns a number that differs between layers that a body may compute in different ways.
    fn variant(&self) -> u64 {
        let flags = [
            self.kv_heads == self.heads,
            self.kv_heads == 1,
            self.heads == 1,
            self.lengths.is_some(),
        ];
        flags
            .iter()
            .fold(0, |bits, flag| bits << 1 | u64::from(*flag))
    }

    /// Runs the layer, part by part, up to the attention.
    #[track_caller]
    fn inputs(&self, x: Tensor<3>) -> Inputs {
        let [query, key, value, _] = self.projections;
        let projected = |layer: Projection<'_>| self.call(|| layer(x.clone()));
        let (mut q, mut k, mut v, mut sinks) = (None, None, None, None);
        for part in self.first_used {
            match part {
                AttentionPart::Query => q = Some(split("q", projected(query), self.heads)),
                AttentionPart::Key => k = Some(split("k", projected(key), self.kv_heads)),
                AttentionPart::Value => v = Some(split("v", projected(value), self.kv_heads)),
                AttentionPart::QueryNorm => q = self.normed(self.q_norm, q),
                AttentionPart::KeyNorm => k = self.normed(self.k_norm, k),
                AttentionPart::Rotary => (q, k) = self.rotated(q, k),
                AttentionPart::Sinks => sinks = self.sinks.and_then(|sinks| self.call(sinks)),
                // It takes the result of all others.
                AttentionPart::Output => {}
            }
        }
        let [q, k, v] = [q, k, v].map(|heads| heads.expect("each projection is listed"));
        Inputs {
            q,
            k,
            v,
            bias: None,
            sinks,
            lengths: self.lengths.map_or_else(Lengths::default, Lengths::new),
        }
    }

    /// Returns the layer's result of attention, for an input with these sizes.
    fn output<const D: usize>(&self, mixed: Tensor<4>, dims: [usize; D]) -> Tensor<D> {
        let [.., output] = self.projections;
        let [batch, positions, heads, width] = mixed.dims();
        let mixed = mixed.reshape([batch, positions, heads * width]);
        let y = self.call(|| output(mixed));
        let mut shape = dims;
        shape[D - 1] = y.dims()[2];
        reshape(y, shape)
    }

    #[track_caller]
    fn composition<const D: usize>(&self, x: Tensor<D>, key: AttentionKey) -> Tensor<D> {
        let dims = x.dims();
        let inputs = self.inputs(sequences(x));
        self.output(attention::reference(inputs, self.settings, key), dims)
    }

    fn normed(&self, norm: Option<HeadNorm<'_>>, heads: Option<Tensor<4>>) -> Option<Tensor<4>> {
        match norm {
            Some(norm) => heads.map(|heads| self.call(|| norm(heads))),
            None => heads,
        }
    }

    /// Rotates heads, whose positions come before their width for the rotation alone.
    fn rotated(
        &self,
        q: Option<Tensor<4>>,
        k: Option<Tensor<4>>,
    ) -> (Option<Tensor<4>>, Option<Tensor<4>>) {
        let (Some(rotary), Some(q), Some(k)) = (self.rotary, &q, &k) else {
            return (q, k);
        };
        let turned = |heads: &Tensor<4>| heads.clone().swap_dims(1, 2);
        let (q, k) = (turned(q), turned(k));
        let (q, k) = self.call(|| rotary(q, k));
        (Some(q.swap_dims(1, 2)), Some(k.swap_dims(1, 2)))
    }

    /// Returns the input on which a body is compared with the composition: the first positions of two sequences. Returns
    /// `None` with lengths, because a body knows those of all sequences.
    fn sample<const D: usize>(&self, x: &Tensor<D>) -> Option<Tensor<D>> {
        if self.lengths.is_some() {
            return None;
        }
        // A window and a prefix show only beyond their sizes.
        let Settings {
            window,
            prefix: first,
            ..
        } = self.settings;
        let beyond = window.unwrap_or(0).saturating_add(first.unwrap_or(0));
        let positions = POSITIONS.saturating_add(beyond);
        let axis = D.checked_sub(2)?;
        let sequences = (0..axis).fold(x.clone(), |x, axis| prefix(x, axis, 2));
        Some(prefix(sequences, axis, positions))
    }
}

/// The number of positions on which a body is compared.
const POSITIONS: usize = 32;

/// Reshapes a layer's input to `[batch, positions, width]`.
#[track_caller]
fn sequences<const D: usize>(x: Tensor<D>) -> Tensor<3> {
    let dims = x.dims();
    let [before @ .., positions, width] = &dims[..] else {
        refuse(
            "npu_fused_attention: a layer takes `[.., positions, width]`, not a tensor of one axis",
        );
    };
    let shape = [before.iter().product(), *positions, *width];
    reshape(x, shape)
}

/// Splits the columns of a projection into heads, `[batch, positions, heads, width]`.
#[track_caller]
fn split(name: &str, projected: Tensor<3>, heads: usize) -> Tensor<4> {
    let [batch, positions, columns] = projected.dims();
    if heads == 0 || !columns.is_multiple_of(heads) {
        refuse(format_args!(
            "npu_fused_attention: `{name}` gives {columns} columns, which are not {heads} heads of one width"
        ));
    }
    projected.reshape([batch, positions, heads, columns / heads])
}

/// Runs the attention layer of a site. The reference is the user's whole `forward`.
///
/// The choice between the reference and the kernel depends on `x` and is made before the projections, so no path runs
/// them twice. If the projections then return tensors that no kernel takes, the plain composition runs.
#[track_caller]
pub fn attention_layer<const D: usize>(
    at: At,
    x: Tensor<D>,
    layer: AttentionLayer<'_>,
    reference: &mut dyn FnMut(Tensor<D>) -> Tensor<D>,
) -> Tensor<D> {
    let _span = at.enter();
    let x = x.into_dispatch();
    let Decision::Fused(implementation) = at.peek([&x]) else {
        at.decide([&x]);
        return reference(Tensor::from_dispatch(x));
    };
    let mode = Mode::of(&x);
    let (x, key) = (Tensor::<D>::from_dispatch(x), at.key::<AttentionKey>());
    if at.runs_body_first() {
        first_use::run(reference, x.clone().detach());
    }
    let due = live::composite_is_due(&at, mode, &x, layer.variant());
    let due = due.map(|due| live::Composite {
        part: match (due.width, layer.sample(&x)) {
            (live::Width::Rows(_), Some(sample)) => {
                live::Compared::Sample(Box::new(sample.into_dispatch()))
            }
            _ => live::Compared::Of(live::Width::Whole),
        },
        due,
        x: x.clone().into_dispatch(),
    });
    let plain = |inputs| attention::reference(inputs, layer.settings, key);
    let dims = x.dims();
    let inputs = layer.inputs(sequences(x));
    let mixed = decided(&at, inputs, layer.settings, Captured::These(&[]), plain);
    let y = layer.output(mixed, dims);
    if let Some(call) = due {
        let copied = AttentionLayer {
            is_detached: true,
            ..layer
        };
        live::composite(
            at.site(),
            implementation,
            call,
            None,
            |x| copied.composition(x, key),
            |x| detached::call(|| reference(x)),
        );
    }
    y
}

/// Runs an attention layer with [`attention::reference`].
#[track_caller]
pub fn attention_layer_reference<const D: usize>(
    x: Tensor<D>,
    layer: AttentionLayer<'_>,
    key: AttentionKey,
) -> Tensor<D> {
    layer.composition(x, key)
}
