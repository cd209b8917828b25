//! Fused operations on served devices: the client's messages and the server's handlers.
//!
//! A message has the float tensors of the operands, then those of integers, and last the tensors of lists: these are weights
//! that the server reserves memory for, by the rows of the tensors before them. Backward, the gradient of the result comes
//! first, with the gradient that is added to that of the first operand, if any, those of other results, if they have
//! gradients, and what the forward pass kept.

use super::packaged::{self, ByName, Packaged};
use super::{
    Backward, BackwardOn, FusedKernel, FusedOp, Given, Gradients, Internal, Kind, Like, Made,
    MadeOn, Parts, Tensors, parts_of,
};
use crate::ops::operands::checked;
use crate::remote::Kernels;
use crate::remote::call::{Call, Handled, send_wanted};
use crate::remote::wire::Malformed;
use burn::backend::Remote;
use burn::backend::TensorMetadata;
use burn::backend::ir::BackendIr;
use burn::backend::tensor::{FloatTensor, IntTensor};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// The numbers of a forward pass.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(bound = "N: Serialize + serde::de::DeserializeOwned")]
pub(crate) struct Forward<N> {
    numbers: N,
    lengths: Vec<usize>,
    /// The flags of the gradients that a backward pass will return, or `None` without one.
    wanted: Option<Vec<bool>>,
    /// The function of a package that runs, if it is not the device's own kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<String>,
}

/// The numbers of a backward pass.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(bound = "N: Serialize + serde::de::DeserializeOwned")]
pub(crate) struct BackwardNumbers<N> {
    numbers: N,
    lengths: Vec<usize>,
    wanted: Vec<bool>,
    /// True if a gradient of the first operand comes with the message, to which this one is added.
    added: bool,
    /// The function of a package that runs, if it is not the device's own kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<String>,
}

/// Adds a server's handlers of an operation.
pub(crate) fn handlers<O: FusedOp, B: BackendIr + FusedKernel<O>>(
    kernels: Kernels<B>,
) -> Kernels<B> {
    let kernels = kernels.handle(O::FORWARD, forward::<O, B>);
    match O::HAS_GRADIENT {
        true => kernels.handle(O::BACKWARD, backward::<O, B>),
        false => kernels,
    }
}

impl<O: FusedOp> FusedKernel<O> for Remote {
    fn forward(operands: Tensors<O, Self>, wanted: Option<&O::Each<bool>>) -> MadeOn<Self> {
        send_forward::<O>(operands, wanted, None)
    }

    fn backward(backward: BackwardOn<O, Self>) -> Gradients<O, Self> {
        send_backward(backward, None, None)
    }

    fn backward_added(
        backward: BackwardOn<O, Self>,
        before: FloatTensor<Self>,
    ) -> Gradients<O, Self> {
        checked(backward.check_before(&before));
        send_backward(backward, Some(before), None)
    }
}

impl<O: FusedOp> ByName<O> for Remote {
    fn forward_by(
        name: &'static str,
        operands: Tensors<O, Self>,
        wanted: Option<&O::Each<bool>>,
    ) -> MadeOn<Self> {
        send_forward::<O>(operands, wanted, Some(name))
    }

    fn backward_by(name: &'static str, backward: BackwardOn<O, Self>) -> Gradients<O, Self> {
        send_backward(backward, None, Some(name))
    }
}

/// Sends the forward pass, which the function `by` of a package computes, or the server's own kernel.
fn send_forward<O: FusedOp>(
    operands: Tensors<O, Remote>,
    wanted: Option<&O::Each<bool>>,
    by: Option<&str>,
) -> MadeOn<Remote> {
    let mut results = results::<O, _, _>(&operands, wanted.is_some()).into_iter();
    let ints = O::results(&operands).len() - 1 - O::OTHERS;
    let parts: Parts<_, _, _> = O::into_parts(operands);
    let numbers = Forward {
        wanted: wanted.map(|wanted| O::values(wanted.clone(), &parts.lengths).into_vec()),
        lengths: parts.lengths.to_vec(),
        numbers: parts.numbers,
        by: by.map(str::to_owned),
    };
    let inputs = in_order::<O, _>(parts.floats, parts.ints, &parts.lengths);
    let results = results.by_ref().map(Some).collect();
    let mut results = send_wanted(O::FORWARD, inputs, results, &numbers).flatten();
    Made {
        y: results.next().expect("as many results as were asked for"),
        others: results.by_ref().take(O::OTHERS).collect(),
        ints: results.by_ref().take(ints).collect(),
        saved: results.collect(),
    }
}

/// Sends the backward pass. The server adds `before`, as its kernel rounds the sum. `by` is as in [`send_forward`].
fn send_backward<O: FusedOp>(
    backward: BackwardOn<O, Remote>,
    before: Option<FloatTensor<Remote>>,
    by: Option<&str>,
) -> Gradients<O, Remote> {
    let lengths = backward.lengths();
    let others = SmallVec::<[_; 1]>::from(backward.others());
    let (operands, dy, saved, ints, wanted) = backward.into_parts();
    let parts: Parts<_, _, _> = O::into_parts(operands);
    let wanted = O::values(wanted, &lengths);
    let results = gradients(&parts.floats.iter().collect::<Vec<_>>(), &wanted);
    let numbers = BackwardNumbers {
        numbers: parts.numbers,
        lengths: lengths.to_vec(),
        wanted: wanted.to_vec(),
        added: before.is_some(),
        by: by.map(str::to_owned),
    };
    let first = std::iter::once(dy).chain(before);
    let first = first.chain(others).chain(saved);
    let operands = in_order::<O, _>(parts.floats, parts.ints, &lengths);
    let inputs = first.chain(operands).chain(ints);
    O::each(
        send_wanted(O::BACKWARD, inputs, results, &numbers),
        &lengths,
    )
}

/// Returns the tensors of operands in the order of a message.
fn in_order<O: FusedOp, T>(
    floats: SmallVec<[T; 5]>,
    ints: SmallVec<[T; 2]>,
    lengths: &[usize],
) -> impl Iterator<Item = T> {
    let floats = floats.into_iter().zip(parts_of(O::KINDS, lengths));
    let (lists, others): (Vec<_>, Vec<_>) = floats.partition(|(_, kind)| kind.is_list());
    let tensors = |of: Vec<(T, Kind)>| of.into_iter().map(|(tensor, _)| tensor);
    tensors(others).chain(ints).chain(tensors(lists))
}

/// Describes the results of a forward pass: those of the operation, and what is kept.
fn results<O: FusedOp, F: TensorMetadata, I: TensorMetadata>(
    operands: &O::Operands<F, I>,
    keeps: bool,
) -> SmallVec<[Like; 4]> {
    let kept = keeps.then(|| O::saved(operands));
    let kept = kept.into_iter().flatten().map(|saved| saved.like);
    O::results(operands).into_iter().chain(kept).collect()
}

/// Describes the wanted gradients.
fn gradients<T: TensorMetadata>(floats: &[&T], wanted: &[bool]) -> Vec<Option<Like>> {
    let each = floats.iter().zip(wanted);
    each.map(|(tensor, wanted)| wanted.then(|| (tensor.shape(), tensor.dtype())))
        .collect()
}

/// Reads the operands, which go together.
fn read<O: FusedOp, B: BackendIr>(
    call: &mut Call<'_, B>,
    lengths: Vec<usize>,
    numbers: O::Numbers,
) -> Result<Tensors<O, B>, Malformed> {
    let kinds = kinds::<O>(&lengths)?;
    let listed = kinds.iter().filter(|kind| kind.is_list()).count();
    let others = (listed..kinds.len()).map(|_| call.float());
    let mut others = others.collect::<Result<Vec<_>, _>>()?.into_iter();
    let ints = (0..O::INTS).map(|_| call.int()).collect::<Result<_, _>>()?;
    let mut lists = call.weights(listed)?.into_iter();
    let floats = kinds.iter().map(|kind| match kind.is_list() {
        true => lists.next(),
        false => others.next(),
    });
    let parts = Parts {
        floats: floats.flatten().collect(),
        ints,
        lengths: lengths.into(),
        numbers,
    };
    let operands = O::from_parts(parts, Internal(()));
    O::check(&operands)?;
    O::dtype(&operands)?;
    call.room(O::room(&operands));
    Ok(operands)
}

/// Returns the kinds of the float tensors that a client announces.
fn kinds<O: FusedOp>(lengths: &[usize]) -> Result<SmallVec<[Kind; 5]>, Malformed> {
    let wrong = || {
        Malformed::new("the lengths of an operation's operands are not those of its declaration")
    };
    let mut left = lengths.iter();
    let mut tensors = O::KINDS.len();
    for kind in O::KINDS {
        let lists = match kind {
            Kind::One => continue,
            Kind::Maybe | Kind::List => 1,
            Kind::Lists => *left.next().ok_or_else(wrong)?,
        };
        for _ in 0..lists {
            let length = *left.next().ok_or_else(wrong)?;
            if *kind == Kind::Maybe && length > 1 {
                return Err(wrong());
            }
            tensors = tensors.saturating_add(length);
        }
    }
    // Each tensor of a message is described in it, so that nothing is reserved for tensors that don't come.
    match left.next().is_none() && tensors <= MOST_TENSORS {
        true => Ok(parts_of(O::KINDS, lengths)),
        false => Err(wrong()),
    }
}

/// The largest number of tensors of a message.
const MOST_TENSORS: usize = 1 << 16;

fn forward<O: FusedOp, B: BackendIr + FusedKernel<O>>(
    call: &mut Call<'_, B>,
    Forward {
        numbers,
        lengths,
        wanted,
        by,
    }: Forward<O::Numbers>,
) -> Handled {
    let operands = read::<O, B>(call, lengths, numbers)?;
    let lengths = O::lengths(&operands);
    let wanted = wanted
        .map(|wanted| flags::<O>(wanted, &lengths))
        .transpose()?;
    call.expect(&results::<O, _, _>(&operands, wanted.is_some()))?;
    let wanted = wanted.map(|wanted| O::each(wanted, &lengths));
    let made = match by {
        None => B::forward(operands, wanted.as_ref()),
        Some(name) => named::<O, B>(&name)?
            .forward(operands)
            .map_err(Malformed::request)?,
    };
    call.give(made.y)?;
    made.others
        .into_iter()
        .try_for_each(|other| call.give(other))?;
    made.ints
        .into_iter()
        .try_for_each(|ints| call.give_int(ints))?;
    let saved = made.saved.into_iter().filter(|_| wanted.is_some());
    for saved in saved {
        call.give(saved)?;
    }
    Ok(())
}

/// Returns the function of a package that a client names.
fn named<O: FusedOp, B: BackendIr>(name: &str) -> Result<&'static dyn Packaged<O, B>, Malformed> {
    packaged::find(name).ok_or_else(|| {
        let title = O::TITLE;
        Malformed::request(format_args!(
            "this device has no function of a package for {title} with the name that was sent"
        ))
    })
}

/// Returns flags, which must be one for each tensor.
fn flags<O: FusedOp>(flags: Vec<bool>, lengths: &[usize]) -> Result<Vec<bool>, Malformed> {
    match flags.len() == parts_of(O::KINDS, lengths).len() {
        true => Ok(flags),
        false => Err(Malformed::new(
            "an operation has a flag for each of its float tensors",
        )),
    }
}

fn backward<O: FusedOp, B: BackendIr + FusedKernel<O>>(
    call: &mut Call<'_, B>,
    BackwardNumbers {
        numbers,
        lengths,
        wanted,
        added,
        by,
    }: BackwardNumbers<O::Numbers>,
) -> Handled {
    let dy = call.float()?;
    let before = added.then(|| call.float()).transpose()?;
    let others = if O::DIFFERENTIABLE { O::OTHERS } else { 0 };
    let others = (0..others).map(|_| call.float());
    let others = others.collect::<Result<_, _>>()?;
    let saved = (0..O::SAVED).map(|_| call.float());
    let saved = saved.collect::<Result<_, _>>()?;
    let operands = read::<O, B>(call, lengths, numbers)?;
    let made = (1 + O::OTHERS..O::results(&operands).len()).map(|_| call.int());
    let ints: SmallVec<[IntTensor<B>; 1]> = made.collect::<Result<_, _>>()?;
    let parts_lengths = O::lengths(&operands);
    let wanted = flags::<O>(wanted, &parts_lengths)?;
    let given = Given {
        dy,
        others,
        saved,
        ints,
    };
    let backward = Backward::<O, _, _>::new(operands, given, &wanted)?;
    if let Some(before) = &before {
        if !O::ADDS {
            return Err(Malformed::new(
                "this operation does not add a gradient to its own",
            ));
        }
        backward.check_before(before)?;
    }
    call.room(O::room_backward(backward.operands(), backward.wanted()));
    let results = gradients(&O::floats(backward.operands()), &wanted);
    if let Some(name) = by {
        let function = named::<O, B>(&name)?;
        if before.is_some() {
            return Err(Malformed::new(
                "functions of packages do not add a gradient to their own",
            ));
        }
        let gradients = function.backward(backward).map_err(Malformed::request)?;
        return call.answer_wanted(results, || O::values(gradients, &parts_lengths));
    }
    call.answer_wanted(results, || {
        let gradients = match before {
            Some(before) => B::backward_added(backward, before),
            None => B::backward(backward),
        };
        O::values(gradients, &parts_lengths)
    })
}
