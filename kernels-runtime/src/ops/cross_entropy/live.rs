//! The operands of a cross-entropy as live verification checks them.

use super::{Inputs, Settings, reference};
use crate::kernel::{Operands, Rows, Tensors, Visitor, spread};
use crate::registry::Implementation;
use crate::semantics::{CrossEntropyKey, LossReduction};
use burn::backend::DispatchTensor;
use burn::tensor::{Int, Tensor, TensorData};

/// The operands of a cross-entropy.
#[derive(Clone)]
pub(crate) struct Loss {
    pub(crate) inputs: Inputs,
    settings: Settings,
    key: CrossEntropyKey,
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
        visitor.tensor("logits", &mut self.inputs.logits);
    }
}

impl Operands for Loss {
    type Output = Tensor<1>;

    fn reference(self) -> Tensor<1> {
        reference(self.inputs, self.settings, self.key)
    }

    fn launch(self, implementation: &'static Implementation) -> Tensor<1> {
        let operands = super::Operands::of(self.inputs, self.settings, self.key);
        Tensor::from_dispatch(super::CrossEntropy::run(operands, implementation).y)
    }

    /// Takes some tokens. Most of them count, if any do.
    fn sample(&self, rows: Rows) -> Option<Self> {
        let Inputs { logits, targets } = &self.inputs;
        let tokens = some_tokens(targets, self.settings, self.key.reduction, rows)?;
        let place = indices(&tokens, targets);
        Some(Self {
            inputs: Inputs {
                logits: logits.clone().detach().select(0, place.clone()),
                targets: targets.clone().select(0, place),
            },
            ..self.clone()
        })
    }

    /// Returns the largest logit: a loss is the difference of two numbers of that size.
    fn terms(&self) -> f64 {
        let logits = self.inputs.logits.clone();
        if logits.dims().contains(&0) {
            return 0.0;
        }
        logits.abs().max().into_scalar::<f64>()
    }

    fn samples_apart(&self) -> bool {
        self.key.reduction != LossReduction::None
    }
}

/// Returns the tokens of a sample, or `None` if it would be the whole call. Without a reduction, these are the tokens
/// that [`Rows`] takes, whose losses are compared with those of the call. Otherwise they are tokens that count and one
/// that does not, if there are such tokens.
pub(in crate::ops) fn some_tokens(
    targets: &Tensor<1, Int>,
    settings: Settings,
    reduction: LossReduction,
    rows: Rows,
) -> Option<Vec<usize>> {
    let classes: Vec<i64> = targets.to_data().iter::<i64>().collect();
    let count = rows.count().get() as usize;
    if classes.len() <= count {
        return None;
    }
    let mut all: Vec<usize> = (0..classes.len()).collect();
    if reduction == LossReduction::None {
        return Some(evenly(&all, count));
    }
    let counts = |token: &usize| classes[*token] != settings.ignore_index;
    let ignored = all.iter().copied().find(|token| !counts(token));
    all.retain(counts);
    Some(evenly(&all, count).into_iter().chain(ignored).collect())
}

/// Returns the first and the last item and some between them, spread as rows are.
fn evenly(items: &[usize], count: usize) -> Vec<usize> {
    match items.len() <= count {
        true => items.to_vec(),
        false => spread(items.len(), count)
            .map(|index| items[index])
            .collect(),
    }
}

/// Returns places in a tensor as integers of its device.
pub(in crate::ops) fn indices(places: &[usize], like: &Tensor<1, Int>) -> Tensor<1, Int> {
    let numbers: Vec<i64> = places.iter().map(|place| *place as i64).collect();
    let data = TensorData::new(numbers, [places.len()]).convert_dtype(like.dtype());
    Tensor::from_data(data, (&like.device(), like.dtype()))
}
