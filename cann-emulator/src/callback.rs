//! Functions of the host in a stream, run by threads that have subscribed to it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cann_sys::errors::*;

use crate::error::{Outcome, ensure, fail};
use crate::stream::{PatientWork, Stream, Task};

/// The two ways of CANN, which have subscriptions of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// `aclrtLaunchCallback`.
    Report,
    /// `aclrtLaunchHostFunc`.
    HostFunction,
}

/// A function of the host with its argument.
pub(crate) type Function = Box<dyn FnOnce() + Send>;

struct Call {
    function: Function,
    /// Told when the function has returned.
    done: Option<Arc<Done>>,
}

#[derive(Default)]
struct Done {
    done: Mutex<bool>,
    changed: Condvar,
}

/// What waits for a thread.
#[derive(Default)]
struct Mailbox {
    calls: Mutex<VecDeque<Call>>,
    arrived: Condvar,
    /// How many streams the thread has subscribed to.
    streams: Mutex<usize>,
}

#[derive(Default)]
struct Subscriptions {
    /// By stream, the thread.
    threads: HashMap<(Kind, i32), u64>,
    mailboxes: HashMap<(Kind, u64), Arc<Mailbox>>,
}

static SUBSCRIPTIONS: Mutex<Option<Subscriptions>> = Mutex::new(None);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn with<T>(work: impl FnOnce(&mut Subscriptions) -> T) -> T {
    work(lock(&SUBSCRIPTIONS).get_or_insert_default())
}

/// How soon a stream that waits for a function notices that nobody will run it.
const PATIENCE: Duration = Duration::from_millis(10);

/// Lets `thread` run the functions of the stream.
pub(crate) fn subscribe(kind: Kind, thread: u64, stream: &Stream) -> Outcome<()> {
    with(|all| {
        ensure!(
            !all.threads.contains_key(&(kind, stream.id)),
            ACL_ERROR_RT_STREAM_SUBSCRIBE,
            "a thread has subscribed to the stream already"
        );
        all.threads.insert((kind, stream.id), thread);
        let mailbox = all.mailboxes.entry((kind, thread)).or_default();
        *lock(&mailbox.streams) += 1;
        Ok(())
    })
}

pub(crate) fn unsubscribe(kind: Kind, thread: u64, stream: &Stream) -> Outcome<()> {
    with(|all| {
        ensure!(
            all.threads.get(&(kind, stream.id)) == Some(&thread),
            ACL_ERROR_RT_THREAD_SUBSCRIBE,
            "the thread {thread} has not subscribed to the stream"
        );
        all.threads.remove(&(kind, stream.id));
        let left = all.mailboxes.get(&(kind, thread)).map(|mailbox| {
            let mut streams = lock(&mailbox.streams);
            *streams -= 1;
            *streams
        });
        if left == Some(0) {
            all.mailboxes.remove(&(kind, thread));
        }
        Ok(())
    })
}

/// Forgets all subscriptions, and with them what waits.
pub(crate) fn forget_all() {
    with(|all| *all = Subscriptions::default());
}

fn mailbox(kind: Kind, stream: i32) -> Option<Arc<Mailbox>> {
    with(|all| {
        let thread = all.threads.get(&(kind, stream))?;
        all.mailboxes.get(&(kind, *thread)).cloned()
    })
}

/// Puts a function into the stream. What comes next on it waits for the function, if `blocking`.
pub(crate) fn launch(
    kind: Kind,
    stream: &Stream,
    function: Function,
    blocking: bool,
) -> Outcome<()> {
    let id = stream.id;
    let Some(mailbox) = mailbox(kind, id) else {
        match kind {
            Kind::Report => fail!(
                ACL_ERROR_RT_STREAM_NO_CB_REG,
                "no thread has subscribed to the stream; call aclrtSubscribeReport"
            ),
            // Without a thread of the program's, one of CANN's does it: the stream's.
            Kind::HostFunction => {
                let work: PatientWork = Box::new(move |_| {
                    function();
                    Ok(())
                });
                return stream.enqueue(Task::Patient(work));
            }
        }
    };
    stream.enqueue(Task::Patient(Box::new(move |abandoned| {
        let done = blocking.then(Arc::<Done>::default);
        lock(&mailbox.calls).push_back(Call {
            function,
            done: done.clone(),
        });
        mailbox.arrived.notify_all();
        if let Some(done) = done {
            done.wait(|| abandoned() || self::mailbox(kind, id).is_none());
        }
        Ok(())
    })))
}

impl Done {
    /// Waits until it is done, or nobody will do it.
    fn wait(&self, given_up: impl Fn() -> bool) {
        let mut done = lock(&self.done);
        while !*done && !given_up() {
            let waited = self.changed.wait_timeout(done, PATIENCE);
            done = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn tell(&self) {
        *lock(&self.done) = true;
        self.changed.notify_all();
    }
}

/// Runs the next function that waits for `thread`, and waits for one until the time is over.
pub(crate) fn process(kind: Kind, thread: u64, timeout: Option<Duration>) -> Outcome<()> {
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    let call = loop {
        // Looked up again: the thread may be unsubscribed while it waits.
        let Some(mailbox) = with(|all| all.mailboxes.get(&(kind, thread)).cloned()) else {
            fail!(
                ACL_ERROR_RT_THREAD_SUBSCRIBE,
                "this thread has not subscribed to a stream"
            )
        };
        let mut calls = lock(&mailbox.calls);
        if let Some(call) = calls.pop_front() {
            break call;
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            fail!(
                ACL_ERROR_RT_REPORT_TIMEOUT,
                "no function of the host came in time"
            )
        }
        let patience = left.map_or(PATIENCE, |left| left.min(PATIENCE));
        drop(mailbox.arrived.wait_timeout(calls, patience));
    };
    // Outside the locks: the function may take its time.
    (call.function)();
    if let Some(done) = call.done {
        done.tell();
    }
    Ok(())
}
