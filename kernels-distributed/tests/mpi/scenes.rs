//! The scenes that ranks play.

use crate::{PATIENCE, SCENE};
use kernels_distributed::{ErrorKind, Group};
use std::io::Write;
use std::thread;
use std::time::Duration;

/// Runs a scene on a rank.
pub fn play(scene: &str, group: Group) {
    match scene {
        "calls" | "calls in order" => calls(&group),
        "differ" => differ(&group),
        "leave early" => leave_early(group),
        "give up" => give_up(&group),
        "wait in a sum" => wait_in_a_sum(&group),
        "sum on end" => sum_on_end(&group),
        "wait elsewhere" => {
            say(&format!("pid {} {}", group.rank(), std::process::id()));
            thread::sleep(PATIENCE);
            panic!("nothing ended this rank");
        }
        other => panic!("unknown scene `{other}`"),
    }
}

/// Prints a line in one piece: `mpirun` mixes the outputs of ranks.
pub fn say(line: &str) {
    let mut output = std::io::stderr().lock();
    output.write_all(format!("\n{line}\n").as_bytes()).unwrap();
}

/// Every call, with uneven and empty parts, and enough values for several messages of MPI.
fn calls(group: &Group) {
    let (rank, size) = (group.rank(), group.size());
    let all = (size * (size + 1) / 2) as f32;
    for len in [0, 1, 5, 300_001] {
        let mut values = vec![(rank + 1) as f32; len];
        group.all_reduce(&mut values).unwrap();
        assert_eq!(values, vec![all; len]);
    }
    // Sums whose memory is used again, by those of their type and length alone.
    for round in 0..3 {
        for len in [70_000, 70_001] {
            let mut values = vec![(rank * round) as f32; len];
            group.all_reduce(&mut values).unwrap();
            assert_eq!(values, vec![(all - size as f32) * round as f32; len]);
            let mut numbers = vec![round as u64; len];
            group.all_reduce(&mut numbers).unwrap();
            assert_eq!(numbers, vec![(round * size) as u64; len]);
        }
    }
    let (mut doubles, mut numbers) = ([0.5f64; 3], [u64::MAX, 1]);
    group.all_reduce(&mut doubles).unwrap();
    group.all_reduce(&mut numbers).unwrap();
    assert_eq!(
        (doubles, numbers),
        (
            [size as f64 / 2.0; 3],
            [(size as u64).wrapping_neg(), size as u64]
        )
    );

    let pending: Vec<_> = (0..5)
        .map(|sum| group.start_all_reduce(vec![sum as f32; 10_000 * sum]))
        .collect();
    for (sum, pending) in pending.into_iter().enumerate().rev() {
        assert_eq!(
            pending.wait().unwrap(),
            vec![(sum * size) as f32; 10_000 * sum]
        );
    }

    let counts = |shift: usize| (0..size).map(|rank| (rank + shift) % 3).collect::<Vec<_>>();
    for shift in 0..3 {
        let own = counts(shift);
        let total: usize = own.iter().sum();
        let values: Vec<_> = (0..total)
            .map(|place| (place * (rank + 1)) as f32)
            .collect();
        let start: usize = own[..rank].iter().sum();
        let want: Vec<_> = (start..start + own[rank])
            .map(|place| place as f32 * all)
            .collect();
        assert_eq!(group.reduce_scatter(&values, &own).unwrap(), want);
        let want: Vec<_> = (0..size)
            .flat_map(|rank| vec![rank as u8; own[rank]])
            .collect();
        assert_eq!(
            group
                .all_gather(&vec![rank as u8; own[rank]], &own)
                .unwrap(),
            want
        );

        let own = counts(rank + shift);
        let values: Vec<_> = (0..size)
            .flat_map(|to| vec![(rank * 10 + to) as u64; own[to]])
            .collect();
        let received: Vec<_> = (0..size).map(|from| counts(from + shift)[rank]).collect();
        let want: Vec<_> = (0..size)
            .flat_map(|from| vec![(from * 10 + rank) as u64; received[from]])
            .collect();
        assert_eq!(group.all_to_all_v(&values, &own).unwrap(), (want, received));
    }
    for root in 0..size {
        let mut values = [rank as f64; 7];
        group.broadcast(&mut values, root).unwrap();
        assert_eq!(values, [root as f64; 7]);
    }
    group.barrier().unwrap();
    group.agree("seed", &[3; 32]).unwrap();
    in_order(group);
    assert!(
        group
            .name_of(rank)
            .starts_with(&format!("rank {rank} on host "))
    );
    say(&format!("done {rank}"));
}

/// Sums whose bits depend on the order. Only some groups promise it.
fn in_order(group: &Group) {
    let value = |rank: usize, place: usize| {
        [1e8f32, 1.0, -1e8, 0.3, 7e7][(rank + place) % 5] * (1.0 + rank as f32)
    };
    for round in 0..5 {
        thread::sleep(Duration::from_millis(
            ((group.rank() + round) % 3) as u64 * 3,
        ));
        let mut values: Vec<_> = (0..1001).map(|place| value(group.rank(), place)).collect();
        group.all_reduce(&mut values).unwrap();
        let want = |place: usize| {
            (1..group.size()).fold(value(0, place), |sum, rank| sum + value(rank, place))
        };
        let same = (0..1001).all(|place| values[place].to_bits() == want(place).to_bits());
        assert!(
            same || std::env::var(SCENE).unwrap() == "calls",
            "the sum is in another order"
        );
    }
}

fn differ(group: &Group) {
    let error = group
        .agree("data file", &[u8::from(group.rank() == 1); 32])
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Differs);
    assert!(error.to_string().starts_with("rank 1 on host "), "{error}");
    let error = group
        .all_reduce(&mut vec![0f32; 1 + group.rank() / 2])
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Differs);
    assert!(error.to_string().contains("all_reduce of 2 f32"), "{error}");
    // The group goes on after both.
    group.barrier().unwrap();
    say(&format!("done {}", group.rank()));
}

fn leave_early(group: Group) {
    if group.rank() == 1 {
        return;
    }
    let error = group.agree("seed", &[0; 32]).unwrap_err();
    assert!(error.to_string().contains("has ended its group"), "{error}");
    say(&format!("done {}", group.rank()));
}

fn give_up(group: &Group) {
    if group.rank() == 2 {
        group.fail("disk full");
    }
    let error = group.barrier().unwrap_err();
    say(&format!("error {:?}: {error}", error.kind()));
    std::process::exit(1);
}

fn wait_in_a_sum(group: &Group) {
    say(&format!("pid {} {}", group.rank(), std::process::id()));
    // The last rank comes to no sum, so that all others are inside of MPI.
    if group.rank() == 2 {
        thread::sleep(PATIENCE);
        panic!("nothing ended this rank");
    }
    let error = group.all_reduce(&mut vec![1f32; 100_000]).unwrap_err();
    say(&format!("error {:?}: {error}", error.kind()));
    std::process::exit(1);
}

fn sum_on_end(group: &Group) {
    say(&format!("pid {} {}", group.rank(), std::process::id()));
    loop {
        if let Err(error) = group.all_reduce(&mut vec![1f32; 100_000]) {
            say(&format!("error {:?}: {error}", error.kind()));
            std::process::exit(1);
        }
    }
}
