//! Tests that kernels return the right numbers for any operands, or an error that names the operation, and never memory
//! that they did not write. The tests call every method of every kernel trait, on poisoned memory, with operands
//! changed one by one and at random.
#![cfg(feature = "cpu")]

mod cases;
mod operand;
mod poison;

use burn::tensor::DType;
use operand::{Case, Operand, Outcome};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn operands_that_go_together_are_taken_in_every_type() {
    let dtypes = [DType::F32, DType::F64, DType::F16, DType::BF16];
    let (mut methods, mut taken) = (BTreeSet::new(), 0);
    for (i, case) in cases::all().into_iter().enumerate() {
        let method = case.name.split(',').next().map(str::to_owned);
        // Rounding may change the experts of a token, which these tests don't cover.
        let of_experts = method.as_deref() == Some("route");
        let dtypes = if of_experts {
            &dtypes[..3]
        } else {
            &dtypes[..]
        };
        // Miri takes seconds for each case. It runs each method once and one in eight further cases, in one dtype each.
        if cfg!(miri) && !methods.insert(method) && i % 8 != 0 {
            continue;
        }
        let chosen = match cfg!(miri) {
            true => &dtypes[taken % dtypes.len()..][..1],
            false => dtypes,
        };
        taken += 1;
        for &dtype in chosen {
            let operands = cases::in_dtype(&case.operands, dtype);
            let outcome = case.check(&operands);
            assert_eq!(outcome, Outcome::Right, "{}, {dtype:?}", case.name);
        }
    }
}

#[test]
fn every_change_of_one_operand_is_refused_or_computed_right() {
    quiet();
    let (mut refused, mut right) = (0, 0);
    let mut other_shapes = BTreeMap::<String, Vec<String>>::new();
    for case in cases::all() {
        for dtype in [DType::F32, DType::BF16] {
            let operands = cases::in_dtype(&case.operands, dtype);
            for place in 0..operands.len() {
                for (what, changed) in operands[place].changes() {
                    let is_other_shape = changed.shape != operands[place].shape;
                    let mut operands = operands.clone();
                    operands[place] = changed;
                    match checked(&case, &operands, &what) {
                        Outcome::Refused(_) => refused += 1,
                        Outcome::Right => {
                            right += 1;
                            if is_other_shape && dtype == DType::F32 {
                                other_shapes
                                    .entry(case.name.clone())
                                    .or_default()
                                    .push(what);
                            }
                        }
                    }
                }
            }
        }
    }
    // Some changes are refused and some are accepted.
    assert!(refused > 5_000 && right > 500, "{refused}, {right}");
    are_known(&other_shapes);
}

/// Checks that the accepted shapes other than a case's own are those in `accepted.txt`. A missing check in an operation
/// would otherwise stay unnoticed, because the kernel would accept the same operands in f64 and agree with itself.
fn are_known(other_shapes: &BTreeMap<String, Vec<String>>) {
    let lines = |(case, changes): (&String, &Vec<String>)| {
        format!("{case}\n    {}\n", changes.join("\n    "))
    };
    let found: String = other_shapes.iter().map(lines).collect();
    let place = concat!(env!("CARGO_TARGET_TMPDIR"), "/accepted.txt");
    std::fs::write(place, &found).expect("the folder for tests' files can be written");
    let known = include_str!("accepted.txt");
    for line in found.lines() {
        assert!(
            known.lines().any(|known| known == line),
            "{line}: not in accepted.txt"
        );
    }
    assert!(
        found == known,
        "not what accepted.txt says: compare it with {place}, and copy that if it is right"
    );
}

/// Changes several operands at once, among others to shapes that match again.
#[test]
fn changes_at_random_are_refused_or_computed_right() {
    quiet();
    let all = cases::all();
    let changes = proptest::collection::vec((any::<usize>(), any::<usize>()), 1..5);
    let mut runner = TestRunner::new(Config {
        failure_persistence: None,
        ..Config::with_cases(3_000)
    });
    let picked = (0..all.len(), changes);
    let done = runner.run(&picked, |(case, changes)| {
        let case = &all[case];
        let mut operands = case.operands.clone();
        for (place, change) in changes {
            let place = place % operands.len();
            let changes = operands[place].changes();
            operands[place] = changes[change % changes.len()].1.clone();
        }
        checked(case, &operands, "at random");
        Ok(())
    });
    done.unwrap_or_else(|failure| panic!("{failure}"));
}

fn checked(case: &Case, operands: &[Operand], what: &str) -> Outcome {
    // The hook is off, so that only failures print the message of their panic.
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case.check(operands)));
    outcome.unwrap_or_else(|panic| {
        let text = operand::said(panic);
        panic!("{what}, {}: {text}\n{operands:#?}", case.name)
    })
}

/// Silences the thousands of expected panics.
fn quiet() {
    std::panic::set_hook(Box::new(|info| {
        let text = info.to_string();
        if text.contains("Operand {") || text.contains("minimal failing input") {
            eprintln!("{text}");
        }
    }));
}
