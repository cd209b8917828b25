//! Runs of the command with some sites switched off.

use super::interrupt::{Interrupted, Signals, end, pass_on};
use crate::output;
use anyhow::Context;
use kernels_io::Limit;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::NamedTempFile;

/// The interval at which a running command is checked.
const POLL: Duration = Duration::from_millis(10);

/// The time that an interrupted command has to end. Another signal ends it at once.
const GRACE: Duration = Duration::from_secs(5);

/// The command with the sites known so far.
pub struct Runs<'a> {
    command: &'a [OsString],
    timeout: Option<Duration>,
    show: bool,
    /// The policy that enables all suspects.
    base: String,
    /// All sites that ran fused in any run.
    sites: BTreeSet<String>,
    count: usize,
    signals: Signals,
}

/// The outcome of a run.
#[derive(Clone, Copy, Debug)]
pub enum Outcome {
    /// The command ended with exit code 0.
    Succeeded,
    /// The command ended with another exit code, or by a signal.
    Failed(ExitStatus),
    /// The command took longer than the timeout.
    TimedOut,
}

impl Outcome {
    /// Returns `true` unless the run succeeded.
    pub fn failed(self) -> bool {
        !matches!(self, Self::Succeeded)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Succeeded => f.write_str("succeeds"),
            Self::Failed(status) => write!(f, "fails ({status})"),
            Self::TimedOut => f.write_str("takes too long"),
        }
    }
}

impl<'a> Runs<'a> {
    /// Prepares runs of the command.
    ///
    /// # Errors
    /// Returns an error if BURN_KERNELS is not Unicode or the signal handlers can't be installed.
    pub fn new(
        command: &'a [OsString],
        timeout: Option<Duration>,
        show: bool,
    ) -> anyhow::Result<Self> {
        let base = match std::env::var("BURN_KERNELS") {
            Ok(base) if !base.trim().is_empty() => base,
            Ok(_) | Err(std::env::VarError::NotPresent) => "all".to_owned(),
            Err(error) => return Err(error).context("BURN_KERNELS"),
        };
        Ok(Self {
            command,
            timeout,
            show,
            base,
            sites: BTreeSet::new(),
            count: 0,
            signals: Signals::listen().context("cannot listen to Ctrl-C")?,
        })
    }

    /// Returns the sites that ran fused so far.
    pub fn sites(&self) -> &BTreeSet<String> {
        &self.sites
    }

    /// Returns the number of runs so far.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Runs the command with every site on.
    pub fn all(&mut self) -> anyhow::Result<Outcome> {
        self.announce();
        let base = self.base.clone();
        self.run("all kernels", &base, "")
    }

    /// Runs the command without kernels.
    pub fn none(&mut self) -> anyhow::Result<Outcome> {
        self.run("no kernel", "none", "")
    }

    /// Runs the command with only these sites on. A run that gets further than earlier ones may reach new sites. The
    /// command then runs again with those off too.
    pub fn only(&mut self, on: &[String]) -> anyhow::Result<Outcome> {
        loop {
            let known = self.sites.len();
            let off = lines(self.sites.iter().filter(|site| !on.contains(site)));
            let base = self.base.clone();
            let outcome = self.run(&format!("{} of {known} sites", on.len()), &base, &off)?;
            if self.sites.len() == known {
                return Ok(outcome);
            }
        }
    }

    /// Runs the command with these sites off and all others on.
    pub fn without(&mut self, off: &[String]) -> anyhow::Result<Outcome> {
        let base = self.base.clone();
        self.run("all others", &base, &lines(off))
    }

    /// Returns a policy with these sites off, for a program that has all of them.
    pub fn policy_without(&self, off: &[String]) -> String {
        let off = off.iter().map(|site| format!(",-{site}"));
        self.base.clone() + &off.collect::<String>()
    }

    /// Prints before the first run why it may take long.
    fn announce(&self) {
        let compiling = match self.timeout {
            Some(_) => "this may compile first, which counts towards --timeout",
            None => "this may compile first",
        };
        output::note(format_args!(
            "run 1: the command without changes, with its messages; {compiling}"
        ));
        if let Some(advice) = advice(self.command) {
            output::note(advice);
        }
    }

    fn run(&mut self, label: &str, policy: &str, off: &str) -> anyhow::Result<Outcome> {
        if let Some(signal) = self.signals.take() {
            return Err(Interrupted { signal, run: 0 }.into());
        }
        let files = Files::new(off).context("cannot make a temporary file")?;
        self.count += 1;
        let ended = self
            .start(policy, &files)
            .and_then(|child| self.wait(child));
        let ended =
            ended.with_context(|| format!("cannot run {}", self.command[0].to_string_lossy()))?;
        let outcome = match ended {
            Ended::Itself(outcome) => outcome,
            Ended::Interrupted(signal) => {
                let run = self.count;
                return Err(Interrupted { signal, run }.into());
            }
        };
        const LIMIT: Limit = Limit::mib("a trace of sites", 1024);
        let reached = kernels_io::read_text(files.trace.path(), LIMIT)?;
        self.sites.extend(reached.lines().map(str::to_owned));
        output::note(format_args!(
            "run {}: with {label} it {outcome}",
            self.count
        ));
        Ok(outcome)
    }

    fn start(&self, policy: &str, files: &Files) -> std::io::Result<Child> {
        // The first run may compile, which takes time and can fail.
        let is_first = self.count == 1;
        let mut command = Command::new(&self.command[0]);
        command
            .args(&self.command[1..])
            .env("BURN_KERNELS", policy)
            .env("BURN_KERNELS_TRACE_SITES", files.trace.path())
            .env("BURN_KERNELS_SITES_OFF", files.off.path())
            .stdin(Stdio::null())
            // Standard output is reserved for the result.
            .stdout(match self.show {
                true => std::io::stderr().into(),
                false => Stdio::null(),
            })
            .stderr(match self.show || is_first {
                true => Stdio::inherit(),
                false => Stdio::null(),
            });
        // A process group of its own, so that all of it can be ended.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.spawn()
    }

    fn wait(&self, mut child: Child) -> std::io::Result<Ended> {
        let start = Instant::now();
        loop {
            if let Some(signal) = self.signals.take() {
                self.interrupt(&mut child, signal)?;
                return Ok(Ended::Interrupted(signal));
            }
            if let Some(status) = child.try_wait()? {
                return Ok(Ended::Itself(status.into()));
            }
            if self
                .timeout
                .is_some_and(|timeout| start.elapsed() >= timeout)
            {
                end(&mut child)?;
                return Ok(Ended::Itself(Outcome::TimedOut));
            }
            std::thread::sleep(POLL);
        }
    }

    /// Passes a signal on to the command, waits for it to end, and then ends everything that is left.
    fn interrupt(&self, child: &mut Child, signal: i32) -> std::io::Result<()> {
        pass_on(child, signal);
        let start = Instant::now();
        while child.try_wait()?.is_none()
            && start.elapsed() < GRACE
            && self.signals.take().is_none()
        {
            std::thread::sleep(POLL);
        }
        end(child)
    }
}

/// The reason why waiting for a run ended.
enum Ended {
    /// The command ended, or took too long.
    Itself(Outcome),
    /// A signal asked the search to end.
    Interrupted(i32),
}

/// The files that a run reads and writes.
struct Files {
    trace: NamedTempFile,
    off: NamedTempFile,
}

impl Files {
    fn new(off: &str) -> std::io::Result<Self> {
        let files = Self {
            trace: NamedTempFile::new()?,
            off: NamedTempFile::new()?,
        };
        std::fs::write(files.off.path(), off)?;
        Ok(files)
    }
}

/// Returns a hint at the command that builds in advance, for commands of Cargo that compile.
fn advice(command: &[OsString]) -> Option<String> {
    let name = Path::new(&command[0]).file_stem()?;
    if name != "cargo" {
        return None;
    }
    let mut words = command[1..].iter().filter_map(|word| word.to_str());
    let build = match words.find(|word| !word.starts_with(['+', '-']))? {
        name @ ("test" | "t" | "bench") => format!("`cargo {name} --no-run`"),
        "run" | "r" => "`cargo build`".to_owned(),
        "nextest" => "`cargo nextest run --no-run`".to_owned(),
        _ => return None,
    };
    Some(format!(
        "{build} with the same options builds it beforehand, so that no run waits for it"
    ))
}

fn lines<'a>(names: impl IntoIterator<Item = &'a String>) -> String {
    names.into_iter().map(|name| format!("{name}\n")).collect()
}

impl From<ExitStatus> for Outcome {
    fn from(status: ExitStatus) -> Self {
        match status.success() {
            true => Self::Succeeded,
            false => Self::Failed(status),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_cargo_are_built_beforehand() {
        let of = |command: &str| {
            let words: Vec<_> = command.split(' ').map(OsString::from).collect();
            advice(&words)
        };
        for (command, build) in [
            ("cargo test -- one", "`cargo test --no-run`"),
            ("/usr/bin/cargo +nightly -q bench", "`cargo bench --no-run`"),
            ("cargo.exe run --release", "`cargo build`"),
            ("cargo nextest run", "`cargo nextest run --no-run`"),
        ] {
            let said = of(command).expect(command);
            assert!(said.starts_with(build), "{said}");
        }
        for command in ["sh -c cargo", "cargo", "cargo fmt", "./cargo-test test"] {
            assert_eq!(of(command), None, "{command}");
        }
    }
}
