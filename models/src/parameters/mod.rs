//! Parameters under their checkpoint names.
//!
//! The modules' fields have the names of the Hugging Face layout. Without enum variants, and without the fields of
//! [`UNNAMED`] types, a parameter's path in Burn is therefore its name in the checkpoint; [`layout`] knows the
//! parameters that a checkpoint splits. The values
//! differ in one way: a Burn [`Linear`](burn::nn::Linear) stores its weight as `[input, output]`, a checkpoint as
//! `[output, input]`.

pub(crate) mod layout;

use std::collections::BTreeMap;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Gradients, Tensor, TensorData};

use self::layout::{ExpertStorage, Parameter, Part, under_other_prefix};
use crate::config::Architecture;
use crate::config::family::Axes;
use crate::model::built::Model;
use crate::model::causal_lm::CausalLm;
use crate::model::vision::{VisionPart, VisionTower};

/// A module whose parameters have names in checkpoints.
pub(crate) trait Configured: Module {
    /// Returns the family that names them.
    fn architecture(&self) -> Architecture;
}

impl Configured for CausalLm {
    fn architecture(&self) -> Architecture {
        self.config().architecture
    }
}

impl Configured for Model {
    fn architecture(&self) -> Architecture {
        self.config().architecture
    }
}

impl Configured for VisionTower {
    fn architecture(&self) -> Architecture {
        self.config().architecture
    }
}

impl Configured for VisionPart {
    fn architecture(&self) -> Architecture {
        self.visual.architecture()
    }
}

impl VisionTower {
    /// Returns the gradient of every parameter that has one, copied to the host, by its name in the checkpoint of a tower that
    /// was saved alone.
    pub fn gradients(&self, grads: &Gradients) -> BTreeMap<String, TensorData> {
        gradients(self, grads)
    }
}

/// Receives every parameter of a model; see [`CausalLm::visit_parameters`].
pub trait ParameterVisitor {
    /// Receives one tensor of the checkpoint, with its name and shape there. The weight of a projection is a transposed
    /// view. The experts of a layer come one by one.
    fn visit<const D: usize>(&mut self, name: &str, tensor: Tensor<D>);
}

impl Model {
    /// Returns the gradient of every parameter that has one, as [`CausalLm::gradients`] does.
    pub fn gradients(&self, grads: &Gradients) -> BTreeMap<String, TensorData> {
        gradients(self, grads)
    }

    /// Returns every parameter by its checkpoint name, as [`CausalLm::named_parameters`] does.
    pub fn named_parameters(&self) -> BTreeMap<String, TensorData> {
        named(self)
    }
}

impl CausalLm {
    /// Passes every parameter to `visitor`, in the model's order. It skips the parameters of attached adapters, which
    /// are not part of the checkpoint.
    pub fn visit_parameters(&self, visitor: &mut impl ParameterVisitor) {
        self.visit_tensors(ExpertStorage::PerExpert, visitor);
    }

    /// Returns every parameter by its checkpoint name, in the checkpoint's shape, copied to the host. Projections are
    /// `[output, input]`, and the experts of a layer are listed one by one. A tied output projection is not listed.
    pub fn named_parameters(&self) -> BTreeMap<String, TensorData> {
        named(self)
    }

    /// Returns the gradient of every parameter that has one, copied to the host. Names and shapes are those of
    /// [`named_parameters`](Self::named_parameters). The gradient of a tied output projection is part of the
    /// embedding's.
    pub fn gradients(&self, grads: &Gradients) -> BTreeMap<String, TensorData> {
        gradients(self, grads)
    }

    /// Does the same as [`visit_parameters`](Self::visit_parameters), for a checkpoint that stores experts as `experts`
    /// says.
    pub(crate) fn visit_tensors(
        &self,
        experts: ExpertStorage,
        visitor: &mut impl ParameterVisitor,
    ) {
        show_all(self, experts, visitor);
    }
}

/// Passes every parameter of a model to `visitor`, as the tensors of a checkpoint that stores experts as `experts` says.
fn show_all(model: &impl Configured, experts: ExpertStorage, visitor: &mut impl ParameterVisitor) {
    struct Show<'a, V>(ExpertStorage, &'a mut V);
    impl<V: ParameterVisitor> Visit for Show<'_, V> {
        fn visit<const D: usize>(&mut self, info: &ParameterInfo, param: &Param<Tensor<D>>) {
            // A quantised weight is saved as the floats that it decodes to.
            let saved = param.transform_for_save().base();
            info.show(saved.without_autodiff(), self.0, self.1);
        }
    }
    walk(model, &mut Show(experts, visitor));
}

/// A parameter's name and its orientation in memory.
#[derive(Debug, Clone)]
pub(crate) struct ParameterInfo {
    pub(crate) architecture: Architecture,
    /// The name in memory.
    name: String,
    /// True if the checkpoint holds the transposed matrix.
    pub(crate) transposed: bool,
    /// True for a table of embeddings.
    pub(crate) is_table: bool,
}

impl ParameterInfo {
    /// Returns every set of tensors that may hold a parameter of this shape, the usual one first.
    pub(crate) fn alternatives(&self, param_shape: &[usize]) -> Vec<Vec<Part>> {
        self.parameter(&self.checkpoint_shape(param_shape))
            .alternatives()
    }

    /// Returns how a checkpoint stores the experts of a parameter of this shape. `is_stored` knows its tensors.
    fn storage(&self, param_shape: &[usize], is_stored: &dyn Fn(&str) -> bool) -> ExpertStorage {
        let is_there = |part: &Part| {
            let other = under_other_prefix(self.architecture, &part.name);
            is_stored(&part.name) || other.is_some_and(|other| is_stored(&other))
        };
        let shape = self.checkpoint_shape(param_shape);
        let stacked = self.parameter(&shape).parts(ExpertStorage::Stacked);
        match stacked.iter().all(is_there) {
            true => ExpertStorage::Stacked,
            false => ExpertStorage::PerExpert,
        }
    }

    /// Returns the name in memory.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns `true` for a parameter that stays in at least `f32`. The choice of experts depends on small differences of
    /// this bias.
    pub(crate) fn is_wide(&self) -> bool {
        self.name.ends_with(".e_score_correction_bias")
    }

    /// Returns the name of the linear layer whose weight this is.
    pub(crate) fn linear_layer(&self) -> Option<&str> {
        self.name
            .strip_suffix(".weight")
            .filter(|_| self.transposed)
    }

    /// Returns the name of the parameter if it holds a projection of all experts of a layer, and the axes of an expert's
    /// matrix.
    pub(crate) fn experts(&self) -> Option<(&str, Axes)> {
        let ends = [".experts.gate_up_proj", ".experts.down_proj"];
        let is_stack = ends.iter().any(|end| self.name.ends_with(end));
        let experts = self.architecture.family().experts;
        let axes = experts.filter(|_| is_stack)?.axes;
        Some((&self.name, axes))
    }

    /// Returns the shape of a parameter in the checkpoint's orientation.
    fn checkpoint_shape(&self, param_shape: &[usize]) -> Vec<usize> {
        let mut shape = param_shape.to_vec();
        if self.transposed {
            shape.reverse();
        }
        shape
    }

    fn parameter<'a>(&'a self, checkpoint_shape: &'a [usize]) -> Parameter<'a> {
        Parameter {
            architecture: self.architecture,
            name: &self.name,
            shape: checkpoint_shape,
        }
    }

    /// Passes a parameter's value, or a tensor of its shape, to `visitor` as the tensors of a checkpoint.
    fn show<const D: usize>(
        &self,
        tensor: Tensor<D>,
        experts: ExpertStorage,
        visitor: &mut impl ParameterVisitor,
    ) {
        let tensor = self.to_checkpoint(tensor);
        let shape = tensor.dims();
        let parts = self.parameter(&shape).parts(experts);
        if let [whole] = parts.as_slice()
            && whole.shape == shape
        {
            return visitor.visit(&whole.name, tensor);
        }
        let columns = shape[D - 1];
        let rows = tensor.reshape([-1, columns as i64]);
        for part in parts {
            visitor.visit(&part.name, rows.clone().narrow(0, part.row, part.rows()));
        }
    }

    fn to_checkpoint<const D: usize>(&self, tensor: Tensor<D>) -> Tensor<D> {
        if self.transposed {
            tensor.transpose()
        } else {
            tensor
        }
    }
}

/// An action on each parameter of a walk.
pub(crate) trait Visit {
    fn visit<const D: usize>(&mut self, info: &ParameterInfo, param: &Param<Tensor<D>>);
}

/// A replacement for each parameter of a walk.
pub(crate) trait Replace {
    fn replace<const D: usize>(
        &mut self,
        info: &ParameterInfo,
        param: Param<Tensor<D>>,
    ) -> Param<Tensor<D>>;
}

/// Visits every parameter. Uninitialised parameters stay so.
pub(crate) fn walk(model: &impl Configured, visit: &mut impl Visit) {
    model.visit(&mut Walk {
        path: Path::of(model),
        action: visit,
    });
}

/// Replaces every parameter.
pub(crate) fn rebuild<M: Configured>(model: M, replace: &mut impl Replace) -> M {
    let path = Path::of(&model);
    model.map(&mut Walk {
        path,
        action: replace,
    })
}

/// A collection of tensors by name, on the host.
struct Named(BTreeMap<String, TensorData>);

impl ParameterVisitor for Named {
    fn visit<const D: usize>(&mut self, name: &str, tensor: Tensor<D>) {
        self.0.insert(name.to_owned(), tensor.into_data());
    }
}

fn named(model: &impl Configured) -> BTreeMap<String, TensorData> {
    let mut named = Named(BTreeMap::new());
    show_all(model, ExpertStorage::PerExpert, &mut named);
    named.0
}

fn gradients(model: &impl Configured, grads: &Gradients) -> BTreeMap<String, TensorData> {
    gradients_as_stored(model, grads, &|_| false)
}

/// Returns gradients by the names of a checkpoint's tensors, of which `is_stored` knows those that are there: experts may be
/// stacked, and names may have the other beginning of the family.
pub(crate) fn gradients_as_stored(
    model: &impl Configured,
    grads: &Gradients,
    is_stored: &dyn Fn(&str) -> bool,
) -> BTreeMap<String, TensorData> {
    struct Collect<'a> {
        grads: &'a Gradients,
        is_stored: &'a dyn Fn(&str) -> bool,
        found: Named,
    }
    impl Visit for Collect<'_> {
        fn visit<const D: usize>(&mut self, info: &ParameterInfo, param: &Param<Tensor<D>>) {
            if let Some(grad) = param.base().grad(self.grads) {
                let experts = info.storage(&grad.dims(), self.is_stored);
                info.show(grad, experts, &mut self.found);
            }
        }
    }
    let mut collect = Collect {
        grads,
        is_stored,
        found: Named(BTreeMap::new()),
    };
    walk(model, &mut collect);
    let renamed = |(name, gradient): (String, TensorData)| {
        let other = under_other_prefix(model.architecture(), &name);
        let other = other.filter(|other| !is_stored(&name) && is_stored(other));
        (other.unwrap_or(name), gradient)
    };
    collect.found.0.into_iter().map(renamed).collect()
}

/// The types whose fields have no name in checkpoints: their own fields take their place.
const UNNAMED: [&str; 10] = [
    "Enum:DeltaProjections",
    "Enum:LayerStack",
    "Enum:QkvProjections",
    "Enum:QueryProjections",
    "Enum:VisionLayers",
    "Enum:VisionProjections",
    "Struct:KeysAndValues",
    "Struct:Streams",
    "Struct:TalkerProjections",
    "Struct:Trunk",
];

/// The type under which a walk enters the parameters of an adapter.
const ADAPTER: &str = "Reparameterization";

/// The position of a walk: the names of the enclosing fields, and the type that holds each.
pub(crate) struct Path {
    architecture: Architecture,
    steps: Vec<Step>,
}

struct Step {
    name: String,
    container: String,
}

impl Path {
    pub(crate) fn of(model: &impl Configured) -> Self {
        Self {
            architecture: model.architecture(),
            steps: Vec::new(),
        }
    }

    pub(crate) fn enter(&mut self, name: &str, container: &str) {
        self.steps.push(Step {
            name: name.to_owned(),
            container: container.to_owned(),
        });
    }

    pub(crate) fn exit(&mut self) {
        self.steps.pop();
    }

    /// Returns `true` if a step has a place in names. Variants of enums and fields of unnamed types have none.
    fn is_named(&self, at: usize) -> bool {
        let inside = self.steps.get(at + 1);
        !self.steps[at].container.starts_with("Enum:")
            && inside.is_none_or(|inside| !UNNAMED.contains(&inside.container.as_str()))
    }

    /// Describes the current parameter. Returns `None` if it belongs to an adapter.
    fn info(&self) -> Option<ParameterInfo> {
        match self.adapter() {
            Some(_) => None,
            None => self.info_up_to(self.steps.len()),
        }
    }

    /// Returns the place at which an adapter begins.
    fn adapter(&self) -> Option<usize> {
        self.steps.iter().position(|step| step.container == ADAPTER)
    }

    /// Describes the parameter whose adapter the current one belongs to, and returns the name of the current one.
    pub(crate) fn adapted(&self) -> Option<(ParameterInfo, &str)> {
        let info = self.info_up_to(self.adapter()?)?;
        Some((info, self.steps.last()?.name.as_str()))
    }

    /// Describes the parameter that the first `count` steps lead to.
    fn info_up_to(&self, count: usize) -> Option<ParameterInfo> {
        let names: Vec<&str> = (0..count)
            .filter(|&at| self.is_named(at))
            .map(|at| self.steps[at].name.as_str())
            .collect();
        let last = self.steps.get(count.checked_sub(1)?)?;
        let is_weight_of = |container| last.container == container && last.name == "weight";
        Some(ParameterInfo {
            architecture: self.architecture,
            name: names.join("."),
            transposed: is_weight_of("Struct:Linear"),
            is_table: is_weight_of("Struct:Embedding"),
        })
    }
}

struct Walk<'a, A> {
    path: Path,
    action: &'a mut A,
}

impl<A: Visit> ModuleVisitor for Walk<'_, A> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.exit();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(info) = self.path.info() {
            self.action.visit(&info, param);
        }
    }
}

impl<A: Replace> ModuleMapper for Walk<'_, A> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.exit();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        match self.path.info() {
            Some(info) => self.action.replace(&info, param),
            None => param,
        }
    }
}
