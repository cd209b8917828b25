//! Rotary position embedding over CANN's operators.
//!
//! `R` is `aclnnRotaryPositionEmbedding` (V2 if the toolkit has it) forward, and its `Grad` backward. The numbers count
//! reads and writes of a tensor of the size of `x`; tables are small in comparison.
//!
//! | case | computation | why |
//! |---|---|---|
//! | `half`, `interleaved` | `R`: 2 | computes exactly this |
//! | `interleaved_to_half` | neighbours copied to halves, `R` of style half: 4 | its result is in halves |
//! | tables with every angle once, or twice by halves for `interleaved` | repeated to the whole width | CANN's tables are as wide as the head |
//! | a part of the head | `R` on a view, joined with the rest by `aclnnCat` | widening the tables by cosines of 1 and sines of 0 would read and write less, but would turn infinite elements of the rest into NaN |
//! | x in a half type, tables in f32 | `R` in f32 between two casts | CANN's tables have the type of `x`; rounding them to it would differ from the key |
//! | `interleaved` with a table for each sequence | sequence by sequence, joined | CANN shares one table here |
//! | more than 999 heads, or with `interleaved` more than 999 of batch times heads | in pieces, joined | CANN's limit |
//! | `bnsd` beyond CANN 9's limit of heads by sequence, such as one token of a long batch | as `bsnd`, through a view | that layout has no such limit |
//! | heads of 896 elements and more | refused | CANN's limit |
//! | cosines and sines of different shapes, f64, different types | refused | |
//!
//! The gradients of tables are plain operations of the backend, as on every device.

mod kernel;

pub(crate) use kernel::IMPLEMENTATION;

use super::Operands;
use super::operands::{rotary_width, tokens};
use crate::npu::refused::one_float;
use crate::npu::views::{contiguous, halves_by_turns, neighbours, reshaped};
use crate::npu::{Refused, Result, Seen, Specified, base};
use crate::ops::operands::array;
use crate::reason::Reason;
use crate::semantics::{HeadLayout, RopeKey, RopeStyle, RotaryWidth, TableLayout};
use burn_cann::ops::rotary::{Axes, Style, check, check_grad, rotary, rotary_grad};
use burn_cann::{DType, Layout, Platform, Spec, Stream, Tensor};
use std::ops::Range;

/// The operators that compute a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The pairs of elements that CANN rotates.
    pub style: Style,
    /// The order of the axes of `x` as passed to CANN.
    pub axes: Axes,
    /// The number of elements of a head that are rotated.
    pub rotated: usize,
    /// True if neighbours are copied to halves first.
    pub reordered: bool,
    /// True if the call is computed in f32, between casts.
    pub widened: bool,
    /// The batch size and number of heads of one call. A larger `x` is computed in several pieces.
    pub piece: [usize; 2],
    /// True if there is a table for each sequence.
    pub by_batch: bool,
    /// The order of the axes of `x`.
    layout: HeadLayout,
}

/// Returns the operators that compute a call of these operands.
///
/// # Errors
/// Returns the reason if no operators compute it.
pub fn decide<T: Specified>(
    platform: &Platform,
    operands: &Operands<Seen<T>>,
) -> Result<Plan, Refused> {
    let (x, key) = (operands.x().spec(), operands.key());
    let (cos, sin) = (operands.cos().spec(), operands.sin().spec());
    let dtype = one_float(("x", x), [])?;
    let table = one_float(("cos", cos), [("sin", sin)])?;
    if table != dtype && table != DType::F32 {
        let why = format!("the tables are of type {table}, x of {dtype}");
        return Err(Refused::new(Reason::MixedDtypes, why));
    }
    if sin.shape() != cos.shape() {
        let why = format!("sin has shape {:?}, cos {:?}", sin.shape(), cos.shape());
        return Err(Refused::new(Reason::Shape, why));
    }
    let shape: [usize; 4] = array(x.shape().iter().copied());
    let [b, s, _] = tokens(shape, key.layout);
    let heads = match key.layout {
        HeadLayout::Bnsd => shape[1],
        HeadLayout::Bsnd => shape[2],
    };
    let [tables, _, w] = array(cos.shape().iter().copied());
    let style = match key.style {
        RopeStyle::Interleaved => Style::Interleaved,
        RopeStyle::Half | RopeStyle::InterleavedToHalf => Style::Half,
    };
    let by_batch = tables != 1;
    let plan = Plan {
        style,
        axes: axes(key.layout),
        rotated: rotary_width(w, key.table),
        reordered: key.style == RopeStyle::InterleavedToHalf,
        widened: table != dtype,
        piece: piece(b, heads, style, by_batch),
        by_batch,
        layout: key.layout,
    };
    plan.within_limits(platform, [b, heads, s], table)
}

/// Returns the operators over tensors as large as `x` that compute a key, with tables of the type of `x`.
pub(crate) fn operators(key: RopeKey) -> Vec<&'static str> {
    let mut operators = vec!["aclnnRotaryPositionEmbedding"];
    if key.style == RopeStyle::InterleavedToHalf {
        operators.insert(0, "aclnnInplaceCopy");
    }
    if key.width == RotaryWidth::Partial {
        operators.push("aclnnCat");
    }
    operators
}

fn axes(layout: HeadLayout) -> Axes {
    match layout {
        HeadLayout::Bnsd => Axes::BatchHeadsSequence,
        HeadLayout::Bsnd => Axes::BatchSequenceHeads,
    }
}

/// Returns the batch size and number of heads that one call takes.
fn piece(b: usize, heads: usize, style: Style, by_batch: bool) -> [usize; 2] {
    /// The limit on batch and heads each for halves, and on their product for neighbours.
    const MOST: usize = 999;
    let few = heads.clamp(1, MOST);
    let most = match style {
        Style::Half => MOST,
        Style::Interleaved if by_batch => 1,
        Style::Interleaved => MOST / few,
    };
    [b.clamp(1, most), few]
}

impl Plan {
    /// Returns the plan with axes that keep CANN's limits, or the refusal.
    fn within_limits(
        self,
        platform: &Platform,
        [b, heads, s]: [usize; 3],
        dtype: DType,
    ) -> Result<Self, Refused> {
        // An empty call runs no operator, but the device must have it: one token is checked instead.
        let s = s.max(1);
        let of = |axes| -> Result<(), Refused> {
            let [b, heads] = [b.clamp(1, self.piece[0]), heads.clamp(1, self.piece[1])];
            let tables = if self.by_batch { b } else { 1 };
            let shape = |b, heads| match axes {
                Axes::BatchSequenceHeads => [b, s, heads, self.rotated],
                _ => [b, heads, s, self.rotated],
            };
            let x = Spec::contiguous(dtype, shape(b, heads))?;
            let table = Spec::contiguous(dtype, shape(tables, 1))?;
            check(platform, &x, &table, &table, self.style, axes)?;
            check_grad(platform, &x, &table, &table, None, self.style, axes)?;
            Ok(())
        };
        match of(self.axes) {
            Ok(()) => Ok(self),
            Err(_) if self.axes == Axes::BatchHeadsSequence => {
                let axes = Axes::BatchSequenceHeads;
                of(axes)?;
                Ok(Self { axes, ..self })
            }
            Err(refused) => Err(refused),
        }
    }

    /// Returns whether CANN gets the axes in another order than they have.
    fn is_turned(&self) -> bool {
        self.axes != axes(self.layout)
    }
}

/// A pass, forward or backward.
struct Pass<'a> {
    stream: &'a Stream,
    plan: Plan,
    cos: Tensor,
    sin: Tensor,
}

/// Returns the result, with the shape and dtype of `x`.
///
/// # Errors
/// Returns an error if [`decide`] refuses the operands or CANN fails.
pub fn forward(stream: &Stream, operands: &Operands<Seen<Tensor>>) -> Result<Tensor> {
    let x: &Tensor = operands.x();
    let Some(pass) = Pass::new(stream, operands)? else {
        return Ok(Tensor::empty(stream, x.dtype(), x.shape())?);
    };
    let part = pass.rotated_part(x)?;
    let part = match pass.plan.reordered {
        true => pass.last_axis(&part, neighbours(part.layout())?)?,
        false => part,
    };
    let y = pass.in_cann_s_terms(&part, |pass, x, cos, sin| {
        let Plan { style, axes, .. } = pass.plan;
        Ok(rotary(pass.stream, x, cos, sin, style, axes)?)
    })?;
    pass.with_rest_of(&y, x)
}

/// Returns the gradient of `x`. The operands hold the gradient of the result in place of `x`.
///
/// # Errors
/// Returns an error as [`forward`] does.
pub fn backward(stream: &Stream, operands: &Operands<Seen<Tensor>>) -> Result<Tensor> {
    let dy: &Tensor = operands.x();
    let Some(pass) = Pass::new(stream, operands)? else {
        return Ok(Tensor::empty(stream, dy.dtype(), dy.shape())?);
    };
    let part = pass.rotated_part(dy)?;
    let dx = pass.in_cann_s_terms(&part, |pass, dy, cos, sin| {
        let Plan { style, axes, .. } = pass.plan;
        let dy = contiguous(pass.stream, dy)?;
        Ok(rotary_grad(pass.stream, &dy, cos, sin, None, style, axes)?.dx)
    })?;
    let dx = match pass.plan.reordered {
        true => pass.last_axis(&dx, halves_by_turns(dx.layout())?)?,
        false => dx,
    };
    pass.with_rest_of(&dx, dy)
}

impl<'a> Pass<'a> {
    /// Decides and prepares the tables. Returns `None` if `x` is empty.
    fn new(stream: &'a Stream, operands: &Operands<Seen<Tensor>>) -> Result<Option<Self>> {
        let plan = decide(stream.device().platform(), operands)?;
        if operands.x().spec().is_empty() {
            return Ok(None);
        }
        let table = |table: &Tensor| -> Result<Tensor> {
            let table = whole_table(stream, table, operands.key())?;
            let heads = match plan.axes {
                Axes::BatchSequenceHeads => 2,
                _ => 1,
            };
            Ok(table.unsqueeze(heads)?)
        };
        Ok(Some(Self {
            stream,
            plan,
            cos: table(operands.cos())?,
            sin: table(operands.sin())?,
        }))
    }

    /// Returns the rotated elements of the heads, which come first.
    fn rotated_part(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.slice(3, 0..self.plan.rotated)?)
    }

    /// Returns a tensor of the same shape, with the elements of the last axis in the order of `layout`.
    fn last_axis(&self, x: &Tensor, layout: Layout) -> Result<Tensor> {
        reshaped(self.stream, &x.with_layout(layout)?, x.shape())
    }

    /// Returns the result of `operator` on `x`, computed in pieces, in the type and with the axes that CANN takes.
    fn in_cann_s_terms(
        &self,
        x: &Tensor,
        operator: impl Fn(&Self, &Tensor, &Tensor, &Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let dtype = x.dtype();
        let mut x = base::cast(
            self.stream,
            x,
            if self.plan.widened { DType::F32 } else { dtype },
        )?;
        if self.plan.is_turned() {
            x = x.transpose(1, 2)?;
        }
        let mut y = self.by_pieces(&x, operator)?;
        if self.plan.is_turned() {
            y = y.transpose(1, 2)?;
        }
        base::cast(self.stream, &y, dtype)
    }

    fn by_pieces(
        &self,
        x: &Tensor,
        operator: impl Fn(&Self, &Tensor, &Tensor, &Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let heads_axis = if self.plan.axes == Axes::BatchSequenceHeads {
            2
        } else {
            1
        };
        let [b, heads] = self.plan.piece;
        let mut sequences = Vec::new();
        for range in ranges(x.shape()[0], b) {
            let of_batch = |table: &Tensor| match self.plan.by_batch {
                true => table.slice(0, range.clone()),
                false => Ok(table.clone()),
            };
            let (cos, sin) = (of_batch(&self.cos)?, of_batch(&self.sin)?);
            let x = x.slice(0, range.clone())?;
            let mut parts = Vec::new();
            for heads in ranges(x.shape()[heads_axis], heads) {
                parts.push(operator(self, &x.slice(heads_axis, heads)?, &cos, &sin)?);
            }
            sequences.push(joined(self.stream, parts, heads_axis)?);
        }
        joined(self.stream, sequences, 0)
    }

    /// Returns `y` followed by the elements of `x` that are not rotated.
    fn with_rest_of(&self, y: &Tensor, x: &Tensor) -> Result<Tensor> {
        let (rotated, d) = (self.plan.rotated, x.shape()[3]);
        if rotated == d {
            return Ok(y.clone());
        }
        base::cat(self.stream, &[y, &x.slice(3, rotated..d)?], 3)
    }
}

fn ranges(size: usize, piece: usize) -> impl Iterator<Item = Range<usize>> {
    (0..size)
        .step_by(piece)
        .map(move |at| at..size.min(at + piece))
}

fn joined(stream: &Stream, mut parts: Vec<Tensor>, axis: usize) -> Result<Tensor> {
    match parts.len() {
        1 => Ok(parts.remove(0)),
        _ => base::cat(stream, &parts.iter().collect::<Vec<_>>(), axis),
    }
}

/// Returns a contiguous table, `[1 or b, s, rotated]`, with one element for each rotated element.
fn whole_table(stream: &Stream, table: &Tensor, key: RopeKey) -> Result<Tensor> {
    let w = table.shape()[2];
    match (key.style, key.table) {
        (RopeStyle::Interleaved, TableLayout::Pairs) => twice_in_a_row(stream, table),
        (RopeStyle::Interleaved, TableLayout::Halves) => {
            twice_in_a_row(stream, &table.slice(2, 0..w / 2)?)
        }
        (RopeStyle::Half | RopeStyle::InterleavedToHalf, TableLayout::Pairs) => {
            base::cat(stream, &[table, table], 2)
        }
        _ => contiguous(stream, table),
    }
}

/// Repeats `[a, b, ..]` to `[a, a, b, b, ..]` on the last axis.
fn twice_in_a_row(stream: &Stream, table: &Tensor) -> Result<Tensor> {
    let [b, s, w] = [table.shape()[0], table.shape()[1], table.shape()[2]];
    let twice = table.unsqueeze(3)?.expand([b, s, w, 2])?;
    reshaped(stream, &twice, [b, s, 2 * w])
}
