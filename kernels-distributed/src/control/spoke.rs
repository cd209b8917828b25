//! The control connection of every rank but rank 0.

use super::message::{Message, ReadError};
use super::{Failure, Membership, Watched, Writer, connection, interval, silence, verdict};
use crate::{Error, Options};
use kernels_io::escape;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

pub(super) struct Spoke {
    /// The name of this rank.
    own: String,
    /// The name of rank 0.
    hub: String,
    failure: Arc<Failure>,
    writer: Mutex<Writer>,
    heard: Watched<Heard>,
    options: Options,
}

/// The verdict and the departure of rank 0.
#[derive(Default)]
struct Heard {
    verdict: Option<String>,
    left: bool,
}

impl Spoke {
    pub(super) fn start(
        membership: Membership,
        host: &str,
        port: u16,
        failure: Arc<Failure>,
    ) -> Result<Arc<Self>, Error> {
        let Membership {
            rank,
            names,
            token,
            options,
        } = membership;
        let (own, hub) = (names[rank].clone(), names[0].clone());
        let problem = |error: io::Error| {
            let place = format!("{}:{port}", escape(host));
            connection(format!(
                "{own} can't connect to {hub} at {place}: {error}; MASTER_ADDR and MASTER_PORT set it"
            ))
        };
        let mut stream = dial(host, port, options.timeout).map_err(problem)?;
        let mut writer = Writer::new(&stream, &options).map_err(problem)?;
        // Rank 0 may wait for others as long as the timeout, and then says who did not come.
        stream
            .set_read_timeout(Some(options.timeout + interval(&options)))
            .map_err(problem)?;
        writer.send(&Message::Hello {
            token,
            rank: rank as u32,
        });
        match Message::read(&mut stream) {
            Ok(Message::Welcome) => {}
            Ok(Message::Lost(reason)) => return Err(connection(reason)),
            _ => {
                return Err(connection(format!(
                    "{own} was not let in by {hub} at {}:{port}",
                    escape(host)
                )));
            }
        }
        stream
            .set_read_timeout(Some(silence(&options)))
            .map_err(problem)?;
        let (writer, heard) = (Mutex::new(writer), Watched::default());
        let spoke = Arc::new(Self {
            own,
            hub,
            failure,
            writer,
            heard,
            options,
        });
        let (reading, beating) = (spoke.clone(), spoke.clone());
        thread::spawn(move || reading.read(stream));
        thread::spawn(move || beating.beat());
        Ok(spoke)
    }

    fn read(&self, mut stream: TcpStream) {
        loop {
            let problem = match Message::read(&mut stream) {
                Ok(Message::Alive) => continue,
                Ok(Message::Verdict(verdict)) => {
                    self.heard.update(|heard| heard.verdict = Some(verdict));
                    continue;
                }
                Ok(Message::Leaves) => return self.heard.update(|heard| heard.left = true),
                Ok(Message::Lost(problem)) => problem,
                Ok(_) => format!("{} sent a message that only ranks send to it", self.hub),
                Err(error) => lost(&self.hub, error, &self.options),
            };
            self.failure.set(problem);
            return;
        }
    }

    fn beat(&self) {
        while !self.writer().ended {
            self.writer().send(&Message::Alive);
            thread::sleep(interval(&self.options));
        }
    }

    pub(super) fn agree(&self, what: &str, digest: &[u8; 32]) -> Result<(), Error> {
        self.writer().send(&Message::Digest {
            digest: *digest,
            what: what.into(),
        });
        let result = self
            .heard
            .wait_for(None, |heard| match heard.verdict.take() {
                Some(problem) => Some(verdict(&problem)),
                None => self.failure.error().map(Err),
            });
        result.expect("it waits without an end")
    }

    pub(super) fn fail(&self, reason: &str) {
        let reason = escape(reason);
        if self.failure.set(format!("{}: {reason}", self.own)) {
            self.writer().send(&Message::GivesUp(reason.into_owned()));
        }
    }

    pub(super) fn leave(&self) {
        if !self.failure.is_set() {
            self.writer().send(&Message::Leaves);
            let over = |heard: &mut Heard| (heard.left || self.failure.is_set()).then_some(());
            self.heard.wait_for(Some(self.options.timeout), over);
        }
    }

    pub(super) fn close(&self) {
        self.writer().close();
    }

    fn writer(&self) -> std::sync::MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the sentence about a rank whose connection ended or is silent.
pub(super) fn lost(name: &str, error: ReadError, options: &Options) -> String {
    match error {
        ReadError::Closed => {
            format!("{name} is gone: its process ended or its connection was closed")
        }
        ReadError::Silent => format!(
            "{name} gave no sign of life for {:?}: it hangs or its network is down",
            silence(options)
        ),
        ReadError::Malformed(problem) => format!("{name} sent {problem}"),
    }
}

/// Connects to one of the host's addresses, and tries again until the time is over.
fn dial(host: &str, port: u16, most: Duration) -> io::Result<TcpStream> {
    let start = Instant::now();
    loop {
        let left = most
            .saturating_sub(start.elapsed())
            .max(Duration::from_millis(1));
        let result = dial_once(host, port, left);
        if result.is_ok() || start.elapsed() >= most {
            return result;
        }
        thread::sleep(Duration::from_millis(50));
    }
}

fn dial_once(host: &str, port: u16, most: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, most) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}
