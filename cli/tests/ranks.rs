//! Training by ranks under OpenMPI's `mpirun`.

#![cfg(all(feature = "mpi", target_os = "linux"))]

mod common;

use common::{command, errors};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The options of a run of some seconds.
const OPTIONS: &str = "--batch 3 --seq 16 --save-steps 1 --timeout 8 --corpus";

/// Returns a run of several ranks in the folder `run` of `place`.
fn ranks(count: usize, place: &Path, options: &str) -> Command {
    let text = place.join("text");
    if !text.exists() {
        let bytes: Vec<u8> = (0..2000_u32).map(|at| (at * at % 61 + 32) as u8).collect();
        fs::write(&text, bytes).unwrap();
    }
    let mut ranks = Command::new("mpirun");
    ranks
        .args([
            "--allow-run-as-root",
            "--oversubscribe",
            "-n",
            &count.to_string(),
        ])
        .args(["-x", "RAYON_NUM_THREADS=1"])
        .arg(command().get_program())
        .arg("train")
        .args(OPTIONS.split(' '))
        .arg(text)
        .args(options.split(' '))
        .arg(place.join("run"))
        .env_remove("BURN_KERNELS")
        .env("RAYON_NUM_THREADS", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    ranks
}

/// Returns the losses of training, by step.
fn losses(place: &Path) -> Vec<f64> {
    let text = fs::read_to_string(place.join("run/metrics.jsonl")).unwrap();
    let points = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let trained = points.filter(|point| point["split"] == "train");
    trained
        .map(|point| point["loss"].as_f64().unwrap())
        .collect()
}

fn succeeds(output: &Output) {
    assert!(output.status.success(), "{}", errors(output));
}

/// Waits for the first checkpoint of a run, and returns the process of rank 1.
fn second_rank(job: &Child, place: &Path) -> Pid {
    let started = Instant::now();
    let has_state = || {
        let entries = fs::read_dir(place.join("run/resume"))
            .into_iter()
            .flatten()
            .flatten();
        entries
            .map(|entry| entry.file_name())
            .any(|name| name.to_string_lossy().starts_with("step-"))
    };
    while !has_state() {
        assert!(
            started.elapsed() < Duration::from_secs(120),
            "no checkpoint"
        );
        thread::sleep(Duration::from_millis(20));
    }
    let is_rank = |folder: &Path| {
        let parent = fs::read_to_string(folder.join("stat")).unwrap_or_default();
        let parent = parent
            .rsplit(") ")
            .next()
            .unwrap_or_default()
            .split(' ')
            .nth(1);
        let environment = fs::read(folder.join("environ")).unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0);
        parent == Some(job.id().to_string().as_str())
            && variables.any(|variable| variable == b"OMPI_COMM_WORLD_RANK=1")
    };
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let rank = processes
        .map(|entry| entry.path())
        .find(|path| is_rank(path))
        .unwrap();
    let id = rank.file_name().unwrap().to_str().unwrap().parse().unwrap();
    Pid::from_raw(id).unwrap()
}

#[test]
fn two_ranks_have_the_losses_of_one() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    succeeds(&ranks(1, one.path(), "--steps 20 --out").output().unwrap());
    let output = ranks(2, two.path(), "--json --steps 20 --out")
        .output()
        .unwrap();
    succeeds(&output);
    let (one, two) = (losses(one.path()), losses(two.path()));
    assert_eq!((one.len(), two.len()), (20, 20));
    let relative = |step: usize| (one[step] - two[step]).abs() / one[step];
    assert!(relative(0) < 1e-6 && relative(19) < 1e-4, "{one:?} {two:?}");
    // One rank prints the summary.
    serde_json::from_slice::<Value>(&output.stdout).unwrap();
}

#[test]
fn a_killed_rank_ends_all_and_the_run_goes_on() {
    let place = tempfile::tempdir().unwrap();
    let job = ranks(2, place.path(), "--steps 60 --out").spawn().unwrap();
    let rank = second_rank(&job, place.path());
    kill_process(rank, Signal::KILL).unwrap();
    let killed = Instant::now();
    let output = job.wait_with_output().unwrap();
    assert!(!output.status.success());
    assert!(
        killed.elapsed() < Duration::from_secs(20),
        "{:?}",
        killed.elapsed()
    );
    assert!(losses(place.path()).len() < 60, "killed too late");
    // Another number of ranks goes on.
    let output = ranks(3, place.path(), "--steps 60 --resume")
        .output()
        .unwrap();
    succeeds(&output);
    assert!(
        errors(&output).contains("going on after step"),
        "{}",
        errors(&output)
    );
    assert_eq!(losses(place.path()).len(), 60);
}

#[test]
fn a_signal_to_one_rank_saves_and_ends_all() {
    let place = tempfile::tempdir().unwrap();
    let job = ranks(2, place.path(), "--steps 2000 --out")
        .spawn()
        .unwrap();
    let rank = second_rank(&job, place.path());
    kill_process(rank, Signal::TERM).unwrap();
    let output = job.wait_with_output().unwrap();
    assert!(!output.status.success());
    let said = errors(&output);
    assert!(
        said.contains("which is saved; go on with: kernels train --resume"),
        "{said}"
    );
}
