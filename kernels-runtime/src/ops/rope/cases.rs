use crate::ops::rope::{fused, fused_sections, reference, reference_sections};
use crate::reason::Reason;
use crate::registry::{FloatType, KernelSpec};
use crate::semantics::{
    HeadLayout, RopeKey, RopeStyle, RotaryWidth, Sections, SemanticsKey, TableLayout,
};
use crate::verify::case::{Case, Computation, Computed, Layout, Variant, count, vary};
use crate::verify::data::{tensor, values};
use burn::tensor::Tensor;

/// A rotary position embedding.
#[derive(Clone, Copy)]
struct Rope {
    key: RopeKey,
    /// True if half types have tables in f32.
    wide_tables: bool,
}

pub(crate) fn cases() -> impl Iterator<Item = Case> {
    all().flat_map(|(rope, large)| {
        Case::on_every_shape(rope, large).filter(move |case| rope.has(case.shape()))
    })
}

/// Returns the keys and their tables. The flag is true if large shapes are worth testing.
fn all() -> impl Iterator<Item = (Rope, bool)> {
    let style = |style, table| RopeKey {
        style,
        table,
        ..RopeKey::LLAMA
    };
    let orders = [
        style(RopeStyle::Half, TableLayout::Halves),
        style(RopeStyle::Half, TableLayout::Pairs),
        style(RopeStyle::Interleaved, TableLayout::Halves),
        style(RopeStyle::Interleaved, TableLayout::Neighbours),
        style(RopeStyle::Interleaved, TableLayout::Pairs),
        style(RopeStyle::InterleavedToHalf, TableLayout::Halves),
        style(RopeStyle::InterleavedToHalf, TableLayout::Pairs),
    ];
    let partial = [orders[0], orders[2], orders[5]]
        .map(|key| vary(key, |key| key.width = RotaryWidth::Partial));
    let bsnd = [orders[0], orders[4]].map(|key| vary(key, |key| key.layout = HeadLayout::Bsnd));
    let sections = [Sections::Chunked, Sections::Interleaved]
        .map(|sections| vary(RopeKey::LLAMA, |key| key.sections = sections));
    // GLM-4.5V's.
    let part = vary(sections[0], |key| key.width = RotaryWidth::Partial);
    let narrow = orders.map(|key| (key, false, true));
    let others = partial
        .into_iter()
        .chain(bsnd)
        .chain(sections)
        .chain([part])
        .map(|key| (key, false, false));
    // Llama 4's, with a complex table in f32, and OLMo 2's.
    let wide = [bsnd[1], orders[0], orders[3], orders[5]].map(|key| (key, true, false));
    narrow
        .into_iter()
        .chain(others)
        .chain(wide)
        .map(|(key, wide_tables, large)| (Rope { key, wide_tables }, large))
}

impl Variant for Rope {
    fn kernel(&self) -> &'static KernelSpec {
        super::KERNEL
    }

    fn key(&self) -> SemanticsKey {
        self.key.into()
    }

    fn describe(&self, shape: [usize; 4], layout: &str) -> String {
        match self.wide_tables {
            true => format!("{shape:?}{layout} tables in f32"),
            false => format!("{shape:?}{layout}"),
        }
    }

    fn compute(&self, shape: [usize; 4], at: &Computation<'_>) -> Result<Vec<Computed>, Reason> {
        let (q, q_seen) = at.leaf("q", shape);
        let (k, k_seen) = at.leaf("k", self.keys(shape));
        let [b, s, w] = self.table(shape, at.layout);
        let table = |name| -> Tensor<4> {
            let shape = [self.positions(), b, s, w];
            let values = values(name, count(shape), self.table_dtype(at.exact_in));
            tensor(&values, shape, self.table_dtype(at.dtype), at.device).require_grad()
        };
        let (cos, sin) = (table("cos"), table("sin"));
        let (q_out, k_out) = self.run(q_seen, k_seen, &cos, &sin, at.fused)?;
        let d_q = at.plain("d_q", shape);
        let d_k = at.plain("d_k", self.keys(shape));
        let loss = (q_out.clone() * d_q).sum() + (k_out.clone() * d_k).sum();
        let grads = loss.backward();
        let terms = self.table_terms(shape, at);
        Ok(vec![
            Computed::new("q", Some(q_out)),
            Computed::new("k", Some(k_out)),
            Computed::new("d_q", q.grad(&grads)),
            Computed::new("d_k", k.grad(&grads)),
            Computed::new("d_cos", cos.grad(&grads)).sum_of_rounded(terms),
            Computed::new("d_sin", sin.grad(&grads)).sum_of_rounded(terms),
        ])
    }
}

impl Rope {
    /// Returns whether heads of this shape can be rotated with this key.
    fn has(self, shape: [usize; 4]) -> bool {
        let d = shape[3];
        let fits = match self.key.width {
            RotaryWidth::Full => d.is_multiple_of(2),
            RotaryWidth::Partial => d >= 4,
        };
        fits && (self.key.sections == Sections::None || d >= 6)
    }

    /// Returns the shape of the keys, which have one head.
    fn keys(self, [a, b, c, d]: [usize; 4]) -> [usize; 4] {
        match self.key.layout {
            HeadLayout::Bnsd => [a, b.min(1), c, d],
            HeadLayout::Bsnd => [a, b, c.min(1), d],
        }
    }

    /// Returns the shape of a table. In one layout, all sequences share a table.
    fn table(self, [b, x, y, d]: [usize; 4], layout: Layout) -> [usize; 3] {
        let s = match self.key.layout {
            HeadLayout::Bnsd => y,
            HeadLayout::Bsnd => x,
        };
        let rotated = match self.key.width {
            RotaryWidth::Full => d,
            RotaryWidth::Partial => d / 4 * 2,
        };
        let width = match self.key.table {
            TableLayout::Pairs => rotated / 2,
            TableLayout::Halves | TableLayout::Neighbours => rotated,
        };
        [if layout == Layout::Swapped { 1 } else { b }, s, width]
    }

    /// Returns the number of positions that a table has.
    fn positions(self) -> usize {
        match self.key.sections {
            Sections::None => 1,
            Sections::Chunked | Sections::Interleaved => 3,
        }
    }

    /// Returns the numbers of pairs for time, height and width. The last two are a third each, rounded down.
    fn sections(pairs: usize) -> [usize; 3] {
        let third = pairs / 3;
        [pairs - 2 * third, third, third]
    }

    fn table_dtype(self, dtype: FloatType) -> FloatType {
        match dtype {
            FloatType::F16 | FloatType::Bf16 if self.wide_tables => FloatType::F32,
            _ => dtype,
        }
    }

    fn run(
        self,
        q: Tensor<4>,
        k: Tensor<4>,
        cos: &Tensor<4>,
        sin: &Tensor<4>,
        by_kernel: bool,
    ) -> Result<(Tensor<4>, Tensor<4>), Reason> {
        let (cos, sin, key) = (cos.clone(), sin.clone(), self.key);
        if key.sections != Sections::None {
            let sections = Self::sections(cos.dims()[3] / 2);
            return if by_kernel {
                fused_sections(q, k, cos, sin, sections, key)
            } else {
                Ok(reference_sections(q, k, cos, sin, sections, key))
            };
        }
        let (cos, sin): (Tensor<3>, Tensor<3>) = (cos.squeeze_dim(0), sin.squeeze_dim(0));
        if by_kernel {
            fused(q, k, cos, sin, key)
        } else {
            Ok(reference(q, k, cos, sin, key))
        }
    }

    /// Returns a bound on the terms of a table's gradient: two products for every head of q and k, and for
    /// every sequence.
    fn table_terms(self, shape: [usize; 4], at: &Computation<'_>) -> f64 {
        let [b, x, y, _] = shape;
        let heads = match self.key.layout {
            HeadLayout::Bnsd => x,
            HeadLayout::Bsnd => y,
        };
        let q = at.largest("q", shape) * at.largest("d_q", shape);
        let keys = self.keys(shape);
        let k = at.largest("k", keys) * at.largest("d_k", keys);
        2.0 * b as f64 * (q * heads as f64 + k)
    }
}
