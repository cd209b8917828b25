//! The place of `tiled` where no machine has tiles: none of its types has a value.

use super::{Block, Gemm};
use crate::{Element, LANES};
use std::convert::Infallible;
use std::ops::Range;

pub struct Tiled(Infallible);

impl Tiled {
    pub fn new<T: Element>() -> Option<Self> {
        None
    }

    pub fn left<A: Gemm>(&mut self, _: Block<'_, A>, _: [usize; 2]) {
        match self.0 {}
    }

    pub fn right<A: Gemm>(&mut self, _: Block<'_, A>, _: [usize; 2]) {
        match self.0 {}
    }

    pub fn all(&self) -> Columns<'_> {
        match self.0 {}
    }

    pub fn columns(&self, _: Range<usize>) -> Columns<'_> {
        match self.0 {}
    }

    pub fn are_exact(&self) -> bool {
        match self.0 {}
    }

    pub fn is_in_range(&self) -> bool {
        match self.0 {}
    }

    pub fn two_parts(&mut self, _: [usize; 2]) -> TwoParts<'_> {
        match self.0 {}
    }
}

pub struct Columns<'a>(Infallible, std::marker::PhantomData<&'a Tiled>);

impl Columns<'_> {
    pub const TOGETHER: usize = 32;
}

pub struct TwoParts<'a>(Infallible, std::marker::PhantomData<&'a mut f32>);

impl TwoParts<'_> {
    pub fn next(&mut self) -> Option<[&mut [[f32; LANES]]; 2]> {
        match self.0 {}
    }
}

pub struct Stored(Infallible);

impl Stored {
    pub fn new<T: Element>() -> Option<Self> {
        None
    }

    pub fn are_exact(&self) -> bool {
        match self.0 {}
    }

    pub fn is_in_range(&self) -> bool {
        match self.0 {}
    }

    pub fn reserve(&mut self, _: [usize; 2]) {
        match self.0 {}
    }

    pub fn push<T: Element>(&mut self, _: Block<'_, T>, _: [usize; 2]) {
        match self.0 {}
    }

    pub fn push_twice<T: Element>(&mut self, _: Block<'_, T>, _: [usize; 2]) {
        match self.0 {}
    }
}

pub fn multiply_tiled<A: Gemm>(left: &Tiled, _: Columns<'_>, _: (&mut [A], usize), _: bool) {
    match left.0 {}
}

pub fn multiply_stored<A: Gemm>(
    (left, ..): (&Stored, usize, usize),
    _: Columns<'_>,
    _: (&mut [A], usize),
    _: bool,
) {
    match left.0 {}
}

/// Only [`Tiled`] operands need it, and none exists.
pub fn leave_remainders<A: Gemm>(_: &mut [A]) {}
