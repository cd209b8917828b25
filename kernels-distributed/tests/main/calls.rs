//! Every call, for groups of one to five ranks, with uneven and empty parts.

use crate::on_ranks;
use kernels_distributed::{Element, Group, Summed};
use std::thread;
use std::time::Duration;

const SIZES: std::ops::RangeInclusive<usize> = 1..=5;

/// Counts by rank: uneven, some empty, and other ones for each `shift`.
fn counts(size: usize, shift: usize) -> Vec<usize> {
    (0..size).map(|rank| (rank + shift) % 3).collect()
}

/// Numbers that say which rank has them, and where.
fn numbers<T: TryFrom<u64>>(rank: usize, len: usize) -> Vec<T> {
    (0..len)
        .map(|place| T::try_from((rank * 50 + place) as u64).ok().unwrap())
        .collect()
}

fn sum_of<T: Summed + std::fmt::Debug + PartialEq>(of: impl Fn(u64) -> T + Sync) {
    for size in SIZES {
        for len in [0, 1, 7] {
            let got = on_ranks(size, |group| {
                let mut values: Vec<_> = (0..len)
                    .map(|place| of(group.rank() as u64 * 10 + place))
                    .collect();
                group.all_reduce(&mut values).unwrap();
                assert_eq!(group.sent(), len);
                values
            });
            let ranks = size as u64;
            let want: Vec<_> = (0..len)
                .map(|place| of(ranks * (ranks - 1) / 2 * 10 + ranks * place))
                .collect();
            assert!(
                got.iter().all(|values| *values == want),
                "{size} {len} {got:?}"
            );
        }
    }
}

#[test]
fn sums_have_all_ranks() {
    sum_of(|number| number as f32);
    sum_of(|number| number as f64);
    sum_of(|number| number);
}

#[test]
fn sums_of_integers_wrap_around() {
    let sums = on_ranks(2, |group| {
        let mut values = [u64::MAX];
        group.all_reduce(&mut values).unwrap();
        values[0]
    });
    assert_eq!(sums, [u64::MAX - 1; 2]);
}

#[test]
fn a_scattered_sum_is_a_part_of_the_sum() {
    for size in SIZES {
        for shift in 0..3 {
            let counts = counts(size, shift);
            let total: usize = counts.iter().sum();
            let parts = on_ranks(size, |group| {
                let values: Vec<_> = (0..total)
                    .map(|place| (place * (group.rank() + 1)) as f32)
                    .collect();
                let part = group.reduce_scatter(&values, &counts).unwrap();
                assert_eq!(part.len(), counts[group.rank()]);
                assert_eq!(group.sent(), total as u64);
                part
            });
            let want: Vec<_> = (0..total)
                .map(|place| (place * size * (size + 1) / 2) as f32)
                .collect();
            assert_eq!(parts.concat(), want);
        }
    }
}

fn gathered<T: Element + TryFrom<u64> + PartialEq + std::fmt::Debug>() {
    for size in SIZES {
        for shift in 0..3 {
            let counts = counts(size, shift);
            let want: Vec<T> = (0..size)
                .flat_map(|rank| numbers(rank, counts[rank]))
                .collect();
            let got = on_ranks(size, |group| {
                let own = numbers::<T>(group.rank(), counts[group.rank()]);
                group.all_gather(&own, &counts).unwrap()
            });
            assert!(got.iter().all(|values| *values == want), "{got:?}");
        }
    }
}

#[test]
fn gathered_values_are_in_the_order_of_ranks() {
    gathered::<u8>();
    gathered::<u64>();
    let got = on_ranks(3, |group| {
        group
            .all_gather(&[group.rank() as f64 + 0.5], &[1, 1, 1])
            .unwrap()
    });
    assert_eq!(got, vec![vec![0.5, 1.5, 2.5]; 3]);
}

#[test]
fn exchanged_values_arrive_at_their_rank() {
    for size in SIZES {
        for shift in 0..3 {
            let got = on_ranks(size, |group| {
                let counts = counts(size, group.rank() + shift);
                // The sender and the receiver.
                let part = |to: usize| vec![(group.rank() * 10 + to) as u8; counts[to]];
                let values: Vec<u8> = (0..size).flat_map(part).collect();
                group.all_to_all_v(&values, &counts).unwrap()
            });
            for (to, (values, received)) in got.iter().enumerate() {
                let want: Vec<usize> = (0..size)
                    .map(|from| counts(size, from + shift)[to])
                    .collect();
                assert_eq!(*received, want);
                let part = |from: usize| vec![(from * 10 + to) as u8; want[from]];
                assert_eq!(*values, (0..size).flat_map(part).collect::<Vec<_>>());
            }
        }
    }
}

#[test]
fn broadcast_values_are_those_of_the_root() {
    for size in SIZES {
        for root in 0..size {
            for len in [0, 3] {
                let got = on_ranks(size, |group| {
                    let mut values = numbers::<u64>(group.rank(), len);
                    group.broadcast(&mut values, root).unwrap();
                    assert_eq!(
                        group.sent(),
                        if group.rank() == root { len as u64 } else { 0 }
                    );
                    values
                });
                assert!(
                    got.iter()
                        .all(|values| *values == numbers::<u64>(root, len)),
                    "{got:?}"
                );
            }
        }
    }
}

#[test]
fn nobody_passes_a_barrier_before_all_have_come() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let come = AtomicUsize::new(0);
    on_ranks(4, |group| {
        thread::sleep(Duration::from_millis(group.rank() as u64 * 5));
        come.fetch_add(1, Ordering::SeqCst);
        group.barrier().unwrap();
        assert_eq!(come.load(Ordering::SeqCst), 4);
    });
}

/// Several sums are under way, and are waited for in another order than they were started.
#[test]
fn started_sums_overlap() {
    on_ranks(3, |group| {
        let pending: Vec<_> = (0..4)
            .map(|sum| group.start_all_reduce(vec![sum as f32; sum]))
            .collect();
        drop(group.start_all_reduce(vec![1.0; 9]));
        group.barrier().unwrap();
        for (sum, pending) in pending.into_iter().enumerate().rev() {
            assert_eq!(pending.wait().unwrap(), vec![3.0 * sum as f32; sum]);
        }
        assert_eq!(group.sent(), 15);
    });
}

/// A sum in f32 depends on the order, which is that of ranks whatever rank comes first.
#[test]
fn sums_have_the_same_bits_whatever_the_timing() {
    let values = |rank: usize| -> Vec<f32> {
        let mut state = rank as u64 + 1;
        let mut next = || {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 40) as f32 * 10f32.powi((state % 13) as i32 - 6)
        };
        (0..257).map(|_| next()).collect()
    };
    let in_order = |ranks: &mut dyn Iterator<Item = usize>| -> Vec<u32> {
        let first = values(ranks.next().unwrap());
        let add = |sum: Vec<f32>, rank| sum.iter().zip(values(rank)).map(|(a, b)| a + b).collect();
        ranks
            .fold(first, add)
            .into_iter()
            .map(f32::to_bits)
            .collect()
    };
    let want = in_order(&mut (0..5));
    assert_ne!(want, in_order(&mut (0..5).rev()), "the order must matter");
    for round in 0..10 {
        let got = on_ranks(5, |group| {
            thread::sleep(Duration::from_micros(
                ((group.rank() * 7 + round * 3) % 5) as u64 * 700,
            ));
            let mut sum = values(group.rank());
            group.all_reduce(&mut sum).unwrap();
            sum.into_iter().map(f32::to_bits).collect::<Vec<_>>()
        });
        assert!(got.iter().all(|bits| *bits == want));
    }
}

#[test]
fn digests_that_agree() {
    on_ranks(4, |group| {
        for number in 0..5 {
            group.agree("seed", &[number; 32]).unwrap();
        }
        assert_eq!(group.sent(), 0);
    });
}

#[test]
fn a_group_alone_needs_nobody() {
    let group = Group::alone();
    assert_eq!(
        (group.rank(), group.size(), group.name_of(0)),
        (0, 1, "rank 0".into())
    );
    let mut values = [1.5f32];
    group.all_reduce(&mut values).unwrap();
    group.broadcast(&mut values, 0).unwrap();
    assert_eq!(
        group.start_all_reduce(values.to_vec()).wait().unwrap(),
        [1.5]
    );
    assert_eq!(group.reduce_scatter(&values, &[1]).unwrap(), [1.5]);
    assert_eq!(group.all_gather(&values, &[1]).unwrap(), [1.5]);
    assert_eq!(
        group.all_to_all_v(&values, &[1]).unwrap(),
        (vec![1.5], vec![1])
    );
    group.agree("seed", &[0; 32]).unwrap();
    group.barrier().unwrap();
}
