//! Tests of products by group with weights of eight and four bits, against f64, and of those that the documents exclude.

use crate::common::few_bits::{expected, integers, signed_bytes};
use crate::common::grouped::{Grouped, list_of, turned_bytes, wide_scales};
use crate::common::*;

/// Five rows in groups of two, none and three, sixteen inputs and eight columns.
const ENDS: [i64; 3] = [2, 2, 5];
const DEPTH: usize = 16;
const COLUMNS: usize = 8;
const MATRIX: usize = DEPTH * COLUMNS;

/// Packs values of four bits along the last axis.
fn packed(values: &[i64]) -> Vec<i32> {
    let of = |values: &[i64]| {
        let bits = values.iter().rev();
        bits.fold(0_u32, |all, value| all << 4 | (*value as u32 & 15)) as i32
    };
    values.chunks(8).map(of).collect()
}

/// Makes packed weights, or a transposed view of them, which is packed along the inputs.
fn four_bits(shape: &[usize], values: &[i64], turned: bool) -> Tensor {
    let (front, [depth, columns]) = shape.split_at(shape.len() - 2) else {
        panic!("a matrix has two axes")
    };
    let (depth, columns) = (*depth, *columns);
    let (size, count) = (depth * columns, values.len() / 8);
    if !turned {
        let packed_shape = [front, &[depth, columns / 8]].concat();
        let tensor = Tensor::empty(ACL_INT32, &packed_shape);
        upload(tensor.address, &packed(values));
        return tensor;
    }
    let packed_shape = [front, &[depth / 8, columns]].concat();
    let mut strides = vec![1, (depth / 8) as i64];
    if !front.is_empty() {
        strides.insert(0, (size / 8) as i64);
    }
    let view = Tensor::strided(ACL_INT32, &packed_shape, Some(&strides), 0, count);
    let stored: Vec<i64> = (0..values.len())
        .map(|place| {
            let (matrix, place) = (place / size, place % size);
            values[matrix * size + place % depth * columns + place / depth]
        })
        .collect();
    upload(view.address, &packed(&stored));
    view
}

/// Half types with weights of few bits. The scales are those of columns, or of equal parts of the inputs.
struct Case {
    dtype: aclDataType,
    x: Tensor,
    values: Vec<i64>,
    parts: usize,
    scale: Tensor,
    offset: Tensor,
    bias: Tensor,
}

impl Case {
    fn new(dtype: aclDataType, most: f32, parts: usize) -> Self {
        let count = 3 * parts * COLUMNS;
        let small: Vec<f32> = noise(count, 3).iter().map(|value| value / most).collect();
        // Parts have no offset.
        let offsets = match parts {
            1 => noise(count, 4),
            _ => vec![0.0; count],
        };
        let of_bias = if dtype == F16 { F16 } else { F32 };
        Self {
            dtype,
            x: Tensor::floats(dtype, &[5, DEPTH], &noise(5 * DEPTH, 1)),
            values: integers(3 * MATRIX, most, 2),
            parts,
            scale: Tensor::floats(dtype, &[count], &small),
            offset: Tensor::floats(dtype, &[count], &offsets),
            bias: Tensor::floats(of_bias, &[3 * COLUMNS], &noise(3 * COLUMNS, 5)),
        }
    }

    /// Returns the results of the groups, one after the other, with a bias.
    fn expected(&self) -> Vec<f64> {
        let (scale, offset, bias) = (exact(&self.scale), exact(&self.offset), self.bias.read());
        let x = self.x.read();
        let (mut all, mut from) = (Vec::new(), 0);
        for (group, end) in ENDS.iter().enumerate() {
            let weight = |place: usize| {
                let part = place / COLUMNS / (DEPTH / self.parts);
                let at = (group * self.parts + part) * COLUMNS + place % COLUMNS;
                (self.values[group * MATRIX + place] as f64 + offset[at]) * scale[at]
            };
            let end = *end as usize;
            let rows = Tensor::floats(
                self.dtype,
                &[end - from, DEPTH],
                &x[from * DEPTH..end * DEPTH],
            );
            let own = Tensor::floats(
                self.bias.dtype,
                &[COLUMNS],
                &bias[group * COLUMNS..][..COLUMNS],
            );
            let weights: Vec<f64> = (0..MATRIX).map(weight).collect();
            all.extend(expected(&rows, &weights, COLUMNS, Some(&own)));
            from = end;
        }
        all
    }

    fn factor_shape(&self, groups: &[usize]) -> Vec<usize> {
        match self.parts {
            1 => [groups, &[COLUMNS]].concat(),
            parts => [groups, &[parts, COLUMNS]].concat(),
        }
    }

    /// Returns a part of a tensor of all groups as a tensor of its own.
    fn part(all: &Tensor, group: usize, shape: &[usize]) -> Tensor {
        let count = shape.iter().product();
        Tensor::floats(all.dtype, shape, &all.read()[group * count..][..count])
    }

    /// Returns a call of single tensors.
    fn single(&self, weight: Tensor) -> Grouped {
        let shape = self.factor_shape(&[3]);
        let copy = |all: &Tensor, shape: &[usize]| vec![Self::part(all, 0, shape)];
        Grouped {
            x: copy(&self.x, &[5, DEPTH]),
            weight: vec![weight],
            bias: copy(&self.bias, &[3, COLUMNS]),
            few_bits: [copy(&self.scale, &shape), copy(&self.offset, &shape)],
            y: vec![Tensor::empty(self.dtype, &[5, COLUMNS])],
            list: Some(list_of(&ENDS, false)),
            ends: Some(ENDS.to_vec()),
            split_item: 2,
            ..Grouped::default()
        }
    }

    /// Returns a call with a weight for each group.
    fn several(&self, weight: impl Fn(&[i64]) -> Tensor) -> Grouped {
        let shape = self.factor_shape(&[]);
        let of = |all: &Tensor, shape: &[usize]| {
            (0..3).map(|group| Self::part(all, group, shape)).collect()
        };
        Grouped {
            weight: self.values.chunks(MATRIX).map(weight).collect(),
            bias: of(&self.bias, &[COLUMNS]),
            few_bits: [of(&self.scale, &shape), of(&self.offset, &shape)],
            ..self.single(Tensor::empty(ACL_INT8, &[0]))
        }
    }

    /// Returns a call in which each group has its own x and result.
    fn apart(&self, weight: impl Fn(&[i64]) -> Tensor) -> Grouped {
        let x = self.x.read();
        let rows = [(0, 2), (2, 2), (2, 5)];
        let x = rows.map(|(from, end)| {
            Tensor::floats(
                self.dtype,
                &[end - from, DEPTH],
                &x[from * DEPTH..end * DEPTH],
            )
        });
        let y = rows.map(|(from, end)| Tensor::empty(self.dtype, &[end - from, COLUMNS]));
        Grouped {
            x: x.into(),
            y: y.into(),
            list: None,
            ends: None,
            split_item: 0,
            group_type: -1,
            ..self.several(weight)
        }
    }

    #[track_caller]
    fn check(&self, mut call: Grouped, version: u8) {
        call.call(version).expect("documented");
        let found: Vec<f32> = call.y.iter().flat_map(Tensor::read).collect();
        // A weight may be rounded the other way where f32 is not exact.
        assert_close("y", &found, &self.expected(), self.dtype, 1e-3);
    }
}

#[test]
fn bytes_are_scaled_by_column() {
    let _session = Session::start();
    for dtype in [F16, BF16] {
        let case = Case::new(dtype, 100.0, 1);
        let one = |values: &[i64]| signed_bytes(&[DEPTH, COLUMNS], values);
        for version in 1..=5 {
            case.check(case.several(one), version);
            case.check(case.apart(one), version);
            if version > 1 {
                let shape = [3, DEPTH, COLUMNS];
                case.check(case.single(signed_bytes(&shape, &case.values)), version);
                case.check(case.single(turned_bytes(shape, &case.values)), version);
            }
        }
        // The first version also writes one x to several results.
        let mut call = case.apart(one);
        call.x = case.single(Tensor::empty(ACL_INT8, &[0])).x;
        call.ends = Some(ENDS.to_vec());
        case.check(call, 1);
    }
}

#[test]
fn four_bits_are_scaled_by_column_or_by_part() {
    let _session = Session::start();
    for (dtype, parts) in [(F16, 1), (F16, 2), (F16, 8), (BF16, 1), (BF16, 4)] {
        let case = Case::new(dtype, 8.0, parts);
        for turned in [false, true] {
            let one = |values: &[i64]| four_bits(&[DEPTH, COLUMNS], values, turned);
            for version in [4, 5] {
                let all = four_bits(&[3, DEPTH, COLUMNS], &case.values, turned);
                case.check(case.single(all), version);
                case.check(case.several(one), version);
                case.check(case.apart(one), version);
            }
        }
    }
}

#[test]
fn parts_with_an_offset_break_the_stream() {
    let _session = Session::start();
    let case = Case::new(F16, 8.0, 2);
    let mut call = case.single(four_bits(&[3, DEPTH, COLUMNS], &case.values, false));
    call.few_bits[1] = vec![Tensor::floats(F16, &[3, 2, COLUMNS], &[0.5; 48])];
    broke(call.call(5), "antiquantOffset is not zero");
}

/// Checks that a call is refused after a change of a legal one with packed weights.
fn refuse(version: u8, parts: usize, change: impl FnOnce(&mut Grouped), text: &str) {
    let case = Case::new(F16, 8.0, parts);
    let mut call = case.single(four_bits(&[3, DEPTH, COLUMNS], &case.values, false));
    call.list_type = 0;
    change(&mut call);
    refused(call.call(version), text);
}

#[test]
fn few_bits_outside_the_document_are_refused() {
    let _session = Session::start();
    let t = |dtype, shape: &[usize]| vec![Tensor::empty(dtype, shape)];
    for version in 1..=3 {
        let text = match version {
            1 => "is i32",
            _ => "weight is i32, which holds four bits from version 4 on",
        };
        refuse(version, 1, |_| {}, text);
    }
    for part in 0..2 {
        let name = ["antiquantScale", "antiquantOffset"][part];
        let missing = format!("{name} has 0 tensors");
        refuse(5, 1, |call| call.few_bits[part].clear(), &missing);
        let other = format!("{name} is bf16");
        refuse(5, 1, |call| call.few_bits[part] = t(BF16, &[3, 8]), &other);
        let shape = format!("{name} has the shape");
        for wrong in [
            &[8][..],
            &[3, 1],
            &[3, 3, 8],
            &[3, 0, 8],
            &[3, 2, 4],
            &[1, 3, 2, 8],
        ] {
            refuse(5, 1, |call| call.few_bits[part] = t(F16, wrong), &shape);
        }
    }
    // Scales and offsets have the same parts.
    each! { refuse:
        5, 2, |call| call.few_bits[1] = t(F16, &[3, 8]), "parts of";
        5, 2, |call| call.few_bits[1] = t(F16, &[3, 4, 8]), "parts of";
    }
    // A part of a transposed weight has an even number of inputs.
    let odd = |call: &mut Grouped| {
        call.weight = vec![four_bits(&[3, DEPTH, COLUMNS], &[1; 3 * MATRIX], true)];
        call.few_bits = [t(F16, &[3, 16, 8]), t(F16, &[3, 16, 8])];
    };
    refuse(5, 1, odd, "even if weight is transposed");
    // Bytes have no parts.
    let bytes = |call: &mut Grouped| call.weight = t(ACL_INT8, &[3, DEPTH, COLUMNS]);
    each! { refuse:
        5, 2, bytes, "antiquantScale has the shape";
        5, 1, |call| call.scale = t(F32, &[3, 8]), "scale has 1 tensors";
        5, 1, |call| call.token_scale = t(F32, &[5]), "perTokenScale has 1 tensors";
        5, 1, |call| call.offset = t(F32, &[3, 8]), "offset is given";
        5, 1, |call| call.bias = t(F32, &[3, 8]), "bias is f32";
        5, 1, |call| call.y = t(F32, &[5, 8]), "y is f32";
        5, 1, |call| call.list_type = 2, "groupListType is 2";
        5, 1, |call| call.activation = 1, "actType is 1";
    }
    let depth = |call: &mut Grouped| {
        call.x = vec![Tensor::strided(F16, &[DEPTH, 5], Some(&[1, 16]), 0, 80)];
        call.weight = t(ACL_INT8, &[5, 8]);
        call.y = t(F16, &[3, DEPTH, 8]);
        call.group_type = 2;
    };
    refuse(5, 1, depth, "groupType is 2");
}

/// Rows of bytes with weights of four bits: five rows in groups of two, none and three, with two parts of 256 inputs.
struct Mixed {
    x: Vec<i64>,
    weight: Vec<i64>,
    scale: Vec<f32>,
    bias: Vec<f32>,
    token_scale: Vec<f32>,
}

const WIDE: usize = 512;

impl Mixed {
    fn new() -> Self {
        let scale = noise(3 * 2 * COLUMNS, 3);
        Self {
            x: integers(5 * WIDE, 127.0, 1),
            weight: integers(3 * WIDE * COLUMNS, 8.0, 2),
            scale: scale.iter().map(|value| value / 64.0).collect(),
            bias: noise(3 * COLUMNS, 4),
            token_scale: noise(5, 5),
        }
    }

    fn scale_of(&self, group: usize, input: usize, column: usize) -> f64 {
        f64::from(self.scale[(group * 2 + input / 256) * COLUMNS + column])
    }

    fn weight_of(&self, group: usize, input: usize, column: usize) -> f64 {
        let value = self.weight[(group * WIDE + input) * COLUMNS + column] as f64;
        value * self.scale_of(group, input, column)
    }

    /// Returns the results in f64.
    fn expected(&self) -> Vec<f64> {
        let mut all = Vec::new();
        for (row, group) in [0, 0, 2, 2, 2].into_iter().enumerate() {
            for column in 0..COLUMNS {
                let term = |input: usize| {
                    (self.x[row * WIDE + input] - 8) as f64 * self.weight_of(group, input, column)
                };
                let sum: f64 = (0..WIDE).map(term).sum();
                let bias = f64::from(self.bias[group * COLUMNS + column]);
                all.push((sum + bias) * f64::from(self.token_scale[row]));
            }
        }
        all
    }

    fn call(&self, dtype: aclDataType) -> Grouped {
        Grouped {
            x: vec![signed_bytes(&[5, WIDE], &self.x)],
            weight: vec![four_bits(&[3, WIDE, COLUMNS], &self.weight, false)],
            bias: vec![Tensor::floats(F32, &[3, COLUMNS], &self.bias)],
            scale: vec![wide_scales(&[3, 2, COLUMNS], &self.scale)],
            token_scale: vec![Tensor::floats(F32, &[5], &self.token_scale)],
            y: vec![Tensor::empty(dtype, &[5, COLUMNS])],
            list: Some(list_of(&[2, 0, 3], false)),
            split_item: 2,
            list_type: 1,
            ..Grouped::default()
        }
    }
}

#[test]
fn bytes_by_four_bits_have_the_products_of_eight_in_the_bias() {
    let _session = Session::start();
    let mut mixed = Mixed::new();
    for (dtype, version) in [(F16, 4), (F16, 5), (BF16, 4), (BF16, 5)] {
        let mut call = mixed.call(dtype);
        call.call(version).expect("documented");
        call.y[0].assert_close("y", &mixed.expected(), 1e-6);
    }
    // The bias that CANN's document asks for makes a product of x itself.
    let bias = |place: usize| {
        let (group, column) = (place / COLUMNS, place % COLUMNS);
        let sum: f64 = (0..WIDE)
            .map(|input| mixed.weight_of(group, input, column))
            .sum();
        8.0 * sum
    };
    let bias: Vec<f32> = (0..3 * COLUMNS).map(|place| bias(place) as f32).collect();
    mixed.bias = bias;
    let mut call = mixed.call(F16);
    call.call(5).expect("documented");
    let mut plain = Vec::new();
    for (row, group) in [0, 0, 2, 2, 2].into_iter().enumerate() {
        for column in 0..COLUMNS {
            let term = |input: usize| {
                mixed.x[row * WIDE + input] as f64 * mixed.weight_of(group, input, column)
            };
            plain.push((0..WIDE).map(term).sum::<f64>() * f64::from(mixed.token_scale[row]));
        }
    }
    call.y[0].assert_close("a product of x", &plain, 1e-6);
}

#[test]
fn bytes_by_four_bits_have_one_form() {
    let _session = Session::start();
    let t = |dtype, shape: &[usize]| vec![Tensor::empty(dtype, shape)];
    let refuse = |change: &dyn Fn(&mut Grouped), text: &str| {
        let mut call = Mixed::new().call(F16);
        change(&mut call);
        refused(call.call(5), text);
    };
    refuse(&|call| call.bias.clear(), "have a bias");
    refuse(&|call| call.bias = t(F16, &[3, 8]), "bias is f16");
    refuse(&|call| call.scale.clear(), "scale has 0 tensors");
    refuse(&|call| call.scale = t(F32, &[3, 2, 8]), "scale is f32");
    for wrong in [&[3, 8][..], &[3, 1, 8], &[3, 4, 8]] {
        refuse(&|call| call.scale = t(ACL_UINT64, wrong), "scale the shape");
    }
    each! { refuse:
        &|call| call.token_scale.clear(), "perTokenScale has 0 tensors";
        &|call| call.token_scale = t(F32, &[4]), "perTokenScale has the shape";
        &|call| call.offset = t(F32, &[3, 1, 8]), "offset is given";
        &|call| call.activation = 1, "actType is 1";
        &|call| call.list_type = 0, "groupListType is 0";
    }
    for result in [ACL_INT8, ACL_INT32, F32] {
        refuse(&|call| call.y = t(result, &[5, 8]), "y is");
    }
    let turned = |call: &mut Grouped| {
        call.weight = vec![four_bits(&[3, WIDE, COLUMNS], &Mixed::new().weight, true)];
    };
    refuse(&turned, "are not transposed");
    // Inputs are whole parts, and not too many of them.
    for (inputs, parts) in [(128, 1), (384, 1), (18688, 73)] {
        let other = |call: &mut Grouped| {
            call.x = t(ACL_INT8, &[5, inputs]);
            call.weight = t(ACL_INT32, &[3, inputs, 1]);
            call.scale = t(ACL_UINT64, &[3, parts, 8]);
        };
        refuse(&other, "inputs are multiples of 256 up to 18432");
    }
    for version in 1..=3 {
        let mut call = Mixed::new().call(F16);
        call.ends = Some(vec![2, 2, 5]);
        let status = call.call(version);
        fails(status, ACLNN_ERR_PARAM_INVALID);
    }
    let several = |call: &mut Grouped| {
        call.weight = (0..3)
            .map(|_| Tensor::empty(ACL_INT32, &[WIDE, 1]))
            .collect();
    };
    refuse(&several, "split the rows of single tensors");
}

#[test]
fn older_chips_have_no_weights_of_few_bits() {
    let _session = Session::on("Ascend910A");
    refuse(5, 1, |_| {}, "are not emulated for Ascend910A");
}
