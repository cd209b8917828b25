//! Groups of tensors: their lengths travel as numbers, the tensors one after the other.

use crate::ops::moe::Many;
use crate::remote::call::{Call, Like, like};
use crate::remote::wire::{Malformed, Writer};
use burn::backend::Remote;
use burn::backend::ir::BackendIr;
use burn::backend::tensor::FloatTensor;

pub(super) fn write(writer: Writer, weights: &Many<Remote>) -> Writer {
    let lengths = weights.0.iter().map(Vec::len);
    writer.number(weights.0.len()).numbers(lengths)
}

pub(super) fn read<B: BackendIr>(call: &mut Call<'_, B>) -> Result<Many<B>, Malformed> {
    let groups = call.scalars.number()?;
    let lengths = call.scalars.numbers(groups)?;
    let group = |length| (0..length).map(|_| call.weight()).collect();
    let groups: Result<_, _> = lengths.into_iter().map(group).collect();
    Ok(Many(groups?))
}

/// Writes which gradients of weights are wanted.
pub(super) fn write_wanted(writer: Writer, wanted: &[Vec<bool>]) -> Writer {
    wanted
        .iter()
        .flatten()
        .fold(writer, |writer, flag| writer.flag(*flag))
}

/// Reads which gradients of these weights are wanted.
pub(super) fn read_wanted<B: BackendIr>(
    call: &mut Call<'_, B>,
    weights: &Many<B>,
) -> Result<Vec<Vec<bool>>, Malformed> {
    let group = |group: &Vec<_>| group.iter().map(|_| call.scalars.flag()).collect();
    weights.0.iter().map(group).collect()
}

/// The shapes and types of the gradients that are wanted.
pub(super) fn like_wanted(weights: &Many<Remote>, wanted: &[Vec<bool>]) -> Vec<Like> {
    let (tensors, wanted) = (weights.0.iter().flatten(), wanted.iter().flatten());
    tensors
        .zip(wanted)
        .filter(|(_, wanted)| **wanted)
        .map(|(tensor, _)| like(tensor))
        .collect()
}

/// Puts gradients in the places of the weights that they are of.
pub(super) fn place(
    wanted: &[Vec<bool>],
    gradients: &mut impl Iterator<Item = FloatTensor<Remote>>,
) -> Vec<Vec<Option<FloatTensor<Remote>>>> {
    let mut next = || gradients.next().expect("as many results as were asked for");
    let mut group = |group: &Vec<bool>| {
        let gradient = |wanted: &bool| wanted.then(&mut next);
        group.iter().map(gradient).collect()
    };
    wanted.iter().map(&mut group).collect()
}

/// Gives the gradients that are wanted; a kernel may have computed others.
pub(super) fn give<B: BackendIr>(
    call: &mut Call<'_, B>,
    wanted: &[Vec<bool>],
    gradients: Vec<Vec<Option<FloatTensor<B>>>>,
) -> Result<(), Malformed> {
    let pairs = wanted.iter().flatten().zip(gradients.into_iter().flatten());
    for (wanted, gradient) in pairs {
        if *wanted {
            let missing = || Malformed::new("the kernel left a gradient out");
            call.give(gradient.ok_or_else(missing)?)?;
        }
    }
    Ok(())
}
