//! Gated linear units of two tensors that are packed in one, which the backward pass reads in place of the two.
//!
//! NPUs have fused operators of packed tensors alone. Packing once for both passes moves less than packing in each, and
//! takes the memory of gate and up, which nothing else keeps. [`Glu`](super::Glu) has the maths.

use crate::ops::fused::declare::operation;
use crate::ops::fused::{Like, Saved};
use crate::ops::operands::{Described, Mismatch, like, require};
use crate::semantics::{GluKey, Projections};
use burn::backend::Shape;

operation! {
    /// A gated linear unit that packs gate and up.
    PackingGlu {
        name: "packing_glu",
        title: "GLU",
        kernel: "npu_fused_swiglu",
        saved: 1,
        recomputed: true,
        keeps: |_, _| false,
        inner: true,
    }
    /// The checked operands of a gated linear unit that packs gate and up, without a limit or a sparsity.
    Operands<T> {
        /// The gate.
        gate: One "the gate",
        /// The projection that the gate multiplies, of the same shape.
        up: One "up",
    }
    numbers {
        /// The variant to compute.
        key: GluKey,
    }
}

impl<T: Described> Operands<T> {
    fn check(&self) -> Result<(), Mismatch> {
        let plain = GluKey {
            activation: self.key.activation,
            ..GluKey::SWIGLU
        };
        require!(
            self.key == plain,
            "GLU: gate and up are packed without a clamp, an offset or a top-k, but the semantics are {}",
            self.key
        );
        let of_gate = (self.gate.shape(), self.gate.dtype());
        require!(of_gate.0.num_dims() > 0, "GLU: the gate has no axis");
        let n = of_gate.0.as_slice().last().copied().unwrap_or_default();
        require!(
            n.checked_mul(2).is_some(),
            "GLU: the last axis of the gate has {n} elements, too many for a packed tensor"
        );
        like("GLU", ("up", &self.up), ("the gate", &of_gate.0, of_gate.1))
    }

    fn results(&self) -> [Like; 1] {
        [(self.gate.shape(), self.gate.dtype())]
    }

    fn saved(&self) -> [Saved; 1] {
        let like = (self.packed(), self.gate.dtype());
        [Saved::in_shape("gate and up in one tensor", like)]
    }

    /// Returns the shape of the tensor that holds gate and up, `[.., 2n]`.
    pub(crate) fn packed(&self) -> Shape {
        let mut shape = self.gate.shape();
        if let Some(last) = shape.as_mut_slice().last_mut() {
            *last *= 2;
        }
        shape
    }

    /// Returns the key of the packed tensor.
    pub(crate) fn packed_key(&self) -> GluKey {
        GluKey {
            projections: Projections::Chunked,
            ..self.key
        }
    }
}

#[cfg(feature = "cpu")]
mod on_flex {
    use super::{Each, PackingGlu};
    use crate::ops::fused::{
        Backward, BackwardOn, FusedKernel, Given, Gradients, Made, MadeOn, Tensors,
    };
    use crate::ops::glu::{self, Glu};
    use crate::ops::operands::checked;
    use burn::backend::ops::FloatTensorOps;
    use burn::backend::{Flex, TensorMetadata};
    use burn::tensor::Slice;

    /// By the kernel of packed tensors, for clients of a served CPU.
    impl FusedKernel<PackingGlu> for Flex {
        fn forward(operands: Tensors<PackingGlu, Self>, _: Option<&Each<bool>>) -> MadeOn<Self> {
            checked(operands.dtype());
            let key = operands.packed_key();
            let axis = operands.gate().shape().num_dims() - 1;
            let packed = Self::float_cat(operands.into_tensors().collect(), axis);
            let settings = glu::Settings::default();
            let operands = checked(glu::Operands::new(packed.clone(), None, settings, key));
            let made = <Self as FusedKernel<Glu>>::forward(operands, None);
            Made::new(made.y).saving([packed])
        }

        fn backward(backward: BackwardOn<PackingGlu, Self>) -> Gradients<PackingGlu, Self> {
            let (operands, dy, saved, ..) = backward.into_parts();
            let packed = saved.into_iter().next().expect("one tensor is kept");
            let settings = glu::Settings::default();
            let key = operands.packed_key();
            let unit = checked(glu::Operands::new(packed, None, settings, key));
            let backward = checked(Backward::<Glu, _, _>::new(unit, Given::new(dy), &[true]));
            let packed = <Self as FusedKernel<Glu>>::backward(backward).first;
            let packed = packed.expect("it is wanted");
            let shape = packed.shape();
            let n = shape[shape.num_dims() - 1] / 2;
            let half = |from: usize| {
                let outer = shape.as_slice().iter().rev().skip(1).rev();
                let outer = outer.map(|size| Slice::from(0..*size));
                let slices: Vec<_> = outer.chain([Slice::from(from..from + n)]).collect();
                Some(Self::float_slice(packed.clone(), &slices))
            };
            Each {
                gate: half(0),
                up: half(n),
            }
        }
    }
}
