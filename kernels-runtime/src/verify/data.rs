use crate::registry::FloatType;
use burn::tensor::{Device, Tensor, TensorData, bf16, f16};

/// Returns reproducible values for a name, roughly normal and already rounded to a dtype.
pub(crate) fn values(name: &str, count: usize, dtype: FloatType) -> Vec<f64> {
    let mut random = SplitMix(name.bytes().fold(0x9e37_79b9, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    }));
    (0..count)
        .map(|_| {
            // The sum of four uniform numbers is close enough to normal for a test.
            let sum: f64 = (0..4).map(|_| random.unit()).sum();
            round((sum - 2.0) * 1.7, dtype)
        })
        .collect()
}

fn round(value: f64, dtype: FloatType) -> f64 {
    match dtype {
        FloatType::F64 => value,
        FloatType::F32 => f64::from(value as f32),
        FloatType::F16 => f16::from_f64(value).to_f64(),
        FloatType::Bf16 => bf16::from_f64(value).to_f64(),
    }
}

/// Returns a tensor of `values` in `dtype`, which represents them exactly.
pub(crate) fn tensor<const D: usize>(
    values: &[f64],
    shape: [usize; D],
    dtype: FloatType,
    device: &Device,
) -> Tensor<D> {
    let data = TensorData::new(values.to_vec(), shape).convert_dtype(dtype.dtype());
    Tensor::from_data(data, (device, dtype.dtype()))
}

/// Returns the elements of a tensor as f64.
pub(super) fn elements<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

/// The generator of Steele, Lea and Flood (OOPSLA 2014): a counter and a mixing function.
struct SplitMix(u64);

impl SplitMix {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}
