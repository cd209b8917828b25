//! Tests of convolutions against f64.

use crate::common::convolution::{Call, PLAIN, convolve, image, random};
use crate::common::*;

/// A tensor with three axes behind two, in f64.
struct Values {
    shape: [usize; 5],
    values: Vec<f64>,
}

impl Values {
    fn of(shape: &[usize], values: Vec<f64>) -> Self {
        let mut full = [1; 5];
        full[..2].copy_from_slice(&shape[..2]);
        full[7 - shape.len()..].copy_from_slice(&shape[2..]);
        Self {
            shape: full,
            values,
        }
    }

    fn at(&self, place: [usize; 5]) -> usize {
        place
            .iter()
            .zip(&self.shape)
            .fold(0, |at, (place, length)| at * length + place)
    }

    fn places(&self) -> Vec<[usize; 5]> {
        let count = self.values.len();
        let place = |mut at: usize| {
            let mut place = [0; 5];
            for axis in (0..5).rev() {
                place[axis] = at % self.shape[axis];
                at /= self.shape[axis];
            }
            place
        };
        (0..count).map(place).collect()
    }
}

fn three(values: &[i64], missing: i64) -> [i64; 3] {
    let mut all = [missing; 3];
    all[3 - values.len()..].copy_from_slice(values);
    all
}

/// Adds every product of an element of x and one of the weight to the element of y that it belongs to.
fn expected(call: Call<'_>, x: &Values, weight: &Values, y: &mut Values) {
    let (stride, dilation) = (three(call.stride, 1), three(call.dilation, 1));
    let padding = match call.padding.len() == call.stride.len() {
        true => three(call.padding, 0),
        false => three(
            &call.padding.iter().step_by(2).copied().collect::<Vec<_>>(),
            0,
        ),
    };
    let groups = call.groups as usize;
    for at in weight.places() {
        for from in x.places() {
            // The weight is [outputs, inputs of a group], and transposed [inputs, outputs of a group].
            let inputs = x.shape[1] / groups;
            let (group, output) = match call.transposed {
                false => {
                    let group = at[0] / (weight.shape[0] / groups);
                    if from[1] != group * inputs + at[1] {
                        continue;
                    }
                    (group, at[0])
                }
                true => {
                    if from[1] != at[0] {
                        continue;
                    }
                    (at[0] / inputs, at[0] / inputs * weight.shape[1] + at[1])
                }
            };
            assert!(group < groups);
            let mut to = [from[0], output, 0, 0, 0];
            let inside = (0..3).all(|axis| {
                let (s, d, p) = (stride[axis], dilation[axis], padding[axis]);
                let (from, kernel) = (from[2 + axis] as i64, at[2 + axis] as i64);
                let place = match call.transposed {
                    true => from * s + kernel * d - p,
                    false => {
                        let reach = from + p - kernel * d;
                        if reach % s != 0 {
                            return false;
                        }
                        reach / s
                    }
                };
                to[2 + axis] = place.max(0) as usize;
                (0..y.shape[2 + axis] as i64).contains(&place)
            });
            if inside {
                let place = y.at(to);
                y.values[place] += x.values[x.at(from)] * weight.values[weight.at(at)];
            }
        }
    }
}

/// Compares a convolution with its definition, with and without a bias.
fn compare(call: Call<'_>, dtype: aclDataType, [x, weight, y]: [&[usize]; 3]) {
    let (a, b) = (random(dtype, x, 1), random(dtype, weight, 2));
    let bias = Tensor::floats(dtype, &[y[1]], &noise(y[1], 3));
    for bias in [None, Some(&bias)] {
        let out = image(dtype, y);
        convolve(call, [&a, &b, &out], bias).expect("documented");
        let mut sums = Values::of(y, vec![0.0; y.iter().product()]);
        let (a, b) = (Values::of(x, exact(&a)), Values::of(weight, exact(&b)));
        expected(call, &a, &b, &mut sums);
        if let Some(bias) = bias {
            let bias = exact(bias);
            for place in sums.places() {
                let at = sums.at(place);
                sums.values[at] += bias[place[1]];
            }
        }
        // f32 is multiplied as HF32.
        let inside = if dtype == F32 { 2e-3 } else { 1e-6 };
        out.assert_close("convolution", &sums.values, inside);
    }
}

#[test]
fn kernels_slide_with_strides_paddings_dilations_and_groups() {
    let _session = Session::start();
    for dtype in [F32, F16, BF16] {
        compare(PLAIN, dtype, [&[2, 3, 5, 4], &[4, 3, 3, 2], &[2, 4, 3, 3]]);
        let call = Call {
            stride: &[2, 1],
            padding: &[1, 2],
            dilation: &[1, 2],
            ..PLAIN
        };
        compare(call, dtype, [&[1, 2, 5, 4], &[2, 2, 3, 2], &[1, 2, 3, 6]]);
        let call = Call {
            padding: &[1, 0, 2, 1],
            ..PLAIN
        };
        compare(call, dtype, [&[1, 2, 3, 3], &[1, 2, 2, 2], &[1, 1, 3, 5]]);
        let call = Call { groups: 2, ..PLAIN };
        compare(call, dtype, [&[2, 4, 3, 3], &[6, 2, 2, 2], &[2, 6, 2, 2]]);
        let call = Call {
            stride: &[2],
            padding: &[1],
            dilation: &[1],
            more: &[0],
            ..PLAIN
        };
        compare(call, dtype, [&[2, 3, 6], &[2, 3, 3], &[2, 2, 3]]);
        let call = Call {
            padding: &[2, 1],
            ..call
        };
        compare(call, dtype, [&[2, 3, 6], &[2, 3, 3], &[2, 2, 4]]);
        let call = Call {
            stride: &[1, 2, 1],
            padding: &[1, 0, 1],
            dilation: &[1, 1, 1],
            more: &[0; 3],
            ..PLAIN
        };
        compare(
            call,
            dtype,
            [&[1, 2, 3, 4, 3], &[2, 2, 2, 2, 2], &[1, 2, 4, 2, 4]],
        );
    }
}

#[test]
fn transposed_convolutions_go_the_other_way() {
    let _session = Session::start();
    for dtype in [F32, F16, BF16] {
        let call = Call {
            transposed: true,
            stride: &[2, 1],
            padding: &[1, 0],
            more: &[1, 0],
            ..PLAIN
        };
        compare(call, dtype, [&[2, 3, 3, 2], &[3, 4, 3, 2], &[2, 4, 6, 3]]);
        let call = Call {
            groups: 2,
            dilation: &[1, 2],
            more: &[1, 1],
            ..call
        };
        compare(call, dtype, [&[1, 4, 2, 2], &[4, 1, 2, 2], &[1, 2, 3, 5]]);
        let call = Call {
            transposed: true,
            stride: &[3],
            padding: &[1],
            dilation: &[1],
            more: &[2],
            ..PLAIN
        };
        compare(call, dtype, [&[1, 2, 3], &[2, 2, 3], &[1, 2, 9]]);
    }
}

#[test]
fn views_batches_of_none_and_other_floats_are_taken() {
    let _session = Session::start();
    let (x, weight) = (random(F16, &[1, 1, 2, 2], 1), random(F32, &[1, 1, 1, 1], 2));
    let factor = exact(&weight)[0];
    let products: Vec<f64> = exact(&x).iter().map(|x| x * factor).collect();
    for dtype in [F32, F16] {
        let y = image(dtype, &[1, 1, 2, 2]);
        convolve(PLAIN, [&x, &weight, &y], None).expect("promoted");
        y.assert_close("products", &products, 2e-3);
    }
    each! { refused:
        convolve(Call { transposed: true, ..PLAIN }, [&x, &weight, &x], None), "output is f16";
    }
    let none = image(F16, &[0, 2, 3, 3]);
    let weight = random(F16, &[1, 2, 2, 2], 3);
    convolve(PLAIN, [&none, &weight, &image(F16, &[0, 1, 2, 2])], None).expect("nothing");
}
