//! Runs of several ranks, which are threads, against one.

use super::{Args, Ranks, train};
use burn_kernels::distributed::Group;
use clap::Parser;
use std::fs;
use std::path::Path;
use std::thread;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

/// Runs several ranks. Returns for each its losses of training and validation, or its error.
fn run(size: usize, options: impl Fn(usize) -> String) -> Vec<Result<Vec<f64>, String>> {
    let ranks = Group::of_threads(size).into_iter().map(|group| {
        let line = format!("train --quiet --batch 3 --seq 16 {}", options(group.rank()));
        let args = Line::parse_from(line.split(' ')).args;
        let started = thread::Builder::new().stack_size(16 << 20).spawn(
            move || -> Result<Vec<f64>, String> {
                let ranks = Ranks::of(group);
                let run = train(&args, &ranks).map_err(|error| ranks.failed(error));
                let run = run.map_err(|error| crate::output::chain(&error))?;
                let run = run.map(|run| run.trained.points).unwrap_or_default();
                Ok(run.iter().map(|point| point.loss).collect())
            },
        );
        started.unwrap()
    });
    let ranks: Vec<_> = ranks.collect();
    let ended = ranks.into_iter().map(|rank| rank.join().unwrap());
    ended.collect()
}

fn same(one: &[f64], other: &[f64]) {
    assert_eq!(one.len(), other.len(), "{one:?} {other:?}");
    for (one, other) in one.iter().zip(other) {
        assert!((one - other).abs() < 1e-4 * one, "{one} {other}");
    }
}

/// Removes the states of a run but that of the first step.
fn go_back(folder: &Path) {
    for entry in fs::read_dir(folder.join("resume")).unwrap().flatten() {
        if entry.file_name() != "step-00000001" {
            fs::remove_dir_all(entry.path()).unwrap();
        }
    }
}

/// All ranks begin with a state, because threads of one process draw the weights of new models from one generator.
#[test]
fn any_number_of_ranks_goes_on_as_one_process() {
    let place = tempfile::tempdir().unwrap();
    let out = |name: &str| place.path().join(name);
    // A small text has few validations.
    let text: Vec<u8> = (0..1000_u32).map(|at| (at * at % 61 + 32) as u8).collect();
    fs::write(out("text"), text).unwrap();
    let options = |way: &str, name: &str| {
        let (text, folder) = (out("text"), out(name));
        let (text, folder) = (text.display(), folder.display());
        format!("--steps 3 --save-steps 1 --keep 9 --corpus {text} {way} {folder}")
    };
    let one = run(1, |_| options("--out", "run")).remove(0).unwrap();
    assert_eq!(one.len(), 4);
    for size in [2, 3] {
        go_back(&out("run"));
        let name = |rank| if rank == 0 { "run" } else { "unused" };
        let several = run(size, |rank| options("--resume", name(rank)));
        same(&one, several[0].as_ref().unwrap());
        assert!(several[1..].iter().all(|other| *other == Ok(Vec::new())));
        // The others have no folder, and write none.
        assert!(!out("unused").exists());
    }
    // One rank goes on with what three saved.
    fs::remove_dir_all(out("run/resume/step-00000003-validated")).unwrap();
    let again = run(1, |_| options("--resume", "run")).remove(0);
    same(&one, &again.unwrap());
}

/// A build without ranks reads the options of a run that did without them.
#[test]
fn options_of_a_launch_are_not_written() {
    let written = |line: &str| {
        let args = Line::parse_from(line.split(' ')).args;
        toml::to_string(&args).unwrap()
    };
    let plain = written("train --timeout 5 --save-steps 3");
    assert!(plain.contains("save-steps = 3"), "{plain}");
    for name in ["timeout", "deterministic"] {
        assert!(!plain.contains(name), "{plain}");
    }
    let in_order = written("train --deterministic");
    assert!(in_order.contains("deterministic = true"), "{in_order}");
}

#[test]
fn ranks_that_differ_or_have_no_share_end_together() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("run");
    let shown = folder.display();
    let said = run(3, |rank| format!("--out {shown} --seed {}", rank / 2));
    for said in said {
        let said = said.unwrap_err();
        assert!(
            said.contains("rank 2 differs in the `settings.seed`"),
            "{said}"
        );
    }
    let said = run(4, |_| format!("--out {shown}"));
    for (rank, said) in said.into_iter().enumerate() {
        let said = said.unwrap_err();
        assert!(said.starts_with(&format!("rank {rank}")), "{said}");
        assert!(said.contains("none for some of 4 ranks"), "{said}");
    }
    // The others hear why one can't go on.
    let said = run(2, |rank| match rank {
        0 => format!("--out {shown}"),
        _ => format!("--out {shown} --corpus {shown}/missing"),
    });
    let said = said[0].as_ref().unwrap_err();
    assert!(
        said.contains("rank 1") && said.contains("missing"),
        "{said}"
    );
    assert!(!folder.exists());
}
