//! Ranks that differ, leave, panic or give up, and arguments that are not valid.

use crate::on_ranks;
use kernels_distributed::{Error, ErrorKind, Group};
use std::thread;

/// Checks that all ranks have one error of a kind.
fn same(errors: &[Error], kind: ErrorKind, text: &str) {
    for error in errors {
        assert_eq!((error.kind(), error.to_string().as_str()), (kind, text));
    }
}

#[test]
fn ranks_that_differ_are_named_on_all_ranks() {
    let cases: [(&[u8], &str); 5] = [
        (
            &[1, 1, 2, 1],
            "rank 2 differs in the seed from rank 0 and 2 ranks more",
        ),
        (
            &[2, 1, 1, 1],
            "rank 0 differs in the seed from rank 1 and 2 ranks more",
        ),
        (
            &[1, 1, 2, 2],
            "rank 2, rank 3 differ in the seed from rank 0 and 1 rank more",
        ),
        (&[1, 2], "rank 1 differs in the seed from rank 0"),
        (&[1, 2, 3], "rank 1, rank 2 differ in the seed from rank 0"),
    ];
    for (digests, text) in cases {
        let errors = on_ranks(digests.len(), |group| {
            let error = group
                .agree("seed", &[digests[group.rank()]; 32])
                .unwrap_err();
            // The group goes on.
            group.barrier().unwrap();
            error
        });
        same(&errors, ErrorKind::Differs, text);
    }
}

#[test]
fn many_ranks_that_differ_are_counted() {
    let errors = on_ranks(21, |group| {
        group
            .agree("seed", &[u8::from(group.rank() > 10); 32])
            .unwrap_err()
    });
    assert!(
        errors[0]
            .to_string()
            .contains("rank 18 and 2 ranks more differ"),
        "{}",
        errors[0]
    );
    assert!(errors.iter().all(|error| error == &errors[0]));
}

#[test]
fn digests_are_compared_under_one_name() {
    let what = ["seed", "seed", "model\n"];
    let errors = on_ranks(3, |group| {
        group.agree(what[group.rank()], &[0; 32]).unwrap_err()
    });
    same(
        &errors,
        ErrorKind::Differs,
        r"rank 2 compares the model\n, but most ranks the seed",
    );
}

#[test]
fn other_calls_and_lengths_are_errors_on_all_ranks() {
    let errors = on_ranks(3, |group| {
        let len = if group.rank() == 1 { 3 } else { 4 };
        group.all_reduce(&mut vec![0f32; len]).unwrap_err()
    });
    same(
        &errors,
        ErrorKind::Differs,
        "rank 1 calls all_reduce of 3 f32, but rank 0 calls all_reduce of 4 f32",
    );

    let errors = on_ranks(2, |group| match group.rank() {
        0 => group.all_reduce(&mut [0f64]).unwrap_err(),
        _ => group.all_reduce(&mut [0f32]).unwrap_err(),
    });
    same(
        &errors,
        ErrorKind::Differs,
        "rank 1 calls all_reduce of 1 f32, but rank 0 calls all_reduce of 1 f64",
    );

    let errors = on_ranks(2, |group| match group.rank() {
        0 => group.barrier().unwrap_err(),
        _ => group.broadcast(&mut [0u8], 1).unwrap_err(),
    });
    same(
        &errors,
        ErrorKind::Differs,
        "rank 1 calls broadcast of 1 u8 from rank 1, but rank 0 calls barrier",
    );

    let errors = on_ranks(2, |group| {
        let counts = if group.rank() == 0 { [2, 1] } else { [1, 2] };
        group.reduce_scatter(&[0.0; 3], &counts).unwrap_err()
    });
    let text = "rank 0 and rank 1 call reduce_scatter of 3 f32 with other counts by rank";
    same(&errors, ErrorKind::Differs, text);
}

#[test]
fn a_rank_that_leaves_is_named_to_those_that_go_on() {
    let errors = on_ranks(3, |group| match group.rank() {
        1 => None,
        _ => Some(group.barrier().unwrap_err()),
    });
    for (rank, error) in errors
        .into_iter()
        .enumerate()
        .filter(|(rank, _)| *rank != 1)
    {
        let text = format!("rank 1 has ended its group, but rank {rank} still calls barrier");
        same(&[error.unwrap()], ErrorKind::Lost, &text);
    }
}

/// The values that a rank gave before it left still count.
#[test]
fn a_rank_may_leave_before_others_take_the_result() {
    on_ranks(3, |group| {
        let pending = group.start_all_reduce(vec![1.0]);
        if group.rank() == 0 {
            return;
        }
        let clone = group.clone();
        drop(group);
        thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(pending.wait().unwrap(), [3.0]);
        drop(clone);
    });
}

#[test]
fn a_rank_that_panics_ends_the_waiting_of_others() {
    let mut ranks = Group::of_threads(2).into_iter();
    let (waits, panics) = (ranks.next().unwrap(), ranks.next().unwrap());
    let waiting = thread::spawn(move || waits.all_reduce(&mut [1f32]).unwrap_err());
    let panicking = thread::spawn(move || {
        let _group = panics;
        std::panic::resume_unwind(Box::new("a rank's own mistake"));
    });
    assert!(panicking.join().is_err());
    assert_eq!(waiting.join().unwrap().kind(), ErrorKind::Lost);
}

#[test]
fn a_rank_that_gives_up_is_named_with_its_reason() {
    let errors = on_ranks(3, |group| {
        if group.rank() == 2 {
            group.fail("disk full\n");
        }
        group.barrier().unwrap_err()
    });
    same(&errors, ErrorKind::Lost, r"rank 2: disk full\n");
}

#[test]
fn arguments_are_checked() {
    let group = Group::alone();
    let errors = [
        (
            group.reduce_scatter(&[1.0], &[2]).unwrap_err(),
            "rank 0: reduce_scatter of 1 values with counts of another sum",
        ),
        (
            group.reduce_scatter(&[1.0], &[1, 0]).unwrap_err(),
            "rank 0: reduce_scatter with 2 counts for 1 ranks",
        ),
        (
            group.all_gather(&[1u8], &[2]).unwrap_err(),
            "rank 0: all_gather of 1 values, of which the counts give this rank 2",
        ),
        (
            group.all_gather::<u8>(&[], &[]).unwrap_err(),
            "rank 0: all_gather with 0 counts for 1 ranks",
        ),
        (
            group.all_to_all_v(&[1u8], &[0]).unwrap_err(),
            "rank 0: all_to_all_v of 1 values with counts of another sum",
        ),
        (
            group.broadcast(&mut [1u8], 1).unwrap_err(),
            "rank 0: broadcast from rank 1, which the group of 1 ranks lacks",
        ),
    ];
    for (error, text) in errors {
        same(&[error], ErrorKind::Argument, text);
    }
    let huge = Group::of_threads(2)
        .remove(0)
        .all_to_all_v::<u8>(&[], &[usize::MAX, 1])
        .unwrap_err();
    assert_eq!(huge.kind(), ErrorKind::Argument);
    // Counts whose sum overflows, on a rank that has as many values as its own count says.
    let kinds = on_ranks(3, |group| {
        let gathered = group.all_gather::<u8>(&[], &[0, usize::MAX, 1]);
        gathered.unwrap_err().kind()
    });
    let argument = ErrorKind::Argument;
    assert_eq!(kinds, [ErrorKind::Lost, argument, argument]);
}
