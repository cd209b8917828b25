//! The run of the user's body beside the kernel.

use super::check::{Body, Captured};
use super::detached;
use super::run::{Computed, Own, Upstream, cut, run};
use crate::kernel::Visitor;
use crate::kernel::any_rank::flat;
use crate::kernel::erased::{ErasedOperands, ErasedTensors};
use burn::backend::DispatchTensor;

/// Runs the body on copies of the operands. For a captured operand that is a leaf, takes the gradient of the original.
/// `reaches` is true if a captured operand [reaches into a graph](Captured::reaches_into_a_graph); no gradients are
/// taken then.
pub(super) fn run_body(
    operands: &dyn ErasedOperands,
    captured: Captured,
    reaches: bool,
    upstream: Upstream,
    body: Body<'_>,
) -> Computed {
    let upstream = match reaches {
        true => Upstream::None,
        false => upstream,
    };
    let own = Own { operands, captured };
    run(cut(operands), Some(own), upstream, |operands| {
        detached::call(|| body(operands))
    })
}

impl Captured {
    /// Returns `true` if a captured operand was itself computed under autodiff. A backward pass from the body would
    /// consume the program's own graph, and Burn does not keep it for a second pass.
    pub(super) fn reaches_into_a_graph(self, operands: &dyn ErasedTensors) -> bool {
        struct Inner {
            captured: &'static [&'static str],
            found: bool,
        }
        impl Visitor for Inner {
            fn visit(&mut self, name: &'static str, tensor: &mut DispatchTensor) {
                let tensor = flat(tensor);
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
        operands.show(&mut inner);
        inner.found
    }

    /// Returns `true` if a captured operand is tracked. If the captured ones are unknown, they are taken to be the leaves.
    pub(super) fn tracks(self, operands: &dyn ErasedTensors) -> bool {
        struct Tracked {
            captured: Captured,
            found: bool,
        }
        impl Visitor for Tracked {
            fn visit(&mut self, name: &'static str, tensor: &mut DispatchTensor) {
                let tensor = flat(tensor);
                self.found |= match self.captured {
                    Captured::These(names) => tensor.is_tracked() && names.contains(&name),
                    Captured::Unknown => tensor.is_require_grad(),
                };
            }
        }
        let mut tracked = Tracked {
            captured: self,
            found: false,
        };
        operands.show(&mut tracked);
        tracked.found
    }

    /// Returns the captured operands that the program trains: leaves, whose gradients the body must have.
    pub(super) fn trained(self, operands: &dyn ErasedTensors) -> Vec<&'static str> {
        struct Leaves {
            captured: &'static [&'static str],
            found: Vec<&'static str>,
        }
        impl Visitor for Leaves {
            fn visit(&mut self, name: &'static str, tensor: &mut DispatchTensor) {
                let tensor = flat(tensor);
                if tensor.is_require_grad() && self.captured.contains(&name) {
                    self.found.push(name);
                }
            }
        }
        let Self::These(captured) = self else {
            return Vec::new();
        };
        let found = Vec::new();
        let mut leaves = Leaves { captured, found };
        operands.show(&mut leaves);
        leaves.found
    }

    /// Returns `true` if the body is known to take this operand from its argument.
    pub(super) fn flows(self, name: &str) -> bool {
        match self {
            Self::These(captured) => !captured.contains(&name),
            Self::Unknown => false,
        }
    }
}
