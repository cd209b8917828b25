//! Runs of the command with some sites switched off.

use super::interrupt::{Interrupted, Signals, end, pass_on};
use crate::output;
use anyhow::Context;
use kernels_io::Limit;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::NamedTempFile;

/// The pause between two looks at a running command.
const POLL: Duration = Duration::from_millis(10);

/// The time that an interrupted command has to tidy up. Another signal ends it at once.
const GRACE: Duration = Duration::from_secs(5);

/// The command, and what is known of its sites.
pub struct Runs<'a> {
    command: &'a [OsString],
    timeout: Option<Duration>,
    show: bool,
    /// The policy with every suspect on.
    base: String,
    /// Every site that ever ran fused.
    sites: BTreeSet<String>,
    count: usize,
    signals: Signals,
}

/// How a run ended.
#[derive(Clone, Copy, Debug)]
pub enum Outcome {
    /// With exit code 0.
    Succeeded,
    /// With another exit code, or by a signal.
    Failed(ExitStatus),
    /// It took too long.
    TimedOut,
}

impl Outcome {
    /// Whether it did not succeed.
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
    /// No run yet.
    ///
    /// # Errors
    /// BURN_KERNELS is not Unicode, or signals can't be listened to.
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

    /// The sites that ran fused so far.
    pub fn sites(&self) -> &BTreeSet<String> {
        &self.sites
    }

    /// The number of runs so far.
    pub fn count(&self) -> usize {
        self.count
    }

    /// With every site on.
    pub fn all(&mut self) -> anyhow::Result<Outcome> {
        let base = self.base.clone();
        self.run("all kernels", &base, "")
    }

    /// Without any kernel.
    pub fn none(&mut self) -> anyhow::Result<Outcome> {
        self.run("no kernel", "none", "")
    }

    /// With these sites on and all others off. A run that gets further than the others may reach
    /// sites that none reached before: they are switched off too, and it runs again.
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

    /// With these sites off and all others on.
    pub fn without(&mut self, off: &[String]) -> anyhow::Result<Outcome> {
        let base = self.base.clone();
        self.run("all others", &base, &lines(off))
    }

    /// A policy with these sites off, for a program that holds all of them.
    pub fn policy_without(&self, off: &[String]) -> String {
        let off = off.iter().map(|site| format!(",-{site}"));
        self.base.clone() + &off.collect::<String>()
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
        let stream = || match self.show {
            true => Stdio::inherit(),
            false => Stdio::null(),
        };
        let mut command = Command::new(&self.command[0]);
        command
            .args(&self.command[1..])
            .env("BURN_KERNELS", policy)
            .env("BURN_KERNELS_TRACE_SITES", files.trace.path())
            .env("BURN_KERNELS_SITES_OFF", files.off.path())
            .stdin(Stdio::null())
            // Standard output is for the result.
            .stdout(match self.show {
                true => std::io::stderr().into(),
                false => Stdio::null(),
            })
            .stderr(stream());
        // A group of its own, so that all of it can be ended.
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

    /// Lets the command end as it does when it is interrupted itself, and then ends what is left of it.
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

/// The end of the wait for a run.
enum Ended {
    /// The command ended, or was too slow.
    Itself(Outcome),
    /// Somebody wants the search to end.
    Interrupted(i32),
}

/// What one run reads and writes.
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
