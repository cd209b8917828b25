//! The engine MPI. One thread owns MPI: it initialises the library, makes every call and ends it, so that any level of
//! threads above `MPI_THREAD_SINGLE` suffices. Calls of the group reach it through a channel, in their order.
//!
//! Nothing waits inside MPI once the ranks are connected. The thread starts nonblocking collectives and tests them, so
//! that it also sees the loss of a rank, which MPI may not report. After a loss, it makes no more calls of MPI: those
//! under way keep their buffers, and the process ends without `MPI_Finalize`, which would wait for the lost rank.

mod calls;
mod join;
mod worker;

use crate::control::Control;
use crate::request::{Answer, Call, Engine, Request};
use crate::{Error, ErrorKind};
pub(crate) use join::join;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use worker::Job;

/// The side of the engine that the group calls.
struct Mpi {
    jobs: Mutex<Option<Sender<Job>>>,
    control: Arc<Control>,
    worker: Option<JoinHandle<()>>,
}

impl Engine for Mpi {
    fn start(&self, request: Request) -> Answer {
        let (reply, answer) = mpsc::channel();
        let job = Job { request, reply };
        // If the worker is gone, so is the reply.
        if let Some(jobs) = &*self.jobs.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = jobs.send(job);
        }
        Box::new(move || answer.recv().unwrap_or_else(|_| Err(gone())))
    }

    fn agree(&self, what: &str, digest: &[u8; 32]) -> Result<(), Error> {
        // A rank that calls something else is found here.
        self.start(Request::empty(Call::Agree(what.into())))()?;
        self.control.agree(what, digest)
    }

    fn fail(&self, reason: &str) {
        self.control.fail(reason);
    }
}

impl Drop for Mpi {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.fail("it panicked");
        }
        // The group's end is a call of all ranks, so that a rank which goes on learns of it.
        let over = self.start(Request::empty(Call::Leave))();
        drop(
            self.jobs
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        if over.is_ok()
            && let Some(worker) = self.worker.take()
        {
            // It ends MPI. A panic there has been printed.
            let _ = worker.join();
        }
    }
}

fn gone() -> Error {
    Error::new(ErrorKind::Engine, "the thread of MPI has ended")
}
