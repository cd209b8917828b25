use crate::ops::glu::{Inputs, Settings, fused, reference};
use crate::reason::Reason;
use crate::registry::KernelSpec;
use crate::semantics::{Activation, Clamp, GluKey, Offset, Projections, SemanticsKey, TopK};
use crate::verify::case::{Case, Computation, Computed, Variant, count, vary};

/// A limit inside the range of the values, so that it clamps some of them.
const LIMIT: f64 = 1.5;

/// `Φ(1.5)`. Its multiplier is the same in every dtype, which comparing dtypes requires.
const SPARSITY: f64 = 0.933_192_798_731_141_9;

/// A gated linear unit.
#[derive(Clone, Copy)]
struct Glu {
    key: GluKey,
}

pub(crate) fn cases() -> impl Iterator<Item = Case> {
    all().flat_map(|(variant, large)| Case::on_every_shape(variant, large))
}

/// Returns the keys. The flag is true if large shapes are worth testing.
fn all() -> impl Iterator<Item = (Glu, bool)> {
    let of = |activation| vary(GluKey::SWIGLU, |key| key.activation = activation);
    let activations = Activation::ALL.map(|activation| (of(activation), true));
    let chunked = vary(GluKey::SWIGLU, |key| key.projections = Projections::Chunked);
    let interleaved = vary(GluKey::SWIGLU, |key| {
        key.projections = Projections::Interleaved
    });
    let gpt_oss = GluKey {
        activation: Activation::QuickGelu,
        clamp: Clamp::Limit,
        up_offset: Offset::One,
        ..interleaved
    };
    let gemma3n = vary(of(Activation::GeluTanh), |key| key.topk = TopK::Gaussian);
    let variants = [
        (chunked, true),
        (interleaved, true),
        (gpt_oss, true),
        (gemma3n, true),
        // The settings that these combine, in other combinations.
        (
            vary(chunked, |key| key.activation = Activation::GeluTanh),
            false,
        ),
        (
            vary(gpt_oss, |key| key.projections = Projections::Separate),
            false,
        ),
        (
            vary(gpt_oss, |key| key.projections = Projections::Chunked),
            false,
        ),
        (vary(GluKey::SWIGLU, |key| key.clamp = Clamp::Limit), false),
        (
            vary(GluKey::SWIGLU, |key| key.up_offset = Offset::One),
            false,
        ),
        (
            vary(of(Activation::Identity), |key| key.topk = TopK::Gaussian),
            false,
        ),
        (
            GluKey {
                clamp: Clamp::Limit,
                up_offset: Offset::One,
                ..gemma3n
            },
            false,
        ),
    ];
    activations
        .into_iter()
        .chain(variants)
        .map(|(key, large)| (Glu { key }, large))
}

impl Variant for Glu {
    fn kernel(&self) -> &'static KernelSpec {
        super::KERNEL
    }

    fn key(&self) -> SemanticsKey {
        self.key.into()
    }

    fn compute(&self, shape: [usize; 4], at: &Computation<'_>) -> Result<Vec<Computed>, Reason> {
        let [a, b, c, n] = shape;
        let (leaves, inputs) = if self.key.projections == Projections::Separate {
            let (gate, gate_seen) = at.leaf("gate", shape);
            let (up, up_seen) = at.leaf("up", shape);
            let inputs = Inputs::Separate {
                gate: gate_seen,
                up: up_seen,
            };
            (vec![("d_gate", gate), ("d_up", up)], inputs)
        } else {
            let (gate_up, seen) = at.leaf("gate_up", [a, b, c, 2 * n]);
            (vec![("d_gate_up", gate_up)], Inputs::Packed(seen))
        };
        let settings = Settings {
            limit: (self.key.clamp == Clamp::Limit).then_some(LIMIT),
            sparsity: (self.key.topk == TopK::Gaussian).then_some(SPARSITY),
        };
        let y = if at.fused {
            fused(inputs, settings, self.key)?
        } else {
            reference(inputs, settings, self.key)
        };
        let mut loss = (y.clone() * at.plain("dy", shape)).sum();
        if count(shape) == 0 {
            // The reference of a packed unit takes slices, and Burn does not track empty ones.
            for (_, leaf) in &leaves {
                loss = loss + leaf.clone().sum();
            }
        }
        let grads = loss.backward();
        let (y_terms, gradient_terms) = self.terms(shape, at);
        let gradients = leaves
            .into_iter()
            .map(|(name, leaf)| Computed::new(name, leaf.grad(&grads)).sum_of(gradient_terms));
        Ok(std::iter::once(Computed::new("y", Some(y)).sum_of(y_terms))
            .chain(gradients)
            .collect())
    }
}

impl Glu {
    /// Returns the size of the largest terms of the results and of the gradients. Parts of a factor may cancel, such
    /// as those of `1 + tanh` in the reference of a GELU.
    fn terms(self, shape: [usize; 4], at: &Computation<'_>) -> (f64, f64) {
        let [a, b, c, n] = shape;
        let size = |name| at.largest(name, shape);
        let (gate, up) = match self.key.projections {
            Projections::Separate => (size("gate"), size("up")),
            Projections::Chunked | Projections::Interleaved => {
                let both = at.largest("gate_up", [a, b, c, 2 * n]);
                (both, both)
            }
        };
        let y = gate * (1.0 + up);
        (y, y * size("dy"))
    }
}
