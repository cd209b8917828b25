//! Products by group: calls of every version, and exact products.

use super::*;
use cann_emulator::abi::grouped_matmul::*;

use super::few_bits::{integers, signed_bytes};
use super::host::List;

/// The operands and settings of a call. Lists without tensors are absent.
#[derive(Default)]
pub struct Grouped {
    pub x: Vec<Tensor>,
    pub weight: Vec<Tensor>,
    pub bias: Vec<Tensor>,
    pub scale: Vec<Tensor>,
    pub offset: Vec<Tensor>,
    /// The scales and the offsets of weights of few bits.
    pub few_bits: [Vec<Tensor>; 2],
    pub token_scale: Vec<Tensor>,
    pub y: Vec<Tensor>,
    /// The list of groups of versions 3 to 5.
    pub list: Option<Tensor>,
    /// The list of versions 1 and 2.
    pub ends: Option<Vec<i64>>,
    pub split_item: i64,
    pub group_type: i64,
    pub list_type: i64,
    pub activation: i64,
    /// The settings of speed of version 5.
    pub tuning: Option<Vec<i64>>,
}

impl Grouped {
    /// Calls a version once. Absent lists are empty in version 4, and NULL in the others.
    pub fn call(&mut self, version: u8) -> Status {
        let [few_scale, few_offset] = &mut self.few_bits;
        let lists = [
            &mut self.x,
            &mut self.weight,
            &mut self.bias,
            &mut self.scale,
            &mut self.offset,
            few_scale,
            few_offset,
            &mut self.token_scale,
        ];
        let lists = lists.map(|list| (version == 4 || !list.is_empty()).then(|| List::of(list)));
        let [x, w, b, s, o, few_s, few_o, token] = lists.each_ref().map(Option::as_ref);
        let y = List::of(&mut self.y);
        let [ends, tuning] = [&self.ends, &self.tuning].map(|values| Ints::some(values.as_deref()));
        let list = self.list.as_ref();
        let (no, none) = (null(), null_mut());
        let Self {
            split_item: split,
            group_type: kind,
            list_type,
            activation: act,
            ..
        } = *self;
        match version {
            1 => call!(aclnnGroupedMatmul: x, w, b, s, o, few_s, few_o, ends, split, y),
            2 => call!(aclnnGroupedMatmulV2: x, w, b, s, o, few_s, few_o, ends, split, kind, y),
            3 => call!(aclnnGroupedMatmulV3: x, w, b, s, o, few_s, few_o, list, split, kind, y),
            4 => call!(
                aclnnGroupedMatmulV4: x, w, b, s, o, few_s, few_o, token, list, no, no, no, split, kind,
                list_type, act, y, none, none
            ),
            _ => call!(
                aclnnGroupedMatmulV5: x, w, b, s, o, few_s, few_o, token, list, no, no, no, split, kind,
                list_type, act, tuning, y, none, none
            ),
        }
    }
}

/// Makes a list of groups on the device, of one axis or of pairs.
pub fn list_of(values: &[i64], pairs: bool) -> Tensor {
    let count = values.len();
    let shape = [count / 2, 2];
    let shape = if pairs { &shape[..] } else { &[count] };
    Tensor::integers(ACL_INT64, shape, values)
}

/// Makes scales of 64 bits: an f32 in the low half, and in the high half the bits that CANN's conversion sets.
pub fn wide_scales(shape: &[usize], values: &[f32]) -> Tensor {
    let tensor = Tensor::empty(ACL_UINT64, shape);
    let wide = values
        .iter()
        .map(|value| 1 << 46 | u64::from(value.to_bits()));
    upload(tensor.address, &wide.collect::<Vec<_>>());
    tensor
}

/// Makes matrices of i8 as a transposed view.
pub fn turned_bytes([groups, depth, columns]: [usize; 3], values: &[i64]) -> Tensor {
    let size = depth * columns;
    let strides = [size as i64, 1, depth as i64];
    let view = Tensor::strided(
        ACL_INT8,
        &[groups, depth, columns],
        Some(&strides),
        0,
        groups * size,
    );
    let stored = (0..groups * size).map(|place| {
        let (group, place) = (place / size, place % size);
        values[group * size + place % depth * columns + place / depth] as i8
    });
    upload(view.address, &stored.collect::<Vec<_>>());
    view
}

pub fn read_bytes(tensor: &Tensor) -> Vec<i64> {
    let bytes: Vec<i8> = download(tensor.address, tensor.storage);
    bytes.into_iter().map(i64::from).collect()
}

/// Returns the products of rows with the matrix of their group.
pub fn sums(
    x: &[i64],
    weights: &[i64],
    groups: &[usize],
    [depth, columns]: [usize; 2],
) -> Vec<i64> {
    let mut sums = Vec::new();
    for (row, group) in groups.iter().enumerate() {
        for column in 0..columns {
            let term =
                |k: usize| x[row * depth + k] * weights[(group * depth + k) * columns + column];
            sums.push((0..depth).map(term).sum());
        }
    }
    sums
}

/// Seven rows of five inputs, three groups of three columns. The last two rows belong to no group.
pub const ROWS: usize = 7;
pub const SIZES: [usize; 2] = [5, 3];
pub const GROUPS: usize = 3;
/// The groups of the first rows.
pub const OF_ROWS: [usize; 5] = [0, 0, 2, 2, 2];

/// The values of the operands.
pub struct Values {
    pub x: Vec<i64>,
    pub weight: Vec<i64>,
    pub bias: Vec<i64>,
    /// Scales that f32 multiplies exactly.
    pub scale: Vec<f32>,
    pub token_scale: Vec<f32>,
}

impl Values {
    pub fn new() -> Self {
        Self {
            x: integers(ROWS * 5, 127.0, 1),
            weight: integers(GROUPS * 15, 127.0, 2),
            bias: integers(GROUPS * 3, 9000.0, 3),
            scale: (1..=9).map(|at| at as f32 / 1024.0).collect(),
            token_scale: noise(ROWS, 4),
        }
    }

    /// Returns the sums of the rows of a list of groups, with the bias or without.
    pub fn sums(&self, groups: &[usize], with_bias: bool) -> Vec<i64> {
        let mut all = sums(&self.x, &self.weight, groups, SIZES);
        for (place, sum) in all.iter_mut().enumerate() {
            if with_bias {
                *sum += self.bias[groups[place / 3] * 3 + place % 3];
            }
        }
        all
    }

    /// Returns the sums, scaled by column.
    pub fn scaled(&self, groups: &[usize], with_bias: bool) -> Vec<f64> {
        let scale = |place: usize| f64::from(self.scale[groups[place / 3] * 3 + place % 3]);
        let sums = self.sums(groups, with_bias).into_iter().enumerate();
        sums.map(|(place, sum)| sum as f64 * scale(place)).collect()
    }

    /// Returns a call of single tensors without a scale, whose results have a dtype.
    pub fn call(&self, dtype: aclDataType) -> Grouped {
        Grouped {
            x: vec![signed_bytes(&[ROWS, 5], &self.x)],
            weight: vec![signed_bytes(&[GROUPS, 5, 3], &self.weight)],
            y: vec![Tensor::empty(dtype, &[ROWS, 3])],
            list: Some(list_of(&[2, 0, 3], false)),
            split_item: 2,
            list_type: 1,
            ..Grouped::default()
        }
    }

    /// Returns the scale for results of a dtype. The values must be exact in bf16.
    pub fn scale(&self, dtype: aclDataType) -> Tensor {
        let shape = [GROUPS, 3];
        match dtype {
            ACL_INT8 => wide_scales(&shape, &self.scale),
            ACL_BF16 => Tensor::floats(BF16, &shape, &self.scale),
            _ => Tensor::floats(F32, &shape, &self.scale),
        }
    }

    pub fn bias(&self) -> Vec<Tensor> {
        vec![Tensor::integers(ACL_INT32, &[GROUPS, 3], &self.bias)]
    }

    /// Returns the weights, biases and scales of each group as tensors of their own.
    pub fn apart(&self, bytes: bool, groups: &[usize]) -> [Vec<Tensor>; 3] {
        let of = |part: &dyn Fn(usize) -> Tensor| groups.iter().map(|group| part(*group)).collect();
        [
            of(&|group| signed_bytes(&[5, 3], &self.weight[group * 15..][..15])),
            of(&|group| Tensor::integers(ACL_INT32, &[3], &self.bias[group * 3..][..3])),
            match bytes {
                true => of(&|group| wide_scales(&[3], &self.scale[group * 3..][..3])),
                false => Vec::new(),
            },
        ]
    }
}
