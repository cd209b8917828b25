//! The gradient of the sum of the experts' results. A slot without a row has none.

use super::finalize::{INNER, Sizes, biases, choices_of};
use super::{FLOATS, check_operand, check_output, two_axes};
use crate::abi::prelude::*;
use crate::ops::sum;

/// The tensors of the gradient's call.
struct Backward {
    d_output: *const aclTensor,
    rows: *const aclTensor,
    /// The experts' results, scales, the experts of slots, and biases.
    optional: [*const aclTensor; 4],
    mode: i64,
    active: i64,
    experts: i64,
    capacity: i64,
    dx: *const aclTensor,
    d_scales: *const aclTensor,
}

impl Backward {
    /// Returns the shape of the gradient of the experts' results.
    fn shape(&self, slots: usize, width: usize) -> Outcome<Vec<usize>> {
        let Self {
            mode,
            active,
            experts,
            capacity,
            ..
        } = *self;
        ensure!(matches!(mode, 0 | 1) && active >= 0, INNER;
            "dropPadMode is {mode} and activeNum {active}; the mode is 0 or 1, the number not \
             negative");
        if mode == 0 {
            let rows = if active > 0 {
                slots.min(active as usize)
            } else {
                slots
            };
            return Ok(vec![rows, width]);
        }
        ensure!(experts > 0 && capacity > 0, INNER;
            "dropPadMode 1 needs expertNum and expertCapacity, which are {experts} and {capacity}");
        Ok(vec![experts as usize, capacity as usize, width])
    }

    fn take(&self, operands: &mut Operands) -> Outcome<Work> {
        let dy = operands.input("gradY", self.d_output)?;
        let rows = operands.input("expandedRowIdx", self.rows)?;
        let names = ["expandedX", "scales", "expertIdx", "bias"];
        let mut given: [Option<Tensor>; 4] = Default::default();
        for (given, (name, tensor)) in given.iter_mut().zip(names.into_iter().zip(self.optional)) {
            *given = operands.optional(name, tensor)?;
        }
        let dx = operands.output("gradExpandedXOut", self.dx)?;
        let d_scales = operands.output("gradScalesOut", self.d_scales)?;
        check_dtype("gradY", &dy, &FLOATS)?;
        let [tokens, width] = two_axes("gradY", &dy, INNER)?;
        let [x, scales, experts, bias] = &given;
        let choices = choices_of(scales.as_ref())?;
        let slots = tokens * choices;
        let shape = self.shape(slots, width)?;
        let drops = self.mode == 1;
        let held = shape.iter().product::<usize>() / width.max(1);
        let sizes = Sizes {
            tokens,
            width,
            choices,
            rows: if drops { held } else { slots },
            drops,
        };
        check_operand("expandedRowIdx", &rows, ACL_INT32, &[slots], INNER)?;
        let of_slots = [scales.as_ref(), experts.as_ref(), bias.as_ref()];
        sizes.check_slots(of_slots, dy.dtype, &[dy.dtype])?;
        ensure!(scales.is_none() || x.is_some(), INNER; "scales need expandedX");
        if let Some(x) = x {
            check_operand("expandedX", x, dy.dtype, &shape, INNER)?;
        }
        check_output("gradExpandedXOut", &dx, dy.dtype, &shape, INNER)?;
        if scales.is_some() {
            let shape = [tokens, choices];
            check_output("gradScalesOut", &d_scales, dy.dtype, &shape, INNER)?;
        }
        let has = given.map(|tensor| tensor.is_some());
        Ok(Arc::new(move |memory, operands| {
            backward(memory, operands, sizes, held, has)
        }))
    }
}

fn backward(
    memory: &mut Memory,
    operands: &[Tensor],
    sizes: Sizes,
    held: usize,
    [has_x, has_scales, has_experts, has_bias]: [bool; 4],
) -> Outcome<()> {
    let mut operands = Present::of(operands);
    let dy = operands.needed().floats(memory)?;
    let rows = sizes.checked(&operands.needed().integers(memory)?)?;
    let x = operands.floats(memory, has_x)?;
    let scales = operands.floats(memory, has_scales)?;
    let experts = operands.next(has_experts);
    let bias = biases(memory, operands.next(has_bias), experts)?;
    let Sizes { width, choices, .. } = sizes;
    let (mut dx, mut d_scales) = (vec![0.0; held * width], vec![0.0; rows.len()]);
    for (slot, row) in rows.iter().enumerate() {
        let Some(row) = row.filter(|row| *row < held) else {
            continue;
        };
        let dy = &dy[slot / choices * width..][..width];
        let scale = scales.as_ref().map_or(1.0, |scales| scales[slot]);
        for (to, dy) in dx[row * width..][..width].iter_mut().zip(dy) {
            *to = dy * scale;
        }
        if let Some(x) = &x {
            let value = |column: usize| {
                let bias = bias.as_ref().map_or(0.0, |bias| bias.of(slot, column));
                (x[row * width + column] + bias) * dy[column]
            };
            d_scales[slot] = sum(&(0..width).map(value).collect::<Vec<_>>());
        }
    }
    operands.needed().store(memory, &dx)?;
    // Without scales their gradient means nothing, and is not written.
    let output = operands.needed();
    match has_scales {
        true => output.store(memory, &d_scales),
        false => Ok(()),
    }
}

operator! { moe: aclnnMoeFinalizeRoutingV2GradGetWorkspaceSize, aclnnMoeFinalizeRoutingV2Grad(
    d_output, rows, expanded_x, scales, expert_idx, bias, mode, active, experts, capacity, dx,
    d_scales
) |operands|
    let optional = [expanded_x, scales, expert_idx, bias];
    let call = Backward {
        d_output, rows, optional, mode, active, experts, capacity, dx, d_scales,
    };
    call.take(operands)
}
