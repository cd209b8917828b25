//! Selecting, scattering and ordering, by positions in contiguous values.

use std::cmp::Ordering;

use crate::number::Number;

/// Returns, for each element of `index`, the position in a tensor of shape `whole` that it selects along `axis`.
/// `index` has shape `shape`; the other coordinates are those of the element.
pub(crate) fn named_places(
    shape: &[usize],
    whole: &[usize],
    axis: usize,
    index: &[usize],
) -> Vec<usize> {
    let mut strides = vec![1; whole.len()];
    for at in (1..whole.len()).rev() {
        strides[at - 1] = strides[at] * whole[at];
    }
    let mut coordinates = vec![0; shape.len()];
    let mut places = Vec::with_capacity(index.len());
    for named in index {
        let along = |(at, coordinate): (usize, &usize)| {
            strides[at] * if at == axis { *named } else { *coordinate }
        };
        places.push(coordinates.iter().enumerate().map(along).sum());
        for at in (0..shape.len()).rev() {
            coordinates[at] += 1;
            if coordinates[at] < shape[at] {
                break;
            }
            coordinates[at] = 0;
        }
    }
    places
}

/// The size of a tensor's axes before an axis, of the axis, and of those after it.
#[derive(Clone, Copy)]
pub(crate) struct Around {
    pub(crate) outer: usize,
    pub(crate) length: usize,
    pub(crate) inner: usize,
}

impl Around {
    pub(crate) fn of(shape: &[usize], axis: usize) -> Self {
        Self {
            outer: shape[..axis].iter().product(),
            length: shape[axis],
            inner: shape[axis + 1..].iter().product(),
        }
    }

    /// Returns the rows along the axis at `index`.
    pub(crate) fn select<T: Copy>(self, values: &[T], index: &[usize]) -> Vec<T> {
        let mut chosen = Vec::with_capacity(self.outer * index.len() * self.inner);
        for outer in 0..self.outer {
            for row in index {
                let from = (outer * self.length + row) * self.inner;
                chosen.extend_from_slice(&values[from..from + self.inner]);
            }
        }
        chosen
    }

    /// Adds the rows of `source`, times `factor`, to those at `index`.
    pub(crate) fn add<T: Copy>(
        self,
        values: &mut [T],
        source: &[T],
        index: &[usize],
        add: impl Fn(T, T) -> T,
    ) {
        let mut source = source.iter();
        for outer in 0..self.outer {
            for row in index {
                let from = (outer * self.length + row) * self.inner;
                for (value, source) in values[from..from + self.inner].iter_mut().zip(&mut source) {
                    *value = add(*value, *source);
                }
            }
        }
    }
}

/// Returns the indices that sort a run's values. Equal values keep their order, and NaN counts as the greatest.
pub(crate) fn order<T: Number>(values: &[T], descending: bool) -> Vec<usize> {
    let nan = |value: T| value.partial_cmp(&value).is_none();
    let compare = |left: T, right: T| {
        left.partial_cmp(&right)
            .unwrap_or_else(|| match (nan(left), nan(right)) {
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                _ => Ordering::Equal,
            })
    };
    let mut places: Vec<usize> = (0..values.len()).collect();
    places.sort_by(|left, right| {
        let order = compare(values[*left], values[*right]);
        if descending { order.reverse() } else { order }
    });
    places
}
