//! A driver for fuzz targets on a stable compiler.
//!
//! A target is a test that hands [`fuzz`] what reads an input. The driver reads the committed corpus of the
//! target, and then mutations of it: without the environment, a fixed number from a fixed seed, so that a
//! test run says the same every time.
//!
//! | variable | |
//! |---|---|
//! | `FUZZ_SECONDS` | how long each target runs on mutations, from a seed of the clock |
//! | `FUZZ_SEED` | the seed, which a failure names |
//! | `FUZZ_INPUT` | a file: only this input is read, once |
//!
//! An input is bad when reading it panics, takes more memory than its size explains or more than ten
//! seconds, or ends with an error whose text a terminal would obey. A bad input is written to the corpus
//! of its target, where it stays as a case once it is mended. A process that dies leaves it in the file
//! that was named at the start.

mod corpus;
mod memory;
mod mutate;

use corpus::Running;
use mutate::Mutator;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

/// Mutations of a run without `FUZZ_SECONDS`.
const FEW: u64 = 2_000;

/// No input of the largest size takes a hundredth of it.
const LONGEST: Duration = Duration::from_secs(10);

/// A target: its name, which is the folder of its corpus, and what its inputs are made of.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The folder's name.
    pub name: &'a str,
    /// Words that mean something to what reads the input.
    pub words: &'a [&'a str],
    /// Bytes of memory that reading takes whatever the input: what is read beside it.
    pub memory: u64,
}

/// Runs a target. `read` says whether an input was accepted, or why not.
///
/// # Panics
/// An input is bad, or no case of the corpus is accepted.
pub fn fuzz(target: Target<'_>, read: impl Fn(&[u8]) -> Result<(), String>) {
    if let Some(path) = std::env::var_os("FUZZ_INPUT") {
        let input = std::fs::read(&path).expect("FUZZ_INPUT names a file");
        println!("{}: {:?}", target.name, check(target, &input, &read));
        return;
    }
    let cases = corpus::load(target.name);
    let running = Running::create(target.name);
    let mut run = Run {
        target,
        read: &read,
        running,
        kinds: HashSet::new(),
        inputs: 0,
        accepted: 0,
    };
    for case in &cases {
        run.input(case);
    }
    assert!(run.accepted > 0, "no case of the corpus is accepted");
    let (seed, end) = (seed(), end());
    println!("{}: seed {seed}; runs {}", target.name, run.running.path());
    let mut mutator = Mutator::new(seed, cases, target.words);
    let begun = run.inputs;
    while end.map_or(run.inputs - begun < FEW, |end| Instant::now() < end) {
        let input = mutator.make();
        if run.input(&input) {
            mutator.keep(input);
        }
    }
    println!(
        "{}: {} inputs, {} accepted, {} kinds of answers",
        target.name,
        run.inputs,
        run.accepted,
        run.kinds.len()
    );
}

fn seed() -> u64 {
    let given = std::env::var("FUZZ_SEED").ok();
    match given {
        Some(seed) => seed.parse().expect("FUZZ_SEED is a number"),
        None if end().is_some() => fastrand::u64(..),
        None => 0,
    }
}

/// When mutating ends; `None` after [`FEW`].
fn end() -> Option<Instant> {
    let seconds = std::env::var("FUZZ_SECONDS").ok()?;
    let seconds = seconds.parse().expect("FUZZ_SECONDS is a number");
    Some(Instant::now() + Duration::from_secs_f64(seconds))
}

struct Run<'a, R> {
    target: Target<'a>,
    read: &'a R,
    running: Running,
    kinds: HashSet<String>,
    inputs: u64,
    accepted: u64,
}

impl<R: Fn(&[u8]) -> Result<(), String>> Run<'_, R> {
    /// Reads an input. Whether the answer is of a kind that was not seen before.
    fn input(&mut self, input: &[u8]) -> bool {
        self.running.note(input);
        self.inputs += 1;
        match catch_unwind(AssertUnwindSafe(|| check(self.target, input, self.read))) {
            Ok(Ok(())) => {
                self.accepted += 1;
                self.kinds
                    .insert(format!("accepted, {} bytes", input.len()))
            }
            Ok(Err(error)) => self.kinds.insert(kind(&error)),
            Err(panic) => {
                eprintln!(
                    "the input is kept as {}",
                    corpus::keep(self.target.name, input)
                );
                resume_unwind(panic)
            }
        }
    }
}

/// Reads an input once.
fn check(
    target: Target<'_>,
    input: &[u8],
    read: impl Fn(&[u8]) -> Result<(), String>,
) -> Result<(), String> {
    let begun = Instant::now();
    let (answer, peak) = memory::peak(|| read(input));
    let most = (1 << 20) + target.memory + 512 * input.len() as u64;
    assert!(
        peak <= most,
        "{peak} bytes of memory for an input of {} bytes",
        input.len()
    );
    assert!(
        begun.elapsed() < LONGEST,
        "{:?} for {} bytes",
        begun.elapsed(),
        input.len()
    );
    if let Err(error) = &answer {
        let obeyed = |c: &char| c.is_control() && *c != '\n';
        assert!(
            !error.chars().any(|c| obeyed(&c)),
            "an error is not escaped: {error:?}"
        );
    }
    answer
}

/// An error without what differs from input to input: numbers, what it quotes, and lines of the input that
/// a parser shows.
fn kind(error: &str) -> String {
    let own: String = error.lines().filter(|line| !line.contains('|')).collect();
    let unquoted = own.split('`').step_by(2);
    let letters = unquoted.flat_map(|text| text.chars().filter(|c| !c.is_ascii_digit()));
    letters.take(80).collect()
}
