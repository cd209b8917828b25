//! Running a computation on copies of the operands, and taking its numbers away.

use crate::kernel::{Tensors, Visitor};
use crate::registry::FloatType;
use crate::verify::data::values;
use burn::tensor::{DType, Device, FloatDType, Gradients, Tensor, TensorData};

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
}

/// What a computation gave.
#[derive(Clone, Debug, Default)]
pub(super) struct Computed {
    pub(super) results: Vec<Values>,
    /// One for each operand that was asked for its gradient; `None` if it got none.
    pub(super) gradients: Vec<Option<Values>>,
}

/// What the gradients are taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Upstream {
    /// No gradients are taken.
    None,
    /// Fixed pseudo-random numbers, exact in this type, for the results together.
    Fixed(FloatType),
}

/// Runs `compute` on `operands`. Gradients are taken of the operands that require them; of one that
/// got none, of the tensor in its place in `otherwise`.
pub(super) fn run<O: Tensors + Clone, Y: Tensors>(
    operands: O,
    otherwise: Option<&O>,
    upstream: Upstream,
    compute: impl FnOnce(O) -> Y,
) -> Computed {
    let mut leaves = operands.clone();
    let mut output = compute(operands);
    let mut results = Take::default();
    output.visit(&mut results);
    let mut computed = Computed {
        results: results.0,
        gradients: Vec::new(),
    };
    if let Upstream::Fixed(dtype) = upstream {
        let mut loss = Loss { dtype, sum: None };
        output.visit(&mut loss);
        let of = loss.sum.map(|loss| loss.backward());
        computed.gradients = gradients(&mut leaves, of.as_ref());
        if let Some(otherwise) = otherwise {
            let others = gradients(&mut otherwise.clone(), of.as_ref());
            for (gradient, other) in computed.gradients.iter_mut().zip(others) {
                *gradient = gradient.take().or(other);
            }
        }
    }
    computed
}

/// The numbers of tensors.
#[derive(Default)]
pub(super) struct Take(pub(super) Vec<Values>);

impl Visitor for Take {
    fn tensor<const D: usize>(&mut self, name: &'static str, tensor: &mut Tensor<D>) {
        self.0.push(Values::of(name, tensor.clone()));
    }
}

/// The sum of the results, each weighted by its upstream gradient.
struct Loss {
    dtype: FloatType,
    sum: Option<Tensor<1>>,
}

impl Visitor for Loss {
    fn tensor<const D: usize>(&mut self, name: &'static str, tensor: &mut Tensor<D>) {
        if !tensor.is_tracked() {
            return;
        }
        let shape = tensor.dims();
        let numbers = values(name, shape.iter().product(), self.dtype);
        let data = TensorData::new(numbers, shape).convert_dtype(tensor.dtype());
        let upstream = Tensor::<D>::from_data(data, (&tensor.device().inner(), tensor.dtype()));
        // The sum itself means nothing, so it may overflow; its gradient is the upstream one. f32
        // lets results of several dtypes be added.
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

/// Copies that are cut off from the program's graph; with autodiff they require gradients.
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

/// Copies in f64 on a device that has it.
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
