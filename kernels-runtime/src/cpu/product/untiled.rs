//! The place of `tiled` where no machine has tiles: none of its types has a value.

use super::{Block, Gemm};
use crate::cpu::{Element, LANES};
use std::convert::Infallible;
use std::ops::Range;

pub(crate) struct Tiled(Infallible);

impl Tiled {
    pub(crate) fn new<T: Element>() -> Option<Self> {
        None
    }

    pub(crate) fn left<A: Gemm>(&mut self, _: Block<'_, A>, _: [usize; 2]) {
        match self.0 {}
    }

    pub(crate) fn right<A: Gemm>(&mut self, _: Block<'_, A>, _: [usize; 2]) {
        match self.0 {}
    }

    pub(crate) fn all(&self) -> Columns<'_> {
        match self.0 {}
    }

    pub(crate) fn columns(&self, _: Range<usize>) -> Columns<'_> {
        match self.0 {}
    }

    pub(crate) fn are_exact(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn is_in_range(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn two_parts(&mut self, _: [usize; 2]) -> TwoParts<'_> {
        match self.0 {}
    }
}

pub(crate) struct Columns<'a>(Infallible, std::marker::PhantomData<&'a Tiled>);

impl Columns<'_> {
    pub(crate) const TOGETHER: usize = 32;
}

pub(crate) struct TwoParts<'a>(Infallible, std::marker::PhantomData<&'a mut f32>);

impl TwoParts<'_> {
    pub(crate) fn next(&mut self) -> Option<[&mut [[f32; LANES]]; 2]> {
        match self.0 {}
    }
}

pub(crate) struct Stored(Infallible);

impl Stored {
    pub(crate) fn new<T: Element>() -> Option<Self> {
        None
    }

    pub(crate) fn are_exact(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn is_in_range(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn reserve(&mut self, _: [usize; 2]) {
        match self.0 {}
    }

    pub(crate) fn push<T: Element>(&mut self, _: Block<'_, T>, _: [usize; 2]) {
        match self.0 {}
    }

    pub(crate) fn push_twice<T: Element>(&mut self, _: Block<'_, T>, _: [usize; 2]) {
        match self.0 {}
    }
}

pub(crate) fn multiply_tiled<A: Gemm>(left: &Tiled, _: Columns<'_>, _: (&mut [A], usize), _: bool) {
    match left.0 {}
}

pub(crate) fn multiply_stored<A: Gemm>(
    (left, ..): (&Stored, usize, usize),
    _: Columns<'_>,
    _: (&mut [A], usize),
    _: bool,
) {
    match left.0 {}
}

/// Only [`Tiled`] operands, of which there are none, need it.
pub(crate) fn leave_remainders<A: Gemm>(_: &mut [A]) {}
