//! The operands of a linear cross-entropy as live verification checks them.

use super::{Inputs, Settings, reference};
use crate::kernel::{Operands, Rows, Tensors, Visitor, spread};
use crate::ops::cross_entropy::live::{indices, some_tokens};
use crate::registry::Implementation;
use crate::semantics::{LinearCrossEntropyKey, LossReduction, OutputLayout};
use burn::backend::DispatchTensor;
use burn::tensor::{Tensor, TensorData};
use std::collections::BTreeSet;

/// The operands of a linear cross-entropy.
#[derive(Clone)]
pub(crate) struct Loss {
    pub(crate) inputs: Inputs,
    settings: Settings,
    key: LinearCrossEntropyKey,
}

impl From<super::Operands<DispatchTensor, DispatchTensor>> for Loss {
    fn from(operands: super::Operands<DispatchTensor, DispatchTensor>) -> Self {
        Self {
            settings: operands.settings(),
            key: operands.key(),
            inputs: operands.into_inputs(),
        }
    }
}

impl Tensors for Loss {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        visitor.tensor("hidden", &mut self.inputs.hidden);
        visitor.tensor("weight", &mut self.inputs.weight);
        if let Some(bias) = &mut self.inputs.bias {
            visitor.tensor("bias", bias);
        }
    }
}

/// The number of classes of a sample, besides those that are targets.
const CLASSES: usize = 64;

impl Operands for Loss {
    type Output = Tensor<1>;

    fn reference(self) -> Tensor<1> {
        reference(self.inputs, self.settings, self.key)
    }

    fn launch(self, implementation: &'static Implementation) -> Tensor<1> {
        let operands = super::Operands::of(self.inputs, self.settings, self.key);
        Tensor::from_dispatch(operands.run(implementation))
    }

    /// Takes some tokens and some classes, because the reference and the body hold the logits of all, and the reference
    /// the weight in f64.
    fn sample(&self, rows: Rows) -> Option<Self> {
        let Inputs {
            hidden, targets, ..
        } = &self.inputs;
        let some = some_tokens(targets, self.settings, LossReduction::Mean, rows);
        let some = some.map(|tokens| {
            let place = indices(&tokens, targets);
            let inputs = Inputs {
                hidden: hidden.clone().detach().select(0, place.clone()),
                targets: targets.clone().select(0, place),
                ..self.inputs.clone()
            };
            Self {
                inputs,
                ..self.clone()
            }
        });
        some.as_ref().unwrap_or(self).of_some_classes().or(some)
    }

    fn samples_apart(&self) -> bool {
        true
    }
}

impl Loss {
    /// Returns the axis of the classes in the weight.
    fn axis(&self) -> usize {
        match self.key.layout {
            OutputLayout::OutputMajor => 0,
            OutputLayout::InputMajor => 1,
        }
    }

    /// Takes the classes that are targets and some others, numbered anew. Returns `None` if these are all. The ignored
    /// index keeps its number, which must not become that of a class.
    fn of_some_classes(&self) -> Option<Self> {
        let Inputs {
            hidden,
            weight,
            bias,
            targets,
        } = &self.inputs;
        let axis = self.axis();
        let all = weight.dims()[axis];
        let ignored = self.settings.ignore_index;
        let few = CLASSES + targets.dims()[0];
        if all <= few || (0..=few as i64).contains(&ignored) {
            return None;
        }
        let numbers: Vec<i64> = targets.to_data().iter::<i64>().collect();
        let of_tokens = numbers.iter().filter(|class| **class != ignored);
        // A target that is no class stays one.
        let of_tokens = of_tokens.filter_map(|class| usize::try_from(*class).ok());
        let of_tokens = of_tokens.filter(|class| *class < all);
        let classes: BTreeSet<usize> = of_tokens.chain(spread(all, CLASSES)).collect();
        let classes: Vec<usize> = classes.into_iter().collect();
        let number = |class: &i64| {
            let place = usize::try_from(*class).ok();
            let place = place.and_then(|class| classes.binary_search(&class).ok());
            place.map_or(*class, |place| place as i64)
        };
        let numbered = numbers.iter().map(number).collect::<Vec<_>>();
        let data = TensorData::new(numbered, [numbers.len()]).convert_dtype(targets.dtype());
        let place = indices(&classes, targets);
        let inputs = Inputs {
            hidden: hidden.clone(),
            weight: weight.clone().detach().select(axis, place.clone()),
            bias: bias.clone().map(|bias| bias.detach().select(0, place)),
            targets: Tensor::from_data(data, (&targets.device(), targets.dtype())),
        };
        Some(Self {
            inputs,
            ..self.clone()
        })
    }
}
