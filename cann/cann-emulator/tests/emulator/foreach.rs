//! Tests of operators of lists, against f64, and of indices drawn by weight.

use crate::common::*;
use cann_emulator::abi::foreach::*;
use cann_emulator::abi::multinomial::*;

/// Two tensors of different shapes, with values from 0.5 to 1.5.
fn values(dtype: aclDataType, seed: u64) -> List {
    let shapes = [&[2, 3][..], &[4]].into_iter().enumerate();
    let tensors = shapes.map(|(at, shape)| {
        let count = shape.iter().product();
        let values: Vec<f32> = noise(count, seed + at as u64)
            .iter()
            .map(|x| 1.0 + x / 2.0)
            .collect();
        Tensor::floats(dtype, shape, &values)
    });
    List::new(tensors.collect())
}

fn exact_of(list: &List) -> Vec<Vec<f64>> {
    list.1.iter().map(exact).collect()
}

/// The numbers of a call: none, one, or one for each tensor of a list.
enum Numbers {
    None,
    One(Scalar),
    Each(*mut aclScalarList),
}

impl Numbers {
    fn each(values: [f32; 2]) -> Self {
        let scalars = values.map(|value| {
            let scalar = Scalar::float(value);
            let handle = scalar.0;
            // The list destroys it.
            std::mem::forget(scalar);
            handle.cast_const()
        });
        // SAFETY: the array is valid.
        Self::Each(unsafe { aclCreateScalarList(scalars.as_ptr(), 2) })
    }
}

impl Drop for Numbers {
    fn drop(&mut self) {
        if let Self::Each(list) = self {
            // SAFETY: made above.
            unsafe { aclDestroyScalarList(*list) };
        }
    }
}

impl Argument<*const aclScalar> for Numbers {
    fn argument(&self) -> *const aclScalar {
        match self {
            Self::One(scalar) => scalar.0,
            _ => panic!("one number"),
        }
    }
}

impl Argument<*const aclScalarList> for Numbers {
    fn argument(&self) -> *const aclScalarList {
        match self {
            Self::Each(list) => *list,
            _ => panic!("a number for each tensor"),
        }
    }
}

type Call = fn([&List; 3], &Numbers, &List) -> Status;
type Function = fn([f64; 3], f64) -> f64;
/// An operator's name, its call, the numbers that it takes, and its function.
type Row = (&'static str, Call, fn() -> Numbers, Function);

macro_rules! rows {
    ($($operator:ident: |$lists:pat_param, $s:pat_param, $y:ident| ($($argument:expr),+), $numbers:expr,
        $function:expr;)*) => {
        [$((
            stringify!($operator),
            (|$lists, $s, $y| call!($operator: $($argument),+)) as Call,
            $numbers as fn() -> Numbers,
            $function as Function,
        )),*]
    };
}

fn table() -> [Row; 13] {
    let none = || Numbers::None;
    let one = || Numbers::One(Scalar::float(0.75));
    let each = || Numbers::each([0.75, -1.5]);
    rows! {
        aclnnForeachAddScalarV2: |[x, ..], s, out| (x, s, out), one, |[x, ..], s| x + s;
        aclnnForeachMulScalarV2: |[x, ..], s, out| (x, s, out), one, |[x, ..], s| x * s;
        aclnnForeachDivScalarV2: |[x, ..], s, out| (x, s, out), one, |[x, ..], s| x / s;
        aclnnForeachLerpScalar: |[x, y, _], s, out| (x, y, s, out), one, |[x, y, _], s| x + s * (y - x);
        aclnnForeachAddListV2: |[x, y, _], s, out| (x, y, s, out), one, |[x, y, _], s| x + s * y;
        aclnnForeachAddcmulScalarV2: |[x, y, z], s, out| (x, y, z, s, out), one,
            |[x, y, z], s| x + s * y * z;
        aclnnForeachAddcdivScalarV2: |[x, y, z], s, out| (x, y, z, s, out), one,
            |[x, y, z], s| x + s * y / z;
        aclnnForeachMulScalarList: |[x, ..], s, out| (x, s, out), each, |[x, ..], s| x * s;
        aclnnForeachDivScalarList: |[x, ..], s, out| (x, s, out), each, |[x, ..], s| x / s;
        aclnnForeachAddcdivScalarList: |[x, y, z], s, out| (x, y, z, s, out), each,
            |[x, y, z], s| x + s * y / z;
        aclnnForeachSqrt: |[x, ..], _, out| (x, out), none, |[x, ..], _| x.sqrt();
        aclnnForeachMulList: |[x, y, _], _, out| (x, y, out), none, |[x, y, _], _| x * y;
        aclnnForeachDivList: |[x, y, _], _, out| (x, y, out), none, |[x, y, _], _| x / y;
    }
}

#[test]
fn a_function_is_that_of_every_element() {
    let _session = Session::start();
    for (name, call, numbers, function) in table() {
        for dtype in [F32, F16, BF16] {
            let [x, y, z] = [1, 3, 5].map(|seed| values(dtype, seed));
            let numbers = numbers();
            let (xs, ys, zs) = (exact_of(&x), exact_of(&y), exact_of(&z));
            let expected: Vec<Vec<f64>> = (0..2)
                .map(|list| {
                    let number = match numbers {
                        Numbers::Each(_) => [0.75, -1.5][list],
                        _ => 0.75,
                    };
                    let places = 0..xs[list].len();
                    places
                        .map(|at| function([xs[list][at], ys[list][at], zs[list][at]], number))
                        .collect()
                })
                .collect();
            // The result may be the first list.
            call([&x, &y, &z], &numbers, &x).expect(name);
            for (found, expected) in x.1.iter().zip(&expected) {
                found.assert_close(name, expected, 1e-6);
            }
            let short = List::new(vec![Tensor::empty(dtype, &[2, 3])]);
            each! { refused: call([&x, &y, &z], &numbers, &short), "with 1 results" }
            let whole = List::new(
                [[2, 3].as_slice(), &[4]]
                    .map(|shape| Tensor::empty(ACL_INT64, shape))
                    .into(),
            );
            each! { refused:
                call([&x, &y, &z], &numbers, &whole), "out is i64";
                call([&whole, &y, &z], &numbers, &x), "x is i64";
            }
            let none = List(null_mut(), Vec::new());
            each! { refused: call([&none; 3], &numbers, &x), "tensors with 2 results" }
        }
    }
}

#[test]
fn every_tensor_has_a_norm() {
    let _session = Session::start();
    let call = |x: &List, order: f32, y: &List| {
        let order = Scalar::float(order);
        call!(aclnnForeachNorm: x, order, y)
    };
    for dtype in [F32, F16, BF16] {
        let x = values(dtype, 1);
        let y = List::new((0..2).map(|_| Tensor::empty(dtype, &[])).collect());
        for (order, power) in [(1.0, 1.0), (2.0, 2.0)] {
            call(&x, order, &y).expect("documented");
            for (found, values) in y.1.iter().zip(exact_of(&x)) {
                let sum: f64 = values.iter().map(|x| x.powf(power)).sum();
                found.assert_close("norm", &[sum.powf(1.0 / power)], 1e-6);
            }
        }
        call(&x, f32::INFINITY, &y).expect("documented");
        for (found, values) in y.1.iter().zip(exact_of(&x)) {
            let most = values.into_iter().fold(0.0, f64::max);
            found.assert_close("greatest", &[most], 0.0);
        }
        refused(call(&x, 3.0, &y), "scalar is 3");
        refused(call(&x, 2.0, &x), "out has the shape");
    }
}

fn multinomial(weights: &Tensor, draws: i64, replacement: bool, seed: i64, y: &Tensor) -> Status {
    call!(aclnnMultinomial: weights, draws, replacement, seed, 0, y)
}

#[test]
fn indices_are_drawn_by_weight() {
    let _session = Session::start();
    for dtype in [F32, F16, BF16] {
        let weights = Tensor::floats(dtype, &[2, 4], &[1.0, 0.0, 3.0, 0.0, 0.0, 2.0, 0.0, 0.0]);
        let y = Tensor::empty(ACL_INT64, &[2, 1000]);
        multinomial(&weights, 1000, true, 7, &y).expect("documented");
        let drawn = y.read_integers();
        let thirds = drawn[..1000].iter().filter(|index| **index == 2).count();
        assert!(drawn[..1000].iter().all(|index| [0, 2].contains(index)));
        assert!((700..800).contains(&thirds), "three of four: {thirds}");
        assert!(drawn[1000..].iter().all(|index| *index == 1));
        let again = Tensor::empty(ACL_INT64, &[2, 1000]);
        multinomial(&weights, 1000, true, 7, &again).expect("documented");
        assert_eq!(again.read_integers(), drawn, "a seed gives the same");

        let weights = Tensor::floats(dtype, &[4], &[1.0, 2.0, 3.0, 4.0]);
        let y = Tensor::empty(ACL_INT64, &[4]);
        multinomial(&weights, 4, false, 7, &y).expect("documented");
        let mut all = y.read_integers();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3], "each once");
        refused(multinomial(&weights, 5, false, 7, &y), "numsamples is 5");
        refused(multinomial(&weights, 0, true, 7, &y), "numsamples is 0");
        refused(multinomial(&weights, 3, true, 7, &y), "out has the shape");
    }
    let y = Tensor::empty(ACL_INT64, &[1]);
    for wrong in [[-1.0, 2.0], [0.0, 0.0], [f32::NAN, 1.0]] {
        let weights = Tensor::floats(F32, &[2], &wrong);
        broke(multinomial(&weights, 1, true, 7, &y), "aclnnMultinomial");
    }
}
