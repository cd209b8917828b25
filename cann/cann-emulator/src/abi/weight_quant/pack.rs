//! Values of four bits, eight in an i32, the first in the lowest bits.
//!
//! CANN can also pack them to ACL_INT4 and to the format FRACTAL_NZ, which are not emulated.

use crate::abi::prelude::*;

/// The number of values in an i32.
pub(crate) const PACKED: usize = 8;

/// Returns the values of packed ones.
pub(crate) fn unpacked(packed: &[i64]) -> Vec<f32> {
    let values = |packed: &i64| {
        let packed = *packed as i32;
        (0..PACKED).map(move |at| (packed << (28 - 4 * at) >> 28) as f32)
    };
    packed.iter().flat_map(values).collect()
}

fn packed(values: &[i64]) -> Vec<i64> {
    let of = |values: &[i64]| {
        let bits = |(at, value): (usize, &i64)| ((*value as u32) & 15) << (4 * at);
        let all = values
            .iter()
            .enumerate()
            .map(bits)
            .fold(0, |all, bits| all | bits);
        i64::from(all.cast_signed())
    };
    values.chunks(PACKED).map(of).collect()
}

operator! { matmul: aclnnConvertWeightToINT4PackGetWorkspaceSize, aclnnConvertWeightToINT4Pack(
    weight, packed_weight
) |operands|
    let weight = operands.input("weight", weight)?;
    let output = operands.output("weightInt4Pack", packed_weight)?;
    for (name, tensor) in [("weight", &weight), ("weightInt4Pack", &output)] {
        check_dtype(name, tensor, &[ACL_INT32])?;
        check_contiguous(name, tensor)?;
        ensure!(tensor.format == ACL_FORMAT_ND;
            "{name} has the format {}; ND is taken", tensor.format.0);
    }
    ensure!((2..=3).contains(&weight.rank()) && weight.count() > 0;
        "weight has the shape {:?}; it has two or three axes, none of them empty", weight.shape);
    let (front, last) = weight.shape.split_at(weight.rank() - 1);
    ensure!(last[0].is_multiple_of(PACKED) && output.shape == [front, &[last[0] / PACKED]].concat();
        "weight has the shape {:?} and weightInt4Pack {:?}, whose last axis is an eighth of the \
         other's", weight.shape, output.shape);
    Ok(Arc::new(|memory, operands| {
        let [weight, output] = taken(operands);
        let values = weight.integers(memory)?;
        ensure!(values.iter().all(|value| (-8..8).contains(value));
            "weight has a value that four bits do not hold");
        output.store_integers(memory, &packed(&values))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_values_come_back() {
        let values = [-8, 7, 0, -1, 3, -5, 1, -2, 7, 7, 7, 7, 7, 7, 7, -8];
        let both = packed(&values);
        assert_eq!(both[0] & 15, 8, "the first is in the lowest bits");
        assert_eq!(unpacked(&both), values.map(|value| value as f32));
    }
}
