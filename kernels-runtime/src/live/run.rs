//! The run of a computation on copies of the operands, and the read-out of its numbers.

use super::check::Captured;
use super::detached::Copies;
use crate::kernel::any_rank::{flat, from_data, sizes};
use crate::kernel::erased::{AnyOperands, AnyTensors, ErasedOperands, ErasedTensors};
use crate::kernel::{Visitor, picked_erased, prefix_erased};
use crate::registry::FloatType;
use crate::verify::data::values;
use burn::backend::{DispatchTensor, TensorMetadata};
use burn::tensor::{DType, Device, FloatDType, Gradients, Tensor, TensorData};
use std::ops::Range;

/// The numbers of one tensor.
#[derive(Clone, Debug)]
pub(super) struct Values {
    pub(super) name: String,
    pub(super) shape: Vec<usize>,
    pub(super) dtype: DType,
    pub(super) elements: Vec<f64>,
}

impl Values {
    fn of(name: &str, tensor: &DispatchTensor) -> Self {
        Self {
            name: name.to_owned(),
            shape: sizes(tensor),
            dtype: tensor.dtype(),
            elements: flat(tensor).into_data().iter::<f64>().collect(),
        }
    }

    /// Returns the ranges of elements that are judged together.
    pub(super) fn parts(&self, split: Option<Split>) -> Vec<Range<usize>> {
        let all = self.elements.len();
        match split {
            Some(split) if split.is_of(&self.shape) => {
                let slice = all / split.all;
                let run = split.run * slice;
                let probes = (split.run..split.all).map(|at| at * slice..(at + 1) * slice);
                std::iter::once(0..run).chain(probes).collect()
            }
            _ => std::iter::once(0..all).collect(),
        }
    }

    /// Returns the rows of the run only.
    pub(super) fn of_run(&self, split: Option<Split>) -> Self {
        let mut run = self.clone();
        if let Some(split) = split.filter(|split| split.is_of(&self.shape)) {
            run.elements.truncate(self.parts(Some(split))[0].end);
            run.shape[0] = split.run;
        }
        run
    }
}

/// The split of slices along the first axis. The first ones are of the run, and those after them are probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Split {
    pub(super) run: usize,
    pub(super) all: usize,
}

impl Split {
    /// Returns `true` if a tensor of this shape has these slices. A vector has no rows.
    fn is_of(self, shape: &[usize]) -> bool {
        shape.len() > 1 && shape[0] == self.all
    }
}

/// The results and gradients of a computation.
#[derive(Clone, Debug, Default)]
pub(super) struct Computed {
    pub(super) results: Vec<Values>,
    /// One gradient for each operand that requires one, or `None` if it received none.
    pub(super) gradients: Vec<Option<Values>>,
}

/// The upstream gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Upstream {
    /// No gradients are taken.
    None,
    /// Fixed pseudo-random numbers for all results, exact in this type. The numbers of probes are zero, because their
    /// gradients may be out of range in half types.
    Fixed(FloatType, Option<Split>),
}

/// The program's own operands, some of which a computation captures.
pub(super) struct Own<'a> {
    pub(super) operands: &'a dyn ErasedOperands,
    pub(super) captured: Captured,
}

/// Runs `compute` on `operands` and takes the gradients of the operands. If an operand received none, takes the
/// gradient of the tensor in its place in `own`. Takes none if `compute` captures tracked tensors of which no
/// [copies](super::detached) could be made, because the backward pass would reach the program's leaves.
pub(super) fn run(
    operands: AnyOperands,
    own: Option<Own<'_>>,
    upstream: Upstream,
    compute: impl FnOnce(AnyOperands) -> AnyTensors,
) -> Computed {
    let compute = || compute(operands.copy());
    run_keeping(&*operands, own, upstream, Box::new(compute)).0
}

/// The number of places along each axis of a captured tensor at which gradients are compared, from the first to the last.
/// All of a layer's weights would take as long as its training.
const PICKED: usize = 16;

/// What a computation captured, and the gradients of it.
pub(super) struct Reached {
    copies: Copies,
    gradients: Gradients,
}

impl Reached {
    /// Returns the gradients that the tensors captured here have in `of`, each at up to [`PICKED`] places along every axis.
    pub(super) fn captured_in(&self, of: &Self) -> Vec<Option<Values>> {
        self.copies.gradients(&of.gradients, |name, gradient| {
            let gradient = gradient?;
            let axes = 0..sizes(&gradient).len();
            let picked = axes.fold(gradient, |of, axis| picked_erased(of, axis, PICKED));
            Some(Values::of(&format!("d_{name}"), &picked))
        })
    }

    /// Returns a captured tensor that has a gradient other than zero, and none in `other`.
    pub(super) fn missing_in(&self, other: &Self) -> Option<String> {
        self.copies.missing(&self.gradients, &other.gradients)
    }
}

/// Does what [`run`] does with a computation on `leaves`, and returns the gradients of what it captured.
pub(super) fn run_keeping(
    leaves: &dyn ErasedTensors,
    own: Option<Own<'_>>,
    upstream: Upstream,
    compute: Box<dyn FnOnce() -> AnyTensors + '_>,
) -> (Computed, Option<Reached>) {
    let (mut output, copies) = Copies::during(compute);
    let mut computed = Computed {
        results: Take::of(&mut *output),
        gradients: Vec::new(),
    };
    let may_reach = copies.is_incomplete()
        && own
            .as_ref()
            .is_none_or(|own| own.captured.tracks(own.operands));
    let (Upstream::Fixed(dtype, split), false) = (upstream, may_reach) else {
        return (computed, None);
    };
    let mut loss = Loss {
        dtype,
        split,
        sum: None,
    };
    output.visit(&mut loss);
    let mut of = loss.sum.map(|loss| loss.backward());
    if let Some(of) = &mut of {
        copies.hand_back(of);
    }
    computed.gradients = gradients(leaves, of.as_ref());
    if let Some(own) = own {
        let others = gradients(own.operands, of.as_ref());
        for (gradient, other) in computed.gradients.iter_mut().zip(others) {
            *gradient = gradient.take().or(other);
        }
    }
    let reached = of.map(|gradients| Reached { copies, gradients });
    (computed, reached)
}

/// A visitor that reads the numbers of tensors.
#[derive(Default)]
pub(super) struct Take(Vec<Values>);

impl Take {
    pub(super) fn of(tensors: &mut dyn ErasedTensors) -> Vec<Values> {
        let mut take = Self::default();
        tensors.visit(&mut take);
        take.0
    }
}

impl Visitor for Take {
    fn visit(&mut self, name: &'static str, tensor: &mut DispatchTensor) {
        self.0.push(Values::of(name, tensor));
    }
}

/// A visitor that reads the rows of the whole call's results that correspond to a sample's results.
pub(super) struct TakeRows<'a> {
    /// The results of a sample.
    like: std::slice::Iter<'a, Values>,
    /// True if the sample has the first rows along each axis.
    is_prefix: bool,
    taken: Vec<Values>,
}

impl TakeRows<'_> {
    pub(super) fn of(
        results: &mut dyn ErasedTensors,
        sample: &[Values],
        is_prefix: bool,
    ) -> Vec<Values> {
        let mut rows = TakeRows {
            like: sample.iter(),
            is_prefix,
            taken: Vec::new(),
        };
        results.visit(&mut rows);
        rows.taken
    }
}

impl Visitor for TakeRows<'_> {
    fn visit(&mut self, name: &'static str, tensor: &mut DispatchTensor) {
        let like = self.like.next().map_or(&[][..], |like| &like.shape);
        // A result of another rank is reported as such.
        let is_alike = sizes(tensor).len() == like.len();
        let axes = if is_alike { like.len() } else { 0 };
        let whole = flat(tensor).detach().into_dispatch();
        let rows = (0..axes).fold(whole, |rows, axis| match self.is_prefix {
            true => prefix_erased(rows, axis, like[axis]),
            false => picked_erased(rows, axis, like[axis]),
        });
        self.taken.push(Values::of(name, &rows));
    }
}

/// The sum of the results, each weighted by its upstream gradient.
struct Loss {
    dtype: FloatType,
    split: Option<Split>,
    sum: Option<Tensor<1>>,
}

impl Visitor for Loss {
    fn visit(&mut self, name: &'static str, tensor: &mut DispatchTensor) {
        let shape = sizes(tensor);
        let tensor = flat(tensor);
        if !tensor.is_tracked() {
            return;
        }
        let mut numbers = values(name, shape.iter().product(), self.dtype);
        if let Some(split) = self.split.filter(|split| split.is_of(&shape)) {
            let run = numbers.len() / split.all * split.run;
            numbers[run..].fill(0.0);
        }
        let data = TensorData::new(numbers, shape);
        let upstream = from_data(data, &tensor.device().inner(), tensor.dtype());
        // The value of the sum is not used, so it may overflow. Its gradient is the upstream one. In f32, results of
        // several dtypes can be added.
        let part = (tensor * flat(&upstream)).sum().cast(FloatDType::F32);
        self.sum = Some(match self.sum.take() {
            Some(sum) => sum + part,
            None => part,
        });
    }
}

fn gradients(operands: &dyn ErasedTensors, of: Option<&Gradients>) -> Vec<Option<Values>> {
    struct Grad<'a> {
        of: Option<&'a Gradients>,
        taken: Vec<Option<Values>>,
    }
    impl Visitor for Grad<'_> {
        fn visit(&mut self, name: &'static str, tensor: &mut DispatchTensor) {
            let gradient = self.of.and_then(|of| flat(tensor).grad(of));
            let gradient = gradient.map(Tensor::into_dispatch);
            let values = gradient.map(|gradient| Values::of(&format!("d_{name}"), &gradient));
            self.taken.push(values);
        }
    }
    let mut grad = Grad {
        of,
        taken: Vec::new(),
    };
    operands.show(&mut grad);
    grad.taken
}

/// Returns copies that are detached from the program's graph. With autodiff, they require gradients.
pub(super) fn cut(operands: &dyn ErasedOperands) -> AnyOperands {
    struct Cut;
    impl Visitor for Cut {
        fn visit(&mut self, _: &'static str, tensor: &mut DispatchTensor) {
            *tensor = leaf(tensor);
        }
    }
    let mut copies = operands.copy();
    copies.visit(&mut Cut);
    copies
}

/// Returns a copy that is detached from the program's graph. With autodiff, it requires a gradient.
pub(super) fn leaf(tensor: &DispatchTensor) -> DispatchTensor {
    let copy = flat(tensor).detach();
    let copy = match copy.is_autodiff() {
        true => copy.require_grad(),
        false => copy,
    };
    copy.into_dispatch()
}

/// Returns copies in f64 on a device that supports it.
pub(super) fn exact(operands: &dyn ErasedOperands, device: &Device) -> AnyOperands {
    struct Exact<'a>(&'a Device);
    impl Visitor for Exact<'_> {
        fn visit(&mut self, _: &'static str, tensor: &mut DispatchTensor) {
            let own = flat(tensor);
            let is_autodiff = own.is_autodiff();
            let copy = from_data(own.into_data(), self.0, DType::F64);
            *tensor = match is_autodiff {
                true => flat(&copy).autodiff().require_grad().into_dispatch(),
                false => copy,
            };
        }
    }
    let mut copies = operands.copy();
    copies.visit(&mut Exact(device));
    copies
}
