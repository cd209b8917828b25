//! The training loop: steps, validations, checkpoints and signals.

use super::batch::{Batch, Source};
use super::memory::Resident;
use super::metrics::{self, Point, Recorder};
use super::plan::Plan;
use super::progress::Display;
use super::random::SplitMix64;
use super::replicas::Replicas;
use super::signals::Signals;
use super::state::{Best, Progress, States, Trainee};
use super::step::{Loss, Mean, Method, Pass, without_gradients};
use crate::output::chain;
use crate::signals::{exit_code, name};
use anyhow::{anyhow, bail, ensure};
use kernels_io::escape_path;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The end of a run by a signal.
#[derive(Debug, thiserror::Error)]
#[error("interrupted by {} {message}", name(*.signal))]
pub struct Interrupted {
    signal: i32,
    message: String,
    /// True on the process that reports the interruption.
    leads: bool,
}

impl Interrupted {
    /// Returns `true` on the process of a run that reports the interruption. The others end in silence, because another
    /// status would make a launcher kill the one that still writes.
    pub fn is_told(&self) -> bool {
        self.leads
    }

    /// Returns the exit code that shells use for a program ended by this signal.
    pub fn exit_code(&self) -> u8 {
        exit_code(self.signal)
    }
}

/// A run in progress.
pub struct Session<'a> {
    plan: &'a Plan,
    source: &'a dyn Source,
    states: &'a States,
    replicas: Option<Replicas>,
    progress: Progress,
    recorder: Recorder,
    display: Display,
    signals: Signals,
    /// The last saved state, and its step.
    saved: Option<(PathBuf, Progress)>,
    saved_at: Instant,
    /// The time at which this process began to train.
    began: Instant,
    /// The seconds that earlier processes trained.
    before: f64,
}

/// A run that came to its end.
pub struct Trained {
    /// The model and its optimiser.
    pub trainee: Trainee,
    /// All points.
    pub points: Vec<Point>,
    /// The place of the run.
    pub progress: Progress,
}

impl<'a> Session<'a> {
    /// Prepares the run. `progress` and the points of `recorder` are those of a saved state, or empty.
    ///
    /// # Errors
    /// Returns an error if the saved state is behind the end of the run, or if the system refuses to pass signals.
    pub fn new(
        plan: &'a Plan,
        source: &'a dyn Source,
        states: &'a States,
        (replicas, progress): (Replicas, Progress),
        recorder: Recorder,
        quiet: bool,
    ) -> anyhow::Result<Self> {
        let now = Instant::now();
        ensure!(
            progress.step <= plan.steps,
            "the last checkpoint is that of step {}, but the run has {} steps; remove it to go on from the one before",
            progress.step,
            plan.steps
        );
        Ok(Self {
            plan,
            source,
            states,
            replicas: Some(replicas),
            recorder,
            display: Display::new(plan.steps, quiet || !plan.ranks.leads()),
            signals: Signals::listen()?,
            saved: None,
            saved_at: now,
            began: now,
            before: progress.seconds,
            progress,
        })
    }

    /// Trains to the end.
    ///
    /// # Errors
    /// Returns [`Interrupted`] after a signal, and an error if the loss is NaN or infinite or the device fails. The trained
    /// model is then saved, or the error says why it could not be.
    pub fn run(mut self) -> anyhow::Result<Trained> {
        loop {
            self.answer_signals()?;
            let better = match self.validation_is_due() {
                true => self.validate()?,
                false => false,
            };
            if better || self.plan.ranks.agreed(self.saves_now())? {
                self.save_or_tell();
            }
            if self.is_done() {
                break;
            }
            self.answer_signals()?;
            self.step()?;
        }
        self.signals.leave_at_once();
        if let Err(error) = self.states.settle().and_then(|()| self.recorder.complete()) {
            self.tell(&format!("warning: {}", chain(&error)));
        }
        Ok(Trained {
            trainee: self
                .replicas
                .take()
                .expect("steps give the model back")
                .into_first(),
            points: self.recorder.points().to_vec(),
            progress: self.progress.clone(),
        })
    }

    fn is_done(&self) -> bool {
        let Progress {
            step, since_best, ..
        } = self.progress;
        step >= self.plan.steps
            || self
                .plan
                .patience
                .is_some_and(|patience| since_best >= patience)
    }

    fn step(&mut self) -> anyhow::Result<()> {
        let (plan, step) = (self.plan, self.progress.step);
        let started = Instant::now();
        let seed = SplitMix64::of(plan.seed, step as u64).next();
        // Dropout of other ranks is of other sequences.
        let seed = match plan.ranks.rank() {
            0 => seed,
            rank => SplitMix64::of(seed, rank as u64).next(),
        };
        // On NPUs of one machine, this seeds all.
        plan.device().seed(seed);
        let batches = self.batches(step)?;
        let tokens = batches.iter().map(|batch| batch.tokens()).sum::<usize>();
        let mut replicas = self.replicas.take().expect("steps give the model back");
        let rate = plan.schedule.rate(step);
        // The numbers are those of the last update.
        let (mut loss, mut norm) = (Loss::default(), 0.0);
        for _ in 0..self.source.updates() {
            (replicas, loss, norm) = replicas.step(&batches, plan, (seed, rate))?;
            if !(loss.value.is_finite() && norm.is_finite()) {
                break;
            }
        }
        self.replicas = Some(replicas);
        self.progress.step += 1;
        let time = started.elapsed();
        self.record(metrics::TRAIN, loss, tokens, time, Some((rate, norm)))?;
        if let Some(point) = self.recorder.points().last() {
            self.display.step(point, tokens, time);
        }
        Ok(())
    }

    /// Returns the batches of a step. If they can't be made, the state so far is saved.
    fn batches(&mut self, step: usize) -> anyhow::Result<Vec<Batch>> {
        let replicas = self.replicas.as_ref().expect("steps give the model back");
        let made = self.source.batches(step, &replicas.first().model);
        made.map_err(|error| {
            // Other ranks, which have parts of the state, may have made theirs.
            if step > 0 && !self.is_saved() && !self.plan.ranks.shards() {
                self.save_or_tell();
            }
            let resume = &self.plan.resume;
            match self.last_saved() {
                last if last.is_empty() => error,
                last => anyhow!("{}{last}; go on with: {resume}", chain(&error)),
            }
        })
    }

    fn validation_is_due(&self) -> bool {
        let Progress {
            step, validated, ..
        } = self.progress;
        let regular = step.is_multiple_of(self.plan.steps_per_validation);
        step > validated && (regular || step == self.plan.steps) && self.source.validations() > 0
    }

    /// Computes the loss of the held-out data. Returns `true` if it is the lowest so far.
    fn validate(&mut self) -> anyhow::Result<bool> {
        self.display.validating();
        let started = Instant::now();
        let device = self.plan.device().clone().inner();
        let replicas = self.replicas.as_ref().expect("steps give the model back");
        let model = without_gradients(&replicas.first().model);
        let (mut mean, mut tokens) = (Mean::default(), 0);
        {
            let method = Method {
                recompute: None,
                ..self.plan.method(&device, 0)
            };
            let pass = Pass::new(&model, method);
            let (ranks, all) = (&self.plan.ranks, self.source.validations());
            // Batches are dealt out in rounds, after which all ranks ask for signals.
            for round in (0..all).step_by(ranks.size()) {
                let index = round + ranks.rank();
                if index < all {
                    let batch = self.source.validation(index);
                    mean.add(pass.loss(&batch)?, batch.counted());
                    tokens += batch.tokens();
                }
                self.answer_signals()?;
            }
        }
        let mean = mean.of_all(&self.plan.ranks)?.get();
        let mut all_tokens = [tokens as f64];
        self.plan.ranks.sum(&mut all_tokens)?;
        let tokens = all_tokens[0] as usize;
        let (step, loss) = (self.progress.step, mean.value);
        self.record(metrics::VALID, mean, tokens, started.elapsed(), None)?;
        self.display.validation(
            step,
            loss,
            self.plan.preference.is_none() && self.plan.teacher.is_none(),
        );
        self.progress.validated = step;
        let better = self.progress.best.is_none_or(|best| loss < best.loss);
        match better {
            true => {
                self.progress.best = Some(Best { step, loss });
                self.progress.since_best = 0;
            }
            false => self.progress.since_best += 1,
        }
        Ok(better)
    }

    fn record(
        &mut self,
        split: &str,
        loss: Loss,
        tokens: usize,
        time: Duration,
        rate_and_norm: Option<(f64, f64)>,
    ) -> anyhow::Result<()> {
        self.progress.seconds = self.before + self.began.elapsed().as_secs_f64();
        let step = self.progress.step;
        self.recorder.record(Point {
            step,
            epoch: step.saturating_sub(1) / self.source.steps_per_epoch() + 1,
            split: split.to_owned(),
            loss: loss.value,
            load_balancing_loss: loss.load_balancing,
            tokens_per_s: tokens as f64 / time.as_secs_f64(),
            lr: rate_and_norm.map(|(rate, _)| rate),
            grad_norm: rate_and_norm.map(|(_, norm)| norm),
            memory_bytes: Resident::ask().map(|memory| memory.now),
            seconds: self.progress.seconds,
            metrics: metrics::named(&loss.metrics),
        });
        let name = match split {
            metrics::TRAIN => "training loss",
            _ => "validation loss",
        };
        // A loss can be finite where its gradients are not, and these have made the weights NaN.
        let norm = rate_and_norm.map(|(_, norm)| ("norm of the gradients", norm));
        let numbers = [Some((name, loss.value)), norm];
        let mut wrong = numbers.into_iter().flatten();
        match wrong.find(|(_, number)| !number.is_finite()) {
            None => Ok(()),
            Some((name, number)) => {
                if split == metrics::TRAIN {
                    self.keep_last_good()?;
                }
                // A rank that ends makes launchers kill the one that saves.
                self.plan.ranks.wait()?;
                bail!(
                    "the {name} is {number} at step {step}: training diverged, try a smaller --lr{}",
                    self.last_saved()
                )
            }
        }
    }

    /// Saves the state before a step that was not taken, because its loss or its gradients are not finite. With several
    /// updates in a step, an earlier one can have changed the model, which is then the state of no step.
    fn keep_last_good(&mut self) -> anyhow::Result<()> {
        self.progress.step -= 1;
        let saves = self.progress.step > 0 && self.source.updates() == 1 && !self.is_saved();
        if self.plan.ranks.agreed(saves)? {
            self.save_or_tell();
        }
        Ok(())
    }

    fn saves_now(&self) -> bool {
        self.progress.step > 0
            && self.progress.step < self.plan.steps
            && !self.is_saved()
            && self.plan.saving.is_due(self.progress.step, self.saved_at)
    }

    /// Returns `true` if nothing is to be saved, which is always so on processes other than the first.
    fn is_saved(&self) -> bool {
        if !self.plan.ranks.leads() {
            return true;
        }
        let saved = self.saved.as_ref();
        saved.is_some_and(|(path, saved)| *saved == self.progress && path.exists())
    }

    /// Saves the state, whose parts all ranks then give if they have it in parts.
    fn save(&mut self) -> anyhow::Result<PathBuf> {
        let replicas = self.replicas.as_ref().expect("steps give the model back");
        // A device that failed in the last step may have given the others wrong gradients.
        replicas.sync(self.plan)?;
        let points = self.recorder.points();
        // A step that was not taken has a point too.
        let taken = points.partition_point(|point| point.step <= self.progress.step);
        let gathered = replicas.gathered(self.plan)?;
        if !self.plan.ranks.leads() {
            return Ok(PathBuf::new());
        }
        let Trainee { model, optimiser } = replicas.first();
        let optimiser = gathered.as_ref().unwrap_or(optimiser);
        let path = self
            .states
            .save((model, optimiser), &self.progress, &points[..taken])?;
        self.saved = Some((path.clone(), self.progress.clone()));
        self.saved_at = Instant::now();
        Ok(path)
    }

    /// Saves the state. Reports a failure, and training goes on.
    fn save_or_tell(&mut self) {
        let ranks = &self.plan.ranks;
        if !ranks.leads() && !ranks.shards() {
            return;
        }
        if let Err(error) = self.save() {
            self.saved_at = Instant::now();
            let (step, last) = (self.progress.step, self.last_saved());
            self.tell(&format!(
                "warning: the checkpoint of step {step} can't be saved: {}{last}; training goes on",
                chain(&error)
            ));
        }
    }

    /// Saves the state and ends the run if a signal asked for it.
    fn answer_signals(&mut self) -> anyhow::Result<()> {
        let ranks = &self.plan.ranks;
        let Some(signal) = ranks.any_signal(self.signals.asked())? else {
            return Ok(());
        };
        let step = self.progress.step;
        let saved = match ranks.agreed(self.is_saved() || step == 0)? {
            true => self.states.settle(),
            false => {
                self.display
                    .tell("a checkpoint is being saved; a second signal ends the program at once");
                self.save().map(drop)
            }
        };
        let complete = self.recorder.complete();
        let resume = &self.plan.resume;
        let message = match saved {
            Ok(()) => format!(
                "after step {step} of {}, which is saved; go on with: {resume}",
                self.plan.steps
            ),
            Err(error) => format!(
                "after step {step} of {}, which COULD NOT BE SAVED: {}{}",
                self.plan.steps,
                chain(&error),
                self.last_saved()
            ),
        };
        if let Err(error) = complete {
            self.tell(&format!("warning: {}", chain(&error)));
        }
        self.plan.ranks.wait()?;
        let leads = self.plan.ranks.leads();
        Err(Interrupted {
            signal,
            message,
            leads,
        }
        .into())
    }

    /// Returns a clause that names the last checkpoint, or nothing without one.
    fn last_saved(&self) -> String {
        match &self.saved {
            Some((path, progress)) if path.exists() => format!(
                "; the last checkpoint is that of step {} ({})",
                progress.step,
                escape_path(path)
            ),
            _ => String::new(),
        }
    }

    fn tell(&mut self, line: &str) {
        self.display.tell(line);
    }
}

/// Says what is left if the device fails, which Burn reports by panic.
impl Drop for Session<'_> {
    fn drop(&mut self) {
        let last = self.last_saved();
        if std::thread::panicking() && !last.is_empty() {
            let resume = &self.plan.resume;
            crate::output::note(format!("training ended{last}; go on with: {resume}"));
        }
    }
}
