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

    /// Returns the largest sum of magnitudes of a logit. A loss is the difference of such sums.
    fn terms(&self) -> f64 {
        let Inputs {
            hidden,
            weight,
            bias,
            ..
        } = self.inputs.clone();
        if hidden.dims().contains(&0) || weight.dims().contains(&0) {
            return 0.0;
        }
        let weight = match self.key.layout {
            OutputLayout::OutputMajor => weight.abs().transpose(),
            OutputLayout::InputMajor => weight.abs(),
        };
        let sums = hidden.abs().matmul(weight);
        let sums = match bias {
            Some(bias) => sums + bias.abs().unsqueeze(),
            None => sums,
        };
        sums.max().into_scalar::<f64>()
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
        // A target that is not a class stays outside the classes.
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

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use super::*;
    use burn::tensor::Device;

    /// Returns two classes whose logits are equal, but are summed in different orders: the loss is ln 2, and each of its
    /// logits is a sum of `2 * half` terms that cancel.
    fn twins(half: usize, seed: u64) -> Loss {
        let mut state = seed;
        let mut numbers = || -> Vec<f32> {
            let mut next = |_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state >> 40) as f32 / (1 << 24) as f32 - 0.5
            };
            (0..half).map(&mut next).collect()
        };
        let [u, a, b] = [numbers(), numbers(), numbers()]
            .map(|part| part.into_iter().map(|x| x * 32.0).collect::<Vec<f32>>());
        let device = Device::flex();
        let tensor = |rows: Vec<Vec<f32>>| {
            let shape = [rows.len(), 2 * half];
            Tensor::<2>::from_data(TensorData::new(rows.concat(), shape), &device)
        };
        Loss {
            inputs: Inputs {
                hidden: tensor(vec![[u.clone(), u].concat()]),
                weight: tensor(vec![[a.clone(), b.clone()].concat(), [b, a].concat()]),
                bias: None,
                targets: Tensor::from_data([0], &device),
            },
            settings: Settings::default(),
            key: LinearCrossEntropyKey::MEAN,
        }
    }

    #[test]
    fn a_small_loss_of_large_sums_is_no_mistake() {
        let implementation = &super::super::KERNEL.implementations[0];
        for seed in 0..40 {
            let loss = twins(300, seed);
            let terms = loss.terms();
            assert!(terms > 1e4, "{terms}");
            crate::live::verify(implementation, &loss).unwrap();
        }
    }

    #[test]
    fn terms_are_the_largest_sum_of_magnitudes() {
        let device = Device::flex();
        let mut loss = twins(1, 3);
        loss.inputs.hidden = Tensor::from_data([[1.0, -2.0], [3.0, 0.5]], &device);
        loss.inputs.weight = Tensor::from_data([[4.0, 1.0], [-1.0, 6.0]], &device);
        assert_eq!(loss.terms(), 13.0);
        loss.inputs.bias = Some(Tensor::from_data([0.25, -2.0], &device));
        assert_eq!(loss.terms(), 15.0);
        loss.key.layout = OutputLayout::InputMajor;
        assert_eq!(loss.terms(), 15.0);
        loss.inputs.hidden = Tensor::zeros([0, 2], &device);
        assert_eq!(loss.terms(), 0.0);
    }
}
