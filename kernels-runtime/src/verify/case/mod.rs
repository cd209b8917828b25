//! The cases: each operation with every setting of its key, the combinations that models use, and
//! every shape class.

mod adam_w;
mod experts;
mod glu;
mod layout;
mod norm;
mod rope;
mod router;

use super::budget::Exact;
use super::data::{elements, tensor, values};
use crate::dispatch::Reason;
use crate::ops;
use crate::registry::{FloatType, KernelSpec};
use crate::semantics::{MoeBlockKey, SemanticsKey, SharedExpert};
use burn::tensor::{Device, Tensor};
use layout::Layout;

/// One kernel with one key on one shape and layout.
pub(super) struct Case {
    pub(super) kernel: &'static KernelSpec,
    pub(super) key: SemanticsKey,
    operation: Operation,
    /// Of the result; of the queries; what a mixture of experts says.
    shape: [usize; 4],
    layout: Layout,
}

/// The operation with its key and what else a case of it fixes.
#[derive(Clone, Copy)]
enum Operation {
    Norm(norm::Norm),
    Glu(glu::Glu),
    Rope(rope::Rope),
    Experts(experts::Experts),
    Router(router::Router),
    AdamW(adam_w::AdamW),
}

/// Odd and even widths around the SIMD width, one row and many, one element, none at all.
const SHAPES: [[usize; 4]; 5] = [
    [1, 1, 5, 64],
    [2, 3, 17, 16],
    [1, 1, 3, 33],
    [1, 1, 1, 1],
    [2, 0, 3, 8],
];

/// Wide rows, and enough of them to be split over threads: once for every loop, not every key.
const LARGE: [[usize; 4]; 3] = [[1, 1, 2, 1000], [1, 1, 1, 4096], [2, 4, 160, 128]];

const STRIDED: [usize; 4] = [2, 3, 5, 24];

pub(super) fn cases() -> impl Iterator<Item = Case> {
    let norms = norm::all().map(|(norm, large)| (Operation::Norm(norm), large));
    let glus = glu::all().map(|(glu, large)| (Operation::Glu(glu), large));
    let ropes = rope::all().map(|(rope, large)| (Operation::Rope(rope), large));
    let steps = adam_w::all().map(|(step, large)| (Operation::AdamW(step), large));
    norms
        .chain(glus)
        .chain(ropes)
        .chain(steps)
        .flat_map(|(operation, large)| cases_of(operation, large))
        .chain(of_mixtures())
}

fn of_mixtures() -> impl Iterator<Item = Case> {
    let experts = experts::cases()
        .map(|(experts, shape, layout)| (Operation::Experts(experts), shape, layout));
    let routers =
        router::cases().map(|(router, shape, layout)| (Operation::Router(router), shape, layout));
    experts
        .chain(routers)
        .map(|(operation, shape, layout)| operation.case(shape, layout))
}

impl Operation {
    fn case(self, shape: [usize; 4], layout: Layout) -> Case {
        let (kernel, key) = match self {
            Self::Norm(norm) => (ops::rms_norm::KERNEL, SemanticsKey::RmsNorm(norm.key)),
            Self::Glu(glu) => (ops::glu::KERNEL, SemanticsKey::Glu(glu.key)),
            Self::Rope(rope) => (ops::rope::KERNEL, SemanticsKey::Rope(rope.key)),
            Self::Experts(experts) => (ops::moe::experts::KERNEL, SemanticsKey::Moe(experts.key)),
            Self::Router(router) => {
                let key = MoeBlockKey::new(router.key, SharedExpert::None);
                (ops::moe::experts::KERNEL, SemanticsKey::MoeBlock(key))
            }
            Self::AdamW(_) => (ops::adam_w::KERNEL, SemanticsKey::AdamW),
        };
        Case {
            kernel,
            key,
            operation: self,
            shape,
            layout,
        }
    }
}

fn cases_of(operation: Operation, large: bool) -> impl Iterator<Item = Case> {
    let contiguous = SHAPES
        .into_iter()
        .chain(LARGE.into_iter().filter(move |_| large))
        .map(|shape| (shape, Layout::Contiguous));
    let strided = Layout::STRIDED.map(|layout| (STRIDED, layout));
    contiguous
        .chain(strided)
        .filter(move |(shape, _)| match operation {
            Operation::Rope(rope) => rope.has(*shape),
            _ => true,
        })
        .map(move |(shape, layout)| operation.case(shape, layout))
}

/// The flat inputs of a case by their names, exact in the dtype that they will have.
pub(super) struct Inputs {
    dtype: FloatType,
    values: Vec<(&'static str, Vec<f64>)>,
}

impl Inputs {
    fn get(&self, name: &str) -> &[f64] {
        let mut found = self.values.iter().filter(|(known, _)| *known == name);
        &found.next().expect("a case asks for the inputs it made").1
    }
}

/// How a case is computed: in which dtype, where, and by the kernel or its reference.
#[derive(Clone, Copy)]
struct Computation<'a> {
    inputs: &'a Inputs,
    dtype: FloatType,
    device: &'a Device,
    fused: bool,
    layout: Layout,
}

impl Computation<'_> {
    /// An input without a gradient, as it lies.
    fn plain<const D: usize>(&self, name: &str, shape: [usize; D]) -> Tensor<D> {
        tensor(self.inputs.get(name), shape, self.dtype, self.device)
    }

    /// An input with a gradient: in memory as the layout wants it, and seen in its shape.
    fn leaf<const D: usize>(&self, name: &str, shape: [usize; D]) -> (Tensor<D>, Tensor<D>) {
        let leaf = self.layout.lay_out(self.plain(name, shape)).require_grad();
        let seen = self.layout.view(&leaf, shape[D - 1]);
        (leaf, seen)
    }
}

impl Case {
    pub(super) fn describe(&self) -> String {
        let (shape, layout) = (self.shape, self.layout.name());
        match self.operation {
            Operation::Rope(rope) if rope.wide_tables => {
                format!("{shape:?}{layout} tables in f32")
            }
            Operation::Experts(experts) => format!("{}{layout}", experts.describe(shape)),
            Operation::Router(router) => format!("{}{layout}", router.describe(shape)),
            Operation::AdamW(step) => format!("{shape:?}{layout} {}", step.describe()),
            _ => format!("{shape:?}{layout}"),
        }
    }

    pub(super) fn inputs(&self, dtype: FloatType) -> Inputs {
        let make = |(name, count, dtype)| (name, values(name, count, dtype));
        let values = match self.operation {
            Operation::Norm(norm) => norm.inputs(self.shape, dtype).map(make).collect(),
            Operation::Glu(glu) => glu.inputs(self.shape, dtype).map(make).collect(),
            Operation::Rope(rope) => rope
                .inputs(self.shape, self.layout, dtype)
                .map(make)
                .collect(),
            Operation::Experts(experts) => experts.inputs(self.shape, dtype).map(make).collect(),
            Operation::Router(router) => router.inputs(self.shape, dtype).map(make).collect(),
            Operation::AdamW(step) => step.inputs(self.shape, dtype).map(make).collect(),
        };
        Inputs { dtype, values }
    }

    /// Runs the kernel in `dtype`.
    pub(super) fn fused(
        &self,
        inputs: &Inputs,
        dtype: FloatType,
        device: &Device,
    ) -> Result<Vec<Computed>, Reason> {
        self.compute(inputs, dtype, device, true)
    }

    /// Runs the reference in f64.
    pub(super) fn reference(&self, inputs: &Inputs, device: &Device) -> Vec<Computed> {
        self.compute(inputs, FloatType::F64, device, false)
            .expect("the reference runs everywhere")
    }

    fn compute(
        &self,
        inputs: &Inputs,
        dtype: FloatType,
        device: &Device,
        fused: bool,
    ) -> Result<Vec<Computed>, Reason> {
        let computation = Computation {
            inputs,
            dtype,
            device: &device.clone().autodiff(),
            fused,
            layout: self.layout,
        };
        match self.operation {
            Operation::Norm(norm) => norm.compute(self.shape, &computation),
            Operation::Glu(glu) => glu.compute(self.shape, &computation),
            Operation::Rope(rope) => rope.compute(self.shape, &computation),
            Operation::Experts(experts) => experts.compute(self.shape, &computation),
            Operation::Router(router) => router.compute(self.shape, &computation),
            Operation::AdamW(step) => step.compute(self.shape, &computation),
        }
    }
}

/// A result of a case, as f64.
pub(super) struct Computed {
    pub(super) name: &'static str,
    pub(super) values: Vec<f64>,
    /// See [`Exact`]; `None` where the largest value says it well enough.
    terms: Option<f64>,
    rounded_terms: bool,
    roundings: u32,
    /// See [`Exact`].
    noise: f64,
}

impl Computed {
    fn new<const D: usize>(name: &'static str, tensor: Option<Tensor<D>>) -> Self {
        // A tensor without a gradient compares as empty, which differs in size from one that has
        // it.
        Self {
            name,
            values: tensor.map_or_else(Vec::new, elements),
            terms: None,
            rounded_terms: false,
            roundings: 2,
            noise: 0.0,
        }
    }

    pub(super) fn exact(&self) -> Exact<'_> {
        Exact {
            values: &self.values,
            terms: self.terms.unwrap_or_else(|| largest(&self.values)),
            rounded_terms: self.rounded_terms,
            roundings: self.roundings,
            noise: self.noise,
        }
    }

    /// The same, that a kernel may be twice as far from as a plain computation is.
    fn with_noise_of(mut self, plain: &Self) -> Self {
        let pairs = self.values.iter().zip(&plain.values);
        let errors: Vec<f64> = pairs.map(|(exact, plain)| plain - exact).collect();
        self.noise = 2.0 * largest(&errors);
        self
    }

    fn sum_of(mut self, terms: f64) -> Self {
        self.terms = Some(terms);
        self
    }

    fn sum_of_rounded(mut self, terms: f64) -> Self {
        self.rounded_terms = true;
        self.sum_of(terms)
    }

    fn rounded(mut self, roundings: u32) -> Self {
        self.roundings = roundings;
        self
    }
}

fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |max, value| max.max(value.abs()))
}

fn count<const D: usize>(shape: [usize; D]) -> usize {
    shape.iter().product()
}
