//! The sum of the experts' results for each token, version 2. Its gradient is beside it.
//!
//! A row of -1 stands for a slot that was dropped. Its whole term is left out. Of CANN's kernels for f16 and f32 one adds
//! the bias of the dropped slot's expert nevertheless; that for bf16 does not.

use super::{FLOATS, check_operand, check_output, two_axes};
use crate::abi::prelude::*;
use crate::ops::sum;

pub(super) const INNER: aclnnStatus = ACLNN_ERR_INNER_NULLPTR;

/// The sizes of a call.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub(super) tokens: usize,
    pub(super) width: usize,
    pub(super) choices: usize,
    /// The rows that slots may have.
    pub(super) rows: usize,
    /// True if slots may have none.
    pub(super) drops: bool,
}

impl Sizes {
    /// Returns the row of each slot, none for -1.
    pub(super) fn checked(&self, rows: &[i64]) -> Outcome<Vec<Option<usize>>> {
        let of = |row: &i64| match usize::try_from(*row) {
            Ok(row) if row < self.rows => Ok(Some(row)),
            Err(_) if self.drops && *row == -1 => Ok(None),
            _ => Err(Failure::new(
                ACLNN_ERR_PARAM_INVALID,
                format!("expandedRowIdx has {row}, of {} rows", self.rows),
            )),
        };
        rows.iter().map(of).collect()
    }

    /// Checks the scales, the experts of the slots, and the experts' biases, where they are given.
    pub(super) fn check_slots(
        &self,
        [scales, experts, bias]: [Option<&Tensor>; 3],
        dtype: aclDataType,
        of_scales: &[aclDataType],
    ) -> Outcome<()> {
        let shape = [self.tokens, self.choices];
        if let Some(scales) = scales {
            check_dtype("scales", scales, of_scales)?;
            check_operand("scales", scales, scales.dtype, &shape, INNER)?;
        }
        if let Some(experts) = experts {
            check_operand("expertIdx", experts, ACL_INT32, &shape, INNER)?;
        }
        let Some(bias) = bias else { return Ok(()) };
        ensure!(experts.is_some(), INNER; "bias needs expertIdx");
        let [count, _] = two_axes("bias", bias, INNER)?;
        check_operand("bias", bias, dtype, &[count, self.width], INNER)?;
        ensure!(count >= self.choices, INNER;
            "there are biases of {count} experts, and {} choices of a token", self.choices);
        Ok(())
    }
}

/// Returns the number of choices of a token, which only the scales tell.
pub(super) fn choices_of(scales: Option<&Tensor>) -> Outcome<usize> {
    scales.map_or(Ok(1), |scales| {
        two_axes("scales", scales, INNER).map(|[_, choices]| choices)
    })
}

/// The values of the experts' biases with the expert of each slot.
pub(super) struct Biases {
    values: Vec<f32>,
    experts: Vec<i64>,
    width: usize,
}

impl Biases {
    fn read(memory: &Memory, bias: &Tensor, experts: &Tensor) -> Outcome<Self> {
        let (experts, count) = (experts.integers(memory)?, bias.shape[0] as i64);
        ensure!(experts.iter().all(|expert| (0..count).contains(expert));
            "expertIdx has an expert without a bias, of {count}");
        Ok(Self {
            values: bias.floats(memory)?,
            experts,
            width: bias.shape[1],
        })
    }

    pub(super) fn of(&self, slot: usize, column: usize) -> f32 {
        self.values[self.experts[slot] as usize * self.width + column]
    }
}

/// Returns the biases if they are given.
pub(super) fn biases(
    memory: &Memory,
    bias: Option<&Tensor>,
    experts: Option<&Tensor>,
) -> Outcome<Option<Biases>> {
    let both = bias.zip(experts);
    both.map(|(bias, experts)| Biases::read(memory, bias, experts))
        .transpose()
}

operator! { moe: aclnnMoeFinalizeRoutingV2GetWorkspaceSize, aclnnMoeFinalizeRoutingV2(
    expanded_x, expanded_row_idx, x1, x2, bias, scales, expert_idx, drop_pad_mode, output
) |operands|
    let optional = [x1, x2, bias, scales, expert_idx];
    let needed = [expanded_x, expanded_row_idx, output];
    forward(operands, needed, optional, drop_pad_mode)
}

fn forward(
    operands: &mut Operands,
    [expanded, rows, output]: [*const aclTensor; 3],
    optional: [*const aclTensor; 5],
    mode: i64,
) -> Outcome<Work> {
    let x = operands.input("expandedX", expanded)?;
    let rows = operands.input("expandedRowIdx", rows)?;
    let names = ["x1", "x2", "bias", "scales", "expertIdx"];
    let mut given: [Option<Tensor>; 5] = Default::default();
    for (given, (name, tensor)) in given.iter_mut().zip(names.into_iter().zip(optional)) {
        *given = operands.optional(name, tensor)?;
    }
    let output = operands.output("out", output)?;
    check_dtype("expandedX", &x, &FLOATS)?;
    ensure!((0..=3).contains(&mode), INNER; "dropPadMode is {mode}; it is 0 to 3");
    let [tokens, width] = two_axes("out", &output, INNER)?;
    let choices = choices_of(given[3].as_ref())?;
    let (slots, drops) = (tokens * choices, mode & 1 == 1);
    let fits = match x.shape[..] {
        [experts, _, own] => drops && own == width && experts >= choices,
        [count, own] => !drops && own == width && count == slots,
        _ => false,
    };
    ensure!(fits && x.count() > 0 && output.count() > 0, INNER;
        "expandedX is {:?} for {tokens} tokens of {choices} choices and a width of {width}, with \
         dropPadMode {mode}", x.shape);
    let sizes = Sizes {
        tokens,
        width,
        choices,
        rows: x.count() / width,
        drops,
    };
    check_operand("expandedRowIdx", &rows, ACL_INT32, &[slots], INNER)?;
    ensure!(given[1].is_none() || given[0].is_some(), INNER; "x2 is given without x1");
    for (name, tensor) in [("x1", &given[0]), ("x2", &given[1])] {
        if let Some(tensor) = tensor {
            check_operand(name, tensor, x.dtype, &[tokens, width], INNER)?;
        }
    }
    let single = [x.dtype, ACL_FLOAT];
    let of_scales = if x.dtype == ACL_BF16 {
        &single[..]
    } else {
        &single[..1]
    };
    let [_, _, bias, scales, experts] = &given;
    let of_slots = [scales.as_ref(), experts.as_ref(), bias.as_ref()];
    sizes.check_slots(of_slots, x.dtype, of_scales)?;
    check_output("out", &output, x.dtype, &[tokens, width], INNER)?;
    let has = given.map(|tensor| tensor.is_some());
    // The choices come first in the older order of slots.
    let by_choice = mode < 2;
    Ok(Arc::new(move |memory, operands| {
        finalise(memory, operands, sizes, has, by_choice)
    }))
}

fn finalise(
    memory: &mut Memory,
    operands: &[Tensor],
    sizes: Sizes,
    [has_x1, has_x2, has_bias, has_scales, has_experts]: [bool; 5],
    by_choice: bool,
) -> Outcome<()> {
    let mut operands = Present::of(operands);
    let x = operands.needed().floats(memory)?;
    let rows = sizes.checked(&operands.needed().integers(memory)?)?;
    let x1 = operands.floats(memory, has_x1)?;
    let x2 = operands.floats(memory, has_x2)?;
    let bias = operands.next(has_bias);
    let scales = operands.floats(memory, has_scales)?;
    let bias = biases(memory, bias, operands.next(has_experts))?;
    let Sizes {
        tokens,
        width,
        choices,
        ..
    } = sizes;
    let at = |values: &Option<Vec<f32>>, place: usize| {
        values.as_ref().map_or(0.0, |values| values[place])
    };
    let mut sums = Vec::with_capacity(tokens * width);
    for token in 0..tokens {
        for column in 0..width {
            let term = |choice: usize| {
                let slot = token * choices + choice;
                let place = if by_choice {
                    choice * tokens + token
                } else {
                    slot
                };
                let row = rows[place]?;
                let bias = bias.as_ref().map_or(0.0, |bias| bias.of(slot, column));
                let scale = scales.as_ref().map_or(1.0, |scales| scales[slot]);
                Some(scale * (x[row * width + column] + bias))
            };
            let terms: Vec<f32> = (0..choices).filter_map(term).collect();
            let place = token * width + column;
            sums.push(at(&x1, place) + at(&x2, place) + sum(&terms));
        }
    }
    operands.needed().store(memory, &sums)
}
