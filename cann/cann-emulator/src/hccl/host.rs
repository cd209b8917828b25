//! The process that made a root: it lets ranks of other processes in and brings their parts to the meetings.
//!
//! Anybody on the machine can connect to the socket. A connection counts for nothing until it has shown the token of
//! the root, for which it has a few seconds.

use std::io::{self, ErrorKind, Read};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cann_sys::hccl::HCCL_E_SYSCALL;

use super::connection::Post;
use super::gathering::Gathering;
use super::root::Root;
use super::socket;
use super::wire::{Hello, Message};
use crate::error::{Outcome, fail};

/// The time in which a connection must show the token.
const INTRODUCTION: Duration = Duration::from_secs(5);

/// The largest number of connections that have not shown it yet.
const STRANGERS: usize = 64;

/// The pause after a connection that the system could not give.
const AGAIN: Duration = Duration::from_millis(10);

/// Makes the root of a new group, and a thread that lets ranks of other processes in until all have come.
pub(crate) fn make_root() -> Outcome<Root> {
    let root = Root::new()?;
    let gathering = Gathering::open(root);
    let started = socket::listen(root.id).and_then(|listener| {
        std::thread::Builder::new()
            .name("cann-emulator host".to_owned())
            .spawn(move || admit_all(&listener, &gathering))
    });
    match started {
        Ok(_) => Ok(root),
        // There, groups are of one process.
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(root),
        Err(error) => fail!(HCCL_E_SYSCALL.0 as i32;
            "ranks of other processes can't be let in: {error}"),
    }
}

fn admit_all(listener: &UnixListener, gathering: &Arc<Gathering>) {
    let strangers = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        if gathering.is_complete() {
            return;
        }
        let Ok(stream) = stream else {
            std::thread::sleep(AGAIN);
            continue;
        };
        // A rank that is sent away among them tries again.
        if strangers.fetch_add(1, Ordering::Relaxed) >= STRANGERS {
            strangers.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (gathering, count) = (gathering.clone(), strangers.clone());
        let serve = move || {
            let hello = introduction(&stream, &gathering.root);
            count.fetch_sub(1, Ordering::Relaxed);
            if let Ok(hello) = hello {
                // Nobody hears of a connection that fails, except that the rank leaves the group.
                let _ = serve(stream, &hello, &gathering);
            }
        };
        let thread = std::thread::Builder::new().name("cann-emulator rank".to_owned());
        if thread.spawn(serve).is_err() {
            strangers.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Reads the first message of a connection.
fn introduction(mut stream: &UnixStream, root: &Root) -> io::Result<Hello> {
    let deadline = Instant::now() + INTRODUCTION;
    let mut bytes = [0; Hello::LENGTH];
    let mut read = 0;
    while read < bytes.len() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut bytes[read..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => read += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    stream.set_read_timeout(None)?;
    Hello::decode(&bytes, root).ok_or_else(|| ErrorKind::InvalidData.into())
}

/// Serves a rank of another process until its connection ends.
fn serve(mut stream: UnixStream, hello: &Hello, gathering: &Gathering) -> io::Result<()> {
    let post = Post::start(stream.try_clone()?)?;
    let rank = hello.rank as usize;
    let meetings = match gathering.admit(hello, Some(post.clone())) {
        Ok(meetings) => meetings,
        Err(failure) => {
            post.send(&Message::Refused(failure), None);
            return Ok(());
        }
    };
    drop(post);
    let error = loop {
        match Message::read(&mut stream) {
            Ok(Message::Part(key, part)) => {
                if meetings.enter(key, rank, part).is_err() {
                    break ErrorKind::InvalidData.into();
                }
            }
            Ok(Message::GaveUp(key, failure)) => meetings.give_up(key, rank, failure),
            Ok(_) => break ErrorKind::InvalidData.into(),
            Err(error) => break error,
        }
    };
    gathering.dismiss(rank);
    meetings.depart(rank);
    Err(error)
}
