//! The remote LayerNorm. Tensors are sent in the order `x`, weight, bias; a bias that the key does not have is left
//! out.

use super::{
    Backward, Gradients, LayerNormBackend, LayerNormKernel, Normalised, Operands, Settings,
    Tensors, Wanted,
};
use crate::remote::call::{Call, Handled, Like, like, send, send_wanted};
use crate::remote::wire::Malformed;
use crate::remote::{Host, Kernels};
use crate::semantics::{LayerNormKey, Shift};
use burn::backend::ir::BackendIr;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Remote, TensorMetadata};

const FORWARD: &str = "burn-kernels/layer_norm";
const BACKWARD: &str = "burn-kernels/layer_norm_backward";

/// Adds the server's handlers of the operation.
pub(crate) fn handlers<B: Host + LayerNormKernel>(kernels: Kernels<B>) -> Kernels<B> {
    kernels.handle(FORWARD, forward).handle(BACKWARD, backward)
}

impl LayerNormBackend for Remote {
    fn layer_norm(operands: Tensors<Self>) -> FloatTensor<Self> {
        let (results, numbers) = ([like(operands.x())], numbers(&operands));
        let [y] = send(FORWARD, operands.into_tensors(), results, &numbers);
        y
    }
}

impl LayerNormKernel for Remote {
    fn layer_norm_forward(operands: Tensors<Self>) -> Normalised<FloatTensor<Self>> {
        let statistic = operands.statistic();
        let results = [like(operands.x()), statistic.clone(), statistic];
        let numbers = numbers(&operands);
        let [y, mean, rstd] = send(FORWARD, operands.into_tensors(), results, &numbers);
        Normalised { y, mean, rstd }
    }

    fn layer_norm_backward(backward: Backward<FloatTensor<Self>>) -> Gradients<FloatTensor<Self>> {
        let gradients = gradients(&backward);
        let numbers = (numbers(backward.operands()), *backward.wanted());
        let (operands, dy, mean, rstd, _) = backward.into_parts();
        let inputs = [dy, mean, rstd].into_iter().chain(operands.into_tensors());
        let mut gradients = send_wanted(BACKWARD, inputs, gradients, &numbers);
        let mut next = || gradients.next().flatten();
        Gradients {
            x: next().expect("it is always wanted"),
            weight: next(),
            bias: next(),
        }
    }
}

type Numbers = (LayerNormKey, Settings);

fn numbers<T>(operands: &Operands<T>) -> Numbers {
    (operands.key(), operands.settings())
}

/// Describes the gradients to return: of `x` and, if they are wanted, of the weight and the bias.
fn gradients<T: TensorMetadata>(backward: &Backward<T>) -> Vec<Option<Like>> {
    let (operands, wanted) = (backward.operands(), backward.wanted());
    let weight = wanted.weight.then(|| operands.weight());
    let bias = operands.bias().filter(|_| wanted.bias);
    let tensors = [Some(operands.x()), weight, bias];
    tensors.map(|tensor| tensor.map(like)).into()
}

fn read<B: BackendIr>(
    call: &mut Call<'_, B>,
    (key, settings): Numbers,
) -> Result<Tensors<B>, Malformed> {
    let (x, weight) = (call.float()?, call.float()?);
    let bias = (key.shift == Shift::Bias).then(|| call.float());
    let operands = Operands::new(x, weight, bias.transpose()?, settings, key)?;
    operands.dtype()?;
    Ok(operands)
}

fn forward<B: Host + LayerNormKernel>(call: &mut Call<'_, B>, numbers: Numbers) -> Handled {
    let operands = read(call, numbers)?;
    let statistic = (call.wanted() > 1).then(|| operands.statistic());
    let results = vec![Some(like(operands.x())), statistic.clone(), statistic];
    call.answer_wanted(results, || {
        let Normalised { y, mean, rstd } = B::layer_norm_forward(operands);
        [Some(y), Some(mean), Some(rstd)]
    })
}

fn backward<B: Host + LayerNormKernel>(
    call: &mut Call<'_, B>,
    (numbers, wanted): (Numbers, Wanted),
) -> Handled {
    let (dy, mean, rstd) = (call.float()?, call.float()?, call.float()?);
    let backward = read(call, numbers)?.backward(dy, mean, rstd, wanted)?;
    call.answer_wanted(gradients(&backward), || {
        let gradients = B::layer_norm_backward(backward);
        [Some(gradients.x), gradients.weight, gradients.bias]
    })
}
