//! Groups whose ranks are threads of one process: each rank lays its request on a board and reads those of all.

use crate::answer::answer;
use crate::element::Values;
use crate::request::{Answer, Call, Engine, Reply, Request, left_early};
use crate::{Error, ErrorKind};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The place where the ranks meet.
struct Board {
    names: Vec<String>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// The calls that not every rank has taken the result of, by their number.
    calls: BTreeMap<u64, Meeting>,
    /// The number of each rank's next call.
    next: Vec<u64>,
    left: Vec<bool>,
    failed: Option<Error>,
}

/// One call of all ranks.
struct Meeting {
    requests: Vec<Option<Arc<Request>>>,
    /// The ranks that have the result, or don't want it.
    taken: usize,
}

/// One rank of a board.
pub(crate) struct Rank {
    board: Arc<Board>,
    rank: usize,
}

/// Returns the ranks of a new board.
pub(crate) fn ranks(names: Vec<String>) -> Vec<Rank> {
    let size = names.len();
    let state = State {
        calls: BTreeMap::new(),
        next: vec![0; size],
        left: vec![false; size],
        failed: None,
    };
    let board = Arc::new(Board {
        names,
        state: Mutex::new(state),
        changed: Condvar::new(),
    });
    let rank = |rank| Rank {
        board: board.clone(),
        rank,
    };
    (0..size).map(rank).collect()
}

impl Board {
    // No code panics while it holds the lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, rank: usize, request: Request) -> u64 {
        let mut state = self.lock();
        let size = state.next.len();
        let number = state.next[rank];
        state.next[rank] += 1;
        let new = || Meeting {
            requests: vec![None; size],
            taken: 0,
        };
        let meeting = state.calls.entry(number).or_insert_with(new);
        meeting.requests[rank] = Some(Arc::new(request));
        self.changed.notify_all();
        number
    }

    /// Waits until all ranks have laid their requests. A rank that left or gave up is an error.
    fn meet(&self, number: u64, rank: usize) -> Result<Vec<Arc<Request>>, Error> {
        let mut state = self.lock();
        loop {
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            let requests = &state.calls[&number].requests;
            if let Some(requests) = requests.iter().cloned().collect() {
                return Ok(requests);
            }
            let left =
                (0..requests.len()).find(|other| requests[*other].is_none() && state.left[*other]);
            if let (Some(left), Some(own)) = (left, &requests[rank]) {
                return Err(left_early(
                    &self.names[left],
                    &self.names[rank],
                    &own.header(),
                ));
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn take(&self, number: u64) {
        let mut state = self.lock();
        let size = state.next.len();
        if let Some(meeting) = state.calls.get_mut(&number) {
            meeting.taken += 1;
            if meeting.taken == size {
                state.calls.remove(&number);
            }
        }
    }
}

/// A rank's part in a call. A rank that drops it without waiting doesn't want the result.
struct Ticket {
    board: Arc<Board>,
    number: u64,
    rank: usize,
}

impl Ticket {
    fn wait(self) -> Result<Reply, Error> {
        let requests = self.board.meet(self.number, self.rank)?;
        answer(&requests, self.rank, &self.board.names)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.board.take(self.number);
    }
}

impl Engine for Rank {
    fn start(&self, request: Request) -> Answer {
        let number = self.board.add(self.rank, request);
        let ticket = Ticket {
            board: self.board.clone(),
            number,
            rank: self.rank,
        };
        Box::new(move || ticket.wait())
    }

    fn agree(&self, what: &str, digest: &[u8; 32]) -> Result<(), Error> {
        let (call, values) = (Call::Agree(what.into()), Values::U8(digest.to_vec()));
        self.start(Request {
            call,
            values,
            counts: Vec::new(),
        })()
        .map(drop)
    }

    fn fail(&self, reason: &str) {
        let problem = format!(
            "{}: {}",
            self.board.names[self.rank],
            kernels_io::escape(reason)
        );
        self.board
            .lock()
            .failed
            .get_or_insert(Error::new(ErrorKind::Lost, problem));
        self.board.changed.notify_all();
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        self.board.lock().left[self.rank] = true;
        self.board.changed.notify_all();
    }
}
