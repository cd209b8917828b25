//! Host functions in a stream, run by threads that have subscribed to it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cann_sys::errors::*;

use crate::error::{Outcome, ensure, fail};
use crate::stream::{PatientWork, Stream, Task};

/// CANN's two kinds of host functions, each with its own subscriptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// `aclrtLaunchCallback`.
    Report,
    /// `aclrtLaunchHostFunc`.
    HostFunction,
}

/// A host function with its argument.
pub(crate) type Function = Box<dyn FnOnce() + Send>;

struct Call {
    function: Function,
    /// Notified when the function has returned.
    done: Option<Arc<Done>>,
}

#[derive(Default)]
struct Done {
    done: Mutex<bool>,
    changed: Condvar,
}

/// The functions that wait for a thread.
#[derive(Default)]
struct Mailbox {
    calls: Mutex<VecDeque<Call>>,
    arrived: Condvar,
    /// The number of streams to which the thread has subscribed.
    streams: Mutex<usize>,
}

#[derive(Default)]
struct Subscriptions {
    /// The thread of each stream.
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

/// The interval in which a stream that waits for a function checks whether any thread will run it.
const PATIENCE: Duration = Duration::from_millis(10);

/// Subscribes `thread` to the functions of the stream.
pub(crate) fn subscribe(kind: Kind, thread: u64, stream: &Stream) -> Outcome<()> {
    with(|all| {
        ensure!(!all.threads.contains_key(&(kind, stream.id)), ACL_ERROR_RT_STREAM_SUBSCRIBE;
            "a thread has subscribed to the stream already");
        all.threads.insert((kind, stream.id), thread);
        let mailbox = all.mailboxes.entry((kind, thread)).or_default();
        *lock(&mailbox.streams) += 1;
        Ok(())
    })
}

pub(crate) fn unsubscribe(kind: Kind, thread: u64, stream: &Stream) -> Outcome<()> {
    with(|all| {
        ensure!(all.threads.get(&(kind, stream.id)) == Some(&thread), ACL_ERROR_RT_THREAD_SUBSCRIBE;
            "the thread {thread} has not subscribed to the stream");
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

/// Removes all subscriptions, and the functions that wait.
pub(crate) fn forget_all() {
    with(|all| *all = Subscriptions::default());
}

fn mailbox(kind: Kind, stream: i32) -> Option<Arc<Mailbox>> {
    with(|all| {
        let thread = all.threads.get(&(kind, stream))?;
        all.mailboxes.get(&(kind, *thread)).cloned()
    })
}

/// Enqueues a function on the stream. If `blocking`, later tasks wait for the function.
pub(crate) fn launch(
    kind: Kind,
    stream: &Stream,
    function: Function,
    blocking: bool,
) -> Outcome<()> {
    let id = stream.id;
    let Some(mailbox) = mailbox(kind, id) else {
        match kind {
            Kind::Report => fail!(ACL_ERROR_RT_STREAM_NO_CB_REG;
                "no thread has subscribed to the stream; call aclrtSubscribeReport"),
            // If no thread of the program has subscribed, a thread of CANN runs the function: that of the stream.
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
    /// Waits until the function has run or no thread will run it.
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

/// Runs the next function that waits for `thread`. Waits for one until the timeout.
pub(crate) fn process(kind: Kind, thread: u64, timeout: Option<Duration>) -> Outcome<()> {
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    let call = loop {
        // This is looked up again, because the thread may unsubscribe while it waits.
        let Some(mailbox) = with(|all| all.mailboxes.get(&(kind, thread)).cloned()) else {
            fail!(ACL_ERROR_RT_THREAD_SUBSCRIBE; "this thread has not subscribed to a stream")
        };
        let mut calls = lock(&mailbox.calls);
        if let Some(call) = calls.pop_front() {
            break call;
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            fail!(ACL_ERROR_RT_REPORT_TIMEOUT; "no function of the host came in time")
        }
        let patience = left.map_or(PATIENCE, |left| left.min(PATIENCE));
        drop(mailbox.arrived.wait_timeout(calls, patience));
    };
    // This is outside the locks, because the function may take long.
    (call.function)();
    if let Some(done) = call.done {
        done.tell();
    }
    Ok(())
}
