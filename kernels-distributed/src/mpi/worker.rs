//! The thread that owns MPI.

use super::calls::LONGEST;
use crate::control::Control;
use crate::element::Values;
use crate::request::{Call, Reply, Request, compare, total};
use crate::{Error, ErrorKind};
use mpi::request::{Request as Started, Scope};
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

/// Tests of a call before the thread begins to sleep between them.
const EAGER_TESTS: u32 = 100;
/// The sleep between tests: the processor belongs to the computation meanwhile.
const SLEEP: Duration = Duration::from_micros(50);
/// The longest time without a call of MPI while nothing is to be done. Messages of finished calls may still have to
/// leave.
const IDLE: Duration = Duration::from_millis(5);

/// A call, and the way back for its result.
pub(super) struct Job {
    pub request: Request,
    pub reply: Sender<Result<Reply, Error>>,
}

pub(super) struct Worker {
    pub(super) world: SimpleCommunicator,
    names: Vec<String>,
    pub(super) rank: usize,
    pub(super) deterministic: bool,
    control: Arc<Control>,
    jobs: Receiver<Job>,
    /// The way back for the call that is under way.
    current: Cell<Option<Sender<Result<Reply, Error>>>>,
    /// The values of the last large sum, whose memory the next one of its length is written to. The pages of new memory
    /// take longer to come than its values to be added.
    pub(super) spare: Cell<Option<Values>>,
}

impl Worker {
    pub(super) fn new(
        world: SimpleCommunicator,
        names: Vec<String>,
        rank: usize,
        deterministic: bool,
        control: Arc<Control>,
        jobs: Receiver<Job>,
    ) -> Self {
        Self {
            world,
            names,
            rank,
            deterministic,
            control,
            jobs,
            current: Cell::new(None),
            spare: Cell::new(None),
        }
    }

    pub(super) fn size(&self) -> usize {
        self.names.len()
    }

    /// Serves calls until all ranks have left the group. It does not return after a loss.
    pub(super) fn serve(&self) {
        loop {
            let Some(job) = self.next() else {
                self.abandon()
            };
            let leaves = job.request.call == Call::Leave;
            self.current.set(Some(job.reply));
            // No rank goes on after a loss, also if MPI could still serve it.
            if self.control.failure().is_set() {
                self.abandon();
            }
            let result = self.run(job.request);
            let over = leaves && result.is_ok();
            if over {
                self.control.leave();
            } else if leaves {
                // The others would wait for this rank's next call, which does not come.
                self.control
                    .fail("it has ended its group, but others go on");
            }
            if let Some(reply) = self.current.take() {
                // The caller may have dropped a sum that it started.
                let _ = reply.send(result);
            }
            if over {
                return;
            }
        }
    }

    /// Waits for a job. Meanwhile MPI moves on what it still has of calls that are finished here.
    fn next(&self) -> Option<Job> {
        let mut wait = SLEEP;
        loop {
            if self.control.failure().is_set() {
                self.abandon();
            }
            match self.jobs.recv_timeout(wait) {
                Ok(job) => return Some(job),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {
                    self.world.any_process().immediate_probe();
                    wait = (wait * 2).min(IDLE);
                }
            }
        }
    }

    fn run(&self, request: Request) -> Result<Reply, Error> {
        let Request { values, counts, .. } = &request;
        let sum = matches!(request.call, Call::AllReduce | Call::Broadcast { .. });
        if !sum && values.len().max(total(counts)) > LONGEST {
            let name = &self.names[self.rank];
            let problem =
                format!("{name}: MPI takes at most {LONGEST} elements in one call: divide it");
            return Err(Error::new(ErrorKind::Argument, problem));
        }
        compare(&self.headers(&request), &self.names)?;
        let Request {
            call,
            values,
            counts,
        } = request;
        match (call, values) {
            (Call::AllReduce, Values::F32(values)) => Ok(reply(self.all_reduce(values))),
            (Call::AllReduce, Values::F64(values)) => Ok(reply(self.all_reduce(values))),
            (Call::AllReduce, Values::U64(values)) => Ok(reply(self.all_reduce(values))),
            (Call::ReduceScatter, Values::F32(values)) => {
                Ok(reply(self.reduce_scatter(&values, &counts)))
            }
            (call, Values::F32(values)) => self.moved(call, values, &counts),
            (call, Values::F64(values)) => self.moved(call, values, &counts),
            (call, Values::U64(values)) => self.moved(call, values, &counts),
            (call, Values::U8(values)) => self.moved(call, values, &counts),
        }
    }

    fn headers(&self, request: &Request) -> Vec<[u64; 4]> {
        let own = request.header();
        let mut all = vec![0u64; own.len() * self.size()];
        mpi::request::scope(|scope| {
            self.finish(self.world.immediate_all_gather_into(scope, &own, &mut all))
        });
        let (headers, _) = all.as_chunks();
        headers.to_vec()
    }

    /// Tests a call until it is finished. It does not return if a rank is lost before: the buffers of the call stay.
    pub(super) fn finish<'a, D: ?Sized, S: Scope<'a>>(&self, mut started: Started<'a, D, S>) {
        let mut tests = 0;
        loop {
            started = match started.test() {
                Ok(_) => return,
                Err(again) => again,
            };
            if self.control.failure().is_set() {
                self.abandon();
            }
            tests += 1;
            match tests < EAGER_TESTS {
                true => thread::yield_now(),
                false => thread::sleep(SLEEP),
            }
        }
    }

    /// Ends the group for a reason of this rank.
    pub(super) fn give_up(&self, reason: &str) -> ! {
        self.control.fail(reason);
        self.abandon()
    }

    /// Answers every call with the loss, and then sleeps until the process ends. It never returns: MPI may write to the
    /// buffers of the call under way.
    fn abandon(&self) -> ! {
        let error = self.control.failure().error();
        let error = error.unwrap_or_else(|| Error::new(ErrorKind::Lost, "the group has ended"));
        let answer = |reply: Sender<Result<Reply, Error>>| drop(reply.send(Err(error.clone())));
        self.current.take().into_iter().for_each(answer);
        self.jobs.iter().for_each(|job| answer(job.reply));
        self.control.leave();
        loop {
            thread::park();
        }
    }
}

pub(super) fn reply<T: crate::element::Carried>(values: Vec<T>) -> Reply {
    Reply {
        values: T::wrap(values),
        counts: Vec::new(),
    }
}
