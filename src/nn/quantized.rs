//! Weights of linear layers that stay in quantised form.

use super::LowRank;
use burn::module::{
    Devices, Module, ModuleMapper, ModuleVisitor, Param, ParamId, Reparameterization,
    Reparameterizer,
};
use burn::tensor::{DType, Device, FloatDType, Shape, Tensor};
use kernels_runtime::ops::quantized_linear::{self, OwnedWeight};
use kernels_runtime::ops::quantized_linear_int8 as int8;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

/// The weight of a [`Linear`](super::Linear) in quantised form, `[outputs, inputs]`, as its bytes. It is frozen: the gradient
/// is that of the layer's input, computed from the same bytes. A [`LowRank`] adapter of it is trained (QLoRA, Dettmers et al.,
/// arXiv:2305.14314).
///
/// [`Quantize`] attaches it to the parameter that held the weight. The parameter keeps its id, its name and its shape,
/// `[inputs, outputs]`, so that [`Module::num_params`] counts what it did, but its base is one number, NaN, in every place, which
/// takes no memory and shows where something reads it. [`Param::val`] decodes all of the weight to floats, and so does
/// [`Module::into_record`]. [`Module::load_record`] takes these floats, and panics on others.
///
/// On the CPU the kernel `npu_fused_quantized_linear` decodes the weight in pieces that stay in caches. Other devices
/// decode it to floats of the device, some outputs at a time, in each call.
#[derive(Clone, Debug)]
pub struct Quantized {
    weight: OwnedWeight,
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

    /// Returns `true` if a module has quantised weights.
    pub fn is_in(module: &impl Module) -> bool {
        !Find::all(module).is_empty()
    }

    /// Returns the number of elements of a module's quantised weights, and that of their bytes.
    pub fn size_in(module: &impl Module) -> (usize, usize) {
        SIZE.set(Some((0, 0)));
        Find::all(module);
        SIZE.take().unwrap_or_default()
    }

    /// Returns `true` if a module has a quantised weight that [`forward`](Self::forward) can multiply with rounded
    /// rows.
    pub fn rounds_in(module: &impl Module) -> bool {
        ROUNDS.set(Some(false));
        Find::all(module);
        ROUNDS.take().unwrap_or_default()
    }

    /// Computes `x · weightᵀ`, without the adapter. Under a policy with `prefer:cpu-simd-int8`, rows of `x` are
    /// rounded to 8 bits where [`applies`](kernels_runtime::ops::quantized_linear_int8::applies).
    ///
    /// # Panics
    /// Panics if the last axis of `x` is not `inputs`.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        match int8::applies(&x, &self.weight) {
            true => product_of_rounded(x, self.weight.clone()),
            false => product(x, self.weight.clone()),
        }
    }

    /// Returns the weight in floats, `[inputs, outputs]`, without the adapter.
    fn decoded(weight: &OwnedWeight, device: &Device, dtype: DType) -> Tensor<2> {
        let [outputs, _] = weight.shape();
        quantized_linear::decoded(weight, 0..outputs, device, dtype).transpose()
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
        let weight = Self::decoded(&self.weight, &base.device(), base.dtype());
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
        if ROUNDS.get() == Some(false) && int8::takes(&self.weight) {
            ROUNDS.set(Some(true));
        }
        if let Some((elements, bytes)) = SIZE.get() {
            let [outputs, inputs] = self.weight.shape();
            let size = (elements + outputs * inputs, bytes + self.weight.bytes());
            SIZE.set(Some(size));
        }
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

/// Attaches quantised weights to the parameters of linear layers, by [`Module::apply_reparameterization`]. Other parameters stay
/// as they are.
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
    weights: BTreeMap<ParamId, OwnedWeight>,
    dtype: DType,
}

impl Quantize {
    /// Makes it of weights `[outputs, inputs]` by the ids of parameters `[inputs, outputs]`. `dtype` is that of the
    /// model's floats.
    pub fn new(weights: impl IntoIterator<Item = (ParamId, OwnedWeight)>, dtype: DType) -> Self {
        Self {
            weights: weights.into_iter().collect(),
            dtype,
        }
    }
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
        let Some(weight) = self.weights.remove(&param.id) else {
            return (param, None);
        };
        let [outputs, inputs] = weight.shape();
        let shape = param.lazy_shape();
        assert!(
            shape.as_slice() == [inputs, outputs],
            "the parameter {path} has the shape {shape:?}, which a quantised weight of {outputs} outputs and {inputs} inputs \
             does not take"
        );
        let base = base(&param, &weight, self.dtype);
        let adapter = None;
        (base, Some(Quantized { weight, adapter }))
    }
}

/// Returns a frozen parameter of the same id and shape that takes no memory. Records have the decoded numbers.
fn base<const D: usize>(
    param: &Param<Tensor<D>>,
    weight: &OwnedWeight,
    dtype: DType,
) -> Param<Tensor<D>> {
    let shape = param.lazy_shape();
    let (saved, loaded) = (weight.clone(), weight.clone());
    let of_shape = shape.clone();
    let base = Param::uninitialized(
        param.id,
        move |device, is_required| nowhere(device, dtype, &of_shape).set_require_grad(is_required),
        param.lazy_device(),
        false,
        shape,
    );
    base.save_mapper(move |base: Tensor<D>| {
        // A tensor that `materialize` made of it is saved as it is.
        let first = base.clone().slice(std::array::from_fn::<_, D, _>(|_| 0..1)).into_scalar::<f32>();
        if !first.is_nan() {
            return base;
        }
        let weight = Quantized::decoded(&saved, &base.device(), base.dtype());
        weight.reshape(base.shape())
    })
    .load_mapper(move |record: Tensor<D>| {
        let own = Quantized::decoded(&loaded, &record.device(), dtype);
        let other = record.clone().cast(FloatDType::from(dtype));
        assert!(
            own.into_data() == other.into_data(),
            "a record holds other numbers than the quantised weight of a layer, which can't take them; load the model with \
             decoded weights, and the record into that"
        );
        record
    })
}

/// Returns a tensor of one number, NaN, in every place.
fn nowhere<const D: usize>(device: &Device, dtype: DType, shape: &Shape) -> Tensor<D> {
    Tensor::<D>::full([1; D], f32::NAN, (device, dtype)).expand(shape.clone())
}

thread_local! {
    /// The adapter of the quantised weight that this thread maps next. Burn maps the base of a parameter, and then what is
    /// attached to it, which no mapper can replace.
    static NEXT: RefCell<Option<LowRank>> = const { RefCell::new(None) };

    /// The elements and bytes of the quantised weights that this thread visited, while it counts them. Visitors see no
    /// quantised weight.
    static SIZE: Cell<Option<(usize, usize)>> = const { Cell::new(None) };

    /// `true` if this thread visited a quantised weight that takes rounded rows. `None` while it doesn't look for one.
    static ROUNDS: Cell<Option<bool>> = const { Cell::new(None) };
}

/// Attaches low-rank adapters to the weights of a module, quantised ones too, to which
/// [`Module::apply_reparameterization`] can attach nothing more.
pub fn apply_low_rank<M: Module>(
    module: M,
    reparameterizer: impl Reparameterizer<Reparam = LowRank>,
) -> M {
    let quantized = Find::all(&module);
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

/// The ids of quantised weights.
struct Find {
    last: Option<ParamId>,
    found: BTreeSet<ParamId>,
}

impl Find {
    fn all(module: &impl Module) -> BTreeSet<ParamId> {
        let mut find = Self {
            last: None,
            found: BTreeSet::new(),
        };
        module.visit(&mut find);
        find.found
    }
}

impl ModuleVisitor for Find {
    fn enter_module(&mut self, name: &str, container: &str) {
        if container == "Reparameterization" && name == Quantized::NAME {
            self.found.extend(self.last);
        }
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.last = Some(param.id);
    }
}
