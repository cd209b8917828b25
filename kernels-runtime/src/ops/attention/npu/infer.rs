//! Calls of inference with fewer queries than keys, as a step of decoding has.

use super::super::Operands;
use super::held::{Kept, Whole};
use super::hidden::{self, Hidden};
use super::{Operator, Plan, axes, tensors};
use crate::npu::views::contiguous;
use crate::npu::{Result, Seen, Specified};
use crate::semantics::AttentionWindow;
use burn_cann::ops::attention::{self as cann, Axes};
use burn_cann::{DType, Device, Spec, Stream, Tensor};
use std::ops::Range;

/// A call, forward only.
pub(super) struct Infer<'a> {
    sinks: Option<&'a Tensor>,
    /// The queries, keys and values in the order of the plan.
    tensors: [Tensor; 3],
    kept: Kept,
    /// The keys that are copied, if they can't be read where they lie.
    copied: Option<Range<usize>>,
    plan: Plan,
    /// The axes of the operands.
    own: Axes,
    scale: f64,
}

impl<'a> Infer<'a> {
    /// Returns the call, or none if the operator does not take it or the toolkit has no such operator.
    pub(super) fn new(device: &Device, operands: &'a Operands<Seen<Tensor>>) -> Option<Self> {
        let sizes = operands.sizes();
        if sizes.queries >= sizes.keys || !cann::has_infer(device, operands.sinks().is_some()) {
            return None;
        }
        let own = axes(operands.key());
        let turned = match own {
            Axes::Bnsd => Axes::Bsnd,
            _ => Axes::Bnsd,
        };
        let seen = SeenKeys::of(operands)?;
        let call = [own, turned]
            .into_iter()
            .find_map(|axes| Self::in_place(operands, &seen, axes))
            .or_else(|| Self::copying(operands, &seen))?;
        call.check(device).then_some(call)
    }

    /// Returns a call that reads the keys where they lie, in an order of the axes.
    fn in_place(operands: &'a Operands<Seen<Tensor>>, seen: &SeenKeys, axes: Axes) -> Option<Self> {
        let [q, k, v] = in_order(operands, axes)?;
        let first = first(&seen.ranges);
        let view = |tensor: &Tensor| tensor.slice(axis(axes), first..operands.sizes().keys).ok();
        let (k, v) = (view(&k)?, view(&v)?);
        let (keys, values) = (Whole::around(&k, axes)?, Whole::around(&v, axes)?);
        if (keys.before, keys.room) != (values.before, values.room) {
            return None;
        }
        let ranges = seen.shifted(|at| at - first + keys.before);
        let kept = seen.kept(&ranges, keys.room, operands)?;
        let tensors = [q, keys.tensor, values.tensor];
        Some(Self::with(operands, tensors, kept, None, seen.hidden, axes))
    }

    /// Returns a call that reads a copy of the keys in the window, which may be many fewer than all.
    fn copying(operands: &'a Operands<Seen<Tensor>>, seen: &SeenKeys) -> Option<Self> {
        if operands.key().window == AttentionWindow::None {
            return None;
        }
        let own = axes(operands.key());
        let range = seen.begin..seen.last();
        let ranges = seen.shifted(|at| at.saturating_sub(range.start));
        let kept = seen.kept(&ranges, range.len(), operands)?;
        let tensors = in_order(operands, own)?;
        Some(Self::with(
            operands,
            tensors,
            kept,
            Some(range),
            seen.hidden,
            own,
        ))
    }

    fn with(
        operands: &'a Operands<Seen<Tensor>>,
        tensors: [Tensor; 3],
        kept: Kept,
        copied: Option<Range<usize>>,
        mask: Hidden,
        axes: Axes,
    ) -> Self {
        let sinks = operands.sinks().map(|sinks| &sinks.0);
        let operator = match sinks {
            None => Operator::Infer,
            Some(_) => Operator::InferWithSinks,
        };
        Self {
            sinks,
            tensors,
            kept,
            copied,
            plan: Plan {
                operator,
                mask,
                axes,
            },
            own: super::axes(operands.key()),
            scale: operands.settings().scale_of(operands.sizes().width),
        }
    }

    /// Returns the operator and what it is given.
    pub(super) fn plan(&self) -> Plan {
        self.plan
    }

    /// Returns whether CANN takes the call.
    fn check(&self, device: &Device) -> bool {
        let specs = self.specs();
        let square = Spec::contiguous(DType::Bool, [2048, 2048]);
        let (Some([q, k, v]), Ok(square)) = (specs, square) else {
            return false;
        };
        let sinks = self.sinks.map(|sinks| sinks.spec());
        let mask = self.plan.mask.with(&square, &square);
        let (held, settings) = (self.held(), self.settings());
        cann::check_infer(device.platform(), [&q, &k, &v], sinks, mask, held, settings).is_ok()
    }

    /// Returns the specs of the tensors as the operator gets them.
    fn specs(&self) -> Option<[Spec; 3]> {
        let of = |tensor: &Tensor, range: Option<&Range<usize>>| {
            let mut shape = tensor.shape().to_vec();
            if let Some(range) = range {
                shape[axis(self.plan.axes)] = range.len();
            }
            Spec::contiguous(tensor.dtype(), shape).ok()
        };
        let [q, k, v] = &self.tensors;
        let copied = self.copied.as_ref();
        Some([of(q, None)?, of(k, copied)?, of(v, copied)?])
    }

    fn held(&self) -> cann::Held<'_> {
        cann::Held {
            lengths: &self.kept.lengths,
            behind: self.kept.behind,
        }
    }

    fn settings(&self) -> cann::Settings {
        let heads = match self.plan.axes {
            Axes::Bnsd => 1,
            _ => 2,
        };
        cann::Settings {
            axes: self.plan.axes,
            heads: self.tensors[0].shape()[heads],
            scale: self.scale,
        }
    }

    /// Returns the result, in the order of the operands' axes.
    pub(super) fn run(&self, stream: &Stream) -> Result<Tensor> {
        let [q, k, v] = &self.tensors;
        let read = |tensor: &Tensor| -> Result<Tensor> {
            match &self.copied {
                None => Ok(tensor.clone()),
                Some(range) => {
                    let part = tensor.slice(axis(self.plan.axes), range.clone())?;
                    contiguous(stream, &part)
                }
            }
        };
        let (q, k, v) = (contiguous(stream, q)?, read(k)?, read(v)?);
        let mask = self.plan.mask.tensor(stream, None)?;
        let mask = match &mask {
            None => cann::Mask::None,
            Some(mask) => self.plan.mask.with(mask, mask),
        };
        let (held, settings) = (self.held(), self.settings());
        let y = cann::infer(stream, [&q, &k, &v], self.sinks, mask, held, settings)?;
        Ok(match self.plan.axes == self.own {
            true => y,
            false => y.permute(&[0, 2, 1, 3])?,
        })
    }
}

/// The keys that the queries of a call see.
struct SeenKeys {
    /// The keys of each sequence, or of all if they are alike.
    ranges: Vec<Range<usize>>,
    /// The first key that a query sees. The mode may hide the first keys of the ranges, and counts from the last ones.
    begin: usize,
    /// The mode that hides keys of these ranges from some queries.
    hidden: Hidden,
}

impl SeenKeys {
    /// Returns none if the keys of a query are hidden in a way that the operator does not have.
    fn of<T: Specified>(operands: &Operands<Seen<T>>) -> Option<Self> {
        let (sizes, visible) = (operands.sizes(), operands.visible());
        let sequences = match visible.is_one_for_all() {
            true => 1,
            false => sizes.batch,
        };
        let last = sizes.queries.checked_sub(1)?;
        let ends = |sequence| [0, last].map(|query| visible.of(sequence, query));
        // Neither end of the visible keys decreases, so all queries see what the first and the last see.
        let alike = (0..sequences).map(|sequence| {
            let [first, last] = ends(sequence);
            (first == last && !first.is_empty()).then_some(first)
        });
        if let Some(ranges) = alike.collect::<Option<Vec<_>>>() {
            return Some(Self {
                begin: first(&ranges),
                ranges,
                hidden: Hidden::Nothing,
            });
        }
        match hidden::of_sequences(operands) {
            Hidden::Full | Hidden::Nothing => None,
            hidden => Some(Self {
                ranges: std::iter::once(0..sizes.keys).collect(),
                begin: visible.of(0, 0).start,
                hidden,
            }),
        }
    }

    /// Returns the end of the last key that a query sees.
    fn last(&self) -> usize {
        self.ranges.iter().map(|range| range.end).max().unwrap_or(0)
    }

    /// Returns the ranges among other positions.
    fn shifted(&self, to: impl Fn(usize) -> usize) -> Vec<Range<usize>> {
        let moved = |range: &Range<usize>| to(range.start)..to(range.end);
        self.ranges.iter().map(moved).collect()
    }

    /// Returns the keys of the ranges, which are among so many positions, if the operator takes them beside the other
    /// operands.
    fn kept<T: Specified>(
        &self,
        ranges: &[Range<usize>],
        room: usize,
        operands: &Operands<Seen<T>>,
    ) -> Option<Kept> {
        let kept = Kept::of(ranges, room)?;
        let may_be_behind = operands.sizes().queries == 1 && operands.sinks().is_none();
        (may_be_behind || kept.behind.is_none()).then_some(kept)
    }
}

/// Returns the first key of all ranges.
fn first(ranges: &[Range<usize>]) -> usize {
    ranges.iter().map(|range| range.start).min().unwrap_or(0)
}

/// Returns queries, keys and values in an order of the axes.
fn in_order(operands: &Operands<Seen<Tensor>>, axes: Axes) -> Option<[Tensor; 3]> {
    let [q, k, v] = tensors(operands);
    if axes == super::axes(operands.key()) {
        return Some([q.clone(), k.clone(), v.clone()]);
    }
    let turned = |tensor: &Tensor| tensor.permute(&[0, 2, 1, 3]).ok();
    Some([turned(q)?, turned(k)?, turned(v)?])
}

/// Returns the axis of positions.
fn axis(axes: Axes) -> usize {
    match axes {
        Axes::Bnsd => 2,
        _ => 1,
    }
}
