//! Every function against a formula in f64, and gradients against differences of that formula.

use crate::cases::{Case, cases};
use crate::lent::{Lent, any};
use kernels_export::functions::{Described, FUNCTIONS};
use kernels_export::{Any, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::ptr::null_mut;

/// A tensor of floats that are exact in f32.
#[derive(Clone, Debug)]
pub struct Array {
    pub shape: Vec<usize>,
    pub data: Vec<f64>,
}

/// An argument by kind.
#[derive(Clone, Debug)]
pub enum Given {
    Floats(Array),
    Integers(Vec<usize>, Vec<i64>),
    Bools(Vec<usize>, Vec<u8>),
    Float(f64),
    Int(i64),
    Flag(bool),
    Name(&'static str),
    None,
    /// A result of the forward function.
    Result(&'static str),
}

/// Values by name.
#[derive(Clone, Debug, Default)]
pub struct Values(pub BTreeMap<String, Given>);

impl Values {
    pub fn array(&self, name: &str) -> &Array {
        self.array_or_none(name)
            .unwrap_or_else(|| panic!("no array {name}"))
    }

    pub fn array_or_none(&self, name: &str) -> Option<&Array> {
        match self.0.get(name) {
            Some(Given::Floats(array)) => Some(array),
            _ => None,
        }
    }

    pub fn integers(&self, name: &str) -> &[i64] {
        match &self.0[name] {
            Given::Integers(_, numbers) => numbers,
            other => panic!("{name} is {other:?}"),
        }
    }

    pub fn number(&self, name: &str) -> f64 {
        self.number_or_none(name)
            .unwrap_or_else(|| panic!("no number {name}"))
    }

    pub fn number_or_none(&self, name: &str) -> Option<f64> {
        match &self.0[name] {
            Given::Float(number) => Some(*number),
            Given::Int(number) => Some(*number as f64),
            Given::None => None,
            other => panic!("{name} is {other:?}"),
        }
    }

    pub fn flag(&self, name: &str) -> bool {
        matches!(self.0[name], Given::Flag(true))
    }

    pub fn name(&self, name: &str) -> &'static str {
        match &self.0[name] {
            Given::Name(text) => text,
            other => panic!("{name} is {other:?}"),
        }
    }
}

/// The results of a formula, by name.
pub type Results = BTreeMap<&'static str, Array>;

/// Returns numbers that are exact in f32 and don't repeat soon, other ones for each name.
pub fn numbers(name: &str, count: usize) -> Vec<f64> {
    let seed: usize = name.bytes().map(usize::from).sum();
    (0..count)
        .map(|i| (((i * 37 + seed * 11) % 101) as f64 - 50.0) / 64.0)
        .collect()
}

/// The argument of one call, in memory that lives as long as it.
enum Lending {
    Floats(Vec<f32>, Box<Lent>),
    Integers(#[allow(dead_code)] Vec<i64>, Box<Lent>), // held for the tensor
    Bools(#[allow(dead_code)] Vec<u8>, Box<Lent>),
    Text(CString),
    Number(Any),
}

impl Lending {
    fn new(given: &Given) -> Self {
        let none = any(0, Value { integer: 0 });
        match given {
            Given::Floats(array) => {
                Self::floats(array.data.iter().map(|x| *x as f32).collect(), &array.shape)
            }
            Given::Integers(shape, numbers) => {
                let mut numbers = numbers.clone();
                let tensor = lent(&mut numbers, shape, (0, 64));
                Self::Integers(numbers, tensor)
            }
            Given::Bools(shape, bools) => {
                let mut bools = bools.clone();
                let tensor = lent(&mut bools, shape, (6, 8));
                Self::Bools(bools, tensor)
            }
            Given::Float(float) => Self::Number(any(3, Value { float: *float })),
            Given::Int(integer) => Self::Number(any(1, Value { integer: *integer })),
            Given::Flag(flag) => Self::Number(any(
                2,
                Value {
                    integer: i64::from(*flag),
                },
            )),
            Given::Name(text) => Self::Text(CString::new(*text).expect("a name")),
            Given::None => Self::Number(none),
            Given::Result(name) => panic!("{name} is not known"),
        }
    }

    fn floats(mut data: Vec<f32>, shape: &[usize]) -> Self {
        let tensor = lent(&mut data, shape, (2, 32));
        Self::Floats(data, tensor)
    }

    fn packed(&self) -> Any {
        match self {
            Self::Floats(_, tensor) | Self::Integers(_, tensor) | Self::Bools(_, tensor) => {
                tensor.packed()
            }
            Self::Text(text) => any(
                8,
                Value {
                    pointer: text.as_ptr().cast(),
                },
            ),
            Self::Number(value) => *value,
        }
    }
}

fn lent<T>(data: &mut [T], shape: &[usize], kind: (u8, u8)) -> Box<Lent> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis] as i64;
    }
    let shape: Vec<i64> = shape.iter().map(|size| *size as i64).collect();
    Lent::of(data, &shape, &strides, kind)
}

/// Calls a function with a place for each result of which the shape is known. Returns these results, and the arguments that
/// it changed in place, by name.
fn call(
    function: &Described,
    values: &Values,
    shapes: impl Fn(&str) -> Option<Vec<usize>>,
) -> BTreeMap<&'static str, Array> {
    let names = function.arguments.iter().map(|(name, _)| *name);
    let mut lendings: Vec<(&'static str, Lending)> = names
        .map(|name| {
            let given = values.0.get(name);
            let given = given.unwrap_or_else(|| panic!("{}: no {name}", function.name));
            (name, Lending::new(given))
        })
        .collect();
    for name in function.results {
        let place = match shapes(name) {
            Some(shape) => Lending::floats(vec![f32::NAN; shape.iter().product()], &shape),
            None => Lending::new(&Given::None),
        };
        lendings.push((name, place));
    }
    let packed: Vec<Any> = lendings.iter().map(|(_, one)| one.packed()).collect();
    let count = i32::try_from(packed.len()).expect("few");
    // SAFETY: the values are what their types say, and tensors live until the end.
    let code = unsafe { (function.packed)(null_mut(), packed.as_ptr(), count, null_mut()) };
    assert_eq!(code, 0, "{} fails", function.name);
    let arrays = lendings.into_iter().filter_map(|(name, lending)| {
        let Lending::Floats(data, tensor) = lending else {
            return None;
        };
        let shape = tensor.shape.iter().map(|size| *size as usize);
        Some((
            name,
            Array {
                shape: shape.collect(),
                data: data.into_iter().map(f64::from).collect(),
            },
        ))
    });
    arrays.collect()
}

/// Checks numbers in f32. Each is a sum of some dozens of terms, or a function of one, with errors of a few units.
fn assert_near(what: &str, found: &Array, expected: &Array) {
    assert_eq!(found.shape, expected.shape, "{what}");
    let largest = expected
        .data
        .iter()
        .fold(1.0, |most: f64, x| most.max(x.abs()));
    for (i, (found, expected)) in found.data.iter().zip(&expected.data).enumerate() {
        assert!(
            (found - expected).abs() <= 1e-5 * largest,
            "{what}: element {i} is {found}, and not {expected}"
        );
    }
}

/// Returns the gradient of an argument by differences of a formula, for gradients `seeds` of its results.
fn slopes(case: &Case, name: &str, seeds: &Results) -> Array {
    let step = 1e-5;
    let of = case.values.array(name);
    let total = |values: &Values| -> f64 {
        let results = (case.formula)(values);
        let terms = seeds.iter().flat_map(|(name, seed)| {
            let result = results[name].data.iter();
            result.zip(&seed.data).map(|(y, seed)| y * seed)
        });
        terms.sum()
    };
    let slope = |i: usize| {
        let moved = |by: f64| {
            let mut values = case.values.clone();
            let Some(Given::Floats(array)) = values.0.get_mut(name) else {
                unreachable!("it is an array")
            };
            array.data[i] += by;
            total(&values)
        };
        (moved(step) - moved(-step)) / (2.0 * step)
    };
    Array {
        shape: of.shape.clone(),
        data: (0..of.data.len()).map(slope).collect(),
    }
}

/// Checks the gradients among the results of a function, and returns their names.
fn check_gradients(
    case: &Case,
    function: &Described,
    found: &BTreeMap<&'static str, Array>,
    seeds: &Results,
) -> Vec<&'static str> {
    let mut checked = Vec::new();
    for result in function.results {
        if let (Some(name), Some(found)) = (result.strip_prefix('d'), found.get(result)) {
            let what = format!("{}: {result}", function.name);
            assert_near(&what, found, &slopes(case, name, seeds));
            checked.push(*result);
        }
    }
    checked
}

/// Returns the shape of the gradient of an argument, if the case has the argument.
fn shape_of_gradient(case: &Case, result: &str) -> Option<Vec<usize>> {
    let array = case.values.array_or_none(result.strip_prefix('d')?)?;
    Some(array.shape.clone())
}

/// Checks a function and, if there is one, that of its gradients. Returns what was checked.
fn check(case: &Case) -> Vec<(&'static str, &'static str)> {
    let function = described(case.function).expect("a function");
    let expected = (case.formula)(&case.values);
    let found = call(function, &case.values, |name| {
        let gradient = || shape_of_gradient(case, name).filter(|_| case.has_gradients);
        expected
            .get(name)
            .map(|array| array.shape.clone())
            .or_else(gradient)
    });
    let mut checked = Vec::new();
    for (name, expected) in &expected {
        assert_near(
            &format!("{}: {name}", function.name),
            &found[name],
            expected,
        );
        checked.push((function.name, *name));
    }
    if case.has_gradients {
        let one = |array: &Array| Array {
            data: vec![1.0; array.data.len()],
            ..array.clone()
        };
        let seeds = BTreeMap::from([("loss", one(&expected["loss"]))]);
        let gradients = check_gradients(case, function, &found, &seeds);
        checked.extend(gradients.into_iter().map(|name| (function.name, name)));
    }
    let Some(backward) = described(&format!("{}_backward", function.name)) else {
        return checked;
    };
    let Some(others) = &case.backward else {
        return checked;
    };
    let takes = |name: &str| backward.arguments.iter().any(|(other, _)| *other == name);
    let mut values = case.values.clone();
    let mut seeds = Results::new();
    for (name, found) in found {
        let gradient = format!("d{name}");
        if takes(&gradient) {
            let seed = Array {
                data: numbers(&gradient, found.data.len()),
                shape: found.shape.clone(),
            };
            values.0.insert(gradient, Given::Floats(seed.clone()));
            seeds.insert(name, seed);
        }
        let own = values.0.entry(name.into());
        own.or_insert(Given::Floats(found));
    }
    for (name, _) in backward.arguments {
        if name.starts_with("wants_") {
            values.0.insert((*name).into(), Given::Flag(true));
        }
    }
    for (name, given) in others {
        let given = match given {
            Given::Result(result) => values.0[*result].clone(),
            other => other.clone(),
        };
        values.0.insert((*name).into(), given);
    }
    let gradients = call(backward, &values, |name| shape_of_gradient(case, name));
    let gradients = check_gradients(case, backward, &gradients, &seeds);
    checked.extend(gradients.into_iter().map(|name| (backward.name, name)));
    checked
}

fn described(name: &str) -> Option<&'static Described> {
    FUNCTIONS.iter().find(|function| function.name == name)
}

#[test]
fn every_result_of_every_function_is_that_of_its_formula() {
    let checked: BTreeSet<_> = cases().iter().flat_map(check).collect();
    for function in FUNCTIONS {
        for result in function.results {
            assert!(
                checked.contains(&(function.name, *result)),
                "{}: no case checks {result}",
                function.name
            );
        }
        let any = |(name, _): &(&str, &str)| *name == function.name;
        assert!(checked.iter().any(any), "{}: no case", function.name);
    }
}

#[test]
fn a_gradient_of_a_linear_layer_takes_operands_that_go_together() {
    let function = described("linear_backward").expect("a function");
    let array = |shape: &[usize]| Lending::floats(vec![1.0; shape.iter().product()], shape);
    let [x, weight, dy] = [&[3, 6][..], &[4, 6], &[3, 4]].map(array);
    let layout = Lending::new(&Given::Name("output_major"));
    let code = |x: &Lending, dy: &Lending, wanted: [bool; 3]| {
        let none = any(0, Value { integer: 0 });
        let flags = wanted.map(|flag| Lending::new(&Given::Flag(flag)).packed());
        let tensors = [x, &weight, dy, &layout].map(Lending::packed);
        let all = [&tensors[..], &flags, &[none; 3]].concat();
        // SAFETY: the values are what their types say, and tensors live until the end.
        unsafe { (function.packed)(null_mut(), all.as_ptr(), 10, null_mut()) }
    };
    for wanted in [[true, false, false], [false, true, false], [false; 3]] {
        assert_eq!(code(&x, &dy, wanted), 0);
        for wrong in [&[3, 4][..], &[2, 6], &[18], &[3, 1, 6]] {
            assert_eq!(code(&array(wrong), &dy, wanted), -1, "{wrong:?}");
        }
        assert_eq!(code(&x, &array(&[3, 6]), wanted), -1);
    }
}
