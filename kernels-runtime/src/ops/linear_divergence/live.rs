//! The operands of a divergence as live verification checks them.

use super::{Inputs, LinearDivergence, Operands, Settings, reference};
use crate::kernel::{self, Rows, Tensors, Visitor, spread};
use crate::registry::Implementation;
use crate::semantics::LinearDivergenceKey;
use burn::backend::DispatchTensor;
use burn::tensor::{Int, Tensor, TensorData};

/// The number of classes of a sample.
const CLASSES: usize = 64;

/// The operands of a divergence.
#[derive(Clone)]
pub(super) struct Distilled {
    pub(super) inputs: Inputs,
    settings: Settings,
    key: LinearDivergenceKey,
}

impl From<Operands<DispatchTensor>> for Distilled {
    fn from(operands: Operands<DispatchTensor>) -> Self {
        Self {
            settings: operands.settings(),
            key: operands.key(),
            inputs: operands.into_inputs(),
        }
    }
}

impl Tensors for Distilled {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        let inputs = &mut self.inputs;
        visitor.tensor("hidden", &mut inputs.hidden);
        visitor.tensor("weight", &mut inputs.weight);
        if let Some(bias) = &mut inputs.bias {
            visitor.tensor("bias", bias);
        }
        visitor.tensor("teacher_hidden", &mut inputs.teacher_hidden);
        visitor.tensor("teacher_weight", &mut inputs.teacher_weight);
        if let Some(bias) = &mut inputs.teacher_bias {
            visitor.tensor("teacher_bias", bias);
        }
        visitor.tensor("factors", &mut inputs.factors);
    }
}

impl Distilled {
    /// Returns the largest sum of magnitudes of a logit of the student or the teacher.
    fn logits(&self) -> f64 {
        let inputs = self.inputs.clone();
        let largest = |hidden: Tensor<2>, weight: Tensor<2>, bias: Option<Tensor<1>>| {
            if hidden.dims().contains(&0) {
                return 0.0;
            }
            let sums = hidden.detach().abs().matmul(weight.detach().abs());
            let sums = match bias {
                Some(bias) => sums + bias.detach().abs().unsqueeze(),
                None => sums,
            };
            sums.max().into_scalar::<f64>()
        };
        let student = largest(inputs.hidden, inputs.weight, inputs.bias);
        let teacher = largest(
            inputs.teacher_hidden,
            inputs.teacher_weight,
            inputs.teacher_bias,
        );
        student.max(teacher) / self.settings.temperature
    }

    /// Returns the largest magnitude of the student's hidden states or weight.
    fn largest(of: &Tensor<2>) -> f64 {
        match of.dims().contains(&0) {
            true => 0.0,
            false => of.clone().detach().abs().max().into_scalar::<f64>(),
        }
    }

    /// Returns the sum of the factors' magnitudes.
    fn factors(&self) -> f64 {
        let factors = self.inputs.factors.clone().detach();
        factors.abs().sum().into_scalar::<f64>()
    }
}

impl kernel::Operands for Distilled {
    type Output = Tensor<1>;

    fn reference(self) -> Tensor<1> {
        reference(self.inputs, self.settings, self.key)
    }

    fn launch(self, implementation: &'static Implementation) -> Tensor<1> {
        let operands = Operands::of(self.inputs, self.settings, self.key);
        Tensor::from_dispatch(LinearDivergence::run(operands, implementation).y)
    }

    /// Takes some tokens and some classes, because the reference holds the logits of all, and the weights in f64.
    fn sample(&self, rows: Rows) -> Option<Self> {
        let Inputs {
            hidden,
            weight,
            bias,
            teacher_hidden,
            teacher_weight,
            teacher_bias,
            factors,
        } = &self.inputs;
        let of = |tensor: &Tensor<2>| rows.of(&tensor.clone().detach());
        let classes = weight.dims()[1].min(teacher_weight.dims()[1]);
        let places = spread(classes, CLASSES.min(classes));
        let places: Vec<i64> = places.map(|place| place as i64).collect();
        let count = places.len();
        let places = TensorData::new(places, [count]);
        let places = Tensor::<1, Int>::from_data(places, &weight.device());
        let some = |weight: &Tensor<2>| weight.clone().detach().select(1, places.clone());
        let some_of = |bias: &Tensor<1>| bias.clone().detach().select(0, places.clone());
        // Each is a row of one number.
        let factors = of(&factors.clone().detach().unsqueeze_dim(1));
        let inputs = Inputs {
            hidden: of(hidden),
            weight: some(weight),
            bias: bias.as_ref().map(some_of),
            teacher_hidden: of(teacher_hidden),
            teacher_weight: some(teacher_weight),
            teacher_bias: teacher_bias.as_ref().map(some_of),
            factors: factors.squeeze_dim(1),
        };
        Some(Self {
            inputs,
            ..self.clone()
        })
    }

    /// A divergence is the sum of differences of logits.
    fn terms(&self) -> f64 {
        2.0 * self.logits() * self.factors()
    }

    /// The gradient of a logit is the difference of two probabilities, or one times such a difference. Both have the errors of
    /// logits.
    fn gradient_terms(&self, operand: &str) -> f64 {
        let other = match operand {
            "hidden" => Self::largest(&self.inputs.weight),
            "weight" => Self::largest(&self.inputs.hidden),
            "bias" => 1.0,
            "factors" => return 2.0 * self.logits(),
            _ => return 0.0,
        };
        let of_logits = self.factors() / self.settings.temperature;
        2.0 * (1.0 + self.logits()) * of_logits * other
    }

    fn samples_apart(&self) -> bool {
        true
    }
}
