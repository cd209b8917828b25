//! The cases: each operation with every setting of its key, the combinations that models use, and every class of
//! shapes.

mod layout;

use super::budget::Exact;
use super::data::{elements, tensor, values};
use crate::ops::operations;
use crate::reason::Reason;
use crate::registry::{FloatType, KernelSpec};
use crate::semantics::SemanticsKey;
use burn::tensor::{Device, Tensor};
pub(crate) use layout::Layout;

/// A variant of an operation to verify: its key and the other fixed properties of a call.
pub(crate) trait Variant {
    fn kernel(&self) -> &'static KernelSpec;

    fn key(&self) -> SemanticsKey;

    /// Returns a description of the shape and of everything that the key does not state.
    fn describe(&self, shape: [usize; 4], layout: &str) -> String {
        format!("{shape:?}{layout}")
    }

    /// Runs the kernel or the reference, and its gradients.
    ///
    /// # Errors
    /// Returns the reason if the kernel can't run.
    fn compute(&self, shape: [usize; 4], at: &Computation<'_>) -> Result<Vec<Computed>, Reason>;
}

/// Returns a changed copy of a key.
pub(crate) fn vary<K>(mut key: K, change: impl FnOnce(&mut K)) -> K {
    change(&mut key);
    key
}

/// One variant of an operation on one shape and layout.
pub struct Case {
    variant: Box<dyn Variant>,
    /// The shape of the result, of the queries, or of whatever a mixture of experts defines.
    shape: [usize; 4],
    layout: Layout,
}

/// Odd and even widths around the SIMD width, with one row, several rows, one element and none.
const SHAPES: [[usize; 4]; 5] = [
    [1, 1, 5, 64],
    [2, 3, 17, 16],
    [1, 1, 3, 33],
    [1, 1, 1, 1],
    [2, 0, 3, 8],
];

/// Wide rows, and enough rows to be split over threads. They are tested once for every loop, not for every key.
const LARGE: [[usize; 4]; 3] = [[1, 1, 2, 1000], [1, 1, 1, 4096], [2, 4, 160, 128]];

const STRIDED: [usize; 4] = [2, 3, 5, 24];

macro_rules! all_cases {
    (
        sites { $( #[doc = $doc:literal] $Op:ident { name: $name:ident, at: $($at:ident)::+, $($rest:tt)+ } )+ }
        parts { $($parts:tt)+ }
    ) => {
        /// Returns the cases of all operations.
        pub fn cases() -> impl Iterator<Item = Case> {
            std::iter::empty()$(.chain(crate::ops::$($at)::+::cases::cases()))+
        }
    };
}
operations!(all_cases);

/// The settings of a computation: its dtype, its device, and the choice between kernel and reference.
#[derive(Clone, Copy)]
pub(crate) struct Computation<'a> {
    /// The type in which the inputs are exact.
    pub(crate) exact_in: FloatType,
    pub(crate) dtype: FloatType,
    pub(crate) device: &'a Device,
    pub(crate) fused: bool,
    pub(crate) layout: Layout,
}

impl Computation<'_> {
    /// Returns the numbers of an input, which its name determines.
    pub(crate) fn values<const D: usize>(&self, name: &str, shape: [usize; D]) -> Vec<f64> {
        values(name, count(shape), self.exact_in)
    }

    /// Returns the largest magnitude of an input.
    pub(crate) fn largest<const D: usize>(&self, name: &str, shape: [usize; D]) -> f64 {
        largest(&self.values(name, shape))
    }

    /// Returns a contiguous input without a gradient.
    pub(crate) fn plain<const D: usize>(&self, name: &str, shape: [usize; D]) -> Tensor<D> {
        tensor(&self.values(name, shape), shape, self.dtype, self.device)
    }

    /// Returns an input with a gradient, both in its memory layout and as a view of its shape.
    pub(crate) fn leaf<const D: usize>(
        &self,
        name: &str,
        shape: [usize; D],
    ) -> (Tensor<D>, Tensor<D>) {
        let leaf = self.layout.lay_out(self.plain(name, shape)).require_grad();
        let seen = self.layout.view(&leaf, shape[D - 1]);
        (leaf, seen)
    }
}

impl Case {
    pub(crate) fn new(variant: impl Variant + 'static, shape: [usize; 4], layout: Layout) -> Self {
        Self {
            variant: Box::new(variant),
            shape,
            layout,
        }
    }

    /// Returns the variant on every shape and layout, and on large shapes if `large` is set.
    pub(crate) fn on_every_shape<V: Variant + Copy + 'static>(
        variant: V,
        large: bool,
    ) -> impl Iterator<Item = Self> {
        let large = LARGE.into_iter().filter(move |_| large);
        let contiguous = SHAPES.into_iter().chain(large);
        let contiguous = contiguous.map(|shape| (shape, Layout::Contiguous));
        let strided = Layout::STRIDED.map(|layout| (STRIDED, layout));
        let all = contiguous.chain(strided);
        all.map(move |(shape, layout)| Self::new(variant, shape, layout))
    }

    pub(crate) fn shape(&self) -> [usize; 4] {
        self.shape
    }

    pub(super) fn kernel(&self) -> &'static KernelSpec {
        self.variant.kernel()
    }

    /// Returns the key of the variant.
    pub fn key(&self) -> SemanticsKey {
        self.variant.key()
    }

    /// Returns a description of the shape, the layout and everything that the key does not state.
    pub fn describe(&self) -> String {
        self.variant.describe(self.shape, self.layout.name())
    }

    /// Runs the kernel in `dtype`.
    ///
    /// # Errors
    /// Returns the reason if the kernel can't run.
    pub fn fused(&self, dtype: FloatType, device: &Device) -> Result<Vec<Computed>, Reason> {
        self.compute(dtype, dtype, device, true)
    }

    /// Runs the reference in f64, on inputs that are exact in `dtype`.
    pub(super) fn reference(&self, dtype: FloatType, device: &Device) -> Vec<Computed> {
        self.compute(dtype, FloatType::F64, device, false)
            .expect("the reference runs everywhere")
    }

    fn compute(
        &self,
        exact_in: FloatType,
        dtype: FloatType,
        device: &Device,
        fused: bool,
    ) -> Result<Vec<Computed>, Reason> {
        let computation = Computation {
            exact_in,
            dtype,
            device: &device.clone().autodiff(),
            fused,
            layout: self.layout,
        };
        self.variant.compute(self.shape, &computation)
    }
}

/// A result of a case, as f64.
pub struct Computed {
    /// Its name: `y`, or the gradient of an input, such as `d_x`.
    pub name: &'static str,
    /// Its elements.
    pub values: Vec<f64>,
    /// The terms, as in [`Exact`]. If `None`, the largest value is used.
    terms: Option<f64>,
    rounded_terms: bool,
    roundings: u32,
    /// The noise, as in [`Exact`].
    noise: f64,
}

impl Computed {
    pub(crate) fn new<const D: usize>(name: &'static str, tensor: Option<Tensor<D>>) -> Self {
        // A missing gradient is compared as an empty one, which differs in size from a present one.
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

    /// Adds an allowed error of twice the error of a plain computation.
    pub(crate) fn with_noise_of(mut self, plain: &Self) -> Self {
        let pairs = self.values.iter().zip(&plain.values);
        let errors: Vec<f64> = pairs.map(|(exact, plain)| plain - exact).collect();
        self.noise = 2.0 * largest(&errors);
        self
    }

    pub(crate) fn sum_of(mut self, terms: f64) -> Self {
        self.terms = Some(terms);
        self
    }

    pub(crate) fn sum_of_rounded(mut self, terms: f64) -> Self {
        self.rounded_terms = true;
        self.sum_of(terms)
    }

    pub(crate) fn rounded(mut self, roundings: u32) -> Self {
        self.roundings = roundings;
        self
    }
}

pub(crate) fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |max, value| max.max(value.abs()))
}

pub(crate) fn count<const D: usize>(shape: [usize; D]) -> usize {
    shape.iter().product()
}
