//! Version 3 of the copies of tokens in the order of their experts, with a range of experts and quantisation to i8.
//!
//! CANN does not say what stands in rows that no token has. Here they are not written, but for the rows of an expert's
//! capacity, which are zero. The counts and the scales are not optional outputs, so that their tensors are needed even if
//! nothing is written to them.

use std::ops::Range;

use super::quantised::{Quantised, Rows};
use super::{check_operand, check_output, two_axes};
use crate::abi::prelude::*;
use crate::ops::grouped_matmul::ends;
use crate::ops::moe;
use crate::ops::routing::{counts, rows_in_order, rows_with_capacity, sorted_slots};

const TILING: aclnnStatus = ACLNN_ERR_INNER_TILING_ERROR;

/// The counts of tokens by expert.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counts {
    Ends,
    Each,
    /// Pairs of an expert and its number of tokens, zero behind the last.
    Pairs,
}

/// The attributes, in the order of the signature.
struct Attributes {
    active: i64,
    capacity: i64,
    experts: i64,
    pads: i64,
    counts: i64,
    counted: bool,
    quantised: i64,
    scatters: i64,
}

/// The checked attributes.
#[derive(Clone)]
struct Settings {
    /// The most rows, if there is a limit.
    active: Option<usize>,
    /// The rows of each expert, if it has a capacity.
    capacity: Option<usize>,
    experts: i64,
    range: Range<i64>,
    counts: Option<Counts>,
    quantised: Quantised,
    /// True if the rows have the numbers of their slots; otherwise the slots have those of their rows.
    scatters: bool,
    scaled: bool,
    width: usize,
    choices: usize,
    rows: usize,
}

impl Attributes {
    /// Checks the attributes and the range for a number of tokens. The sizes of the tensors are filled in later.
    fn settings(&self, range: &[i64], tokens: usize) -> Outcome<Settings> {
        let Self {
            active,
            capacity,
            experts,
            pads,
            counts,
            counted,
            quantised,
            scatters,
        } = *self;
        let counts = match counts {
            0 => Some(Counts::Ends),
            1 => Some(Counts::Each),
            2 => Some(Counts::Pairs),
            _ => None,
        };
        let (Some(counts), true) = (
            counts,
            active >= -1
                && matches!(pads, 0 | 1)
                && (-1..=1).contains(&quantised)
                && matches!(scatters, 0 | 1),
        ) else {
            return Err(misfit(&format!(
                "activeNum {active}, dropPadMode {pads}, expertTokensNumType, quantMode {quantised} or rowIdxType \
                 {scatters} is out of range"
            )));
        };
        let most = if counts == Counts::Pairs { 5120 } else { 10240 };
        ensure!((1..=most).contains(&experts), TILING; "expertNum is {experts}; it is 1 to {most}");
        let range = match *range {
            [] => 0..experts,
            [start, end] if 0 <= start && start < end && end <= experts => start..end,
            _ => {
                return Err(misfit(&format!(
                    "activeExpertRange is {range:?} of {experts} experts"
                )));
            }
        };
        ensure!(
            pads == 0
                || (1..=tokens as i64).contains(&capacity)
                    && range == (0..experts)
                    && scatters == 0
                    && (!counted || counts == Counts::Each),
            TILING;
            "with dropPadMode 1 the capacity, here {capacity}, is 1 to {tokens}, the range has \
             all experts, rowIdxType is 0 and expertTokensNumType 1"
        );
        Ok(Settings {
            active: usize::try_from(active).ok().filter(|active| *active > 0),
            capacity: (pads == 1).then_some(capacity as usize),
            experts,
            range,
            counts: counted.then_some(counts),
            quantised: match quantised {
                0 => Quantised::Static,
                1 => Quantised::Dynamic,
                _ => Quantised::No,
            },
            scatters: scatters == 1,
            scaled: false,
            width: 0,
            choices: 0,
            rows: 0,
        })
    }
}

fn misfit(text: &str) -> crate::error::Failure {
    crate::error::Failure::new(TILING, text)
}

/// The tensors of a call.
struct Tensors {
    x: *const aclTensor,
    experts: *const aclTensor,
    scale: *const aclTensor,
    offset: *const aclTensor,
    range: *const aclIntArray,
    outputs: [*const aclTensor; 4],
}

fn take(operands: &mut Operands, tensors: &Tensors, attributes: &Attributes) -> Outcome<Work> {
    let x = operands.input("x", tensors.x)?;
    let experts = operands.input("expertIdx", tensors.experts)?;
    let scale = operands.optional("scale", tensors.scale)?;
    let offset = operands.optional("offset", tensors.offset)?;
    let ([tokens, width], [_, choices]) = (
        two_axes("x", &x, TILING)?,
        two_axes("expertIdx", &experts, TILING)?,
    );
    check_operand("expertIdx", &experts, ACL_INT32, &[tokens, choices], TILING)?;
    let range = match tensors.range.is_null() {
        true => Arc::from([]),
        false => operands.ints("activeExpertRange", tensors.range)?,
    };
    let mut settings = attributes.settings(&range, tokens)?;
    let slots = tokens * choices;
    (settings.width, settings.choices, settings.scaled) = (width, choices, scale.is_some());
    settings.rows = match (settings.capacity, settings.active) {
        (Some(capacity), _) => settings.experts as usize * capacity,
        (None, Some(active)) => slots.min(active),
        (None, None) => slots,
    };
    check_inputs(&settings, &x, scale.as_ref(), offset.as_ref())?;
    let gives = if settings.quantised == Quantised::No {
        x.dtype
    } else {
        ACL_INT8
    };
    let shape = match settings.capacity {
        Some(capacity) => vec![settings.experts as usize, capacity, width],
        None => vec![settings.rows, width],
    };
    let [expanded, of_slots, counted, scales] = tensors.outputs;
    let expanded = operands.output("expandedXOut", expanded)?;
    check_output("expandedXOut", &expanded, gives, &shape, TILING)?;
    let of_slots = operands.output("expandedRowIdxOut", of_slots)?;
    check_output("expandedRowIdxOut", &of_slots, ACL_INT32, &[slots], TILING)?;
    let counted = operands.output("expertTokensCountOrCumsumOut", counted)?;
    if let Some(counts) = settings.counts {
        let shape = match counts {
            Counts::Pairs => vec![settings.experts as usize, 2],
            _ => vec![settings.range.end as usize - settings.range.start as usize],
        };
        let name = "expertTokensCountOrCumsumOut";
        check_output(name, &counted, ACL_INT64, &shape, TILING)?;
    }
    let scales = operands.output("expandedScaleOut", scales)?;
    if settings.gives_scales() {
        let shape = [settings.rows];
        check_output("expandedScaleOut", &scales, ACL_FLOAT, &shape, TILING)?;
    }
    let has_offset = offset.is_some();
    Ok(Arc::new(move |memory, operands| {
        settings.route(memory, operands, has_offset)
    }))
}

/// Checks the dtype of x, and the scale and the offset for the quantisation.
fn check_inputs(
    settings: &Settings,
    x: &Tensor,
    scale: Option<&Tensor>,
    offset: Option<&Tensor>,
) -> Outcome<()> {
    let tokens = x.shape[0];
    match settings.quantised {
        Quantised::No => check_dtype("x", x, &[ACL_FLOAT16, ACL_BF16, ACL_FLOAT, ACL_INT8])?,
        _ => check_dtype("x", x, &super::FLOATS)?,
    }
    let experts = (settings.range.end - settings.range.start) as usize;
    let (shape, needed) = match settings.quantised {
        Quantised::No => (vec![tokens], false),
        Quantised::Static => (vec![1], true),
        Quantised::Dynamic => (vec![experts, settings.width], false),
    };
    let named = [("scale", scale, needed), ("offset", offset, needed)];
    for (name, tensor, needed) in named {
        let Some(tensor) = tensor else {
            ensure!(!needed, TILING; "quantMode 0 needs {name}");
            continue;
        };
        ensure!(name == "scale" || settings.quantised == Quantised::Static, TILING;
            "only quantMode 0 takes an offset");
        check_operand(name, tensor, ACL_FLOAT, &shape, TILING)?;
    }
    Ok(())
}

impl Settings {
    /// Returns `true` if the scales of rows are a result: those given, gathered, or those of a dynamic quantisation.
    fn gives_scales(&self) -> bool {
        match self.quantised {
            Quantised::No => self.scaled,
            Quantised::Static => false,
            Quantised::Dynamic => true,
        }
    }

    fn route(&self, memory: &mut Memory, operands: &[Tensor], has_offset: bool) -> Outcome<()> {
        let mut operands = Present::of(operands);
        let (x, experts) = (operands.needed(), operands.needed());
        let scale = operands.floats(memory, self.scaled)?;
        let offset = operands.floats(memory, has_offset)?;
        let (expanded, of_slots) = (operands.needed(), operands.needed());
        let (counted, scales) = (operands.needed(), operands.needed());
        let experts = experts.integers(memory)?;
        ensure!(experts.iter().all(|expert| (0..self.experts).contains(expert));
            "expertIdx has an expert that is negative or not less than {}", self.experts);
        let sorted = sorted_slots(&experts, &self.range);
        let rows = match self.capacity {
            Some(capacity) => rows_with_capacity(&experts, &sorted, capacity),
            None => rows_in_order(&sorted, experts.len()),
        };
        // Without a capacity, rows that no token has stay as they are.
        let filled = match self.capacity {
            Some(_) => self.rows,
            None => self.rows.min(sorted.len()),
        };
        let part = |tensor: &Tensor, filled: usize| match self.capacity {
            Some(_) => tensor.clone(),
            None => Tensor {
                shape: [&[filled], &tensor.shape[1..]].concat(),
                ..tensor.clone()
            },
        };
        let copies = moe::permute(
            &x.values::<f32>(memory)?,
            self.width,
            &rows,
            self.choices,
            filled,
        );
        let own = Rows {
            how: self.quantised,
            width: self.width,
            choices: self.choices,
            first_expert: self.range.start,
            experts: &experts,
            rows: &rows,
        };
        let (values, of_rows) = own.quantised(copies, scale.as_deref(), offset.as_deref());
        part(expanded, filled).store_values(memory, &values)?;
        if self.gives_scales() {
            part(scales, filled).store(memory, &of_rows)?;
        }
        match self.scatters {
            true => {
                let slots: Vec<i64> = sorted.iter().map(|slot| *slot as i64).collect();
                part(of_slots, slots.len()).store_integers(memory, &slots)?;
            }
            false => of_slots.store_integers(memory, &rows)?,
        }
        match self.counts {
            Some(counts) => counted.store_integers(memory, &self.counted(counts, &experts)),
            None => Ok(()),
        }
    }

    fn counted(&self, how: Counts, experts: &[i64]) -> Vec<i64> {
        let each = counts(experts, &self.range);
        match how {
            Counts::Ends => ends(&each, true),
            Counts::Each => each,
            Counts::Pairs => {
                let pairs = self.range.clone().zip(each).filter(|(_, count)| *count > 0);
                let mut all: Vec<i64> = pairs.flat_map(|(expert, count)| [expert, count]).collect();
                all.resize(2 * self.experts as usize, 0);
                all
            }
        }
    }
}

operator! { moe: aclnnMoeInitRoutingV3GetWorkspaceSize, aclnnMoeInitRoutingV3(
    x, of_slots, scale, offset, active, capacity, experts, pads, counts, counted, quantised, range,
    scatters, expanded, rows, counts_out, scales
) |operands|
    let outputs = [expanded, rows, counts_out, scales];
    let tensors = Tensors { x, experts: of_slots, scale, offset, range, outputs };
    let attributes = Attributes {
        active, capacity, experts, pads, counts, counted, quantised, scatters,
    };
    take(operands, &tensors, &attributes)
}
