//! A driver for fuzz targets on a stable compiler.
//!
//! A target is a test that passes a function that reads an input to [`fuzz`]. The driver runs it on the target's
//! committed corpus, and then on mutations of it. By default it makes a fixed number of mutations from a fixed seed, so
//! that every test run gives the same result.
//!
//! | variable | |
//! |---|---|
//! | `FUZZ_SECONDS` | the time that each target runs on mutations, with a random seed |
//! | `FUZZ_SEED` | the seed, which the output of a run names |
//! | `FUZZ_INPUT` | a file: only this input is read, once |
//!
//! An input is bad if reading it panics, takes more memory than its size explains or more than ten seconds, or returns
//! an error with control characters. The driver writes a bad input to the corpus of its target, where it stays as a
//! test case after the fix. A process that dies leaves the input in the file that is named at the start of the run.

mod corpus;
mod memory;
mod mutate;

use corpus::Running;
use mutate::Mutator;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

/// The number of mutations of a run without `FUZZ_SECONDS`.
const FEW: u64 = 2_000;

/// The time limit for an input. Even the largest inputs take less than a hundredth of it.
const LONGEST: Duration = Duration::from_secs(10);

/// A fuzz target: its name and the material for its inputs.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The name, which is also that of the corpus folder.
    pub name: &'a str,
    /// Words with a meaning in this kind of input.
    pub words: &'a [&'a str],
    /// The bytes of memory that reading takes in addition to the input, such as for other files.
    pub memory: u64,
}

/// Runs a target. `read` returns an error if it refuses an input.
///
/// # Panics
/// Panics if an input is bad, or if no case of the corpus is accepted.
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

/// Returns the time at which mutations end. With `None` they end after [`FEW`].
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
    /// Reads an input. Returns `true` if the answer is of a new kind.
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

/// Reads an input once and checks memory, time and the error's text.
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

/// Returns an error without the parts that differ between inputs: numbers, quoted text, and lines of the input that a
/// parser shows.
fn kind(error: &str) -> String {
    let own: String = error.lines().filter(|line| !line.contains('|')).collect();
    let unquoted = own.split('`').step_by(2);
    let letters = unquoted.flat_map(|text| text.chars().filter(|c| !c.is_ascii_digit()));
    letters.take(80).collect()
}
