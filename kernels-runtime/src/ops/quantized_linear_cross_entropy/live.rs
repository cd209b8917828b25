use super::{Labels, OwnedWeight, QuantizedLinearCrossEntropyBackend, labels, reference, settings};
use crate::kernel::{self, Rows, Tensors, Visitor};
use crate::ops::cross_entropy::live::{indices, some_tokens};
use crate::ops::quantized_linear::{decoded, panels};
use crate::registry::Implementation;
use crate::semantics::LossReduction;
use burn::backend::Dispatch;
use burn::tensor::{Int, Tensor};

/// The operands of a call.
#[derive(Clone, Debug)]
pub struct Operands {
    /// The hidden states, `[tokens, width]`.
    pub hidden: Tensor<2>,
    /// The weight of the output layer, `[classes, width]`.
    pub weight: OwnedWeight,
    /// The class of each token, `[tokens]`, or the ignored index.
    pub targets: Tensor<1, Int>,
    /// The target of tokens that don't count.
    pub ignore_index: i64,
    /// The limit `c` of the logits, which are then `c · tanh(logit / c)`.
    pub softcap: Option<f64>,
}

impl Tensors for Operands {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        visitor.tensor("hidden", &mut self.hidden);
    }
}

impl kernel::Operands for Operands {
    type Output = Tensor<1>;

    fn reference(self) -> Tensor<1> {
        reference(
            self.hidden,
            &self.weight,
            &self.targets,
            self.ignore_index,
            self.softcap,
        )
    }

    fn launch(self, _: &'static Implementation) -> Tensor<1> {
        let settings = settings(self.ignore_index, self.softcap);
        let targets = labels(&self.hidden, &self.weight, &self.targets, settings);
        let labels = Labels {
            classes: targets.classes().into(),
            softcap: self.softcap,
        };
        let hidden = self.hidden.into_dispatch();
        Tensor::from_dispatch(
            <Dispatch as QuantizedLinearCrossEntropyBackend>::quantized_linear_cross_entropy(
                hidden,
                self.weight,
                labels,
            ),
        )
    }

    /// Takes some tokens, because the reference holds the logits of all.
    fn sample(&self, rows: Rows) -> Option<Self> {
        let settings = settings(self.ignore_index, self.softcap);
        let tokens = some_tokens(&self.targets, settings, LossReduction::Mean, rows)?;
        let place = indices(&tokens, &self.targets);
        Some(Self {
            hidden: self.hidden.clone().detach().select(0, place.clone()),
            targets: self.targets.clone().select(0, place),
            ..self.clone()
        })
    }

    fn samples_apart(&self) -> bool {
        true
    }

    fn variant(&self) -> u64 {
        self.softcap.is_some().into()
    }

    /// Returns the largest sum of magnitudes of a logit. A loss is the difference of such sums.
    fn terms(&self) -> f64 {
        let hidden = self.hidden.clone().without_autodiff().abs();
        if hidden.dims().contains(&0) {
            return 0.0;
        }
        let (device, dtype) = (hidden.device(), hidden.dtype());
        let largest = panels(&self.weight).map(|classes| {
            let weight = decoded(&self.weight, classes, &device, dtype).abs();
            let sums = hidden.clone().matmul(weight.transpose());
            sums.max().into_scalar::<f64>()
        });
        largest.fold(0.0, f64::max)
    }
}
