//! The operands of a rotary position embedding as live verification checks them.

use super::{Pair, reference};
use crate::kernel::{Operands, Rows, Tensors, Visitor};
use crate::registry::Implementation;
use crate::semantics::{HeadLayout, RopeKey};
use burn::backend::DispatchTensor;
use burn::tensor::Tensor;

/// The operands of a rotary position embedding. Tables of three positions are already merged.
#[derive(Clone)]
pub(crate) struct Rotary {
    pub(crate) q: Tensor<4>,
    pub(crate) k: Tensor<4>,
    cos: Tensor<3>,
    sin: Tensor<3>,
    key: RopeKey,
}

impl From<Pair<DispatchTensor>> for Rotary {
    fn from(pair: Pair<DispatchTensor>) -> Self {
        let key = pair.key();
        let ([q, k], [cos, sin]) = pair.into_inputs();
        Self {
            q,
            k,
            cos,
            sin,
            key,
        }
    }
}

impl Tensors for Rotary {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        visitor.tensor("q", &mut self.q);
        visitor.tensor("k", &mut self.k);
        visitor.tensor("cos", &mut self.cos);
        visitor.tensor("sin", &mut self.sin);
    }
}

impl Operands for Rotary {
    type Output = (Tensor<4>, Tensor<4>);

    fn reference(self) -> Self::Output {
        reference(self.q, self.k, self.cos, self.sin, self.key)
    }

    fn launch(self, implementation: &'static Implementation) -> Self::Output {
        let pair = Pair::of(self.q, self.k, self.cos, self.sin, self.key);
        pair.run(implementation)
    }

    /// Takes the first and the last head. If all sequences share the tables, also takes only the first and the last
    /// sequence. The tables keep all positions, because a body does not take them from its argument.
    fn sample(&self, rows: Rows) -> Option<Self> {
        let heads = match self.key.layout {
            HeadLayout::Bnsd => 1,
            HeadLayout::Bsnd => 2,
        };
        let shared = self.cos.dims()[0] == 1 && self.sin.dims()[0] == 1;
        let some = |tensor: &Tensor<4>| {
            let tensor = rows.ends(tensor, heads);
            match shared {
                true => rows.ends(&tensor, 0),
                false => tensor,
            }
        };
        Some(Self {
            q: some(&self.q),
            k: some(&self.k),
            ..self.clone()
        })
    }
}
