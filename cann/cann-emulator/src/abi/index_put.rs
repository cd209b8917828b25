//! Reading and writing at the places that several tensors of indices name, one for each of the first axes.
//!
//! A tensor of indices without elements leaves its axis whole, as CANN documents. A mask covers as many axes as it has,
//! which it must have the lengths of, and stands for the indices of its true elements. How many these are is known when
//! the stream comes to the operator, so that a misfit fails there.

use crate::abi::prelude::*;
use crate::ops::arithmetic::Arithmetic;
use crate::tensor::MOST_SHARED;

/// A member of the list that names elements.
struct Member {
    /// Its place in the list.
    at: usize,
    /// The first axis that it names elements of.
    axis: usize,
    /// The number of axes of a mask, none for indices.
    mask: Option<usize>,
}

/// The indices along one axis, as broadcast values with a shape.
struct Indices {
    axis: usize,
    shape: Vec<usize>,
    values: Vec<i64>,
}

impl Indices {
    /// Returns the values in the order of a shape to which theirs is broadcast.
    fn expanded(&self, shape: &[usize]) -> Vec<i64> {
        let missing = shape.len() - self.shape.len();
        let (own, all) = (contiguous(&self.shape), contiguous(shape));
        let place = |position: usize| {
            let along =
                |axis: usize| position / all[axis + missing] as usize % shape[axis + missing];
            let own = |axis: usize| {
                if self.shape[axis] == 1 {
                    0
                } else {
                    along(axis) * own[axis] as usize
                }
            };
            (0..self.shape.len()).map(own).sum::<usize>()
        };
        let count = shape.iter().product();
        (0..count)
            .map(|position| self.values[place(position)])
            .collect()
    }
}

/// The axes of a tensor that are indexed together.
struct Named {
    members: Vec<Member>,
    /// The shape of the indices, without those of masks.
    shape: Vec<usize>,
    /// The other axes, in front of the indices and behind them.
    front: Vec<usize>,
    behind: Vec<usize>,
    /// The number of tensors in the list.
    count: usize,
}

impl Named {
    fn take(operands: &mut Operands, list: *const aclTensorList, of: &Tensor) -> Outcome<Self> {
        let indices = operands.list("indices", list, false)?;
        ensure!(!indices.is_empty() && indices.len() <= of.rank();
            "indices has {} tensors; 1 to {} are taken, one for each of the first axes",
            indices.len(), of.rank());
        let (mut members, mut shape, mut axis) = (Vec::new(), Vec::new(), 0);
        for (at, index) in indices.iter().enumerate() {
            let mut covered = 1;
            // A tensor without elements may have any dtype: PyTorch's extension gives one like `self`.
            if index.count() > 0 {
                let mask = mask_of(index, of, axis)?;
                match mask {
                    Some(axes) => covered = axes,
                    None => shape = broadcast(&shape, &index.shape)?,
                }
                members.push(Member { at, axis, mask });
            }
            axis += covered;
        }
        ensure!(axis <= of.rank(); "indices names {axis} axes of {}", of.rank());
        let named = |member: &Member| member.axis..member.axis + member.mask.unwrap_or(1);
        let axes: Vec<usize> = members.iter().flat_map(named).collect();
        let others = (0..of.rank()).filter(|at| !axes.contains(at));
        // Indices of neighbouring axes stay where the axes were. Else they come first.
        let first = axes.first().copied().unwrap_or(0);
        let together = axes
            .last()
            .is_some_and(|last| last - first + 1 == axes.len());
        let (front, behind) = others.partition(|at| together && *at < first);
        Ok(Self {
            members,
            shape,
            front,
            behind,
            count: indices.len(),
        })
    }

    /// Returns `true` if no tensor of indices has an element, as those of a mask without true elements, which PyTorch's
    /// extension converts.
    fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Returns `true` if the number of indices is known only when the stream comes to the operator.
    fn has_masks(&self) -> bool {
        self.members.iter().any(|member| member.mask.is_some())
    }

    /// Returns the shape of all that is named by indices of a shape.
    fn result(&self, of: &Tensor, indices: &[usize]) -> Vec<usize> {
        let lengths = |axes: &[usize]| axes.iter().map(|at| of.shape[*at]).collect::<Vec<_>>();
        [
            lengths(&self.front),
            indices.to_vec(),
            lengths(&self.behind),
        ]
        .concat()
    }

    /// Returns the shape that an output must have. The length of the indices of masks is read from it.
    fn expected(&self, of: &Tensor, output: &Tensor) -> Outcome<Vec<usize>> {
        let mut shape = self.shape.clone();
        if self.has_masks() {
            let last = self.front.len() + shape.len().max(1) - 1;
            let found = output.shape.get(last).copied().unwrap_or(0);
            shape = broadcast(&shape, &[found])?;
        }
        Ok(self.result(of, &shape))
    }

    /// Returns the indices along each named axis.
    fn indices(&self, memory: &Memory, of: &Tensor, list: &[Tensor]) -> Outcome<Vec<Indices>> {
        let mut all = Vec::new();
        for member in &self.members {
            let tensor = &list[member.at];
            let values = tensor.values::<i64>(memory)?;
            if member.mask.is_none() {
                all.push(checked(member.axis, tensor, of.shape[member.axis], values)?);
                continue;
            }
            let strides = contiguous(&tensor.shape);
            let places = (0..values.len()).filter(|place| values[*place] != 0);
            let places: Vec<i64> = places.map(|place| place as i64).collect();
            for (own, (stride, length)) in strides.iter().zip(&tensor.shape).enumerate() {
                let along = |place: &i64| place / stride % *length as i64;
                all.push(Indices {
                    axis: member.axis + own,
                    shape: vec![places.len()],
                    values: places.iter().map(along).collect(),
                });
            }
        }
        Ok(all)
    }

    /// Returns the shape of all that is named and its places among the values of a contiguous tensor.
    fn places(
        &self,
        memory: &Memory,
        of: &Tensor,
        list: &[Tensor],
    ) -> Outcome<(Vec<usize>, Vec<usize>)> {
        let indices = self.indices(memory, of, list)?;
        let mut shape = Vec::new();
        for index in &indices {
            shape = broadcast(&shape, &index.shape)?;
        }
        let strides = contiguous(&of.shape);
        let others = self
            .front
            .iter()
            .chain(&self.behind)
            .map(|at| of.shape[*at]);
        let mut lengths = shape.iter().copied().chain(others);
        let count = lengths.try_fold(1_usize, |all, length| all.checked_mul(length.max(1)));
        ensure!(count.is_some_and(|count| count <= MOST_SHARED.max(of.count()));
            "indices of the shape {shape:?} name more of {:?} than the emulator repeats", of.shape);
        let mut named = vec![0; shape.iter().product()];
        for index in &indices {
            for (place, value) in named.iter_mut().zip(index.expanded(&shape)) {
                *place += (value * strides[index.axis]) as usize;
            }
        }
        let along = |axes: &[usize]| {
            axes.iter().fold(vec![0], |starts: Vec<usize>, at| {
                let steps = (0..of.shape[*at]).map(|step| step * strides[*at] as usize);
                let steps: Vec<usize> = steps.collect();
                let pairs = starts
                    .iter()
                    .flat_map(|start| steps.iter().map(move |step| start + step));
                pairs.collect()
            })
        };
        let (front, behind) = (along(&self.front), along(&self.behind));
        let mut places = Vec::with_capacity(front.len() * named.len() * behind.len());
        for front in &front {
            for named in &named {
                places.extend(behind.iter().map(|behind| front + named + behind));
            }
        }
        Ok((self.result(of, &shape), places))
    }
}

/// Returns the number of axes of a mask, or none for indices.
fn mask_of(index: &Tensor, of: &Tensor, axis: usize) -> Outcome<Option<usize>> {
    check_dtype(
        "a tensor of indices",
        index,
        &[ACL_INT64, ACL_INT32, ACL_BOOL],
    )?;
    check_axes("a tensor of indices", index)?;
    if index.dtype != ACL_BOOL {
        return Ok(None);
    }
    let fits = index.rank() > 0 && of.shape.get(axis..axis + index.rank()) == Some(&index.shape);
    ensure!(fits;
        "a mask has the shape {:?}, which is not that of {:?} from axis {axis} on",
        index.shape, of.shape);
    Ok(Some(index.rank()))
}

/// Returns indices, counted from the front, if all are in range.
fn checked(axis: usize, tensor: &Tensor, length: usize, values: Vec<i64>) -> Outcome<Indices> {
    let length = length as i64;
    if let Some(wrong) = values
        .iter()
        .find(|index| !(-length..length).contains(*index))
    {
        fail!("the index {wrong} is out of range; axis {axis} has {length}");
    }
    Ok(Indices {
        axis,
        shape: tensor.shape.clone(),
        values: values
            .into_iter()
            .map(|index| index.rem_euclid(length))
            .collect(),
    })
}

operator! { index: aclnnIndexGetWorkspaceSize, aclnnIndex(input, indices, output) |operands|
    let input = operands.view("self", input, USUAL)?;
    let named = Named::take(operands, indices, &input)?;
    let output = operands.target("out", output, &[input.dtype])?;
    if named.is_empty() {
        ensure!(output.count() == 0; "no tensor of indices has an element, and out has some");
        return Ok(nothing());
    }
    check_size("out", &output, &named.expected(&input, &output)?)?;
    Ok(by_number!(input.dtype, T => Arc::new(move |memory, operands| {
        let [input, rest @ ..] = operands else { unreachable!("taken above") };
        let (indices, output) = rest.split_at(named.count);
        let values = input.values::<T>(memory)?;
        let (shape, places) = named.places(memory, input, indices)?;
        check_size("out", &output[0], &shape)?;
        let chosen: Vec<T> = places.into_iter().map(|place| values[place]).collect();
        output[0].store_values(memory, &chosen)
    })))
}

/// Returns the work of a call that names no element.
fn nothing() -> Work {
    Arc::new(|_, _| Ok(()))
}

/// Checks that values are broadcast to the shape of all that is named.
fn check_values(values: &Tensor, shape: &[usize]) -> Outcome<()> {
    if broadcast(&values.shape, shape)? != shape {
        check_size("values", values, shape)?;
    }
    Ok(())
}

// The last argument allows CANN to leave the checks of indices out. They are checked here in any case.
operator! { index: aclnnIndexPutImplGetWorkspaceSize, aclnnIndexPutImpl(
    target, indices, values, accumulate, _unchecked
) |operands|
    let target = operands.target("selfRef", target, USUAL)?;
    let named = Named::take(operands, indices, &target)?;
    let values = operands.view("values", values, &[target.dtype])?;
    if named.is_empty() {
        return Ok(nothing());
    }
    if !named.has_masks() {
        check_values(&values, &named.result(&target, &named.shape))?;
    }
    Ok(by_number!(target.dtype, T => Arc::new(move |memory, operands| {
        let [target, rest @ ..] = operands else { unreachable!("taken above") };
        let (indices, values) = rest.split_at(named.count);
        let (shape, places) = named.places(memory, target, indices)?;
        check_values(&values[0], &shape)?;
        let new = values[0].expanded(&shape).values::<T>(memory)?;
        let mut all = target.values::<T>(memory)?;
        for (place, new) in places.into_iter().zip(new) {
            all[place] = if accumulate { all[place].add(new) } else { new };
        }
        target.store_values(memory, &all)
    })))
}
