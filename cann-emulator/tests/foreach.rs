//! Tests of operators of lists, against f64, and of indices drawn by weight.

mod common;

use std::ptr::null_mut;

use cann_emulator::abi::foreach::*;
use cann_emulator::abi::meta::*;
use cann_emulator::abi::multinomial::*;
use cann_sys::meta::*;
use common::host::{Scalar, Status, exact, refused};
use common::{BF16, F16, F32, PhaseTwo, Session, Tensor, assert_close, noise, run};

/// A list of tensors, which are destroyed with it.
struct List(*mut aclTensorList, Vec<Tensor>);

impl List {
    fn new(mut tensors: Vec<Tensor>) -> Self {
        let members: Vec<_> = tensors.iter_mut().map(Tensor::give_to_list).collect();
        // SAFETY: the array is valid.
        let list = unsafe { aclCreateTensorList(members.as_ptr(), members.len() as u64) };
        Self(list, tensors)
    }

    /// Two tensors of different shapes, with values from 0.5 to 1.5.
    fn values(dtype: aclDataType, seed: u64) -> Self {
        let shapes = [&[2, 3][..], &[4]].into_iter().enumerate();
        let tensors = shapes.map(|(at, shape)| {
            let count = shape.iter().product();
            let values: Vec<f32> = noise(count, seed + at as u64)
                .iter()
                .map(|x| 1.0 + x / 2.0)
                .collect();
            Tensor::floats(dtype, shape, &values)
        });
        Self::new(tensors.collect())
    }

    fn exact(&self) -> Vec<Vec<f64>> {
        self.1.iter().map(exact).collect()
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: made above.
        unsafe { aclDestroyTensorList(self.0) };
    }
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

type L = *const aclTensorList;
type End = (*mut aclTensorList, *mut u64, *mut *mut aclOpExecutor);

/// Phase one of an operator, with its lists and numbers in a form that all share.
type Call = fn([L; 3], &Numbers, End) -> aclnnStatus;

/// Makes a call of an operator of as many lists as are named.
macro_rules! call {
    ($one:ident, $two:ident, $pattern:pat => $($argument:expr),*) => {
        (stringify!($two), |lists: [L; 3], numbers: &Numbers, (out, size, executor): End| {
            let [_x, _y, _z] = lists;
            let $pattern = (lists, numbers) else { unreachable!("each has its numbers") };
            // SAFETY: handles are checked, the places are variables.
            unsafe { $one($($argument,)* out, size, executor) }
        }, $two)
    };
}

fn start(call: Call, two: PhaseTwo, lists: [L; 3], numbers: &Numbers, out: &List) -> Status {
    run(
        |size, executor| call(lists, numbers, (out.0, size, executor)),
        two,
    )
}

fn one() -> Numbers {
    Numbers::One(Scalar::float(0.75))
}

type Row = (
    (&'static str, Call, PhaseTwo),
    fn() -> Numbers,
    fn([f64; 3], f64) -> f64,
);

fn table() -> Vec<Row> {
    use Numbers::{Each, One};
    let each = || Numbers::each([0.75, -1.5]);
    vec![
        (
            call!(aclnnForeachAddScalarV2GetWorkspaceSize, aclnnForeachAddScalarV2, ([x, ..], One(s)) => x, s.0),
            one,
            |[x, ..], s| x + s,
        ),
        (
            call!(aclnnForeachMulScalarV2GetWorkspaceSize, aclnnForeachMulScalarV2, ([x, ..], One(s)) => x, s.0),
            one,
            |[x, ..], s| x * s,
        ),
        (
            call!(aclnnForeachDivScalarV2GetWorkspaceSize, aclnnForeachDivScalarV2, ([x, ..], One(s)) => x, s.0),
            one,
            |[x, ..], s| x / s,
        ),
        (
            call!(aclnnForeachLerpScalarGetWorkspaceSize, aclnnForeachLerpScalar, ([x, y, _], One(s)) => x, y, s.0),
            one,
            |[x, y, _], s| x + s * (y - x),
        ),
        (
            call!(aclnnForeachAddListV2GetWorkspaceSize, aclnnForeachAddListV2, ([x, y, _], One(s)) => x, y, s.0),
            one,
            |[x, y, _], s| x + s * y,
        ),
        (
            call!(aclnnForeachAddcmulScalarV2GetWorkspaceSize, aclnnForeachAddcmulScalarV2, ([x, y, z], One(s)) => x, y, z, s.0),
            one,
            |[x, y, z], s| x + s * y * z,
        ),
        (
            call!(aclnnForeachAddcdivScalarV2GetWorkspaceSize, aclnnForeachAddcdivScalarV2, ([x, y, z], One(s)) => x, y, z, s.0),
            one,
            |[x, y, z], s| x + s * y / z,
        ),
        (
            call!(aclnnForeachMulScalarListGetWorkspaceSize, aclnnForeachMulScalarList, ([x, ..], Each(s)) => x, *s),
            each,
            |[x, ..], s| x * s,
        ),
        (
            call!(aclnnForeachDivScalarListGetWorkspaceSize, aclnnForeachDivScalarList, ([x, ..], Each(s)) => x, *s),
            each,
            |[x, ..], s| x / s,
        ),
        (
            call!(aclnnForeachAddcdivScalarListGetWorkspaceSize, aclnnForeachAddcdivScalarList, ([x, y, z], Each(s)) => x, y, z, *s),
            each,
            |[x, y, z], s| x + s * y / z,
        ),
        (
            call!(aclnnForeachSqrtGetWorkspaceSize, aclnnForeachSqrt, ([x, ..], Numbers::None) => x),
            || Numbers::None,
            |[x, ..], _| x.sqrt(),
        ),
        (
            call!(aclnnForeachMulListGetWorkspaceSize, aclnnForeachMulList, ([x, y, _], Numbers::None) => x, y),
            || Numbers::None,
            |[x, y, _], _| x * y,
        ),
        (
            call!(aclnnForeachDivListGetWorkspaceSize, aclnnForeachDivList, ([x, y, _], Numbers::None) => x, y),
            || Numbers::None,
            |[x, y, _], _| x / y,
        ),
    ]
}

#[test]
fn a_function_is_that_of_every_element() {
    let _session = Session::start();
    for ((name, call, two), numbers, function) in table() {
        for dtype in [F32, F16, BF16] {
            let [x, y, z] = [1, 3, 5].map(|seed| List::values(dtype, seed));
            let numbers = numbers();
            let (xs, ys, zs) = (x.exact(), y.exact(), z.exact());
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
            start(call, two, [x.0, y.0, z.0], &numbers, &x).expect(name);
            for (found, expected) in x.1.iter().zip(&expected) {
                assert_close(name, &found.read(), expected, dtype, 1e-6);
            }
            let short = List::new(vec![Tensor::empty(dtype, &[2, 3])]);
            refused(
                start(call, two, [x.0, y.0, z.0], &numbers, &short),
                "with 1 results",
            );
            let whole = List::new(
                [[2, 3].as_slice(), &[4]]
                    .map(|shape| Tensor::empty(ACL_INT64, shape))
                    .into(),
            );
            refused(
                start(call, two, [x.0, y.0, z.0], &numbers, &whole),
                "out is i64",
            );
            refused(
                start(call, two, [whole.0, y.0, z.0], &numbers, &x),
                "x is i64",
            );
            let none = [null_mut(); 3].map(<*mut aclTensorList>::cast_const);
            refused(
                start(call, two, none, &numbers, &x),
                "tensors with 2 results",
            );
        }
    }
}

#[test]
fn every_tensor_has_a_norm() {
    let _session = Session::start();
    let call = |x: &List, order: f32, y: &List| {
        let order = Scalar::float(order);
        // SAFETY: handles are checked, the places are variables.
        let first = |size, executor| unsafe {
            aclnnForeachNormGetWorkspaceSize(x.0, order.0, y.0, size, executor)
        };
        run(first, aclnnForeachNorm)
    };
    for dtype in [F32, F16, BF16] {
        let x = List::values(dtype, 1);
        let y = List::new((0..2).map(|_| Tensor::empty(dtype, &[])).collect());
        for (order, power) in [(1.0, 1.0), (2.0, 2.0)] {
            call(&x, order, &y).expect("documented");
            for (found, values) in y.1.iter().zip(x.exact()) {
                let sum: f64 = values.iter().map(|x| x.powf(power)).sum();
                assert_close("norm", &found.read(), &[sum.powf(1.0 / power)], dtype, 1e-6);
            }
        }
        call(&x, f32::INFINITY, &y).expect("documented");
        for (found, values) in y.1.iter().zip(x.exact()) {
            let most = values.into_iter().fold(0.0, f64::max);
            assert_close("greatest", &found.read(), &[most], dtype, 0.0);
        }
        refused(call(&x, 3.0, &y), "scalar is 3");
        refused(call(&x, 2.0, &x), "out has the shape");
    }
}

fn multinomial(weights: &Tensor, draws: i64, replacement: bool, seed: i64, y: &Tensor) -> Status {
    run(
        // SAFETY: handles are checked, the places are variables.
        |size, executor| unsafe {
            aclnnMultinomialGetWorkspaceSize(
                weights.handle,
                draws,
                replacement,
                seed,
                0,
                y.handle,
                size,
                executor,
            )
        },
        aclnnMultinomial,
    )
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
        let (code, text) = multinomial(&weights, 1, true, 7, &y).expect_err("it must fail");
        assert_eq!(
            code,
            cann_sys::errors::ACL_ERROR_RT_VECTOR_CORE_EXCEPTION,
            "{text}"
        );
    }
}
