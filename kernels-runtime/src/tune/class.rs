//! The measurement of one class of calls.

use super::choice::{Choice, Times};
use super::file::{Decided, Subject};
use crate::device::Machine;
use crate::warning::warning;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The calls that are measured before a class is decided. The first is not counted: it fills caches and starts threads.
pub(crate) const TURNS: usize = 4;

/// The calls of a site with one implementation, device, dtype, mode, and tensors of similar sizes.
#[derive(Debug)]
pub(crate) struct Class {
    pub(super) machine: Machine,
    pub(super) subject: Subject,
    /// The purpose of the calls in words, such as `training`.
    pub(super) purpose: &'static str,
    /// The state of `progress`, for calls: [`OPEN`], [`KERNEL`] or [`REFERENCE`].
    state: AtomicU8,
    /// True while a call is measured. The lock is not held meanwhile, because a body may ask for a report.
    is_measured: AtomicBool,
    progress: Mutex<Progress>,
}

const OPEN: u8 = 0;
const KERNEL: u8 = 1;
const REFERENCE: u8 = 2;

/// The knowledge about a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The number of measured calls, and the shortest times of those that count.
    Open(usize, Option<Times>),
    /// The choice, and whether a file has it.
    Decided(Decided, bool),
    /// The kernel stays without a measurement, for this reason.
    Kept(String),
}

impl Progress {
    fn state(&self) -> u8 {
        match self {
            Self::Open(..) => OPEN,
            Self::Kept(_) => KERNEL,
            Self::Decided(decided, _) => match decided.choice {
                Choice::Kernel => KERNEL,
                Choice::Reference => REFERENCE,
            },
        }
    }
}

impl Class {
    /// Creates a class of which this much is known.
    pub(super) fn new(
        machine: Machine,
        subject: Subject,
        purpose: &'static str,
        progress: Progress,
    ) -> Self {
        Self {
            machine,
            subject,
            purpose,
            state: AtomicU8::new(progress.state()),
            is_measured: AtomicBool::new(false),
            progress: Mutex::new(progress),
        }
    }

    /// Returns the choice, or `None` as long as calls are measured.
    #[inline]
    pub(crate) fn choice(&self) -> Option<Choice> {
        match self.state.load(Ordering::Relaxed) {
            OPEN => None,
            REFERENCE => Some(Choice::Reference),
            _ => Some(Choice::Kernel),
        }
    }

    /// Returns the time of the kernel, if it was measured or a file has it.
    pub(crate) fn kernel_time(&self) -> Option<Duration> {
        match *self.progress_mut() {
            Progress::Decided(Decided { times, .. }, _) => Some(times.kernel),
            Progress::Open(..) | Progress::Kept(_) => None,
        }
    }

    /// Returns the right to measure a call, unless another call is being measured or the class is decided.
    pub(crate) fn turn(&self) -> Option<Turn<'_>> {
        if self.is_measured.swap(true, Ordering::AcqRel) {
            return None;
        }
        // Dropping it, as below, gives the right back.
        let mut turn = Turn {
            class: self,
            taken: 0,
            best: None,
        };
        let Progress::Open(taken, best) = *self.progress_mut() else {
            return None;
        };
        (turn.taken, turn.best) = (taken, best);
        Some(turn)
    }

    pub(super) fn progress(&self) -> Progress {
        self.progress_mut().clone()
    }

    fn progress_mut(&self) -> MutexGuard<'_, Progress> {
        // Progress is replaced as a whole, so a panic leaves it consistent.
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, progress: Progress) {
        let Subject { site, tensors, .. } = &self.subject;
        tracing::debug!(site, ?tensors, ?progress, "measured for `tune`");
        let state = progress.state();
        *self.progress_mut() = progress;
        self.state.store(state, Ordering::Relaxed);
    }
}

/// The right to measure a call of a class, of one call at a time.
pub(crate) struct Turn<'a> {
    class: &'a Class,
    taken: usize,
    best: Option<Times>,
}

impl Turn<'_> {
    /// Returns `true` if the reference runs before the kernel. They take turns in going first.
    pub(crate) fn begins_with_reference(&self) -> bool {
        self.taken % 2 == 1
    }

    /// Enters the times of the call, and decides after the last one.
    pub(crate) fn enter(self, times: Times) {
        let taken = self.taken + 1;
        let best = match self.taken {
            0 => None,
            _ => Some(self.best.map_or(times, |best| best.min(times))),
        };
        self.class.set(match best {
            Some(times) if taken >= TURNS => {
                let choice = times.choice();
                Progress::Decided(Decided { choice, times }, false)
            }
            _ => Progress::Open(taken, best),
        });
    }

    /// Keeps the kernel, because the call can't be measured.
    pub(crate) fn keep(self, why: &str) {
        self.class.set(Progress::Kept(why.to_owned()));
        let site = &self.class.subject.site;
        warning!("{site} keeps its kernel, and is not measured for `tune`: {why}");
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.class.is_measured.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::DeviceKind;
    use crate::mode::Mode;

    fn class() -> Class {
        let machine = Machine {
            kind: DeviceKind::Cpu,
            capability: 1,
            name: None,
        };
        let subject = Subject {
            site: "a::b".to_owned(),
            kernel: "k".to_owned(),
            implementation: "i".to_owned(),
            dtype: "f32".to_owned(),
            mode: Mode::Inference,
            tensors: Vec::new(),
        };
        Class::new(machine, subject, "inference", Progress::Open(0, None))
    }

    fn times(kernel: u64, reference: u64) -> Times {
        let [kernel, reference] = [kernel, reference].map(Duration::from_micros);
        Times { kernel, reference }
    }

    #[test]
    fn the_shortest_times_decide_and_the_first_call_does_not_count() {
        let class = class();
        for (kernel, reference) in [(1, 90), (50, 30), (40, 60)] {
            class.turn().unwrap().enter(times(kernel, reference));
            assert_eq!(class.choice(), None);
        }
        class.turn().unwrap().enter(times(70, 35));
        assert_eq!(class.choice(), Some(Choice::Reference));
        let Progress::Decided(decided, false) = class.progress() else {
            panic!("{:?}", class.progress());
        };
        assert_eq!(decided.times, times(40, 30));
        assert!(class.turn().is_none());
    }

    #[test]
    fn kernel_and_reference_take_turns_in_going_first() {
        let class = class();
        let firsts = (0..TURNS).map(|_| {
            let turn = class.turn().unwrap();
            let first = turn.begins_with_reference();
            turn.enter(times(1, 1));
            first
        });
        assert_eq!(firsts.collect::<Vec<_>>(), [false, true, false, true]);
        assert_eq!(class.choice(), Some(Choice::Kernel));
    }

    #[test]
    fn one_call_is_measured_at_a_time_and_a_turn_may_be_lost() {
        let class = class();
        let turn = class.turn().unwrap();
        std::thread::scope(|threads| {
            threads.spawn(|| assert!(class.turn().is_none()));
        });
        // A body may ask for a report while it is measured.
        assert_eq!(class.progress(), Progress::Open(0, None));
        drop(turn);
        class.turn().unwrap().keep("it panics");
        assert_eq!(class.choice(), Some(Choice::Kernel));
        assert_eq!(class.progress(), Progress::Kept("it panics".to_owned()));
        assert!(class.turn().is_none());
    }
}
