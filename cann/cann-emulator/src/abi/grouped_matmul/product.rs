//! The products, group by group.

use super::{Groups, Roles, matrix};
use crate::abi::prelude::*;
use crate::ops::grouped_matmul::ends;
use crate::ops::matmul::{Factor, product};

/// Returns the ends of the groups. They must not decrease, and must be at most `length`.
pub(super) fn group_ends(
    memory: &Memory,
    list: Groups<'_>,
    as_counts: bool,
    length: usize,
) -> Outcome<Vec<usize>> {
    let list = match list {
        Groups::Absent => Vec::new(),
        Groups::Device(list) => list.integers(memory)?,
        Groups::Host(ends) => ends.to_vec(),
    };
    let ends = ends(&list, as_counts);
    let mut before = 0;
    for end in &ends {
        ensure!(*end >= before && *end <= length as i64;
            "groupList is invalid for {length} rows: one ends at {end}, after {before}");
        before = *end;
    }
    Ok(ends.into_iter().map(|end| end as usize).collect())
}

fn add_bias(y: &mut [f32], bias: &[f32]) {
    for row in y.chunks_exact_mut(bias.len().max(1)) {
        row.iter_mut().zip(bias).for_each(|(y, bias)| *y += bias);
    }
}

pub(super) fn each(memory: &mut Memory, roles: &Roles<'_>) -> Outcome<()> {
    for (position, (x, weight)) in roles.x.iter().zip(roles.weight).enumerate() {
        let [depth, columns] = matrix("weight", weight)?;
        let rows = x.shape[..x.rank() - 1].iter().product();
        let (x, weight) = (x.floats(memory)?, roles.weight_values(memory, position)?);
        let (x, weight) = (Factor::by_rows(&x), Factor::by_rows(&weight));
        let mut y = product(x, weight, [rows, depth, columns]);
        if let Some(bias) = roles.bias.get(position) {
            add_bias(&mut y, &bias.floats(memory)?);
        }
        roles.output[position].store(memory, &y)?;
    }
    Ok(())
}

/// Multiplies the groups of rows of one x, each with its own weight, into their own results.
pub(super) fn apart(memory: &mut Memory, roles: &Roles<'_>) -> Outcome<()> {
    let x = roles.x[0].floats(memory)?;
    let mut from = 0;
    for (group, (weight, output)) in roles.weight.iter().zip(roles.output).enumerate() {
        let ([depth, columns], rows) = (matrix("weight", weight)?, output.shape[0]);
        let part = Factor::by_rows(&x[from * depth..][..rows * depth]);
        let weight = roles.weight_values(memory, group)?;
        let mut y = product(part, Factor::by_rows(&weight), [rows, depth, columns]);
        if let Some(bias) = roles.bias.get(group) {
            add_bias(&mut y, &bias.floats(memory)?);
        }
        output.store(memory, &y)?;
        from += rows;
    }
    Ok(())
}

/// Multiplies one group of rows after the other. Rows after the last group are not written.
pub(super) fn by_rows(memory: &mut Memory, roles: &Roles<'_>, as_counts: bool) -> Outcome<()> {
    let output = &roles.output[0];
    let (rows, columns) = (output.shape[0], output.shape[1]);
    let depth = roles.x[0].shape[1];
    let mut x = Vec::new();
    let (mut own_ends, mut end) = (Vec::new(), 0);
    for part in roles.x {
        x.extend(part.floats(memory)?);
        end += part.shape[0];
        own_ends.push(end);
    }
    let ends = match roles.list {
        Groups::Absent => own_ends,
        list => group_ends(memory, list, as_counts, rows)?,
    };
    let weights = roles.all_weights(memory)?;
    let biases = floats_of(memory, roles.bias)?;
    let mut y = Vec::with_capacity(rows * columns);
    let mut start = 0;
    for (group, end) in ends.into_iter().enumerate() {
        let mut part = product(
            Factor::by_rows(&x[start * depth..end * depth]),
            Factor::by_rows(&weights[group * depth * columns..][..depth * columns]),
            [end - start, depth, columns],
        );
        if !biases.is_empty() {
            add_bias(&mut part, &biases[group * columns..][..columns]);
        }
        y.extend(part);
        start = end;
    }
    let mut written = output.clone();
    written.shape[0] = start;
    written.store(memory, &y)
}

fn floats_of(memory: &Memory, tensors: &[Tensor]) -> Outcome<Vec<f32>> {
    let mut values = Vec::new();
    for tensor in tensors {
        values.extend(tensor.floats(memory)?);
    }
    Ok(values)
}

/// Computes `x[:, group] · w[group, :]` for each group.
pub(super) fn by_depth(memory: &mut Memory, roles: &Roles<'_>, as_counts: bool) -> Outcome<()> {
    let [rows, depth] = matrix("x", &roles.x[0])?;
    let columns = roles.weight[0].shape[1];
    let ends = group_ends(memory, roles.list, as_counts, depth)?;
    // x is a transposed view, as was checked: its columns are contiguous.
    let x = roles.x[0].permuted(&[1, 0]).floats(memory)?;
    let weights = floats_of(memory, roles.weight)?;
    let (mut start, mut all) = (0, Vec::new());
    for end in ends {
        all.push(product(
            Factor::by_columns(&x[start * rows..end * rows]),
            Factor::by_rows(&weights[start * columns..end * columns]),
            [rows, end - start, columns],
        ));
        start = end;
    }
    if roles.output.len() == 1 && roles.output[0].rank() == 3 {
        return roles.output[0].store(memory, &all.concat());
    }
    for (output, values) in roles.output.iter().zip(all) {
        output.store(memory, &values)?;
    }
    Ok(())
}
