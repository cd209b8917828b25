//! Padding with a constant.

use crate::abi::prelude::*;

/// The numbers of elements before and after each axis. A negative one cuts elements off.
struct Margins {
    before: Vec<i64>,
    shape: Vec<usize>,
}

/// Reads the margins, which are pairs from the last axis to the first.
fn margins(input: &Tensor, pad: &[i64]) -> Outcome<Margins> {
    ensure!(pad.len().is_multiple_of(2) && pad.len() / 2 <= input.rank();
        "pad has {} numbers; it takes a pair for each of at most {} axes", pad.len(), input.rank());
    let (mut before, mut shape) = (vec![0; input.rank()], Vec::new());
    for (axis, length) in input.shape.iter().enumerate() {
        let pair = pad.chunks_exact(2).nth(input.rank() - 1 - axis);
        let (left, right) = pair.map_or((0, 0), |pair| (pair[0], pair[1]));
        let padded = i128::from(left) + i128::from(right) + *length as i128;
        let (Ok(padded), true) = (usize::try_from(padded), left > i64::MIN / 2) else {
            fail!(
                "pad cuts more than the {length} elements of axis {axis}, or adds more than can \
                 be addressed"
            )
        };
        before[axis] = left;
        shape.push(padded);
    }
    Ok(Margins { before, shape })
}

impl Margins {
    /// Returns, for each element of the result, the place of its value in the input of a shape, or `None`.
    fn sources(&self, input: &[usize]) -> Vec<Option<usize>> {
        let (strides, own) = (contiguous(&self.shape), contiguous(input));
        let count: usize = self.shape.iter().product();
        let source = |place: usize| {
            let mut from = 0;
            for axis in 0..input.len() {
                let at = place as i64 / strides[axis] % self.shape[axis] as i64 - self.before[axis];
                if !(0..input[axis] as i64).contains(&at) {
                    return None;
                }
                from += at * own[axis];
            }
            Some(from as usize)
        };
        (0..count).map(source).collect()
    }
}

operator! { shape: aclnnConstantPadNdGetWorkspaceSize, aclnnConstantPadNd(
    input, pad, value, output
) |operands|
    let input = operands.view("self", input, USUAL)?;
    let margins = margins(&input, &operands.ints("pad", pad)?)?;
    // It is converted to the dtype: torch_npu pads integers with an f64.
    let value = operands.scalar("value", value)?;
    operands.result("out", output, input.dtype, &margins.shape)?;
    Ok(by_number!(input.dtype, T => Arc::new(move |memory, operands| {
        let sources = margins.sources(&operands[0].shape);
        let own = operands[0].values::<T>(memory)?;
        let fill: T = value.to();
        let values: Vec<T> = sources.iter().map(|from| from.map_or(fill, |from| own[from])).collect();
        operands[1].store_values(memory, &values)
    })))
}
