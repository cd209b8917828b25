use super::{Inputs, Settings, fused, reference};
use crate::ops::compute_dtype;
use crate::reason::Reason;
use crate::registry::KernelSpec;
use crate::semantics::{LinearDivergenceKey, SemanticsKey, Shift};
use crate::verify::case::{Case, Computation, Computed, Variant};
use burn::tensor::{FloatDType, Tensor};

/// A divergence of a mixture. Tokens are all axes of the shape but the last.
#[derive(Clone, Copy)]
struct Distillation {
    settings: Settings,
    shift: Shift,
    /// The classes of the student and of the teacher.
    classes: [usize; 2],
}

/// The width of the teacher's hidden states.
const TEACHER: usize = 24;

/// Each form of the divergence, plain, and with biases, caps, a temperature and padding.
pub(crate) fn cases() -> impl Iterator<Item = Case> {
    [0.0, 0.25, 1.0].into_iter().flat_map(|mixture| {
        let plain = Distillation {
            settings: Settings::of_mixture(mixture),
            shift: Shift::None,
            classes: [37, 40],
        };
        let all = Distillation {
            settings: Settings {
                temperature: 1.75,
                cap: Some(2.0),
                teacher_cap: Some(3.0),
                ..plain.settings
            },
            shift: Shift::Bias,
            classes: [40, 37],
        };
        let cases = [plain, all].into_iter();
        cases.flat_map(|case| Case::on_every_shape(case, false))
    })
}

impl Variant for Distillation {
    fn kernel(&self) -> &'static KernelSpec {
        super::KERNEL
    }

    fn key(&self) -> SemanticsKey {
        LinearDivergenceKey { shift: self.shift }.into()
    }

    fn describe(&self, shape: [usize; 4], layout: &str) -> String {
        format!("{shape:?}{layout} mixture {}", self.settings.mixture)
    }

    fn compute(&self, shape: [usize; 4], at: &Computation<'_>) -> Result<Vec<Computed>, Reason> {
        let [a, b, c, width] = shape;
        let (tokens, [classes, other]) = (a * b * c, self.classes);
        let (leaf, hidden) = at.leaf("hidden", shape);
        let weight: Tensor<2> = at.plain("weight", [width, classes]).require_grad();
        let bias: Tensor<1> = at.plain("bias", [classes]).require_grad();
        let wide = FloatDType::from(compute_dtype(hidden.dtype()));
        let factors: Tensor<1> = at.plain("factors", [tokens]).cast(wide);
        let factors = factors.detach().require_grad();
        let shifted = self.shift == Shift::Bias;
        let inputs = Inputs {
            hidden: crate::ops::reshape(hidden, [tokens, width]),
            weight: weight.clone(),
            bias: shifted.then(|| bias.clone()),
            teacher_hidden: at.plain("teacher", [tokens, TEACHER]),
            teacher_weight: at.plain("teacher weight", [TEACHER, other]),
            teacher_bias: shifted.then(|| at.plain("teacher bias", [other])),
            factors: factors.clone(),
        };
        let key = LinearDivergenceKey { shift: self.shift };
        let sum = match at.fused {
            true => fused(inputs, self.settings, key)?,
            false => reference(inputs, self.settings, key),
        };
        let dy = at.plain("dy", [1]).cast(wide);
        let grads = (sum.clone() * dy).sum().backward();
        let [x, w] = [
            at.largest("hidden", shape),
            at.largest("weight", [width, classes]),
        ];
        let of_teacher = at.largest("teacher", [tokens, TEACHER])
            * at.largest("teacher weight", [TEACHER, other])
            * TEACHER as f64;
        let biases = at.largest("bias", [classes]) + at.largest("teacher bias", [other]);
        let logits = (x * w * width as f64).max(of_teacher) + biases;
        // Logarithms of probabilities are logits and a logarithm of their sum.
        let of_token = 2.0 * (logits + (classes as f64).ln());
        let (factor, dy) = (at.largest("factors", [tokens]), at.largest("dy", [1]));
        // An error of a logit is one of its exponential.
        let slope = factor * dy * (1.0 + of_token);
        let mut results = vec![
            Computed::new("sum", Some(sum)).sum_of(of_token * factor * tokens as f64),
            Computed::new("d_hidden", leaf.grad(&grads)).sum_of_rounded(slope * w),
            Computed::new("d_weight", weight.grad(&grads)).sum_of_rounded(slope * x),
            Computed::new("d_factors", factors.grad(&grads)).sum_of(of_token * dy),
        ];
        if shifted {
            let terms = slope * tokens as f64;
            results.push(Computed::new("d_bias", bias.grad(&grads)).sum_of(terms));
        }
        Ok(results)
    }
}
