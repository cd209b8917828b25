//! Ranks under `mpirun`. The tests start this program again as the ranks of a job, which run the ignored test `rank`.
//!
//! A program of its own, because a process joins MPI once. Needs the feature `mpi`, and `mpirun` of the MPI that
//! `mpicc` builds for. With MPICH, tests of losses fail: its `mpirun` ends the other ranks before they end themselves.

#![cfg(all(feature = "mpi", target_os = "linux"))]

mod job;
mod network;
mod scenes;

use job::{Cleanup, Job};
use kernels_distributed::{Group, LOSS_STATUS, Launch, Options};
use rustix::process::{Pid, Signal, kill_process};
use scenes::{play, say};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// The variable with the scene that a rank plays.
const SCENE: &str = "KERNELS_TEST_SCENE";
/// The timeout of faults. Every other rank must have ended by then.
const TIMEOUT: Duration = Duration::from_secs(4);
/// The time of a whole job, for machines that do much else.
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
#[ignore = "the program of a rank: `mpirun` starts it in every other test of this file"]
fn rank() {
    let scene = std::env::var(SCENE).expect("other tests start it");
    let deterministic = match scene.as_str() {
        "other options" => Launch::from_environment().unwrap().rank == 1,
        scene => scene == "calls in order",
    };
    let group = Group::from_environment(&Options {
        timeout: TIMEOUT,
        deterministic,
        ..Options::default()
    });
    let group = match group {
        Ok(group) => group,
        Err(error) => {
            say(&format!("error {:?}: {error}", error.kind()));
            std::process::exit(1);
        }
    };
    play(&scene, group);
}

fn succeeds(ranks: usize, scene: &str, done: usize) {
    let (statuses, lines) = Job::start(ranks, scene, Cleanup::ByGroup, &[]).end();
    assert_eq!(statuses, vec![0; ranks], "{lines}");
    assert_eq!(
        lines
            .lines()
            .filter(|line| line.starts_with("done "))
            .count(),
        done,
        "{lines}"
    );
}

#[test]
fn every_call() {
    for ranks in 2..=4 {
        succeeds(ranks, "calls", ranks);
    }
}

#[test]
fn every_call_with_sums_in_order() {
    for ranks in [2, 3, 5] {
        succeeds(ranks, "calls in order", ranks);
    }
}

#[test]
fn ranks_that_differ_are_named_and_the_group_goes_on() {
    succeeds(3, "differ", 3);
}

#[test]
fn ranks_with_other_options_are_named() {
    let (statuses, lines) = Job::start(3, "other options", Cleanup::ByGroup, &[]).end();
    assert_eq!(statuses, [1; 3], "{lines}");
    let named = lines.lines().filter(|line| {
        line.starts_with("error Differs: rank 1 on host ")
            && line.contains(" differs in the option `deterministic` from rank 0 on host ")
    });
    assert_eq!(named.count(), 3, "{lines}");
}

#[test]
fn a_rank_that_leaves_early_is_named() {
    let (_, lines) = Job::start(3, "leave early", Cleanup::ByGroup, &[]).end();
    assert_eq!(
        lines
            .lines()
            .filter(|line| line.starts_with("done "))
            .count(),
        2,
        "{lines}"
    );
}

#[test]
fn a_rank_that_gives_up_ends_all_ranks() {
    let (statuses, lines) = Job::start(3, "give up", Cleanup::ByGroup, &[]).end();
    assert_eq!(statuses, [1; 3], "{lines}");
    let errors: Vec<_> = lines
        .lines()
        .filter_map(|line| line.strip_prefix("error Lost: rank 2 on host "))
        .collect();
    assert_eq!(errors.len(), 3, "{lines}");
    assert!(
        errors.iter().all(|error| error.ends_with(": disk full")),
        "{lines}"
    );
}

/// Returns whether a process runs, which a zombie does not.
fn runs(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    stat.is_ok_and(|stat| {
        stat.rsplit_once(") ")
            .is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    })
}

/// Hits a rank with a signal, and checks that all others end within the timeout, with a sentence that names it.
fn hit(scene: &str, rank: usize, signal: Signal, text: &str, variables: &[(&str, &str)]) {
    let mut job = Job::start(3, scene, Cleanup::ByGroup, variables);
    let pids = job.pids(3);
    // Into the sum.
    thread::sleep(Duration::from_millis(300));
    kill_process(pids[rank], signal).unwrap();
    let start = Instant::now();
    let others = || {
        (0..3)
            .filter(|other| *other != rank)
            .map(|other| pids[other])
    };
    while others().any(runs) {
        let time = start.elapsed();
        assert!(
            time < TIMEOUT,
            "others still run: {:?}",
            others().filter(|pid| runs(*pid)).collect::<Vec<_>>()
        );
        thread::sleep(Duration::from_millis(20));
    }
    if runs(pids[rank]) {
        kill_process(pids[rank], Signal::KILL).unwrap();
    }
    let (statuses, lines) = job.end();
    assert!(
        statuses.len() == 3 && !statuses.contains(&0),
        "{statuses:?}: {lines}"
    );
    let sentences = lines
        .lines()
        .filter(|line| line.starts_with("error") && line.contains(text));
    assert_eq!(sentences.count(), 2, "{text}: {lines}");
}

const GONE: &str = " is gone";
const SILENT: &str = " gave no sign of life";

#[test]
fn a_killed_rank_ends_others_inside_of_a_sum() {
    for rank in [0, 1, 2] {
        hit("wait in a sum", rank, Signal::KILL, GONE, &[]);
    }
}

#[test]
fn a_stopped_rank_ends_others_inside_of_a_sum() {
    for rank in [0, 1] {
        hit("wait in a sum", rank, Signal::STOP, SILENT, &[]);
    }
}

/// No thread looks at the group: the process is ended.
#[test]
fn lost_ranks_end_others_outside_of_the_group() {
    assert_ne!(LOSS_STATUS, 0);
    hit("wait elsewhere", 1, Signal::KILL, GONE, &[]);
    hit("wait elsewhere", 0, Signal::STOP, SILENT, &[]);
}

/// Variables that don't fit the world of MPI.
#[test]
fn ranks_that_mpi_does_not_see_are_refused() {
    let rank = |variables: &[(&str, &str)]| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--ignored", "--exact", "rank", "--nocapture"])
            .env(SCENE, "calls");
        let output = command.envs(variables.iter().copied()).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let text = rank(&[("SLURM_PROCID", "1"), ("SLURM_STEP_NUM_TASKS", "2")]);
    assert!(
        text.contains("error Start: `srun` started rank 1 of 2, but MPI sees rank 0 of 1"),
        "{text}"
    );
    let text = rank(&[("RANK", "0"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "0")]);
    assert!(
        text.contains("error Engine: `torchrun` started 2 ranks"),
        "{text}"
    );
}

#[test]
fn a_port_in_use_ends_all_ranks_with_one_sentence() {
    let taken = std::net::TcpListener::bind("[::]:0")
        .or_else(|_| std::net::TcpListener::bind("0.0.0.0:0"))
        .unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let variables = [("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", port.as_str())];
    let (statuses, lines) = Job::start(2, "calls", Cleanup::ByGroup, &variables).end();
    assert_eq!(statuses, [1; 2], "{lines}");
    let text = "error Connection: rank 0 on host ";
    let errors: Vec<_> = lines
        .lines()
        .filter(|line| line.starts_with(text))
        .collect();
    assert_eq!(errors.len(), 2, "{lines}");
    assert!(
        errors
            .iter()
            .all(|line| line.contains("it is in use by another program")),
        "{lines}"
    );
}

/// Over TCP, the MPI of the others sees the closed connections of a dead rank.
#[test]
fn a_killed_rank_ends_others_over_tcp() {
    hit(
        "wait in a sum",
        1,
        Signal::KILL,
        GONE,
        &[("OMPI_MCA_btl", "self,tcp")],
    );
}

/// As users start it: `mpirun` may be first to end the others.
#[test]
fn a_killed_rank_ends_the_job_under_a_plain_mpirun() {
    let mut job = Job::start(3, "wait in a sum", Cleanup::ByLauncher, &[]);
    let pids = job.pids(3);
    kill_process(pids[1], Signal::KILL).unwrap();
    let start = Instant::now();
    while pids.iter().any(|pid| runs(*pid)) {
        assert!(
            start.elapsed() < TIMEOUT + Duration::from_secs(2),
            "ranks still run"
        );
        thread::sleep(Duration::from_millis(20));
    }
    assert!(!job.end_of_launcher().success());
}

/// The address of rank 0 may be given.
#[test]
fn ranks_meet_at_the_given_address() {
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
        .to_string();
    let variables = [("MASTER_ADDR", "localhost"), ("MASTER_PORT", free.as_str())];
    let (statuses, lines) = Job::start(3, "differ", Cleanup::ByGroup, &variables).end();
    assert_eq!(statuses, [0; 3], "{lines}");
}
