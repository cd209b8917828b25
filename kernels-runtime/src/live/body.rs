//! The user's body, run beside the kernel.

use super::check::{Body, Captured};
use super::run::{Computed, Upstream, cut, run};
use crate::kernel::{Operands, Tensors, Visitor};
use burn::tensor::Tensor;

/// The body on copies of the operands. A captured operand has its own gradient, if it is a leaf.
/// `reaches` says whether one [reaches into a graph](Captured::reaches_into_a_graph).
pub(super) fn run_body<O: Operands>(
    operands: &O,
    reaches: bool,
    upstream: Upstream,
    body: Body<'_, O>,
) -> Computed {
    let upstream = match reaches {
        true => Upstream::None,
        false => upstream,
    };
    run(cut(operands), Some(operands), upstream, body)
}

impl Captured {
    /// Whether a captured operand was itself computed under autodiff. Going backward from the body
    /// would use up the program's own graph, which Burn does not keep for a second time.
    pub(super) fn reaches_into_a_graph<O: Tensors + Clone>(self, operands: &O) -> bool {
        struct Inner {
            captured: &'static [&'static str],
            found: bool,
        }
        impl Visitor for Inner {
            fn tensor<const D: usize>(&mut self, name: &'static str, tensor: &mut Tensor<D>) {
                let inner = tensor.is_tracked() && !tensor.is_require_grad();
                self.found |= inner && self.captured.contains(&name);
            }
        }
        let Self::These(captured) = self else {
            return false;
        };
        let mut inner = Inner {
            captured,
            found: false,
        };
        operands.clone().visit(&mut inner);
        inner.found
    }

    /// Whether the body takes this operand from its argument, for sure.
    pub(super) fn flows(self, name: &str) -> bool {
        match self {
            Self::These(captured) => !captured.contains(&name),
            Self::Unknown => false,
        }
    }
}
