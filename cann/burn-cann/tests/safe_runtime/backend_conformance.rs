//! Tests of every operation of Burn's backend traits: the emulator beside Flex, in all dtypes that the operation
//! takes, on plain, odd, strided and empty tensors.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{self, AssertUnwindSafe};

use crate::common::Scenario;
use crate::conformance::inputs::{Form, Inputs};
use crate::conformance::{
    Case, cases_bool, cases_float, cases_int, cases_module, cases_quantised, compare,
};
use burn_backend::{Backend, BoolDType, FloatDType, IntDType, TensorData};
use burn_cann::Cann;
use burn_cann::backend::{self, CannBackend, CannDevice, Path};
use burn_flex::{Flex, FlexDevice};

/// Operations that are not run: `ctc_loss_backward` is for backends that declare it.
const NOT_RUN: [&str; 1] = ["ctc_loss_backward"];

const FORMS: [Form; 4] = [Form::Plain, Form::Odd, Form::Strided, Form::Empty];
const FLOATS: [FloatDType; 4] = [
    FloatDType::F32,
    FloatDType::F16,
    FloatDType::BF16,
    FloatDType::F64,
];
const INTS: [IntDType; 8] = [
    IntDType::I32,
    IntDType::I64,
    IntDType::I16,
    IntDType::I8,
    IntDType::U8,
    IntDType::U16,
    IntDType::U32,
    IntDType::U64,
];

/// The statistics of a case's runs.
#[derive(Default)]
struct Seen {
    runs: usize,
    failures: Vec<String>,
}

/// Runs cases on both backends. Inputs on which Flex panics don't count.
fn compare_all(
    ours: Vec<Case<CannBackend>>,
    theirs: Vec<Case<Flex>>,
    settings: &[(Form, FloatDType, IntDType, BoolDType)],
) -> BTreeMap<&'static str, Seen> {
    let mut seen = BTreeMap::<_, Seen>::new();
    for ((name, ours), (other, theirs)) in ours.into_iter().zip(theirs) {
        assert_eq!(name, other);
        for &(form, float, int, bool) in settings {
            let label = format!("{name}, {form:?}, {float:?}, {int:?}, {bool:?}");
            let inputs = Inputs::<Flex> {
                device: FlexDevice,
                float,
                int,
                bool,
                form,
            };
            let Ok(expected) = quiet(|| theirs(&inputs)) else {
                continue;
            };
            let inputs = Inputs::<CannBackend> {
                device: CannDevice::default(),
                float,
                int,
                bool,
                form,
            };
            let entry = seen.entry(name).or_default();
            entry.runs += 1;
            let problem = match quiet(|| ours(&inputs)) {
                Ok(found) => compare::difference(&found, &expected),
                Err(text) => Some(text),
            };
            entry
                .failures
                .extend(problem.map(|text| format!("{label}: {text}")));
        }
    }
    seen
}

/// Returns the result, or the text of the panic, which is not printed.
fn quiet(run: impl FnOnce() -> Vec<TensorData>) -> Result<Vec<TensorData>, String> {
    panic::set_hook(Box::new(|_| {}));
    let result = panic::catch_unwind(AssertUnwindSafe(run));
    let _ = panic::take_hook();
    result.map_err(|payload| {
        payload
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| {
                payload
                    .downcast_ref::<&str>()
                    .map(|text| (*text).to_owned())
            })
            .unwrap_or_else(|| "a panic without a text".to_owned())
    })
}

fn judge(seen: &BTreeMap<&'static str, Seen>, names: &BTreeSet<&'static str>) {
    let failures: Vec<&String> = seen.values().flat_map(|seen| &seen.failures).collect();
    let mut shown: Vec<String> = failures
        .iter()
        .take(60)
        .map(|text| (*text).clone())
        .collect();
    for name in names {
        if seen.get(name).is_none_or(|seen| seen.runs == 0) {
            shown.push(format!("{name}: Flex took none of its inputs"));
        }
    }
    assert!(
        shown.is_empty(),
        "{} of {} runs differ:\n{}",
        failures.len(),
        seen.values().map(|seen| seen.runs).sum::<usize>(),
        shown.join("\n")
    );
}

fn names<B: Backend>(cases: &[Case<B>]) -> BTreeSet<&'static str> {
    cases.iter().map(|(name, _)| *name).collect()
}

fn every_combination() -> Vec<(Form, FloatDType, IntDType, BoolDType)> {
    let mut all = Vec::new();
    for form in FORMS {
        all.extend(FLOATS.map(|float| (form, float, IntDType::I32, BoolDType::Native)));
        all.push((form, FloatDType::F32, IntDType::I64, BoolDType::U8));
    }
    all
}

fn run(cann: &Cann, ours: Vec<Case<CannBackend>>, theirs: Vec<Case<Flex>>, ints: bool) {
    backend::install(cann.clone());
    let mut settings = every_combination();
    if ints {
        settings = FORMS
            .into_iter()
            .flat_map(|form| INTS.map(|int| (form, FloatDType::F32, int, BoolDType::Native)))
            .collect();
    }
    let names = names(&ours);
    let seen = compare_all(ours, theirs, &settings);
    judge(&seen, &names);
    backend::close();
}

#[test]
fn float_operations_are_those_of_flex() {
    Scenario::new().run(|cann| run(cann, cases_float::cases(), cases_float::cases(), false));
}

#[test]
fn int_operations_are_those_of_flex() {
    Scenario::new().run(|cann| run(cann, cases_int::cases(), cases_int::cases(), true));
}

#[test]
fn what_the_device_declines_is_that_of_flex() {
    Scenario::new().run(|cann| {
        run(
            cann,
            cases_float::declined(),
            cases_float::declined(),
            false,
        );
        run(cann, cases_int::declined(), cases_int::declined(), true);
    });
}

#[test]
fn special_values_are_those_of_flex() {
    Scenario::new().run(|cann| run(cann, cases_float::special(), cases_float::special(), false));
}

#[test]
fn bool_operations_are_those_of_flex() {
    Scenario::new().run(|cann| run(cann, cases_bool::cases(), cases_bool::cases(), false));
}

#[test]
fn module_operations_are_those_of_flex() {
    Scenario::new().run(|cann| run(cann, cases_module::cases(), cases_module::cases(), false));
}

#[test]
fn quantised_operations_are_those_of_flex() {
    Scenario::new().run(|cann| {
        run(
            cann,
            cases_quantised::cases(),
            cases_quantised::cases(),
            false,
        )
    });
}

fn all_cases<B: Backend>() -> Vec<Case<B>> {
    let mut all = cases_float::cases();
    all.extend(cases_int::cases());
    all.extend(cases_bool::cases());
    all.extend(cases_module::cases());
    all.extend(cases_quantised::cases());
    all
}

/// Checks that the list has each operation once, and that each has a case.
#[test]
fn every_operation_has_a_case() {
    let cases = names(&all_cases::<Flex>());
    let listed: Vec<&str> = backend::ops().map(|operation| operation.name()).collect();
    let distinct: BTreeSet<&str> = listed.iter().copied().collect();
    assert_eq!(distinct.len(), listed.len(), "an operation is listed twice");
    let without: Vec<_> = distinct
        .difference(&cases)
        .filter(|name| !NOT_RUN.contains(name))
        .collect();
    assert!(without.is_empty(), "no case: {without:?}");
    let unknown: Vec<_> = cases.difference(&distinct).collect();
    assert!(unknown.is_empty(), "no such operation: {unknown:?}");
}

/// Checks that each operation takes its listed path in f32 and i32, on usual tensors.
#[test]
fn the_paths_are_as_listed() {
    Scenario::new().run(|cann| {
        backend::install(cann.clone());
        let paths: BTreeMap<_, _> = backend::ops().map(|op| (op.name(), op)).collect();
        let mut wrong = Vec::new();
        for (name, case) in all_cases::<CannBackend>() {
            backend::reset_fallbacks();
            let inputs = Inputs {
                device: CannDevice::default(),
                float: FloatDType::F32,
                int: IntDType::I32,
                bool: BoolDType::Native,
                form: Form::Plain,
            };
            case(&inputs);
            let operation = paths[name];
            let hosted = operation.times_on_host() > 0;
            if hosted != (operation.path() == Path::Host) {
                wrong.push(format!(
                    "{name}: {:?}, on the host: {hosted}",
                    operation.path()
                ));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        backend::close();
    });
}
