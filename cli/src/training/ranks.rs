//! The processes of a run. Without the feature `distributed` there is one.

#[cfg(feature = "distributed")]
use super::exchange::early::Learned;
use super::identity;
use anyhow::{Context, ensure};
#[cfg(feature = "distributed")]
use burn_kernels::distributed::{self, Group, Options};
use burn_kernels::report::{self, Report};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
#[cfg(feature = "distributed")]
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The options of a run of several processes.
#[derive(Clone, Copy, Debug, clap::Args, Serialize)]
#[group(skip)]
#[serde(rename_all = "kebab-case")]
pub struct Args {
    /// The number of seconds in which all ranks end after one died or hangs.
    #[cfg(feature = "distributed")]
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    // An option of a launch: a run goes on with another.
    #[serde(skip)]
    timeout: u64,
    /// Add up gradients in the order of ranks: the same bits in every run with this number of ranks.
    #[cfg(feature = "distributed")]
    #[arg(long)]
    // A build without the feature lacks the option, and goes on with runs that did not use it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    deterministic: bool,
    /// Divide the states of the optimiser over the ranks (ZeRO, stage 1): less memory on each. A rank sends and receives as
    /// much as without it.
    #[cfg(feature = "distributed")]
    #[arg(long)]
    // A run goes on with or without it, because saved states are whole.
    #[serde(skip)]
    shard_optimizer: bool,
}

impl Args {
    /// Joins the processes that a launcher started, trains by `train`, and leaves them: no other process waits for this
    /// one any more.
    ///
    /// # Errors
    /// Returns an error if the launcher's variables are not valid, if this build can't join the processes, if they can't
    /// connect, or if `train` returns one. The error of one of several processes names it, and the others learn of it.
    pub fn run<T>(self, train: impl FnOnce(&Ranks) -> anyhow::Result<T>) -> anyhow::Result<T> {
        let ranks = self.join()?;
        train(&ranks).map_err(|error| ranks.failed(error))
    }

    fn join(self) -> anyhow::Result<Ranks> {
        #[cfg(feature = "distributed")]
        {
            let group = Group::from_environment(&Options {
                timeout: std::time::Duration::from_secs(self.timeout),
                deterministic: self.deterministic,
                ..Options::default()
            })?;
            let ranks = Ranks::of(group).sharding(self.shard_optimizer);
            let option = [u8::from(self.shard_optimizer)];
            ranks.agree("option --shard-optimizer", &option)?;
            if !ranks.leads() {
                crate::output::silence_notes();
            }
            Ok(ranks)
        }
        #[cfg(not(feature = "distributed"))]
        refuse_launchers(|name| std::env::var(name).ok()).map(|()| Ranks {})
    }
}

/// Refuses to be one of several processes, which would all write the same folder.
#[cfg(any(test, not(feature = "distributed")))]
fn refuse_launchers(variable: impl Fn(&str) -> Option<String>) -> anyhow::Result<()> {
    // The script of a Slurm job has SLURM_NTASKS, though it is one process.
    let launchers = [
        ("mpirun", "OMPI_COMM_WORLD_SIZE"),
        ("mpirun", "PMI_SIZE"),
        ("srun", "SLURM_STEP_NUM_TASKS"),
        ("torchrun", "WORLD_SIZE"),
    ];
    for (launcher, name) in launchers {
        let size = variable(name).and_then(|text| text.parse::<u32>().ok());
        // Scripts set WORLD_SIZE for other programs.
        let is_rank = launcher != "torchrun" || variable("TORCHELASTIC_RUN_ID").is_some();
        if let Some(size) = size.filter(|size| *size > 1 && is_rank) {
            anyhow::bail!(
                "`{launcher}` started {size} processes ({name}={size}), but this program trains in one: build it with \
                 `--features mpi`, or start it once"
            );
        }
    }
    Ok(())
}

/// The processes of a run, of which this is one.
#[derive(Clone)]
pub struct Ranks {
    #[cfg(feature = "distributed")]
    group: Group,
    #[cfg(feature = "distributed")]
    shards: bool,
    #[cfg(feature = "distributed")]
    learned: Arc<Mutex<Learned>>,
}

impl Ranks {
    /// Returns a run of one process.
    #[cfg(test)]
    pub fn alone() -> Self {
        #[cfg(feature = "distributed")]
        return Self::of(Group::alone());
        #[cfg(not(feature = "distributed"))]
        Self {}
    }

    /// Returns the processes of a group.
    #[cfg(feature = "distributed")]
    pub fn of(group: Group) -> Self {
        Self {
            group,
            shards: false,
            learned: Arc::default(),
        }
    }

    /// Returns these processes with the states of the optimiser divided over them, or whole on each.
    #[cfg(feature = "distributed")]
    pub fn sharding(self, shards: bool) -> Self {
        Self { shards, ..self }
    }

    /// Returns `true` if each of several processes has a part of the optimiser's states.
    pub fn shards(&self) -> bool {
        #[cfg(feature = "distributed")]
        return self.shards && self.group.size() > 1;
        #[cfg(not(feature = "distributed"))]
        false
    }

    /// Returns what the steps so far teach about gradients that are sent while others are computed.
    #[cfg(feature = "distributed")]
    pub fn learned(&self) -> MutexGuard<'_, Learned> {
        // After a panic it teaches less.
        self.learned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the first process's answer if all must act alike to gather the optimiser's states, and otherwise this
    /// process's own.
    ///
    /// # Errors
    /// Returns an error if a process is lost.
    pub fn agreed(&self, own: bool) -> anyhow::Result<bool> {
        #[cfg(feature = "distributed")]
        if self.shards() {
            let mut answer = [u8::from(own)];
            self.group.broadcast(&mut answer, 0)?;
            return Ok(answer[0] != 0);
        }
        Ok(own)
    }

    /// Returns the group, if there are several processes.
    #[cfg(feature = "distributed")]
    pub fn group(&self) -> Option<&Group> {
        (self.group.size() > 1).then_some(&self.group)
    }

    /// Returns the number of this process, from 0.
    pub fn rank(&self) -> usize {
        #[cfg(feature = "distributed")]
        return self.group.rank();
        #[cfg(not(feature = "distributed"))]
        0
    }

    /// Returns the number of processes.
    pub fn size(&self) -> usize {
        #[cfg(feature = "distributed")]
        return self.group.size();
        #[cfg(not(feature = "distributed"))]
        1
    }

    /// Returns `true` for the process that writes files and prints.
    pub fn leads(&self) -> bool {
        self.rank() == 0
    }

    /// Tells the other processes of an error of this one, and returns it with rank and host.
    pub fn failed(&self, error: anyhow::Error) -> anyhow::Error {
        #[cfg(feature = "distributed")]
        if let Some(group) = self.group()
            && !error.is::<super::session::Interrupted>()
        {
            let name = group.name_of(group.rank());
            if !error.is::<distributed::Error>() {
                group.fail(&crate::output::chain(&error));
            }
            return error.context(name);
        }
        error
    }

    /// Checks that each of several processes has a sequence of a step of `sequences`, and one device.
    ///
    /// # Errors
    /// Returns an error if there are fewer sequences than processes, or if this one has several devices.
    pub fn check(&self, sequences: usize, devices: &crate::devices::Devices) -> anyhow::Result<()> {
        let size = self.size();
        ensure!(
            size == 1 || !devices.are_several(),
            "{size} ranks can't have several --devices each; start a rank for each device"
        );
        ensure!(
            sequences >= size,
            "a step of {sequences} sequences has none for some of {size} ranks; start fewer, or give a larger --batch"
        );
        Ok(())
    }

    /// Compares program and settings between all processes.
    ///
    /// # Errors
    /// Returns an error that names the process that differs, and in what.
    pub fn agree_on_settings(&self, description: &Value) -> anyhow::Result<()> {
        if self.size() == 1 {
            return Ok(());
        }
        self.agree("program (another build)", &program()?)?;
        self.agree("names of settings", &names(description))?;
        for (name, value) in compared(description) {
            self.agree(&name, value.to_string().as_bytes())?;
        }
        Ok(())
    }

    /// Compares bytes between all processes.
    ///
    /// # Errors
    /// Returns an error that names the process that differs.
    pub fn agree(&self, what: &str, bytes: &[u8]) -> anyhow::Result<()> {
        self.agree_on_digest(what, Sha256::digest(bytes).into())
    }

    /// Compares a digest between all processes.
    ///
    /// # Errors
    /// Returns an error that names the process that differs.
    pub fn agree_on_digest(&self, what: &str, digest: [u8; 32]) -> anyhow::Result<()> {
        #[cfg(feature = "distributed")]
        self.group.agree(what, &digest)?;
        #[cfg(not(feature = "distributed"))]
        let _ = (what, digest);
        Ok(())
    }

    /// Returns the first signal that any process received.
    ///
    /// # Errors
    /// Returns an error if a process is lost.
    pub fn any_signal(&self, signal: Option<i32>) -> anyhow::Result<Option<i32>> {
        #[cfg(feature = "distributed")]
        if let Some(group) = self.group() {
            let own = [signal.unwrap_or(0) as u64];
            let all = group.all_gather(&own, &vec![1; group.size()])?;
            let first = all.into_iter().find(|signal| *signal != 0);
            return Ok(first.map(|signal| signal as i32));
        }
        Ok(signal)
    }

    /// Adds up numbers over all processes, in their order, so that all have the same bits.
    ///
    /// # Errors
    /// Returns an error if a process is lost.
    pub fn sum(&self, numbers: &mut [f64]) -> anyhow::Result<()> {
        #[cfg(feature = "distributed")]
        if let Some(group) = self.group() {
            let all = group.all_gather(numbers, &vec![numbers.len(); group.size()])?;
            for (at, number) in numbers.iter_mut().enumerate() {
                let of_ranks = all.iter().skip(at).step_by(all.len() / group.size());
                *number = of_ranks.sum();
            }
        }
        let _ = numbers;
        Ok(())
    }

    /// Returns one report of what ran on all processes, which it waits for.
    ///
    /// # Errors
    /// Returns an error if a process is lost.
    pub fn report(&self) -> anyhow::Result<Report> {
        let report = report::report();
        #[cfg(feature = "distributed")]
        if let Some(group) = self.group() {
            return super::exchange::kernels::merged(report, group);
        }
        Ok(report)
    }

    /// Waits for all processes.
    ///
    /// # Errors
    /// Returns an error if a process is lost.
    pub fn wait(&self) -> anyhow::Result<()> {
        #[cfg(feature = "distributed")]
        self.group.barrier()?;
        Ok(())
    }

    /// Returns the bytes that the first process gives. The others give an empty vector.
    ///
    /// # Errors
    /// Returns an error if a process is lost.
    pub fn of_first(&self, bytes: Vec<u8>) -> anyhow::Result<Vec<u8>> {
        #[cfg(feature = "distributed")]
        if let Some(group) = self.group() {
            /// The largest number of bytes that are sent at once.
            const PART: usize = 25 << 20;
            let mut length = [bytes.len() as u64];
            group.broadcast(&mut length, 0)?;
            let mut bytes = bytes;
            bytes.resize(length[0] as usize, 0);
            for part in bytes.chunks_mut(PART) {
                group.broadcast(part, 0)?;
            }
            return Ok(bytes);
        }
        Ok(bytes)
    }
}

/// Returns the bytes of this program.
fn program() -> anyhow::Result<Vec<u8>> {
    let program = std::env::current_exe().and_then(std::fs::read);
    program.context("cannot read this program, which ranks compare")
}

/// Returns the settings that all ranks must have in common. Each has a device of its own.
fn compared(description: &Value) -> Vec<(String, &Value)> {
    let mut fields = identity::fields(description);
    fields.retain(|(name, _)| name != "`settings.device`");
    fields
}

fn names(description: &Value) -> Vec<u8> {
    let names = compared(description).into_iter();
    let names: Vec<String> = names.map(|(name, _)| name).collect();
    names.join("\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_several_processes_is_refused_without_an_engine() {
        let told = |variables: &'static [(&str, &str)]| {
            let found = move |name: &str| {
                let of_name = variables.iter().find(|(known, _)| *known == name);
                of_name.map(|(_, value)| (*value).to_owned())
            };
            match refuse_launchers(found) {
                Ok(()) => String::new(),
                Err(error) => error.to_string(),
            }
        };
        assert_eq!(told(&[]), "");
        assert_eq!(told(&[("SLURM_NTASKS", "4"), ("SLURM_PROCID", "0")]), "");
        assert_eq!(told(&[("SLURM_STEP_NUM_TASKS", "1")]), "");
        assert_eq!(told(&[("WORLD_SIZE", "2")]), "");
        let said = told(&[("SLURM_STEP_NUM_TASKS", "4")]);
        assert!(said.contains("`srun` started 4 processes"), "{said}");
        let said = told(&[("OMPI_COMM_WORLD_SIZE", "2")]);
        assert!(said.contains("`--features mpi`"), "{said}");
        let said = told(&[("WORLD_SIZE", "2"), ("TORCHELASTIC_RUN_ID", "a")]);
        assert!(said.contains("`torchrun`"), "{said}");
    }

    #[cfg(feature = "distributed")]
    #[test]
    fn a_rank_with_other_settings_is_named() {
        let mut seeds = [1, 1, 2].into_iter();
        let ranks = Group::of_threads(3).into_iter().map(|group| {
            let seed = seeds.next();
            std::thread::spawn(move || {
                let description = serde_json::json!({"settings": {"seed": seed, "lr": 0.1}});
                let told = Ranks::of(group).agree_on_settings(&description);
                told.unwrap_err().to_string()
            })
        });
        for said in ranks.collect::<Vec<_>>() {
            let said = said.join().unwrap();
            assert!(
                said.contains("rank 2 differs in the `settings.seed`"),
                "{said}"
            );
        }
    }

    #[cfg(feature = "distributed")]
    #[test]
    fn bytes_and_signals_of_one_are_known_to_all() {
        let ranks = Group::of_threads(2).into_iter().map(|group| {
            std::thread::spawn(move || {
                let ranks = Ranks::of(group);
                let own = if ranks.leads() {
                    vec![1, 2, 3]
                } else {
                    Vec::new()
                };
                assert_eq!(ranks.of_first(own).unwrap(), [1, 2, 3]);
                let signal = (!ranks.leads()).then_some(15);
                assert_eq!(ranks.any_signal(signal).unwrap(), Some(15));
                assert_eq!(ranks.any_signal(None).unwrap(), None);
                let mut sum = [ranks.rank() as f64, 2.0];
                ranks.sum(&mut sum).unwrap();
                assert_eq!(sum, [1.0, 4.0]);
            })
        });
        for rank in ranks.collect::<Vec<_>>() {
            rank.join().unwrap();
        }
    }

    #[test]
    fn fewer_sequences_than_ranks_are_refused() {
        let devices = "cpu".parse().unwrap();
        Ranks::alone().check(1, &devices).unwrap();
        #[cfg(feature = "distributed")]
        for group in Group::of_threads(3) {
            let ranks = Ranks::of(group);
            ranks.check(3, &devices).unwrap();
            let said = ranks.check(2, &devices).unwrap_err().to_string();
            assert!(said.contains("3 ranks"), "{said}");
        }
    }
}
