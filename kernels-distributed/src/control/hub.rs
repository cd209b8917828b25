//! The control connections of rank 0.

use super::message::{Message, ReadError, Token};
use super::spoke::lost;
use super::{Failure, Membership, Watched, Writer, connection, interval, verdict};
use crate::{Error, Options, digest};
use kernels_io::escape;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The number of connections of strangers that may wait at a time, besides those of ranks.
const STRANGERS: usize = 64;

pub(super) struct Hub {
    names: Vec<String>,
    failure: Arc<Failure>,
    /// The connections of the ranks from 1.
    writers: Vec<Mutex<Writer>>,
    table: Watched<Table>,
    options: Options,
}

/// The digests and departures of the ranks.
struct Table {
    /// The digests of the comparison that goes on, by rank.
    digests: Vec<Option<(String, Vec<u8>)>>,
    /// The result of a comparison, for rank 0.
    verdict: Option<String>,
    left: Vec<bool>,
}

/// Listens for the ranks, on all addresses or only on this machine. A port of 0 takes a free one.
pub(crate) fn listen(own: &str, port: u16, only_here: bool) -> Result<TcpListener, Error> {
    let problem = |error: io::Error| {
        let reason = match error.kind() {
            ErrorKind::AddrInUse => "it is in use by another program; MASTER_PORT sets it".into(),
            _ => error.to_string(),
        };
        connection(format!("{own} can't listen on port {port}: {reason}"))
    };
    if only_here {
        return TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(problem);
    }
    // This takes IPv4 as well, where the machine has both.
    match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)) {
        Err(error) if error.kind() != ErrorKind::AddrInUse => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).map_err(problem)
        }
        result => result.map_err(problem),
    }
}

impl Hub {
    pub(super) fn start(
        membership: Membership,
        listener: &TcpListener,
        failure: Arc<Failure>,
    ) -> Result<Arc<Self>, Error> {
        let Membership {
            names,
            token,
            options,
            ..
        } = membership;
        let mut streams = accept_all(listener, &names, token, &options)?;
        let writer = |stream: &TcpStream| Writer::new(stream, &options).map(Mutex::new);
        let writers = streams.iter().map(writer).collect::<io::Result<Vec<_>>>();
        let writers = writers
            .map_err(|error| connection(format!("{} can't use a connection: {error}", names[0])))?;
        let size = names.len();
        let table = Table {
            digests: vec![None; size],
            verdict: None,
            left: vec![false; size],
        };
        let table = Watched {
            value: Mutex::new(table),
            changed: Default::default(),
        };
        let hub = Arc::new(Self {
            names,
            failure,
            writers,
            table,
            options,
        });
        hub.tell_all(&Message::Welcome);
        for (peer, stream) in streams.drain(..).enumerate() {
            let reading = hub.clone();
            thread::spawn(move || reading.read(peer + 1, stream));
        }
        let beating = hub.clone();
        thread::spawn(move || beating.beat());
        Ok(hub)
    }

    fn read(&self, rank: usize, mut stream: TcpStream) {
        let name = &self.names[rank];
        loop {
            let problem = match Message::read(&mut stream) {
                Ok(Message::Alive) => continue,
                Ok(Message::Digest { digest, what }) => match self.put(rank, what, digest) {
                    true => continue,
                    false => format!("{name} sent a digest before the last comparison ended"),
                },
                Ok(Message::GivesUp(reason)) => format!("{name}: {reason}"),
                Ok(Message::Leaves) => return self.table.update(|table| table.left[rank] = true),
                Ok(_) => format!("{name} sent a message that only rank 0 sends"),
                Err(error) => lost(name, error, &self.options),
            };
            return self.end(problem);
        }
    }

    fn beat(&self) {
        while self.writers.iter().any(|writer| !lock(writer).ended) {
            self.tell_all(&Message::Alive);
            thread::sleep(interval(&self.options));
        }
    }

    fn tell_all(&self, message: &Message) {
        self.writers
            .iter()
            .for_each(|writer| lock(writer).send(message));
    }

    fn end(&self, problem: String) {
        if self.failure.set(problem.clone()) {
            self.tell_all(&Message::Lost(problem));
        }
    }

    /// Takes a digest of a rank, and compares when all are there. Returns `false` if the rank has one here already.
    fn put(&self, rank: usize, what: String, digest: [u8; 32]) -> bool {
        let complete = self.table.update(|table| {
            if table.digests[rank].is_some() {
                return Err(());
            }
            table.digests[rank] = Some((what, digest.to_vec()));
            let complete: Option<Vec<_>> = table.digests.iter().cloned().collect();
            if complete.is_some() {
                table.digests.fill(None);
            }
            Ok(complete)
        });
        let Ok(complete) = complete else { return false };
        if let Some(items) = complete {
            let problem = digest::compare(&items, &self.names)
                .err()
                .map_or(String::new(), |error| error.to_string());
            self.tell_all(&Message::Verdict(problem.clone()));
            self.table.update(|table| table.verdict = Some(problem));
        }
        true
    }

    pub(super) fn agree(&self, what: &str, digest: &[u8; 32]) -> Result<(), Error> {
        self.put(0, what.into(), *digest);
        let result = self
            .table
            .wait_for(None, |table| match table.verdict.take() {
                Some(problem) => Some(verdict(&problem)),
                None => self.failure.error().map(Err),
            });
        result.expect("it waits without an end")
    }

    pub(super) fn fail(&self, reason: &str) {
        self.end(format!("{}: {}", self.names[0], escape(reason)));
    }

    /// Waits until all ranks leave, and tells them that rank 0 does: no message is on its way then that a closed
    /// connection would lose.
    pub(super) fn leave(&self) {
        let over = |table: &mut Table| {
            (table.left[1..].iter().all(|left| *left) || self.failure.is_set()).then_some(())
        };
        self.table.wait_for(Some(self.options.timeout), over);
        if !self.failure.is_set() {
            self.tell_all(&Message::Leaves);
        }
    }

    pub(super) fn close(&self) {
        self.writers.iter().for_each(|writer| lock(writer).close());
    }
}

fn lock(writer: &Mutex<Writer>) -> std::sync::MutexGuard<'_, Writer> {
    writer.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the connections of the ranks from 1. Strangers are turned away, without an effect on the ranks.
fn accept_all(
    listener: &TcpListener,
    names: &[String],
    token: Token,
    options: &Options,
) -> Result<Vec<TcpStream>, Error> {
    let problem =
        |error: io::Error| connection(format!("{} can't accept connections: {error}", names[0]));
    listener.set_nonblocking(true).map_err(problem)?;
    let (sender, receiver) = mpsc::channel();
    let mut door = Door {
        token,
        size: names.len(),
        waiting: 0,
        sender,
        receiver,
        timeout: options.timeout,
    };
    let mut streams: Vec<Option<TcpStream>> = names[1..].iter().map(|_| None).collect();
    let start = Instant::now();
    while streams.iter().any(Option::is_none) {
        if start.elapsed() >= options.timeout {
            let error = absent(&streams, names, options);
            let tell = |stream: &mut TcpStream| Message::Lost(error.to_string()).write(stream);
            // A rank that connected may be gone by now.
            streams
                .iter_mut()
                .flatten()
                .for_each(|stream| drop(tell(stream)));
            return Err(error);
        }
        match listener.accept() {
            Ok((stream, _)) => door.ask(stream),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            // The connection ended before it was accepted.
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
            Err(error) => return Err(problem(error)),
        }
        if let Some((rank, stream)) = door.next() {
            streams[rank - 1].get_or_insert(stream);
        }
    }
    Ok(streams.into_iter().flatten().collect())
}

fn absent(streams: &[Option<TcpStream>], names: &[String], options: &Options) -> Error {
    let absent: Vec<_> = (1..names.len())
        .filter(|rank| streams[rank - 1].is_none())
        .collect();
    let absent = digest::list(&absent, names);
    let (timeout, hub) = (options.timeout, &names[0]);
    connection(format!(
        "{absent} did not connect to {hub} within {timeout:?}; MASTER_ADDR and MASTER_PORT set its address"
    ))
}

/// The first messages of connections, each read in a thread of its own.
struct Door {
    token: Token,
    size: usize,
    /// Connections whose first message has not come yet.
    waiting: usize,
    sender: Sender<Option<(usize, TcpStream)>>,
    receiver: Receiver<Option<(usize, TcpStream)>>,
    timeout: Duration,
}

impl Door {
    fn ask(&mut self, stream: TcpStream) {
        if self.waiting >= self.size + STRANGERS {
            return;
        }
        self.waiting += 1;
        let (token, size, sender, timeout) =
            (self.token, self.size, self.sender.clone(), self.timeout);
        // The receiver is gone if all ranks are here.
        thread::spawn(move || {
            drop(sender.send(greet(stream, token, size, timeout).ok().flatten()))
        });
    }

    /// Returns the next rank that named itself, if one does within a short time.
    fn next(&mut self) -> Option<(usize, TcpStream)> {
        match self.receiver.recv_timeout(Duration::from_millis(5)) {
            Ok(answer) => {
                self.waiting -= 1;
                answer
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }
}

/// Reads the first message. Returns nothing for a stranger.
fn greet(
    mut stream: TcpStream,
    token: Token,
    size: usize,
    timeout: Duration,
) -> Result<Option<(usize, TcpStream)>, ReadError> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(timeout))?;
    Ok(match Message::read(&mut stream)? {
        Message::Hello {
            token: theirs,
            rank,
        } if theirs == token => {
            let rank = rank as usize;
            (1..size).contains(&rank).then_some((rank, stream))
        }
        _ => None,
    })
}
