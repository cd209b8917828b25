//! The remote sum and its RMSNorm. Tensors are sent in the order `x`, residual, weight, gate; those that the key does
//! not have are left out. Gradients are sent as RMSNorm's messages, so a server with this operation handles those too.

use super::{AddRmsNormBackend, AddRmsNormKernel, Normalised, Operands, Settings, Tensors};
use crate::ops::rms_norm;
use crate::remote::call::{Call, Handled, like, send};
use crate::remote::wire::Malformed;
use crate::remote::{Host, Kernels};
use crate::semantics::{AddRmsNormKey, Gating, Scale};
use burn::backend::Remote;
use burn::backend::ir::BackendIr;
use burn::backend::tensor::FloatTensor;

const FORWARD: &str = "burn-kernels/add_rms_norm";

/// Adds the server's handlers of the operation.
pub(crate) fn handlers<B: Host + AddRmsNormKernel>(kernels: Kernels<B>) -> Kernels<B> {
    rms_norm::remote::handlers(kernels).handle(FORWARD, forward)
}

impl AddRmsNormBackend for Remote {
    fn add_rms_norm(operands: Tensors<Self>) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let results = [like(operands.x()), like(operands.x())];
        let numbers = numbers(&operands);
        send(FORWARD, operands.into_tensors(), results, &numbers).into()
    }
}

impl AddRmsNormKernel for Remote {
    fn add_rms_norm_forward(operands: Tensors<Self>) -> Normalised<FloatTensor<Self>> {
        let results = [like(operands.x()), like(operands.x()), operands.rstd()];
        let numbers = numbers(&operands);
        let [y, sum, rstd] = send(FORWARD, operands.into_tensors(), results, &numbers);
        Normalised { y, sum, rstd }
    }
}

type Numbers = (AddRmsNormKey, Settings);

fn numbers<T>(operands: &Operands<T>) -> Numbers {
    (operands.key(), operands.settings())
}

fn read<B: BackendIr>(
    call: &mut Call<'_, B>,
    (key, settings): Numbers,
) -> Result<Tensors<B>, Malformed> {
    let (x, residual) = (call.float()?, call.float()?);
    let weight = (key.scale == Scale::Weight).then(|| call.float());
    let weight = weight.transpose()?;
    let gate = (key.gating != Gating::None).then(|| call.float());
    let operands = Operands::new(x, residual, weight, gate.transpose()?, settings, key)?;
    operands.dtype()?;
    Ok(operands)
}

fn forward<B: Host + AddRmsNormKernel>(call: &mut Call<'_, B>, numbers: Numbers) -> Handled {
    let operands = read(call, numbers)?;
    let rstd = (call.wanted() > 2).then(|| operands.rstd());
    let both = like(operands.x());
    call.answer_wanted(vec![Some(both.clone()), Some(both), rstd], || {
        let Normalised { y, sum, rstd } = B::add_rms_norm_forward(operands);
        [Some(y), Some(sum), Some(rstd)]
    })
}
