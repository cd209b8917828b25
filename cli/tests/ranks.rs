//! Training by ranks under OpenMPI's `mpirun`.

#![cfg(all(feature = "mpi", target_os = "linux"))]

mod common;

use common::{command, errors};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
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

/// Returns the number of calls of the fused optimiser in the report of a run.
fn steps_of_optimiser(output: &Output) -> u64 {
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = summary["dispatch"]["rows"].as_array().unwrap();
    let rows = rows
        .iter()
        .filter(|row| row["kernel"] == "npu_fused_adam_w");
    rows.map(|row| row["calls"].as_u64().unwrap()).sum()
}

fn succeeds(output: &Output) {
    assert!(output.status.success(), "{}", errors(output));
}

/// Waits for the first checkpoint of a run, and returns the process of rank 1.
fn second_rank(job: &Child, place: &Path) -> Pid {
    let started = Instant::now();
    while states(place).is_empty() {
        assert!(
            started.elapsed() < Duration::from_secs(120),
            "no checkpoint"
        );
        thread::sleep(Duration::from_millis(20));
    }
    process(job, 1).unwrap()
}

/// Returns the whole checkpoints of a run.
fn states(place: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(place.join("run/resume")).into_iter();
    let paths = entries.flatten().flatten().map(|entry| entry.path());
    let is_whole = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().starts_with("step-")
    };
    paths.filter(is_whole).collect()
}

/// Returns the process of a rank, once it has begun.
fn process(job: &Child, rank: usize) -> Option<Pid> {
    let number = format!("OMPI_COMM_WORLD_RANK={rank}");
    let is_rank = |folder: &Path| {
        let stat = fs::read_to_string(folder.join("stat")).unwrap_or_default();
        let after_name = stat.rsplit(") ").next().unwrap_or_default();
        let parent = after_name.split(' ').nth(1);
        let environment = fs::read(folder.join("environ")).unwrap_or_default();
        parent == Some(job.id().to_string().as_str())
            && environment
                .split(|byte| *byte == 0)
                .any(|variable| variable == number.as_bytes())
    };
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let folder = processes
        .map(|entry| entry.path())
        .find(|path| is_rank(path))?;
    Pid::from_raw(folder.file_name()?.to_str()?.parse().ok()?)
}

/// Returns the processes that have a place in their command line.
fn left_behind(place: &Path) -> Vec<PathBuf> {
    let place = place.to_str().unwrap().as_bytes();
    let names_it = |folder: &PathBuf| {
        let line = fs::read(folder.join("cmdline")).unwrap_or_default();
        line.windows(place.len()).any(|part| part == place)
    };
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .map(|entry| entry.path())
        .filter(names_it)
        .collect()
}

#[test]
fn two_ranks_have_the_losses_of_one() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let alone = ranks(1, one.path(), "--json --steps 20 --out")
        .output()
        .unwrap();
    succeeds(&alone);
    let output = ranks(2, two.path(), "--json --steps 20 --out")
        .output()
        .unwrap();
    succeeds(&output);
    let (one, two) = (losses(one.path()), losses(two.path()));
    assert_eq!((one.len(), two.len()), (20, 20));
    let relative = |step: usize| (one[step] - two[step]).abs() / one[step];
    assert!(relative(0) < 1e-6 && relative(19) < 1e-4, "{one:?} {two:?}");
    // One rank prints the summary, with what both ran: each takes all steps.
    let [alone, both] = [alone, output].map(|output| steps_of_optimiser(&output));
    assert!(alone > 0 && both == 2 * alone, "{alone} {both}");
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

#[test]
fn divided_states_go_on_in_another_number_of_ranks() {
    let (one, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    succeeds(&ranks(1, one.path(), "--steps 60 --out").output().unwrap());
    let job = ranks(2, place.path(), "--shard-optimizer --steps 60 --out")
        .spawn()
        .unwrap();
    let rank = second_rank(&job, place.path());
    kill_process(rank, Signal::TERM).unwrap();
    let output = job.wait_with_output().unwrap();
    assert!(
        errors(&output).contains("which is saved"),
        "{}",
        errors(&output)
    );
    // Another number of ranks goes on, with whole states.
    succeeds(&ranks(3, place.path(), "--resume").output().unwrap());
    let (one, found) = (losses(one.path()), losses(place.path()));
    assert_eq!((one.len(), found.len()), (60, 60));
    for (one, found) in one.iter().zip(&found) {
        assert!((one - found).abs() / one < 1e-3, "{one} {found}");
    }
}

/// Kills a rank of a run again and again: 10 times, or `RANK_KILLS` times.
#[test]
fn a_run_of_ranks_survives_random_kills() {
    let kills = std::env::var("RANK_KILLS").map_or(10, |text| text.parse().unwrap());
    let place = tempfile::tempdir().unwrap();
    let mut random = 7_u64;
    let mut below = |limit: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) % limit
    };
    for _ in 0..kills {
        let size = 2 + below(2) as usize;
        let options = match states(place.path()).is_empty() {
            true => "--shard-optimizer --steps 1000000 --out",
            false => "--shard-optimizer --resume",
        };
        let folder = place.path().join("run");
        if states(place.path()).is_empty() && folder.exists() {
            fs::remove_dir_all(folder).unwrap();
        }
        let job = ranks(size, place.path(), options).spawn().unwrap();
        let victim = below(size as u64) as usize;
        // From the start of MPI to some steps and checkpoints later.
        thread::sleep(Duration::from_millis(below(4000)));
        if let Some(rank) = process(&job, victim) {
            kill_process(rank, Signal::KILL).unwrap();
        } else {
            kill_process(Pid::from_child(&job), Signal::TERM).unwrap();
        }
        let output = job.wait_with_output().unwrap();
        assert!(!output.status.success());
        let gone = Instant::now();
        while !left_behind(place.path()).is_empty() {
            assert!(
                gone.elapsed() < Duration::from_secs(20),
                "{:?}",
                left_behind(place.path())
            );
            thread::sleep(Duration::from_millis(50));
        }
    }
    let last = states(place.path()).len();
    assert!(last > 0, "no run came to its first checkpoint");
    let job = ranks(2, place.path(), "--resume").spawn().unwrap();
    thread::sleep(Duration::from_secs(4));
    kill_process(process(&job, 1).unwrap(), Signal::TERM).unwrap();
    let output = job.wait_with_output().unwrap();
    let said = errors(&output);
    assert!(said.contains("going on after step"), "{said}");
    assert!(said.contains("which is saved"), "{said}");
    let text = fs::read_to_string(place.path().join("run/metrics.jsonl")).unwrap();
    let points = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let trained = points.filter(|point| point["split"] == "train");
    let steps: Vec<u64> = trained
        .map(|point| point["step"].as_u64().unwrap())
        .collect();
    assert_eq!(steps, (1..=steps.len() as u64).collect::<Vec<_>>());
}
