//! Ranks under `mpirun`. The tests start this program again as the ranks of a job, which run the ignored test `rank`.
//!
//! A program of its own, because a process joins MPI once. Needs the feature `mpi`, and `mpirun` of the MPI that `mpicc`
//! builds for.

#![cfg(all(feature = "mpi", target_os = "linux"))]

use kernels_distributed::{ErrorKind, Group, LOSS_STATUS, Options};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Says to a rank what it does.
const SCENE: &str = "KERNELS_TEST_SCENE";
/// The timeout of faults. Every other rank must have ended by then.
const TIMEOUT: Duration = Duration::from_secs(4);
/// The time of a whole job, for machines that do much else.
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
#[ignore = "a rank, which the other tests start under `mpirun`"]
fn rank() {
    let scene = std::env::var(SCENE).expect("other tests start it");
    let deterministic = scene == "calls in order";
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
    match scene.as_str() {
        "calls" | "calls in order" => calls(&group),
        "differ" => differ(&group),
        "leave early" => leave_early(group),
        "give up" => give_up(&group),
        "wait in a sum" => wait_in_a_sum(&group),
        "wait elsewhere" => {
            say(&format!("pid {} {}", group.rank(), std::process::id()));
            thread::sleep(PATIENCE);
            panic!("nothing ended this rank");
        }
        other => panic!("unknown scene `{other}`"),
    }
}

/// Prints a line in one piece: `mpirun` mixes the outputs of ranks.
fn say(line: &str) {
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

/// A job under `mpirun`.
struct Job {
    child: Child,
    lines: mpsc::Receiver<String>,
    seen: String,
    start: Instant,
}

impl Job {
    fn start(ranks: usize, scene: &str, more: &[&str]) -> Self {
        let version = Command::new("mpirun").arg("--version").output();
        let version = version.expect("the feature `mpi` is tested with `mpirun`, which is missing");
        let open_mpi = String::from_utf8_lossy(&version.stdout).contains("Open MPI");
        let mut mpirun = Command::new("mpirun");
        if open_mpi {
            // Without recovery, `mpirun` itself would end all ranks when one dies.
            mpirun.args([
                "--allow-run-as-root",
                "--oversubscribe",
                "--enable-recovery",
            ]);
        } else {
            mpirun.arg("-disable-auto-cleanup");
        }
        mpirun.args(more).args(["-n", &ranks.to_string()]);
        mpirun.arg(std::env::current_exe().unwrap()).args([
            "--ignored",
            "--exact",
            "rank",
            "--nocapture",
        ]);
        mpirun
            .env(SCENE, scene)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = mpirun.spawn().unwrap();
        let (sender, lines) = mpsc::channel();
        let streams: [Box<dyn Read + Send>; 2] = [
            Box::new(child.stdout.take().unwrap()),
            Box::new(child.stderr.take().unwrap()),
        ];
        for stream in streams {
            let sender = sender.clone();
            thread::spawn(move || {
                BufReader::new(stream)
                    .lines()
                    .map_while(Result::ok)
                    .for_each(|line| drop(sender.send(line)));
            });
        }
        Self {
            child,
            lines,
            seen: String::new(),
            start: Instant::now(),
        }
    }

    /// Reads lines until one starts with a text, and returns its rest.
    fn line(&mut self, start: &str) -> String {
        loop {
            let left = PATIENCE.saturating_sub(self.start.elapsed());
            let Ok(line) = self.lines.recv_timeout(left) else {
                panic!("no line starts with `{start}`:\n{}", self.seen);
            };
            self.seen += &line;
            self.seen += "\n";
            if let Some(rest) = line.strip_prefix(start) {
                return rest.into();
            }
        }
    }

    /// Waits for the end. Returns whether the status is 0, and all lines.
    fn end(mut self) -> (bool, String) {
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(
                self.start.elapsed() < PATIENCE,
                "the job does not end:\n{}",
                self.seen
            );
            thread::sleep(Duration::from_millis(20));
        };
        self.lines
            .iter()
            .for_each(|line| self.seen += &format!("{line}\n"));
        (status.success(), std::mem::take(&mut self.seen))
    }

    /// Returns the processes of the ranks, which have said them.
    fn pids(&mut self, ranks: usize) -> Vec<rustix::process::Pid> {
        let mut pids = vec![None; ranks];
        while pids.iter().any(Option::is_none) {
            let line = self.line("pid ");
            let (rank, pid) = line.split_once(' ').unwrap();
            pids[rank.parse::<usize>().unwrap()] =
                rustix::process::Pid::from_raw(pid.trim().parse().unwrap());
        }
        pids.into_iter().flatten().collect()
    }
}

// A failed test leaves no job behind.
impl Drop for Job {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn succeeds(ranks: usize, scene: &str, done: usize) {
    let (success, lines) = Job::start(ranks, scene, &[]).end();
    assert!(success, "{lines}");
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
fn a_rank_that_leaves_early_is_named() {
    let (_, lines) = Job::start(3, "leave early", &[]).end();
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
    let (success, lines) = Job::start(3, "give up", &[]).end();
    assert!(!success, "{lines}");
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
fn runs(pid: rustix::process::Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    stat.is_ok_and(|stat| {
        stat.rsplit_once(") ")
            .is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    })
}

/// Hits a rank with a signal, and checks that all others end within the timeout, with a sentence that names it.
fn hit(scene: &str, rank: usize, signal: rustix::process::Signal, text: &str, more: &[&str]) {
    let mut job = Job::start(3, scene, more);
    let pids = job.pids(3);
    // Into the sum.
    thread::sleep(Duration::from_millis(300));
    rustix::process::kill_process(pids[rank], signal).unwrap();
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
        rustix::process::kill_process(pids[rank], rustix::process::Signal::KILL).unwrap();
    }
    let (success, lines) = job.end();
    assert!(!success, "{lines}");
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
        hit(
            "wait in a sum",
            rank,
            rustix::process::Signal::KILL,
            GONE,
            &[],
        );
    }
}

#[test]
fn a_stopped_rank_ends_others_inside_of_a_sum() {
    for rank in [0, 1] {
        hit(
            "wait in a sum",
            rank,
            rustix::process::Signal::STOP,
            SILENT,
            &[],
        );
    }
}

/// No thread looks at the group: the process is ended.
#[test]
fn lost_ranks_end_others_outside_of_the_group() {
    assert_ne!(LOSS_STATUS, 0);
    hit(
        "wait elsewhere",
        1,
        rustix::process::Signal::KILL,
        GONE,
        &[],
    );
    hit(
        "wait elsewhere",
        0,
        rustix::process::Signal::STOP,
        SILENT,
        &[],
    );
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
    let text = rank(&[("PMI_RANK", "1"), ("PMI_SIZE", "2")]);
    assert!(
        text.contains(
            "error Start: `mpirun` of MPICH started rank 1 of 2, but MPI sees rank 0 of 1"
        ),
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
    let master = |name: &str, value: &str| format!("{name}={value}");
    let (address, port) = (
        master("MASTER_ADDR", "127.0.0.1"),
        master("MASTER_PORT", &port),
    );
    let (success, lines) = Job::start(2, "calls", &["-x", &address, "-x", &port]).end();
    assert!(!success, "{lines}");
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
