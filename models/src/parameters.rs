//! Parameters under their checkpoint names.
//!
//! The modules' fields carry the names of the Hugging Face layout, so a parameter's path in Burn is
//! its name in the checkpoint once enum variants are left out. One difference is in the values: a
//! Burn [`Linear`](burn::nn::Linear) stores its weight `[input, output]`, a checkpoint `[output,
//! input]`.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Gradients, Tensor, TensorData};

use crate::CausalLm;

/// Receives every parameter of a model; see [`CausalLm::visit_parameters`].
pub trait ParameterVisitor {
    /// One parameter by its checkpoint name, in the checkpoint's shape. A projection's weight comes
    /// as a transposed view.
    fn visit<const D: usize>(&mut self, name: &str, tensor: Tensor<D>);
}

impl CausalLm {
    /// Shows every parameter to `visitor`, in the model's order. The parameters of attached
    /// adapters are left out: they are no part of the checkpoint.
    pub fn visit_parameters(&self, visitor: &mut impl ParameterVisitor) {
        struct Show<'a, V>(&'a mut V);
        impl<V: ParameterVisitor> Visit for Show<'_, V> {
            fn visit<const D: usize>(&mut self, place: &Place, param: &Param<Tensor<D>>) {
                self.0.visit(
                    &place.name,
                    place.to_checkpoint(param.base().without_autodiff()),
                );
            }
        }
        walk(self, &mut Show(visitor));
    }
}

/// A parameter's name, and how its values lie in memory.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The name in the checkpoint.
    pub(crate) name: String,
    /// Whether the checkpoint's matrix is the transposed one.
    pub(crate) transposed: bool,
}

impl Place {
    /// A parameter's shape as the checkpoint has it.
    pub(crate) fn checkpoint_shape(&self, param_shape: &[usize]) -> Vec<usize> {
        let mut shape = param_shape.to_vec();
        if self.transposed {
            shape.reverse();
        }
        shape
    }

    fn to_checkpoint<const D: usize>(&self, tensor: Tensor<D>) -> Tensor<D> {
        if self.transposed {
            tensor.transpose()
        } else {
            tensor
        }
    }
}

/// What is done with each parameter of a walk.
pub(crate) trait Visit {
    fn visit<const D: usize>(&mut self, place: &Place, param: &Param<Tensor<D>>);
}

/// What each parameter is replaced with.
pub(crate) trait Replace {
    fn replace<const D: usize>(
        &mut self,
        place: &Place,
        param: Param<Tensor<D>>,
    ) -> Param<Tensor<D>>;
}

/// Visits every parameter. Parameters that are not initialised yet stay so.
pub(crate) fn walk(model: &CausalLm, visit: &mut impl Visit) {
    model.visit(&mut Walk {
        path: Path::default(),
        action: visit,
    });
}

/// Replaces every parameter.
pub(crate) fn rebuild(model: CausalLm, replace: &mut impl Replace) -> CausalLm {
    model.map(&mut Walk {
        path: Path::default(),
        action: replace,
    })
}

pub(crate) fn named(model: &CausalLm) -> BTreeMap<String, TensorData> {
    struct Named(BTreeMap<String, TensorData>);
    impl ParameterVisitor for Named {
        fn visit<const D: usize>(&mut self, name: &str, tensor: Tensor<D>) {
            self.0.insert(name.to_owned(), tensor.into_data());
        }
    }
    let mut named = Named(BTreeMap::new());
    model.visit_parameters(&mut named);
    named.0
}

pub(crate) fn gradients(model: &CausalLm, grads: &Gradients) -> BTreeMap<String, TensorData> {
    struct Collect<'a> {
        grads: &'a Gradients,
        found: BTreeMap<String, TensorData>,
    }
    impl Visit for Collect<'_> {
        fn visit<const D: usize>(&mut self, place: &Place, param: &Param<Tensor<D>>) {
            if let Some(grad) = param.base().grad(self.grads) {
                self.found
                    .insert(place.name.clone(), place.to_checkpoint(grad).into_data());
            }
        }
    }
    let mut collect = Collect {
        grads,
        found: BTreeMap::new(),
    };
    walk(model, &mut collect);
    collect.found
}

/// Where a walk stands: the names of the enclosing fields, and the type that holds the last one.
#[derive(Default)]
struct Path {
    steps: Vec<Step>,
}

struct Step {
    name: String,
    container: String,
}

impl Path {
    fn enter(&mut self, name: &str, container: &str) {
        self.steps.push(Step {
            name: name.to_owned(),
            container: container.to_owned(),
        });
    }

    fn exit(&mut self) {
        self.steps.pop();
    }

    /// The checkpoint's place of the current parameter, unless it belongs to an adapter.
    fn place(&self) -> Option<Place> {
        if self
            .steps
            .iter()
            .any(|step| step.container == "Reparameterization")
        {
            return None;
        }
        let names: Vec<&str> = self
            .steps
            .iter()
            .filter(|step| !step.container.starts_with("Enum:"))
            .map(|step| step.name.as_str())
            .collect();
        let last = self.steps.last()?;
        let transposed = last.container == "Struct:Linear" && last.name == "weight";
        Some(Place {
            name: names.join("."),
            transposed,
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
        if let Some(place) = self.path.place() {
            self.action.visit(&place, param);
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
        match self.path.place() {
            Some(place) => self.action.replace(&place, param),
            None => param,
        }
    }
}
