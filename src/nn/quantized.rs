//! Weights of linear layers and tables of embeddings that stay in quantised form.

use super::LowRank;
use super::nowhere::base;
use burn::module::{
    Devices, Module, ModuleMapper, ModuleVisitor, Param, ParamId, Reparameterization,
    Reparameterizer,
};
use burn::tensor::{DType, Device, Tensor};
use kernels_runtime::ops::quantized_linear::{self, OwnedWeight};
use kernels_runtime::ops::quantized_linear_int8 as int8;
use kernels_runtime::quantized_experts::{Find, quantised_in, visited};
use kernels_runtime::semantics::OutputLayout;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// The weight of a [`Linear`](super::Linear), `[outputs, inputs]`, or the table of an [`Embedding`](super::Embedding),
/// `[rows, width]`, in quantised form, as its bytes. It is frozen: the gradient of a layer is that of its input,
/// computed from the same bytes, and an embedding has none. A [`LowRank`] adapter of a layer is trained (QLoRA,
/// Dettmers et al., arXiv:2305.14314).
///
/// [`Quantize`] attaches it to the parameter that held the weight. The parameter keeps its id, its name and its shape,
/// so that [`Module::num_params`] counts what it did, but its base is one number, NaN, in every place, which
/// takes no memory and shows where something reads it. [`Param::val`] decodes all of the weight to floats, and so does
/// [`Module::into_record`]. [`Module::load_record`] takes these floats, and panics on others.
///
/// A table of embeddings that is the output layer too (tied weights) serves both from the same bytes:
/// [`forward`](Self::forward) computes logits, and [`losses`](Self::losses) the cross-entropy of hidden states.
///
/// On the CPU the kernel `npu_fused_quantized_linear` decodes the weight in pieces that stay in caches. Other devices decode it to
/// floats of the device, some outputs at a time, in each call.
#[derive(Clone, Debug)]
pub struct Quantized {
    weight: OwnedWeight,
    layout: OutputLayout,
    adapter: Option<LowRank>,
}

impl Quantized {
    /// Returns the weight.
    pub fn weight(&self) -> &OwnedWeight {
        &self.weight
    }

    /// Returns the adapter, if there is one.
    pub fn adapter(&self) -> Option<&LowRank> {
        self.adapter.as_ref()
    }

    /// Returns `true` if a module has quantised weights, those of [`QuantizedExperts`](super::QuantizedExperts) too.
    pub fn is_in(module: &impl Module) -> bool {
        !quantised_in(module).is_empty()
    }

    /// Returns the number of elements of a module's quantised weights, and that of their bytes.
    pub fn size_in(module: &impl Module) -> (usize, usize) {
        let weights = quantised_in(module).into_iter();
        weights.fold((0, 0), |(elements, bytes), weight| {
            let [outputs, inputs] = weight.shape();
            (elements + outputs * inputs, bytes + weight.bytes())
        })
    }

    /// Returns `true` if a module has a quantised weight that [`forward`](Self::forward) can multiply with rounded
    /// rows.
    pub fn rounds_in(module: &impl Module) -> bool {
        quantised_in(module).iter().any(int8::takes)
    }

    /// Computes `x · weightᵀ`, without the adapter. Under a policy with `prefer:cpu-simd-int8`, rows of `x` are
    /// rounded to 8 bits where [`applies`](kernels_runtime::ops::quantized_linear_int8::applies).
    ///
    /// # Panics
    /// Panics if the last axis of `x` is not `inputs`.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        multiplied(x, &self.weight)
    }

    /// Returns a weight in floats, in a layout.
    fn decoded(
        (weight, layout): &(OwnedWeight, OutputLayout),
        device: &Device,
        dtype: DType,
    ) -> Tensor<2> {
        let [outputs, _] = weight.shape();
        let decoded = quantized_linear::decoded(weight, 0..outputs, device, dtype);
        match layout {
            OutputLayout::InputMajor => decoded.transpose(),
            OutputLayout::OutputMajor => decoded,
        }
    }
}

/// Computes `x · weightᵀ`, of rounded rows if the policy in force prefers that.
pub(super) fn multiplied<const D: usize>(x: Tensor<D>, weight: &OwnedWeight) -> Tensor<D> {
    match int8::applies(&x, weight) {
        true => product_of_rounded(x, weight.clone()),
        false => product(x, weight.clone()),
    }
}

#[kernels_macros::fused_kernel(kernels_runtime::ops::quantized_linear, crate = crate)]
fn product<const D: usize>(x: Tensor<D>, weight: OwnedWeight) -> Tensor<D> {
    quantized_linear::reference(x, &weight)
}

#[kernels_macros::fused_kernel(kernels_runtime::ops::quantized_linear_int8, crate = crate)]
fn product_of_rounded<const D: usize>(x: Tensor<D>, weight: OwnedWeight) -> Tensor<D> {
    int8::of_rounded(x, &weight)
}

impl Reparameterization for Quantized {
    const NAME: &'static str = "quantized";

    fn apply<const D: usize>(&self, base: Tensor<D>) -> Tensor<D> {
        let stored = (self.weight.clone(), self.layout);
        let weight = Self::decoded(&stored, &base.device(), base.dtype());
        let weight = match &self.adapter {
            Some(adapter) => adapter.apply(weight),
            None => weight,
        };
        weight.reshape(base.shape())
    }
}

/// The bytes are not a parameter: visitors and mappers see the adapter alone.
impl Module for Quantized {
    fn collect_devices(&self, devices: Devices) -> Devices {
        match &self.adapter {
            Some(adapter) => adapter.collect_devices(devices),
            None => devices,
        }
    }

    fn fork(self, device: &Device) -> Self {
        self.with(|adapter| adapter.fork(device))
    }

    fn to_device(self, device: &Device) -> Self {
        self.with(|adapter| adapter.to_device(device))
    }

    fn train(self) -> Self {
        self.with(Module::train)
    }

    fn valid(&self) -> Self {
        self.clone().with(|adapter| adapter.valid())
    }

    fn materialize(self) -> Self {
        self.with(Module::materialize)
    }

    fn visit<V: ModuleVisitor>(&self, visitor: &mut V) {
        visited(&self.weight);
        if let Some(adapter) = &self.adapter {
            adapter.visit(visitor);
        }
    }

    fn map<M: ModuleMapper>(self, mapper: &mut M) -> Self {
        match NEXT.take() {
            Some(adapter) => Self {
                adapter: Some(adapter),
                ..self
            },
            None => self.with(|adapter| adapter.map(mapper)),
        }
    }
}

impl Quantized {
    fn with(self, change: impl FnOnce(LowRank) -> LowRank) -> Self {
        Self {
            adapter: self.adapter.map(change),
            ..self
        }
    }
}

/// Attaches quantised weights to the parameters of linear layers and embeddings, by
/// [`Module::apply_reparameterization`]. Other parameters stay as they are.
///
/// ```
/// use burn::module::Module;
/// use burn::nn::LinearConfig;
/// use burn::tensor::{DType, Device, Tensor};
/// use burn_kernels::nn::{Linear, Quantize};
/// use burn_kernels::quant::{Dtype, OwnedPart, OwnedWeight, gguf};
///
/// let device = Device::flex();
/// let layer: Linear = LinearConfig::new(32, 2).with_bias(false).init(&device).into();
/// // Two rows of Q8_0: the scale 0.5, then 32 integers.
/// let block: Vec<u8> = [0x00, 0x38].into_iter().chain([3; 32]).collect();
/// let blocks = OwnedPart {
///     name: "blocks".into(),
///     dtype: Dtype::U8,
///     shape: vec![2, 34],
///     bytes: [&block[..], &block].concat(),
/// };
/// let weight = OwnedWeight::new(gguf::Block::Q8_0, [2, 32], vec![blocks])?;
/// let quantize = Quantize::new([(layer.weight.id, weight)], DType::F32);
/// let layer = layer.apply_reparameterization(quantize);
/// let y = layer.forward(Tensor::<2>::ones([1, 32], &device));
/// assert_eq!(y.into_data().to_vec::<f32>().unwrap(), [48.0, 48.0]);
/// # Ok::<(), burn_kernels::quant::QuantError>(())
/// ```
#[derive(Debug)]
pub struct Quantize {
    weights: BTreeMap<ParamId, (OwnedWeight, OutputLayout)>,
    dtype: DType,
}

impl Quantize {
    /// Makes it of weights `[outputs, inputs]` by the ids of parameters `[inputs, outputs]`. `dtype` is that of the
    /// model's floats.
    pub fn new(weights: impl IntoIterator<Item = (ParamId, OwnedWeight)>, dtype: DType) -> Self {
        Self {
            weights: laid_out(weights, OutputLayout::InputMajor).collect(),
            dtype,
        }
    }

    /// Adds tables of embeddings `[rows, width]`, by the ids of parameters of this shape.
    #[must_use]
    pub fn with_tables(mut self, tables: impl IntoIterator<Item = (ParamId, OwnedWeight)>) -> Self {
        let tables = laid_out(tables, OutputLayout::OutputMajor);
        self.weights.extend(tables);
        self
    }
}

fn laid_out(
    weights: impl IntoIterator<Item = (ParamId, OwnedWeight)>,
    layout: OutputLayout,
) -> impl Iterator<Item = (ParamId, (OwnedWeight, OutputLayout))> {
    let weights = weights.into_iter();
    weights.map(move |(id, weight)| (id, (weight, layout)))
}

impl Reparameterizer for Quantize {
    type Reparam = Quantized;

    /// # Panics
    /// Panics if a parameter does not have the shape of its weight.
    fn reparameterize<const D: usize>(
        &mut self,
        path: &str,
        param: Param<Tensor<D>>,
    ) -> (Param<Tensor<D>>, Option<Quantized>) {
        let Some(stored) = self.weights.remove(&param.id) else {
            return (param, None);
        };
        let [outputs, inputs] = stored.0.shape();
        let (expected, what) = match stored.1 {
            OutputLayout::InputMajor => ([inputs, outputs], "a quantised weight"),
            OutputLayout::OutputMajor => ([outputs, inputs], "a quantised table"),
        };
        let shape = param.lazy_shape();
        assert!(
            shape.as_slice() == expected,
            "the parameter {path} has the shape {shape:?}, which {what} of {outputs} outputs and {inputs} \
             inputs does not take"
        );
        let of_base = stored.clone();
        let base = base(&param, self.dtype, move |device, dtype| {
            Quantized::decoded(&of_base, device, dtype).reshape(shape.clone())
        });
        let (weight, layout) = stored;
        let attached = Quantized {
            weight,
            layout,
            adapter: None,
        };
        (base, Some(attached))
    }
}

thread_local! {
    /// The adapter of the quantised weight that this thread maps next. Burn maps the base of a parameter, and then what is
    /// attached to it, which no mapper can replace.
    static NEXT: RefCell<Option<LowRank>> = const { RefCell::new(None) };
}

/// Attaches low-rank adapters to the weights of a module, quantised ones too, to which
/// [`Module::apply_reparameterization`] can attach nothing more.
pub fn apply_low_rank<M: Module>(
    module: M,
    reparameterizer: impl Reparameterizer<Reparam = LowRank>,
) -> M {
    let quantized = Find::all(&module, Quantized::NAME);
    module.apply_reparameterization(Adapt {
        inner: reparameterizer,
        quantized,
    })
}

struct Adapt<R> {
    inner: R,
    quantized: BTreeSet<ParamId>,
}

impl<R: Reparameterizer<Reparam = LowRank>> Reparameterizer for Adapt<R> {
    type Reparam = LowRank;

    fn reparameterize<const D: usize>(
        &mut self,
        path: &str,
        param: Param<Tensor<D>>,
    ) -> (Param<Tensor<D>>, Option<LowRank>) {
        let is_quantized = self.quantized.contains(&param.id);
        let (param, adapter) = self.inner.reparameterize(path, param);
        if is_quantized {
            NEXT.set(adapter);
            return (param, None);
        }
        (param, adapter)
    }
}
