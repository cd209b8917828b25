//! Copies of tokens in the order of their experts, versions 1 and 2, and the gradient.

use super::{FLOATS, check_operand, check_output, two_axes};
use crate::abi::prelude::*;
use crate::ops::grouped_matmul::ends;
use crate::ops::routing::{counts, rows_in_order, rows_with_capacity, sorted_slots};
use crate::ops::{moe, sum};

const TILING: aclnnStatus = ACLNN_ERR_INNER_TILING_ERROR;
const INNER: aclnnStatus = ACLNN_ERR_INNER_NULLPTR;

// The numbers of rows may be given in any order, but each occurs once: CANN's are k·T + t for choice k of token t.
operator! { moe: aclnnMoeInitRoutingGetWorkspaceSize, aclnnMoeInitRouting(
    x, row_idx, expert_idx, active_num, expanded_x, expanded_row_idx, expanded_expert_idx
) |operands|
    let x = operands.input("x", x)?;
    let rows = operands.input("rowIdx", row_idx)?;
    let experts = operands.input("expertIdx", expert_idx)?;
    let expanded = operands.output("expandedXOut", expanded_x)?;
    let of_slots = operands.output("expandedRowIdxOut", expanded_row_idx)?;
    let sorted = operands.output("expandedExpertIdxOut", expanded_expert_idx)?;
    check_dtype("x", &x, &FLOATS)?;
    let ([tokens, width], [_, choices]) = (
        two_axes("x", &x, TILING)?,
        two_axes("expertIdx", &experts, TILING)?,
    );
    check_operand("expertIdx", &experts, ACL_INT32, &[tokens, choices], TILING)?;
    check_operand("rowIdx", &rows, ACL_INT32, &experts.shape, TILING)?;
    let Ok(active) = usize::try_from(active_num) else {
        return Err(Failure::new(TILING, format!("activeNum is {active_num}")));
    };
    let kept = tokens.min(active) * choices;
    check_output("expandedXOut", &expanded, x.dtype, &[kept, width], TILING)?;
    let slots = [tokens * choices];
    check_output("expandedRowIdxOut", &of_slots, ACL_INT32, &slots, TILING)?;
    check_output("expandedExpertIdxOut", &sorted, ACL_INT32, &slots, TILING)?;
    Ok(Arc::new(move |memory, operands| {
        first(memory, operands, [tokens, width], kept)
    }))
}

fn first(
    memory: &mut Memory,
    operands: &[Tensor],
    [tokens, width]: [usize; 2],
    kept: usize,
) -> Outcome<()> {
    let [x, rows, experts, expanded, of_slots, sorted] = taken(operands);
    let (experts, rows) = (experts.integers(memory)?, rows.integers(memory)?);
    let order = sorted_slots(&experts, &(i64::MIN..i64::MAX));
    let mut inverse = vec![-1; rows.len()];
    for (at, slot) in order.iter().enumerate() {
        let place = usize::try_from(rows[*slot]).ok();
        match place.and_then(|place| inverse.get_mut(place)) {
            Some(free) if *free < 0 => *free = at as i64,
            _ => {
                return Err(Failure::new(
                    ACLNN_ERR_PARAM_INVALID,
                    format!("rowIdx has {} twice or beyond {}", rows[*slot], rows.len()),
                ));
            }
        }
    }
    let x = x.floats(memory)?;
    let copies: Vec<f32> = order[..kept]
        .iter()
        .flat_map(|slot| &x[rows[*slot] as usize % tokens * width..][..width])
        .copied()
        .collect();
    expanded.store(memory, &copies)?;
    of_slots.store_integers(memory, &inverse)?;
    let experts: Vec<i64> = order.iter().map(|slot| experts[*slot]).collect();
    sorted.store_integers(memory, &experts)
}

/// The attributes of version 2.
#[derive(Clone, Copy)]
struct Second {
    active: i64,
    capacity: i64,
    experts: i64,
    pads: i64,
    /// 1 for the ends of experts, 2 for their numbers of tokens.
    counts: i64,
    before_capacity: bool,
}

impl Second {
    fn check(&self, tokens: usize) -> Outcome<()> {
        let Self {
            active,
            capacity,
            experts,
            pads,
            counts,
            before_capacity,
        } = *self;
        ensure!(
            active >= 0 && experts >= 0 && matches!(pads, 0 | 1) && (0..=2).contains(&counts),
            INNER;
            "activeNum {active}, expertNum {experts}, dropPadMode {pads} or \
             expertTokensCountOrCumsumFlag {counts} is out of range"
        );
        ensure!(pads == 0 || experts > 0 && (1..=tokens as i64).contains(&capacity), INNER;
            "with dropPadMode 1, expertNum {experts} and expertCapacity {capacity} are positive, \
             and the capacity is at most {tokens} tokens");
        ensure!(counts == 0 || pads == 0 && experts > 0, INNER;
            "counts need dropPadMode 0 and expertNum, which are {pads} and {experts}");
        ensure!(!before_capacity || pads == 1, INNER;
            "expertTokensBeforeCapacityFlag needs dropPadMode 1");
        Ok(())
    }

    /// Returns the number of rows of the result.
    fn rows(&self, slots: usize) -> usize {
        match (self.pads, self.active) {
            (1, _) => self.experts.saturating_mul(self.capacity) as usize,
            (_, 0) => slots,
            (_, active) => slots.min(active as usize),
        }
    }
}

operator! { moe: aclnnMoeInitRoutingV2GetWorkspaceSize, aclnnMoeInitRoutingV2(
    x, of_slots, active, capacity, experts, pads, counts, before_capacity, expanded, rows, counted,
    counted_before
) |operands|
    let settings = Second { active, capacity, experts, pads, counts, before_capacity };
    second(operands, [x, of_slots], [expanded, rows, counted, counted_before], settings)
}

fn second(
    operands: &mut Operands,
    [x, experts]: [*const aclTensor; 2],
    [expanded, of_slots, counts, before]: [*const aclTensor; 4],
    settings: Second,
) -> Outcome<Work> {
    let x = operands.input("x", x)?;
    let experts = operands.input("expertIdx", experts)?;
    check_dtype("x", &x, &FLOATS)?;
    let ([tokens, width], [_, choices]) = (
        two_axes("x", &x, INNER)?,
        two_axes("expertIdx", &experts, INNER)?,
    );
    check_operand("expertIdx", &experts, ACL_INT32, &[tokens, choices], INNER)?;
    settings.check(tokens)?;
    let slots = tokens * choices;
    let rows = settings.rows(slots);
    let shape = match settings.pads {
        1 => vec![settings.experts as usize, settings.capacity as usize, width],
        _ => vec![rows, width],
    };
    let expanded = operands.output("expandedXOut", expanded)?;
    check_output("expandedXOut", &expanded, x.dtype, &shape, INNER)?;
    let of_slots = operands.output("expandedRowIdxOut", of_slots)?;
    check_output("expandedRowIdxOut", &of_slots, ACL_INT32, &[slots], INNER)?;
    for (name, tensor, wanted) in [
        (
            "expertTokensCountOrCumsumOutOptional",
            counts,
            settings.counts > 0,
        ),
        (
            "expertTokensBeforeCapacityOutOptional",
            before,
            settings.before_capacity,
        ),
    ] {
        if wanted {
            let tensor = operands.output(name, tensor)?;
            let shape = [settings.experts as usize];
            check_output(name, &tensor, ACL_INT32, &shape, INNER)?;
        }
    }
    Ok(Arc::new(move |memory, operands| {
        route(memory, operands, settings, [width, choices, rows])
    }))
}

fn route(
    memory: &mut Memory,
    operands: &[Tensor],
    settings: Second,
    [width, choices, count]: [usize; 3],
) -> Outcome<()> {
    let [x, experts, expanded, of_slots, counted @ ..] = operands else {
        unreachable!("taken in phase one")
    };
    let experts = experts.integers(memory)?;
    let limit = if settings.experts > 0 {
        settings.experts
    } else {
        i64::MAX
    };
    ensure!(experts.iter().all(|expert| (0..limit).contains(expert));
        "expertIdx has an expert that is negative or not less than expertNum");
    let sorted = sorted_slots(&experts, &(0..limit));
    let rows = match settings.pads {
        1 => rows_with_capacity(&experts, &sorted, settings.capacity as usize),
        _ => rows_in_order(&sorted, experts.len()),
    };
    let copies = moe::permute(&x.floats(memory)?, width, &rows, choices, count);
    expanded.store(memory, &copies)?;
    of_slots.store_integers(memory, &rows)?;
    if let Some(output) = counted.first() {
        let own = counts(&experts, &(0..settings.experts));
        let own = if settings.counts == 1 {
            ends(&own, true)
        } else {
            own
        };
        output.store_integers(memory, &own)?;
    }
    Ok(())
}

operator! { moe: aclnnMoeInitRoutingV2GradGetWorkspaceSize, aclnnMoeInitRoutingV2Grad(
    grad_expanded_x, expanded_row_idx, top_k, drop_pad_mode, active_num, output
) |operands|
    let gradient = operands.input("gradExpandedX", grad_expanded_x)?;
    let rows = operands.input("expandedRowIdx", expanded_row_idx)?;
    let output = operands.output("out", output)?;
    check_dtype("gradExpandedX", &gradient, &FLOATS)?;
    let slots = rows.count();
    ensure!(
        top_k > 0
            && matches!(drop_pad_mode, 0 | 1)
            && active_num >= 0
            && slots.is_multiple_of(top_k as usize),
        INNER;
        "topK {top_k} of {slots} slots, dropPadMode {drop_pad_mode} or activeNum {active_num} is \
         out of range"
    );
    check_operand("expandedRowIdx", &rows, ACL_INT32, &[slots], INNER)?;
    let pads = drop_pad_mode == 1;
    let axes = gradient.rank();
    let given = gradient.shape.first().copied().unwrap_or(0);
    let expected = if active_num > 0 {
        active_num as usize
    } else {
        slots
    };
    ensure!(axes == 2 + usize::from(pads) && (pads || given == expected), INNER;
        "gradExpandedX has the shape {:?}; it has {expected} rows, or three axes with dropPadMode \
         1", gradient.shape);
    let (width, choices) = (gradient.shape[axes - 1], top_k as usize);
    let shape = [slots / choices, width];
    check_output("out", &output, gradient.dtype, &shape, INNER)?;
    Ok(Arc::new(move |memory, operands| {
        let mut operands = Present::of(operands);
        let (gradient, rows) = (operands.needed(), operands.needed());
        let (gradient, rows) = (gradient.floats(memory)?, rows.integers(memory)?);
        let sums = gathered(&gradient, &rows, [width, choices], pads)?;
        operands.needed().store(memory, &sums)
    }))
}

/// Returns the sums of the rows of each token's slots. Dropped slots and those beyond the rows count as zero.
fn gathered(
    gradient: &[f32],
    rows: &[i64],
    [width, choices]: [usize; 2],
    pads: bool,
) -> Outcome<Vec<f32>> {
    let least = if pads { -1 } else { 0 };
    ensure!(rows.iter().all(|row| *row >= least); "expandedRowIdx has a negative row");
    let held = |row: &&i64| (**row as usize) < gradient.len() / width.max(1);
    let of_token = |rows: &[i64]| {
        let rows: Vec<usize> = rows.iter().filter(held).map(|row| *row as usize).collect();
        (0..width)
            .map(|column| {
                let terms: Vec<f32> = rows
                    .iter()
                    .map(|row| gradient[row * width + column])
                    .collect();
                sum(&terms)
            })
            .collect::<Vec<f32>>()
    };
    Ok(rows.chunks_exact(choices).flat_map(of_token).collect())
}
