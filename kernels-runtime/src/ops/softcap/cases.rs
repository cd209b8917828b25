use super::{fused, reference};
use crate::reason::Reason;
use crate::registry::KernelSpec;
use crate::semantics::{SemanticsKey, SoftcapKey};
use crate::verify::case::{Case, Computation, Computed, Variant};

/// A cap.
#[derive(Clone, Copy)]
struct Cap(f64);

/// One cap that most elements are near or beyond, and Gemma 2's of attention scores.
pub(crate) fn cases() -> impl Iterator<Item = Case> {
    let caps = [0.5, 50.0].into_iter();
    caps.flat_map(|cap| Case::on_every_shape(Cap(cap), cap < 1.0))
}

impl Variant for Cap {
    fn kernel(&self) -> &'static KernelSpec {
        super::KERNEL
    }

    fn key(&self) -> SemanticsKey {
        SoftcapKey {}.into()
    }

    fn describe(&self, shape: [usize; 4], layout: &str) -> String {
        format!("{shape:?}{layout} cap {}", self.0)
    }

    fn compute(&self, shape: [usize; 4], at: &Computation<'_>) -> Result<Vec<Computed>, Reason> {
        let (x, seen) = at.leaf("x", shape);
        let y = match at.fused {
            true => fused(seen, self.0)?,
            false => reference(seen, self.0),
        };
        let grads = (y.clone() * at.plain("dy", shape)).sum().backward();
        Ok(vec![
            Computed::new("y", Some(y)).rounded(1),
            Computed::new("d_x", x.grad(&grads)),
        ])
    }
}
