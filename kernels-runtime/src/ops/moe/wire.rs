//! Groups of tensors: their lengths travel as numbers, the tensors one after the other.

use crate::remote::call::{Call, Like, like};
use crate::remote::wire::{Malformed, Writer};
use burn::backend::ir::BackendIr;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Remote, TensorMetadata};

pub(crate) fn write<T>(writer: Writer, groups: &[Vec<T>]) -> Writer {
    let lengths = groups.iter().map(Vec::len);
    writer.number(groups.len()).numbers(lengths)
}

pub(crate) fn read<B: BackendIr>(
    call: &mut Call<'_, B>,
) -> Result<Vec<Vec<FloatTensor<B>>>, Malformed> {
    let groups = call.scalars.number()?;
    let lengths = call.scalars.numbers(groups)?;
    let group = |length| (0..length).map(|_| call.weight()).collect();
    lengths.into_iter().map(group).collect()
}

/// Writes which gradients of weights are wanted.
pub(crate) fn write_wanted<'w>(
    writer: Writer,
    wanted: impl IntoIterator<Item = &'w bool>,
) -> Writer {
    let wanted = wanted.into_iter();
    wanted.fold(writer, |writer, flag| writer.flag(*flag))
}

/// Reads which gradients of `count` weights are wanted.
pub(crate) fn read_wanted<B: BackendIr>(
    call: &mut Call<'_, B>,
    count: usize,
) -> Result<Vec<bool>, Malformed> {
    (0..count).map(|_| call.scalars.flag()).collect()
}

/// The shapes and types of the gradients that are wanted.
pub(crate) fn like_wanted<'t, T: TensorMetadata + 't>(
    weights: impl IntoIterator<Item = &'t T>,
    wanted: impl IntoIterator<Item = &'t bool>,
) -> Vec<Like> {
    weights
        .into_iter()
        .zip(wanted)
        .filter(|(_, wanted)| **wanted)
        .map(|(tensor, _)| like(tensor))
        .collect()
}

/// Puts gradients in the places of the weights that they are of.
pub(crate) fn place(
    wanted: &[bool],
    gradients: &mut impl Iterator<Item = FloatTensor<Remote>>,
) -> Vec<Option<FloatTensor<Remote>>> {
    let mut next = || gradients.next().expect("as many results as were asked for");
    wanted.iter().map(|wanted| wanted.then(&mut next)).collect()
}

/// Gives the gradients that are wanted; a kernel may have computed others.
pub(crate) fn give<'w, B: BackendIr>(
    call: &mut Call<'_, B>,
    wanted: impl IntoIterator<Item = &'w bool>,
    gradients: impl IntoIterator<Item = Option<FloatTensor<B>>>,
) -> Result<(), Malformed> {
    for (wanted, gradient) in wanted.into_iter().zip(gradients) {
        if *wanted {
            let missing = || Malformed::new("the kernel left a gradient out");
            call.give(gradient.ok_or_else(missing)?)?;
        }
    }
    Ok(())
}
