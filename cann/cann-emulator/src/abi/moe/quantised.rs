//! The quantisation of copies of tokens to i8.

/// The change of the copies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantised {
    No,
    /// With one scale and one offset.
    Static,
    /// With the largest absolute value of each row.
    Dynamic,
}

/// The copies' rows and the experts of the slots that they come from.
pub(super) struct Rows<'a> {
    pub(super) how: Quantised,
    pub(super) width: usize,
    pub(super) choices: usize,
    pub(super) first_expert: i64,
    pub(super) experts: &'a [i64],
    pub(super) rows: &'a [i64],
}

impl Rows<'_> {
    /// Returns the values of the copies and a scale for each row.
    pub(super) fn quantised(
        &self,
        mut copies: Vec<f32>,
        scale: Option<&[f32]>,
        offset: Option<&[f32]>,
    ) -> (Vec<f32>, Vec<f32>) {
        let width = self.width.max(1);
        let count = copies.len() / width;
        let mut scales = vec![0.0; count];
        let slots = self
            .rows
            .iter()
            .enumerate()
            .filter(|(_, row)| usize::try_from(**row).is_ok_and(|row| row < count));
        for (slot, row) in slots {
            let (row, expert) = (*row as usize, self.experts[slot] - self.first_expert);
            let values = &mut copies[row * width..][..width];
            scales[row] = match (self.how, scale) {
                (Quantised::No, Some(scale)) => scale[slot / self.choices],
                (Quantised::No, None) => 0.0,
                (Quantised::Static, _) => {
                    let (scale, offset) = (first(scale), first(offset));
                    let apply =
                        |value: &mut f32| *value = (*value * scale + offset).round_ties_even();
                    values.iter_mut().for_each(apply);
                    0.0
                }
                (Quantised::Dynamic, smooth) => dynamic(
                    values,
                    smooth.map(|all| &all[expert as usize * width..][..width]),
                ),
            };
        }
        (copies, scales)
    }
}

/// Returns the only value of a scale or an offset, which phase one has checked.
fn first(values: Option<&[f32]>) -> f32 {
    values
        .and_then(|values| values.first())
        .copied()
        .unwrap_or(0.0)
}

/// Divides a row, after it was smoothed, by the scale that makes its largest absolute value 127. Returns the scale.
fn dynamic(values: &mut [f32], smooth: Option<&[f32]>) -> f32 {
    for (value, factor) in values.iter_mut().zip(smooth.unwrap_or_default()) {
        *value *= factor;
    }
    let most = values
        .iter()
        .fold(0.0_f32, |most, value| most.max(value.abs()));
    let scale = most / 127.0;
    if scale > 0.0 {
        values
            .iter_mut()
            .for_each(|value| *value = (*value / scale).round_ties_even());
    }
    scale
}
