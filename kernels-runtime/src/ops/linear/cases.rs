use super::{Inputs, fused, reference};
use crate::reason::Reason;
use crate::registry::KernelSpec;
use crate::semantics::{LinearKey, OutputLayout, SemanticsKey, Shift};
use crate::verify::case::{Case, Computation, Computed, Variant};
use burn::tensor::Tensor;

/// A linear layer with [`OUTPUTS`] outputs.
#[derive(Clone, Copy)]
struct Linear {
    key: LinearKey,
}

/// The number of outputs of a case.
const OUTPUTS: usize = 70;

pub(crate) fn cases() -> impl Iterator<Item = Case> {
    let layouts = [OutputLayout::InputMajor, OutputLayout::OutputMajor];
    let keys = layouts.into_iter().flat_map(|layout| {
        let shifts = [Shift::None, Shift::Bias].into_iter();
        shifts.map(move |shift| LinearKey { layout, shift })
    });
    keys.flat_map(|key| Case::on_every_shape(Linear { key }, false))
}

impl Variant for Linear {
    fn kernel(&self) -> &'static KernelSpec {
        super::KERNEL
    }

    fn key(&self) -> SemanticsKey {
        self.key.into()
    }

    fn compute(&self, shape: [usize; 4], at: &Computation<'_>) -> Result<Vec<Computed>, Reason> {
        let (x, x_seen) = at.leaf("x", shape);
        let [a, b, c, inputs] = shape;
        let axes = match self.key.layout {
            OutputLayout::InputMajor => [inputs, OUTPUTS],
            OutputLayout::OutputMajor => [OUTPUTS, inputs],
        };
        let weight: Tensor<2> = at.plain("weight", axes).require_grad();
        let bias: Tensor<1> = at.plain("bias", [OUTPUTS]).require_grad();
        let shifted = self.key.shift == Shift::Bias;
        let inputs_of_call = Inputs {
            x: x_seen,
            weight: weight.clone(),
            bias: shifted.then(|| bias.clone()),
        };
        let y = match at.fused {
            true => fused(inputs_of_call, self.key)?,
            false => reference(inputs_of_call, self.key),
        };
        let result = [a, b, c, OUTPUTS];
        let grads = (y.clone() * at.plain("dy", result)).sum().backward();
        let [of_x, of_w] = [at.largest("x", shape), at.largest("weight", axes)];
        let of_dy = at.largest("dy", result);
        let terms = of_x * of_w * inputs as f64 + at.largest("bias", [OUTPUTS]);
        let rows = (a * b * c) as f64;
        let mut results = vec![
            Computed::new("y", Some(y)).sum_of(terms),
            Computed::new("d_x", x.grad(&grads)).sum_of(of_dy * of_w * OUTPUTS as f64),
            Computed::new("d_weight", weight.grad(&grads)).sum_of(of_dy * of_x * rows),
        ];
        if shifted {
            results.push(Computed::new("d_bias", bias.grad(&grads)).sum_of(of_dy * rows));
        }
        Ok(results)
    }
}
