//! A rank whose group is in another process.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use cann_sys::errors::ACL_ERROR_RT_LINK_ERROR;
use cann_sys::hccl::*;

use super::call::Part;
use super::connection::{Post, send_all};
use super::meeting::{Key, abandoned_by, too_late};
use super::root::{Root, random};
use super::wire::{Hello, Message};
use super::{PATIENCE, lock, socket};
use crate::error::{Failure, Outcome, ensure, fail};

type Answer = Outcome<Vec<Vec<u8>>>;

#[derive(Default)]
struct State {
    /// The meetings that the rank has entered and not left.
    open: HashMap<Key, Option<Answer>>,
    /// The end of the connection.
    end: Option<Failure>,
}

#[derive(Default)]
struct Answers {
    state: Mutex<State>,
    changed: Condvar,
}

/// The connection of a rank to its group.
pub(crate) struct Guest {
    rank: usize,
    post: Post,
    answers: Arc<Answers>,
}

/// Returns a random number of this process.
pub(crate) fn this_process() -> Outcome<u64> {
    static NUMBER: OnceLock<u64> = OnceLock::new();
    match NUMBER.get() {
        Some(number) => Ok(*number),
        None => {
            let number = u64::from_le_bytes(random()?);
            Ok(*NUMBER.get_or_init(|| number))
        }
    }
}

/// The pause after a connection that was closed without an answer.
const AGAIN: Duration = Duration::from_millis(50);

impl Guest {
    /// Joins a group and waits for all other ranks.
    pub(crate) fn join(
        root: &Root,
        size: usize,
        rank: usize,
        device: i32,
        deadline: Instant,
    ) -> Outcome<Self> {
        let hello = Hello {
            token: root.token,
            process: this_process()?,
            size: size as u32,
            rank: rank as u32,
            device,
        };
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            ensure!(!left.is_zero(), HCCL_E_TIMEOUT.0 as i32;
                "not all of {size} ranks came in time (HCCL_CONNECT_TIMEOUT)");
            let stream = match socket::connect(root.id) {
                Ok(stream) => stream,
                Err(error) => fail!(HCCL_E_TCP_CONNECT.0 as i32;
                    "the process {} that made the root has ended, is on another machine, or has \
                     its group complete: {error}", root.process),
            };
            match Self::greet(&stream, &hello, left) {
                Ok(Message::Welcome) => return Self::start(stream, rank),
                Ok(Message::Refused(failure)) => return Err(failure),
                // The time is over, or the other process closed the connection. It does if strangers crowd it, and
                // if it ends: then the next attempt fails.
                _ => std::thread::sleep(AGAIN),
            }
        }
    }

    /// Introduces the rank and waits for the answer.
    fn greet(mut stream: &UnixStream, hello: &Hello, left: Duration) -> std::io::Result<Message> {
        stream.set_read_timeout(Some(left))?;
        send_all(stream, &hello.encode())?;
        let answer = Message::read(&mut stream)?;
        stream.set_read_timeout(None)?;
        Ok(answer)
    }

    fn start(stream: UnixStream, rank: usize) -> Outcome<Self> {
        let answers = Arc::new(Answers::default());
        let started = stream.try_clone().and_then(|copy| {
            let (post, answers) = (Post::start(copy)?, answers.clone());
            std::thread::Builder::new()
                .name("cann-emulator guest".to_owned())
                .spawn(move || answers.listen(stream))?;
            Ok(post)
        });
        match started {
            Ok(post) => Ok(Self {
                rank,
                post,
                answers,
            }),
            Err(error) => fail!(HCCL_E_SYSCALL.0 as i32; "{error}"),
        }
    }

    /// Enters a meeting.
    pub(crate) fn enter(&self, key: Key, part: Outcome<Part>) {
        let mut state = lock(&self.answers.state);
        let answer = state.end.clone().map(Err);
        state.open.insert(key, answer);
        self.post.send(&Message::Part(key, part), None);
    }

    /// Waits until the work is done or never will be. Returns what the rank receives, or `None` if its stream was
    /// abandoned.
    pub(crate) fn leave(
        &self,
        key: Key,
        deadline: Option<Instant>,
        abandoned: &dyn Fn() -> bool,
    ) -> Outcome<Option<Vec<Vec<u8>>>> {
        let mut state = lock(&self.answers.state);
        loop {
            if let Some(Some(_)) = state.open.get(&key) {
                return state.open.remove(&key).flatten().transpose();
            }
            let late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if late || abandoned() {
                state.open.remove(&key);
                let failure = if late {
                    too_late()
                } else {
                    abandoned_by(self.rank)
                };
                self.post.send(&Message::GaveUp(key, failure), None);
                return if late { Err(too_late()) } else { Ok(None) };
            }
            let waited = self.answers.changed.wait_timeout(state, PATIENCE);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Answers {
    /// Takes answers until the connection ends. Then no meeting can have another.
    fn listen(&self, mut stream: UnixStream) {
        let error = loop {
            match Message::read(&mut stream) {
                Ok(Message::Answer(key, answer)) => {
                    // A rank that waits no longer has forgotten the meeting.
                    if let Some(place) = lock(&self.state).open.get_mut(&key) {
                        *place = Some(answer);
                    }
                    self.changed.notify_all();
                }
                Ok(_) => break std::io::Error::from(ErrorKind::InvalidData),
                Err(error) => break error,
            }
        };
        let text = format!("the process that made the group's root has ended ({error})");
        let end = Failure::new(ACL_ERROR_RT_LINK_ERROR, text);
        let mut state = lock(&self.state);
        for answer in state.open.values_mut() {
            answer.get_or_insert_with(|| Err(end.clone()));
        }
        state.end = Some(end);
        self.changed.notify_all();
    }
}
