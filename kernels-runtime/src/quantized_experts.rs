//! Weights of the experts of a mixture that stay in quantised form.

use crate::low_rank::LowRankExperts;
use crate::semantics::ExpertLayout;
use burn::module::{
    Devices, Module, ModuleMapper, ModuleVisitor, Param, ParamId, Reparameterization,
    Reparameterizer,
};
use burn::tensor::{DType, Device, Tensor, TensorData};
use kernels_quant::OwnedWeight;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A function that computes `x · weightᵀ`.
pub type Product = fn(Tensor<2>, &OwnedWeight) -> Tensor<2>;

/// The weights of one projection of all experts of a mixture in quantised form, as their bytes. They are frozen.
///
/// A layer with `#[fused_kernel("npu_fused_moe")]` multiplies the rows of each expert with its bytes. Nothing of the
/// weights' size is in floats, forward or backward. [`Param::val`] decodes all experts.
#[derive(Clone, Debug)]
pub struct QuantizedExperts {
    stored: StoredExperts,
    product: Product,
    adapter: Option<LowRankExperts>,
}

/// The weights of all experts without what computes with them. Clones share them.
#[derive(Clone, Debug)]
pub struct StoredExperts {
    /// The weights `[outputs, inputs]` of each expert, whose outputs lie one behind the other.
    experts: Arc<[Vec<OwnedWeight>]>,
    layout: ExpertLayout,
    /// The numbers of outputs and inputs of an expert.
    sizes: [usize; 2],
}

impl StoredExperts {
    /// Makes it of the weights of each expert, `[outputs, inputs]`, whose outputs lie one behind the other, such as
    /// those of gate and up. `layout` is that of the parameter.
    ///
    /// # Panics
    /// Panics without an expert, and if the experts have other sizes.
    pub fn new(experts: Vec<Vec<OwnedWeight>>, layout: ExpertLayout) -> Self {
        let sizes = |weights: &Vec<OwnedWeight>| {
            let [_, inputs] = weights.first()?.shape();
            let same = weights.iter().all(|weight| weight.shape()[1] == inputs);
            let outputs = weights.iter().map(|weight| weight.shape()[0]).sum();
            same.then_some([outputs, inputs])
        };
        let first = experts.first().and_then(sizes);
        let first = first.expect("an expert has weights of the same inputs");
        assert!(
            experts.iter().all(|expert| sizes(expert) == Some(first)),
            "the weights of experts in quantised form have several sizes"
        );
        Self {
            experts: experts.into(),
            layout,
            sizes: first,
        }
    }

    /// Returns the shape of the parameter: `[E, outputs, inputs]` or `[E, inputs, outputs]`.
    pub fn shape(&self) -> [usize; 3] {
        let ([outputs, inputs], count) = (self.sizes, self.experts.len());
        match self.layout {
            ExpertLayout::Linear => [count, outputs, inputs],
            ExpertLayout::Matmul => [count, inputs, outputs],
        }
    }

    /// Returns the parameter in floats.
    pub fn decoded(&self, device: &Device, dtype: DType) -> Tensor<3> {
        let [outputs, inputs] = self.sizes;
        let mut numbers = vec![0.0_f32; self.experts.len() * outputs * inputs];
        let mut rest = &mut numbers[..];
        for weight in self.experts.iter().flatten() {
            let [rows, columns] = weight.shape();
            let (own, others) = rest.split_at_mut(rows * columns);
            weight.view().decode_rows(0..rows, own);
            rest = others;
        }
        let data = TensorData::new(numbers, [self.experts.len(), outputs, inputs]);
        let decoded = Tensor::<3>::from_data(data, (device, dtype));
        match self.layout {
            ExpertLayout::Linear => decoded,
            ExpertLayout::Matmul => decoded.swap_dims(1, 2),
        }
    }
}

impl QuantizedExperts {
    /// Makes it of the weights of all experts, and a function that multiplies rows with one.
    pub fn new(stored: StoredExperts, product: Product) -> Self {
        Self {
            stored,
            product,
            adapter: None,
        }
    }

    /// Returns the adapter, if there is one.
    pub fn adapter(&self) -> Option<&LowRankExperts> {
        self.adapter.as_ref()
    }

    /// Applies the projection of one expert to its rows, without bias and adapter.
    pub(crate) fn forward(&self, expert: usize, rows: Tensor<2>) -> Tensor<2> {
        match &self.stored.experts[expert][..] {
            [weight] => (self.product)(rows, weight),
            weights => {
                let products = weights.iter();
                let products = products.map(|weight| (self.product)(rows.clone(), weight));
                Tensor::cat(products.collect(), 1)
            }
        }
    }

    /// Returns the weights of some experts, in this order, without adapters.
    pub(crate) fn of_experts(&self, experts: &[usize]) -> Self {
        let some = experts
            .iter()
            .map(|expert| self.stored.experts[*expert].clone());
        Self {
            stored: StoredExperts {
                experts: some.collect(),
                ..self.stored.clone()
            },
            adapter: None,
            ..self.clone()
        }
    }

    fn with(self, change: impl FnOnce(LowRankExperts) -> LowRankExperts) -> Self {
        Self {
            adapter: self.adapter.map(change),
            ..self
        }
    }
}

impl Reparameterization for QuantizedExperts {
    const NAME: &'static str = "quantized_experts";

    fn apply<const D: usize>(&self, base: Tensor<D>) -> Tensor<D> {
        let weights = self.stored.decoded(&base.device(), base.dtype());
        let weights = match &self.adapter {
            Some(adapter) => adapter.apply(weights),
            None => weights,
        };
        weights.reshape(base.shape())
    }
}

/// The bytes are not a parameter: visitors and mappers see the adapter alone.
impl Module for QuantizedExperts {
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
        self.stored.experts.iter().flatten().for_each(visited);
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

thread_local! {
    /// The adapter of the quantised experts that this thread maps next. Burn maps the base of a parameter, and then
    /// what is attached to it, which no mapper can replace.
    static NEXT: RefCell<Option<LowRankExperts>> = const { RefCell::new(None) };

    /// The quantised weights that this thread visited, while it looks for them. Visitors see no quantised weight.
    static VISITED: RefCell<Option<Vec<OwnedWeight>>> = const { RefCell::new(None) };
}

/// Returns handles of the quantised weights of a module, those of experts one by one.
pub fn quantised_in(module: &impl Module) -> Vec<OwnedWeight> {
    VISITED.set(Some(Vec::new()));
    Find::all(module, QuantizedExperts::NAME);
    VISITED.take().unwrap_or_default()
}

/// Tells [`quantised_in`] that a quantised weight is visited.
pub fn visited(weight: &OwnedWeight) {
    VISITED.with_borrow_mut(|visited| {
        if let Some(visited) = visited {
            visited.push(weight.clone());
        }
    });
}

/// Attaches low-rank adapters to the experts of a module, quantised ones too, to which
/// [`Module::apply_reparameterization`] can attach nothing more.
pub fn apply_low_rank_experts<M: Module>(
    module: M,
    reparameterizer: impl Reparameterizer<Reparam = LowRankExperts>,
) -> M {
    let quantised = Find::all(&module, QuantizedExperts::NAME);
    module.apply_reparameterization(Adapt {
        inner: reparameterizer,
        quantised,
    })
}

struct Adapt<R> {
    inner: R,
    quantised: BTreeSet<ParamId>,
}

impl<R: Reparameterizer<Reparam = LowRankExperts>> Reparameterizer for Adapt<R> {
    type Reparam = LowRankExperts;

    fn reparameterize<const D: usize>(
        &mut self,
        path: &str,
        param: Param<Tensor<D>>,
    ) -> (Param<Tensor<D>>, Option<LowRankExperts>) {
        let is_quantised = self.quantised.contains(&param.id);
        let (param, adapter) = self.inner.reparameterize(path, param);
        if is_quantised {
            NEXT.set(adapter);
            return (param, None);
        }
        (param, adapter)
    }
}

/// The ids of the parameters to which a reparameterisation of a name is attached.
pub struct Find {
    name: &'static str,
    last: Option<ParamId>,
    found: BTreeSet<ParamId>,
}

impl Find {
    /// Returns the ids of those of a module.
    pub fn all(module: &impl Module, name: &'static str) -> BTreeSet<ParamId> {
        let mut find = Self {
            name,
            last: None,
            found: BTreeSet::new(),
        };
        module.visit(&mut find);
        find.found
    }
}

impl ModuleVisitor for Find {
    fn enter_module(&mut self, name: &str, container: &str) {
        if container == "Reparameterization" && name == self.name {
            self.found.extend(self.last);
        }
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.last = Some(param.id);
    }
}
