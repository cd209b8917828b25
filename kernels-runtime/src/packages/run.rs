//! Calls of functions on tensors of Burn's dispatch, with autodiff or without.

use super::On;
use super::call::{Call, Given, Slot};
use super::memory::{lent, lent_mut, unwritten};
use super::operations::{Bindable, Number};
use crate::cpu::tensor;
use crate::kernel::any_rank::flat;
use crate::ops::derived;
use crate::ops::fused::{
    Held, Internal, Kind, Like, Made, OfDispatch, OnDispatch, OpLaunch, Parts,
};
use crate::ops::operands::{checked, like};
use crate::registry::FloatType;
use crate::semantics::SemanticsKey;
use burn::backend::flex::FlexTensor;
use burn::backend::{
    BackendTensor, DispatchAutodiffContext, DispatchTensor, DispatchTensorKind, Flex,
};
use burn::tensor::DType;
use kernels_packages::Bound;
use kernels_simd::Values;
use smallvec::{SmallVec, smallvec};

/// The functions of a binding.
pub(super) struct Functions {
    /// The name of the implementation.
    pub(super) name: &'static str,
    dtypes: Vec<FloatType>,
    pub(super) forward: Call,
    /// The function of the gradients. Without one, they are those of the reference.
    pub(super) backward: Option<Call>,
}

/// The state of the forward pass that the backward function needs.
struct Kept {
    /// The tensors by their places, contiguous.
    tensors: SmallVec<[Option<FlexTensor>; 5]>,
    numbers: SmallVec<[Number; 2]>,
    y: Like,
    /// The result, if the backward function reads it.
    result: Option<FlexTensor>,
    saved: SmallVec<[FlexTensor; 2]>,
    /// The places of the tensors whose gradients are wanted.
    wanted: SmallVec<[bool; 5]>,
}

/// Returns the launch that runs the functions of a binding, which computes `key`. It lives as long as the program, as
/// packages do.
///
/// # Errors
/// Returns an error if the functions don't have the arguments of the operation.
pub(super) fn held<O: Bindable>(
    name: &'static str,
    bound: &Bound,
    key: &'static SemanticsKey,
    on: On,
) -> Result<OpLaunch, String> {
    let binding = &bound.binding;
    let forward = Call::of::<O>(&binding.forward, &bound.forward, on)?;
    let backward = match (&binding.backward, &bound.backward) {
        (Some(call), Some(backward)) => Some(Call::of::<O>(call, backward, on)?),
        _ => None,
    };
    takes_all::<O>(&forward, backward.as_ref(), key)?;
    let dtypes = super::register::dtypes(binding);
    let functions: &'static Functions = Box::leak(Box::new(Functions {
        name,
        dtypes,
        forward,
        backward,
    }));
    let run: Held<O> = match on {
        On::Cpu => Box::new(move |operands| functions.run::<O>(operands)),
        #[cfg(feature = "npu")]
        On::Npus => super::npu::held::<O>(functions, key)?,
    };
    Ok(OpLaunch::holding::<O>(Box::leak(Box::new(run)), key))
}

/// Checks that the functions take every tensor and number that calls with the key have, write the result, and write
/// every gradient. The forward function may save values of a number for the backward function.
fn takes_all<O: Bindable>(
    forward: &Call,
    backward: Option<&Call>,
    key: &SemanticsKey,
) -> Result<(), String> {
    let lacks =
        |call: &Call, what: String| Err(format!("`{}` has no argument for {what}", call.name()));
    if !forward.has(&Slot::Result) {
        return lacks(forward, "the result `y`".into());
    }
    let places = O::TENSORS.iter().zip(O::has(key)).enumerate();
    for (place, (name, _)) in places.filter(|(_, (_, has))| *has) {
        if !forward.has(&Slot::Tensor(place)) {
            return lacks(forward, format!("the tensor `{name}` of {key}"));
        }
        if let Some(backward) = backward
            && !backward.has(&Slot::GradientOf(place))
        {
            return lacks(backward, format!("the gradient of `{name}`"));
        }
    }
    let places = O::NUMBERS.iter().zip(O::has_numbers(key)).enumerate();
    for (place, (name, _)) in places.filter(|(_, (_, has))| *has) {
        if !forward.has(&Slot::Number(place)) {
            return lacks(forward, format!("the number `{name}` of {key}"));
        }
    }
    Ok(())
}

impl Functions {
    /// Runs the forward function, and records the backward function if a tensor has autodiff enabled.
    ///
    /// # Panics
    /// Panics if a function fails, or if the tensors are not ones that it takes.
    fn run<O: Bindable>(&'static self, operands: OfDispatch<O>) -> Made<DispatchTensor> {
        let parts = O::into_parts(operands);
        let there = places(O::KINDS, &parts.lengths);
        let has_autodiff =
            |tensor: &DispatchTensor| matches!(tensor.kind, DispatchTensorKind::Autodiff(_));
        let (parents_at, parents): (Vec<usize>, Vec<DispatchTensor>) = (there.iter().copied())
            .zip(parts.floats.iter().cloned())
            .filter(|(_, tensor)| has_autodiff(tensor))
            .unzip();
        let mut wanted: SmallVec<[bool; 5]> = smallvec![false; O::TENSORS.len()];
        for (place, parent) in parents_at.iter().zip(&parents) {
            wanted[*place] = flat(parent).is_tracked();
        }
        let parts: Parts<FlexTensor, FlexTensor, _> = parts.map(
            |tensor| contiguous(&tensor),
            |_| unreachable!("these operations have no tensors of integers"),
        );
        let mut tensors: SmallVec<[Option<FlexTensor>; 5]> = smallvec![None; O::TENSORS.len()];
        for (place, tensor) in there.iter().zip(&parts.floats) {
            tensors[*place] = Some(tensor.clone());
        }
        let numbers = O::numbers(&parts.numbers);
        let operands = O::from_parts(parts, Internal(()));
        self.takes(checked(O::dtype(&operands)));
        let mut kept = Kept {
            tensors,
            numbers,
            y: O::results(&operands).swap_remove(0),
            result: None,
            saved: SmallVec::new(),
            wanted,
        };
        let saved = O::saved(&operands).into_iter();
        let y = of_dispatch(self.forward(&mut kept, saved.map(|saved| saved.like).collect()));
        if parents.is_empty() {
            return Made::new(y);
        }
        let Some(backward) = &self.backward else {
            // Dispatch removes autodiff from the tensors before, because the gradient is that of the reference.
            panic!(
                "{}: a tensor has autodiff enabled, but there is no gradient",
                self.name
            );
        };
        let pullback = move |dy: DispatchTensor| {
            let mut gradients = kept.backward(O::TITLE, backward, &dy);
            let of = |place: &usize| gradients[*place].take().map(of_dispatch);
            parents_at.iter().map(of).collect()
        };
        Made::new(derived::record(parents, &y, O::KERNEL, pullback))
    }

    fn takes(&self, dtype: DType) {
        assert!(
            self.is_for(dtype),
            "{} does not take tensors of {dtype:?}",
            self.name
        );
    }

    /// Returns `true` if the functions take tensors of this type.
    pub(super) fn is_for(&self, dtype: DType) -> bool {
        let float = FloatType::from_dtype(dtype);
        float.is_some_and(|float| self.dtypes.contains(&float))
    }

    /// Returns the result, and adds to `kept` what the forward pass made. `saved` describes what it keeps.
    fn forward(&self, kept: &mut Kept, saved: SmallVec<[Like; 2]>) -> FlexTensor {
        let (shape, dtype) = kept.y.clone();
        let mut y = unwritten(shape.num_elements(), dtype);
        let mut made: SmallVec<[Values; 2]> = saved.iter().map(of_like).collect();
        if shape.num_elements() > 0 {
            let given = Given {
                tensors: kept.lent(),
                numbers: kept.numbers.clone(),
                result: Some(lent_mut(&mut y, shape.as_slice())),
                saved: (made.iter_mut().zip(&saved))
                    .map(|(values, (shape, _))| lent_mut(values, shape.as_slice()))
                    .collect(),
                ..Given::default()
            };
            self.forward.run(&given);
        }
        let y = tensor(y, shape);
        let reads = |slot| self.backward.as_ref().is_some_and(|call| call.has(slot));
        kept.result = reads(&Slot::Result).then(|| y.clone());
        let made = made.into_iter().zip(saved);
        kept.saved = made
            .map(|(values, (shape, _))| tensor(values, shape))
            .collect();
        y
    }
}

impl Kept {
    fn lent(&self) -> SmallVec<[Option<kernels_packages::Tensor<'_>>; 5]> {
        let tensors = self.tensors.iter();
        tensors.map(|tensor| tensor.as_ref().map(lent)).collect()
    }

    /// Returns the wanted gradients by their places.
    ///
    /// # Panics
    /// Panics if the function fails, or if `dy` is not like the result.
    fn backward(
        &self,
        title: &str,
        backward: &Call,
        dy: &DispatchTensor,
    ) -> SmallVec<[Option<FlexTensor>; 5]> {
        let dy = contiguous(dy);
        let (shape, dtype) = &self.y;
        checked(like(title, ("dy", &dy), ("the result", shape, *dtype)));
        let wanted = self.tensors.iter().zip(&self.wanted);
        let likes: SmallVec<[Option<Like>; 5]> = wanted
            .map(|(tensor, wanted)| {
                let tensor = tensor.as_ref().filter(|_| *wanted)?;
                Some((tensor.layout().shape().clone(), tensor.dtype()))
            })
            .collect();
        if shape.num_elements() == 0 {
            // A sum without terms. The function is not called.
            let zeros = |(shape, dtype)| FlexTensor::zeros(shape, dtype);
            return likes.into_iter().map(|like| like.map(zeros)).collect();
        }
        let mut made: SmallVec<[Option<Values>; 5]> = likes
            .iter()
            .map(|like| like.as_ref().map(of_like))
            .collect();
        let gradients = made.iter_mut().zip(&likes);
        let given = Given {
            tensors: self.lent(),
            numbers: self.numbers.clone(),
            result: self.result.as_ref().map(lent),
            saved: self.saved.iter().map(lent).collect(),
            gradient: Some(lent(&dy)),
            gradients: gradients
                .map(|(values, like)| {
                    let (values, (shape, _)) = values.as_mut().zip(like.as_ref())?;
                    Some(lent_mut(values, shape.as_slice()))
                })
                .collect(),
        };
        backward.run(&given);
        drop(given);
        let made = made.into_iter().zip(likes);
        made.map(|(values, like)| Some(tensor(values?, like?.0)))
            .collect()
    }
}

fn of_like((shape, dtype): &Like) -> Values {
    unwritten(shape.num_elements(), *dtype)
}

/// Returns the places of the tensors that are there, in order.
pub(super) fn places(kinds: &[Kind], lengths: &[usize]) -> SmallVec<[usize; 5]> {
    let mut lengths = lengths.iter();
    let is_there = |kind: &Kind| match kind {
        Kind::One => true,
        Kind::Maybe => lengths.next() == Some(&1),
        Kind::List | Kind::Lists => unreachable!("these operations have single tensors"),
    };
    let there = kinds.iter().map(is_there).enumerate();
    there
        .filter(|(_, is_there)| *is_there)
        .map(|(place, _)| place)
        .collect()
}

/// Returns the elements of a tensor, contiguous and without autodiff.
///
/// # Panics
/// Panics if the tensor is not on the CPU.
fn contiguous(tensor: &DispatchTensor) -> FlexTensor {
    let plain = flat(tensor).without_autodiff().into_dispatch();
    Flex::unwrap(plain.kind).float().to_contiguous()
}

fn of_dispatch(tensor: FlexTensor) -> DispatchTensor {
    DispatchTensor {
        kind: Flex::wrap(BackendTensor::Float(tensor)),
        autodiff: DispatchAutodiffContext::Disabled,
    }
}
