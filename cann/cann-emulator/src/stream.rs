//! Streams. Each has a thread, which runs its tasks in order.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cann_sys::errors::*;

use crate::config;
use crate::error::{Failure, Outcome, fail, guarded};
use crate::event::Event;
use crate::loss;
use crate::memory::{Memory, memory};

/// Work on the memory of devices.
pub(crate) type Kernel = Box<dyn FnOnce(&mut Memory) -> Outcome<()> + Send>;

/// Work that may wait. Its argument returns `true` when its stream is destroyed by force and the work must give up.
pub(crate) type PatientWork = Box<dyn FnOnce(&dyn Fn() -> bool) -> Outcome<()> + Send>;

pub(crate) enum Task {
    Kernel(Kernel),
    /// Work that runs without the memory's lock: host functions, and work that waits for other streams.
    Patient(PatientWork),
    Record(Arc<Event>, u64),
    Reset(Arc<Event>, u64),
    /// Waits for the event's turn, and at most as long as the limit, if there is one.
    Wait(Arc<Event>, u64, Option<Duration>),
}

/// The settings with which a stream is made.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Settings {
    pub(crate) priority: u32,
    pub(crate) flags: u32,
}

#[derive(Default)]
struct Queue {
    tasks: VecDeque<Task>,
    /// The number of tasks so far, and of those that have ended.
    enqueued: u64,
    ended: u64,
    busy: bool,
    closed: bool,
    /// True if the stream is destroyed by force: tasks that have not begun never will, and waits end.
    abandoned: bool,
    /// The first error, which every wait reports.
    error: Option<Failure>,
}

struct Shared {
    /// True if nothing is computed after an error.
    stops: AtomicBool,
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stream of a context.
pub(crate) struct Stream {
    pub(crate) device: i32,
    pub(crate) context: usize,
    /// A number that no other stream of the process has.
    pub(crate) id: i32,
    pub(crate) settings: Settings,
    shared: Arc<Shared>,
    worker: Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl Stream {
    pub(crate) fn start(device: i32, context: usize, settings: Settings) -> Outcome<Self> {
        static STARTED: AtomicI32 = AtomicI32::new(0);
        let shared = Arc::new(Shared {
            stops: AtomicBool::new(false),
            queue: Mutex::default(),
            changed: Condvar::new(),
        });
        let work = shared.clone();
        let worker = std::thread::Builder::new()
            .name("cann-emulator stream".to_owned())
            .spawn(move || run(&work, device))
            .map_err(|error| Failure::new(ACL_ERROR_RT_NO_STREAM_RESOURCE, error.to_string()))?;
        Ok(Self {
            device,
            context,
            id: STARTED.fetch_add(1, Ordering::Relaxed),
            settings,
            shared,
            worker: Mutex::new(Some(worker)),
        })
    }

    pub(crate) fn enqueue(&self, task: Task) -> Outcome<()> {
        let mut queue = self.shared.lock();
        if queue.closed {
            fail!(ACL_ERROR_RT_INVALID_HANDLE; "the stream was destroyed");
        }
        queue.tasks.push_back(task);
        queue.enqueued += 1;
        self.shared.changed.notify_all();
        Ok(())
    }

    /// Returns `true` if all tasks so far have run, or the stream's error.
    pub(crate) fn is_idle(&self) -> Outcome<bool> {
        let queue = self.shared.lock();
        match &queue.error {
            Some(failure) => Err(failure.clone()),
            None => Ok(queue.tasks.is_empty() && !queue.busy),
        }
    }

    /// Makes the stream compute nothing once a task has failed.
    pub(crate) fn stop_on_failure(&self) {
        self.shared.stops.store(true, Ordering::Relaxed);
    }

    /// Waits until all tasks so far have ended, and not for those enqueued meanwhile. Reports the stream's error.
    pub(crate) fn synchronize(&self, timeout: Option<Duration>) -> Outcome<()> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let mut queue = self.shared.lock();
        let last = queue.enqueued;
        while queue.ended < last {
            queue = match deadline {
                None => self
                    .shared
                    .changed
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        fail!(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT; "the stream was not done in time");
                    }
                    let waited = self.shared.changed.wait_timeout(queue, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        queue.error.clone().map_or(Ok(()), Err)
    }

    /// Ends the worker after its tasks, or, if `force`, without those that have not begun.
    pub(crate) fn close(&self, force: bool) {
        let abandoned = {
            let mut queue = self.shared.lock();
            queue.closed = true;
            queue.abandoned = force;
            self.shared.changed.notify_all();
            if force {
                queue.ended += queue.tasks.len() as u64;
                std::mem::take(&mut queue.tasks)
            } else {
                VecDeque::new()
            }
        };
        // A wait for an event whose recording was abandoned must not last for ever.
        for task in abandoned {
            match task {
                Task::Record(event, turn) => event.complete(turn, None),
                Task::Wait(event, ..) => event.passed(),
                Task::Kernel(_) | Task::Patient(_) | Task::Reset(..) => {}
            }
        }
        let worker = self
            .worker
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(worker) = worker
            && worker.thread().id() != std::thread::current().id()
        {
            let _ = worker.join();
        }
    }
}

fn run(shared: &Shared, device: i32) {
    loop {
        let task = {
            let mut queue = shared.lock();
            loop {
                if let Some(task) = queue.tasks.pop_front() {
                    queue.busy = true;
                    break task;
                }
                if queue.closed {
                    return;
                }
                queue = shared
                    .changed
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner);
            }
        };
        let error = shared.lock().error.clone();
        let outcome = perform(shared, device, task, error);
        let mut queue = shared.lock();
        queue.busy = false;
        queue.ended += 1;
        if let Err(failure) = outcome {
            queue.error.get_or_insert(failure);
        }
        shared.changed.notify_all();
    }
}

/// The interval in which a stream that waits for an event checks whether it is destroyed by force.
const PATIENCE: Duration = Duration::from_millis(10);

/// Runs a task. After an error the stream goes on, as streams do by default, or computes nothing if it was set to
/// stop. Events are recorded in either case, so that nobody hangs, and they keep the error.
fn perform(shared: &Shared, device: i32, task: Task, error: Option<Failure>) -> Outcome<()> {
    let config = config::current().unwrap_or_default();
    if !config.delay.is_zero() {
        std::thread::sleep(config.delay);
    }
    let abandoned = || shared.lock().abandoned;
    match task {
        Task::Kernel(_) | Task::Patient(_) => loss::task(device, config.device_lost_at)?,
        // Others wait for these tasks, so they run even if the device is lost.
        Task::Record(..) | Task::Reset(..) | Task::Wait(..) => {}
    }
    match task {
        Task::Kernel(_) if error.is_some() && shared.stops.load(Ordering::Relaxed) => Ok(()),
        Task::Kernel(kernel) => {
            let mut memory = memory();
            guarded(|| kernel(&mut memory))
        }
        Task::Patient(work) => guarded(|| work(&abandoned)),
        Task::Record(event, turn) => {
            event.complete(turn, error);
            Ok(())
        }
        Task::Reset(event, turn) => {
            event.reset(turn);
            Ok(())
        }
        Task::Wait(event, turn, limit) => {
            let deadline = limit.map(|limit| Instant::now() + limit);
            let mut outcome = Ok(());
            while !event.wait(turn, Some(PATIENCE)) && !abandoned() {
                if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                    outcome = Err(Failure::new(
                        ACL_ERROR_RT_EVENT_SYNC_TIMEOUT,
                        "a stream waited for an event longer than it was told to",
                    ));
                    break;
                }
            }
            event.passed();
            outcome
        }
    }
}
