//! The run of a computation on copies of the operands, and the read-out of its numbers.

use super::check::Captured;
use super::detached::Copies;
use crate::kernel::{Tensors, Visitor, picked, prefix};
use crate::registry::FloatType;
use crate::verify::data::values;
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
    fn of<const D: usize>(name: &str, tensor: Tensor<D>) -> Self {
        Self {
            name: name.to_owned(),
            shape: tensor.dims().to_vec(),
            dtype: tensor.dtype(),
            elements: tensor.into_data().iter::<f64>().collect(),
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
pub(super) struct Own<'a, O> {
    pub(super) operands: &'a O,
    pub(super) captured: Captured,
}

/// Runs `compute` on `operands` and takes the gradients of the operands. If an operand received none, takes the
/// gradient of the tensor in its place in `own`. Takes none if `compute` captures tracked tensors of which no
/// [copies](super::detached) could be made, because the backward pass would reach the program's leaves.
pub(super) fn run<O: Tensors + Clone, Y: Tensors>(
    operands: O,
    own: Option<Own<'_, O>>,
    upstream: Upstream,
    compute: impl FnOnce(O) -> Y,
) -> Computed {
    run_keeping(operands, own, upstream, compute).0
}

/// What a computation captured, and the gradients of it.
pub(super) struct Reached {
    copies: Copies,
    gradients: Gradients,
}

impl Reached {
    /// Returns a captured tensor that has a gradient other than zero, and none in `other`.
    pub(super) fn missing_in(&self, other: &Self) -> Option<String> {
        self.copies.missing(&self.gradients, &other.gradients)
    }
}

/// Does what [`run`] does, and returns the gradients of what the computation captured.
pub(super) fn run_keeping<O: Tensors + Clone, Y: Tensors>(
    operands: O,
    own: Option<Own<'_, O>>,
    upstream: Upstream,
    compute: impl FnOnce(O) -> Y,
) -> (Computed, Option<Reached>) {
    let mut leaves = operands.clone();
    let (mut output, copies) = Copies::during(|| compute(operands));
    let mut computed = Computed {
        results: Take::of(&mut output),
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
    computed.gradients = gradients(&mut leaves, of.as_ref());
    if let Some(own) = own {
        let others = gradients(&mut own.operands.clone(), of.as_ref());
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
    pub(super) fn of(tensors: &mut impl Tensors) -> Vec<Values> {
        let mut take = Self::default();
        tensors.visit(&mut take);
        take.0
    }
}

impl Visitor for Take {
    fn tensor<const D: usize>(&mut self, name: &'static str, tensor: &mut Tensor<D>) {
        self.0.push(Values::of(name, tensor.clone()));
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
        results: &mut impl Tensors,
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
    fn tensor<const D: usize>(&mut self, name: &'static str, tensor: &mut Tensor<D>) {
        let like = self.like.next().map_or(&[][..], |like| &like.shape);
        // A result of another rank is reported as such.
        let axes = if like.len() == D { D } else { 0 };
        let rows = (0..axes).fold(tensor.clone().detach(), |rows, axis| match self.is_prefix {
            true => prefix(rows, axis, like[axis]),
            false => picked(rows, axis, like[axis]),
        });
        self.taken.push(Values::of(name, rows));
    }
}

/// The sum of the results, each weighted by its upstream gradient.
struct Loss {
    dtype: FloatType,
    split: Option<Split>,
    sum: Option<Tensor<1>>,
}

impl Visitor for Loss {
    fn tensor<const D: usize>(&mut self, name: &'static str, tensor: &mut Tensor<D>) {
        if !tensor.is_tracked() {
            return;
        }
        let shape = tensor.dims();
        let mut numbers = values(name, shape.iter().product(), self.dtype);
        if let Some(split) = self.split.filter(|split| split.is_of(&shape)) {
            let run = numbers.len() / split.all * split.run;
            numbers[run..].fill(0.0);
        }
        let data = TensorData::new(numbers, shape).convert_dtype(tensor.dtype());
        let upstream = Tensor::<D>::from_data(data, (&tensor.device().inner(), tensor.dtype()));
        // The value of the sum is not used, so it may overflow. Its gradient is the upstream one. In f32, results of
        // several dtypes can be added.
        let part = (tensor.clone() * upstream).sum().cast(FloatDType::F32);
        self.sum = Some(match self.sum.take() {
            Some(sum) => sum + part,
            None => part,
        });
    }
}

fn gradients<O: Tensors>(operands: &mut O, of: Option<&Gradients>) -> Vec<Option<Values>> {
    struct Grad<'a> {
        of: Option<&'a Gradients>,
        taken: Vec<Option<Values>>,
    }
    impl Visitor for Grad<'_> {
        fn tensor<const D: usize>(&mut self, name: &'static str, tensor: &mut Tensor<D>) {
            let gradient = self.of.and_then(|of| tensor.grad(of));
            let values = gradient.map(|gradient| Values::of(&format!("d_{name}"), gradient));
            self.taken.push(values);
        }
    }
    let mut grad = Grad {
        of,
        taken: Vec::new(),
    };
    operands.visit(&mut grad);
    grad.taken
}

/// Returns copies that are detached from the program's graph. With autodiff, they require gradients.
pub(super) fn cut<O: Tensors + Clone>(operands: &O) -> O {
    struct Cut;
    impl Visitor for Cut {
        fn tensor<const D: usize>(&mut self, _: &'static str, tensor: &mut Tensor<D>) {
            let copy = tensor.clone().detach();
            *tensor = match copy.is_autodiff() {
                true => copy.require_grad(),
                false => copy,
            };
        }
    }
    let mut copies = operands.clone();
    copies.visit(&mut Cut);
    copies
}

/// Returns copies in f64 on a device that supports it.
pub(super) fn exact<O: Tensors + Clone>(operands: &O, device: &Device) -> O {
    struct Exact<'a>(&'a Device);
    impl Visitor for Exact<'_> {
        fn tensor<const D: usize>(&mut self, _: &'static str, tensor: &mut Tensor<D>) {
            let data = tensor.to_data().convert_dtype(DType::F64);
            let copy = Tensor::<D>::from_data(data, (self.0, DType::F64));
            *tensor = match tensor.is_autodiff() {
                true => copy.autodiff().require_grad(),
                false => copy,
            };
        }
    }
    let mut copies = operands.clone();
    copies.visit(&mut Exact(device));
    copies
}
