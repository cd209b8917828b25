//! Gated linear units that pack gate and up for both passes.

use super::{Unit, fused, fused_grad, limits, of_implementation, one_buffer, split};
use crate::npu::refused::one_float;
use crate::npu::views::rows;
use crate::npu::{OnNpu, Refused, Result, Seen, Specified, base};
use crate::ops::fused::{Backward, Made};
use crate::ops::glu::Projected;
use crate::ops::glu::packing::{Each, Operands, PackingGlu};
use burn_cann::{Platform, Stream, Tensor};

/// Returns the unit that computes these operands.
fn decide<T: Specified>(
    platform: &Platform,
    operands: &Operands<Seen<T>>,
) -> Result<Unit, Refused> {
    let unit = of_implementation(operands.key(), true)?.unit();
    let (gate, up) = (operands.gate().spec(), operands.up().spec());
    let dtype = one_float(("gate", gate), [("up", up)])?;
    let n = gate.shape().last().copied().unwrap_or(1);
    limits(platform, dtype, [rows(gate), 2 * n], unit)?;
    Ok(unit.expect("keys without a unit are refused"))
}

impl OnNpu for PackingGlu {
    fn forward(
        stream: &Stream,
        operands: &Operands<Seen<Tensor>>,
        _: Option<&Each<bool>>,
    ) -> Result<Made<Tensor>> {
        let unit = decide(stream.device().platform(), operands)?;
        let (gate, up) = (operands.gate(), operands.up());
        if gate.spec().is_empty() {
            let empty = |shape: &[usize]| Tensor::empty(stream, gate.dtype(), shape);
            let packed = empty(operands.packed().as_slice())?;
            return Ok(Made::new(empty(gate.shape())?).saving([packed]));
        }
        let packed = match one_buffer(gate, up)? {
            Some(packed) => packed,
            None => base::cat(stream, &[gate, up], gate.shape().len() - 1)?,
        };
        let y = fused(stream, &packed, gate.shape(), unit)?;
        Ok(Made::new(y).saving([packed]))
    }

    fn backward(
        stream: &Stream,
        backward: &Backward<Self, Seen<Tensor>>,
    ) -> Result<Each<Option<Tensor>>> {
        let (operands, dy, [packed]) = (backward.operands(), backward.dy(), backward.saved());
        let unit = decide(stream.device().platform(), operands)?;
        let gradient = match packed.spec().is_empty() {
            true => Tensor::empty(stream, packed.dtype(), packed.shape())?,
            false => fused_grad(stream, dy, packed, unit)?.reshape(packed.shape())?,
        };
        let Projected::Separate { gate, up } = split(&gradient)? else {
            unreachable!("halves are two")
        };
        Ok(Each {
            gate: Some(gate),
            up: Some(up),
        })
    }
}
