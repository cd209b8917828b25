//! Rotary position embeddings, alone and after a norm.

use super::Results;
use super::norm::view_of;
use crate::call::Error;
use crate::made::Made;
use crate::numbers::{Epsilon, Finite};
use crate::tensor::Tensor;
use kernels_simd::keys::{HeadLayout, RopeStyle, Rounding, TableLayout};
use kernels_simd::{Values, qk_norm_rope as normed, rope};

/// A rotation: its tables and its variant.
pub(super) struct Rotation {
    pub(super) cos: Tensor,
    pub(super) sin: Tensor,
    pub(super) style: RopeStyle,
    pub(super) layout: HeadLayout,
    pub(super) table: TableLayout,
}

impl Rotation {
    fn settings(&self) -> rope::Settings {
        rope::Settings {
            style: self.style,
            layout: self.layout,
            table: self.table,
        }
    }

    /// Rotates queries and keys, or their gradients back.
    pub(super) fn of(
        self,
        heads: [Option<Tensor>; 2],
        rotate: fn(&rope::Operands<'_>) -> Values,
    ) -> Results<2> {
        let rotated = |x: &Tensor| -> Result<Made, Error> {
            let y = rotate(&rope::Operands {
                x: x.view()?,
                cos: self.cos.view()?,
                sin: self.sin.view()?,
                settings: self.settings(),
            });
            Ok(Made::new(y, x.sizes()))
        };
        let [first, second] = heads.map(|x| x.as_ref().map(rotated).transpose());
        Ok([first?, second?])
    }
}

/// The norm of heads `[b, s, heads, d]` and their rotation.
pub(super) struct HeadNorm {
    pub(super) x: Tensor,
    pub(super) weight: Option<Tensor>,
    pub(super) eps: Epsilon,
    pub(super) offset: Finite,
    pub(super) rounding: Rounding,
    pub(super) together: bool,
    pub(super) rotation: Rotation,
}

impl HeadNorm {
    fn operands(&self) -> Result<normed::Operands<'_>, Error> {
        Ok(normed::Operands {
            x: self.x.view()?,
            weight: view_of(&self.weight)?,
            cos: self.rotation.cos.view()?,
            sin: self.rotation.sin.view()?,
            settings: normed::Settings {
                eps: self.eps.0,
                offset: self.offset.0,
                rounding: self.rounding,
                together: self.together,
                rotation: self.rotation.settings(),
            },
        })
    }

    pub(super) fn forward(self) -> Results<1> {
        let y = normed::forward(&self.operands()?);
        let sizes = match (self.rotation.layout, self.x.sizes()) {
            (HeadLayout::Bnsd, &[b, s, heads, d]) => vec![b, heads, s, d],
            (_, sizes) => sizes.to_vec(),
        };
        Ok([Some(Made::new(y, &sizes))])
    }

    pub(super) fn backward(self, dy: Tensor, wants_weight: bool) -> Results<2> {
        let found = normed::backward(&self.operands()?, &dy.view()?, wants_weight);
        Ok([
            Some(Made::new(found.x, self.x.sizes())),
            Made::like(found.weight, &self.weight),
        ])
    }
}
