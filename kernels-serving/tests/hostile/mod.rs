//! Hand-written WebSockets, for messages that no client sends, and a server in a process of its own.

// Each test program uses only a part of this module.
#![allow(dead_code)]

use std::io::{BufRead, BufReader, ErrorKind, Lines, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The time limit of all waiting.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The environment variable that makes this test program the server.
pub const SERVE: &str = "TEST_OF_HOSTILE_CLIENTS_SERVE";

/// A server in another process, so that its memory can be measured separately.
pub struct Victim {
    process: Child,
    // The server ends when one of these is closed: it reads standard input, and its test framework prints that it takes
    // long.
    _stdin: ChildStdin,
    _stdout: Lines<BufReader<ChildStdout>>,
    pub host: String,
    pub token: String,
}

impl Victim {
    /// Starts this program with the test `harmful::server`.
    pub fn start() -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "harmful::server", "--nocapture"])
            .env(SERVE, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut value = |name: &str| loop {
            let line = lines.next().expect("the server says more").unwrap();
            if let Some((_, value)) = line.split_once(name) {
                break value.to_owned();
            }
        };
        Self {
            host: value("address ws://"),
            token: value("token "),
            _stdin: process.stdin.take().unwrap(),
            _stdout: lines,
            process,
        }
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns a value of `/proc/ID/status`, in KiB.
    pub fn kib(&self, name: &str) -> usize {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let number = line
            .unwrap()
            .trim_start_matches(':')
            .split_whitespace()
            .next();
        number.unwrap().parse().unwrap()
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub fn dial(host: &str) -> TcpStream {
    let socket = TcpStream::connect(host).unwrap();
    socket.set_nodelay(true).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.set_write_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// Returns the request for a WebSocket. Each of the `headers` ends with a line end.
pub fn request(host: &str, path: &str, headers: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{headers}\r\n"
    )
}

/// Sends a request. Returns the answer and the socket.
pub fn ask(host: &str, path: &str, headers: &str) -> (String, TcpStream) {
    let mut socket = dial(host);
    socket
        .write_all(request(host, path, headers).as_bytes())
        .unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    (String::from_utf8(answer).unwrap(), socket)
}

pub fn open(host: &str) -> TcpStream {
    let (answer, socket) = ask(host, "/session", "");
    assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
    socket
}

/// Returns the header of a binary frame, masked with zeros.
pub fn header(length: u64) -> Vec<u8> {
    let mut bytes = vec![0x82, 0x80 | 127];
    bytes.extend(length.to_be_bytes());
    bytes.extend([0; 4]);
    bytes
}

pub fn frame(payload: &[u8]) -> Vec<u8> {
    [&header(payload.len() as u64), payload].concat()
}

/// Returns Burn's request for a session of version `version` on device 0.
pub fn init(version: u8, session: u64, token: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x91, 0x81, 0xa4];
    bytes.extend(b"Init");
    bytes.extend([0x94, version, 0x91, 0xcf]);
    bytes.extend(session.to_be_bytes());
    bytes.extend([0, 0xc4, token.len() as u8]);
    bytes.extend(token);
    bytes
}

/// Reads the server's next frame, which must be short. Returns its first byte and its content.
pub fn read_frame(socket: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut start = [0; 2];
    socket.read_exact(&mut start).unwrap();
    let length = match start[1] {
        126 => {
            let mut bytes = [0; 2];
            socket.read_exact(&mut bytes).unwrap();
            usize::from(u16::from_be_bytes(bytes))
        }
        short => usize::from(short),
    };
    let mut payload = vec![0; length];
    socket.read_exact(&mut payload).unwrap();
    (start[0], payload)
}

/// Returns the time until the server closes the connection. Answers are ignored.
pub fn until_closed(socket: &mut TcpStream) -> Duration {
    let begun = Instant::now();
    let mut buffer = [0; 4096];
    loop {
        match socket.read(&mut buffer) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => panic!("not closed in {:?}: {error}", begun.elapsed()),
        }
    }
    begun.elapsed()
}

/// Writes up to `most` bytes, until the server stops reading. Returns the number of bytes.
pub fn flood(socket: &mut TcpStream, most: usize) -> usize {
    let block = [b'a'; 16 << 10];
    let mut sent = 0;
    while sent < most {
        match socket.write(&block) {
            Ok(written) => sent += written,
            Err(_) => break,
        }
    }
    sent
}

/// The exchanges between a client and its server.
pub type Recording = Vec<Turn>;

/// A message of the client, and the answer that it received before the next.
#[derive(Default)]
pub struct Turn {
    pub sent: Vec<u8>,
    pub answered: Vec<u8>,
}

/// Returns an address that forwards one connection to the server, and the recording of it. Recording ends after a
/// second without data.
pub fn recorder(host: &str) -> (SocketAddr, JoinHandle<Recording>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = dial(host);
    let recording = std::thread::spawn(move || {
        let (client, _) = listener.accept().unwrap();
        client.set_nodelay(true).unwrap();
        let turns = Mutex::new(vec![Turn::default()]);
        let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                copy(from, to, |bytes| {
                    let mut turns = turns.lock().unwrap();
                    if !turns.last().unwrap().answered.is_empty() {
                        turns.push(Turn::default());
                    }
                    turns.last_mut().unwrap().sent.extend(bytes);
                });
            });
            copy(server, client, |bytes| {
                turns
                    .lock()
                    .unwrap()
                    .last_mut()
                    .unwrap()
                    .answered
                    .extend(bytes);
            });
        });
        turns.into_inner().unwrap()
    });
    (address, recording)
}

fn copy(mut from: TcpStream, mut to: TcpStream, note: impl Fn(&[u8])) {
    let mut buffer = vec![0; 64 << 10];
    from.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        note(&buffer[..read]);
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
}

/// Sends a client's messages again and compares the answers. The first turns, up to the first operations, are sent at
/// once. Returns `false` if the server still has the session of that number.
pub fn replay(host: &str, recording: &[Turn]) -> bool {
    let mut socket = dial(host);
    let (first, rest) = recording.split_at(3);
    let at_once: Vec<u8> = first.iter().flat_map(|turn| turn.sent.clone()).collect();
    if socket.write_all(&at_once).is_err() {
        return false;
    }
    for (index, turn) in recording.iter().enumerate() {
        if index >= first.len() && socket.write_all(&turn.sent).is_err() {
            return false;
        }
        let mut answered = vec![0; turn.answered.len()];
        if socket.read_exact(&mut answered).is_err() {
            return false;
        }
        assert!(answered == turn.answered, "another answer in turn {index}");
    }
    assert!(!rest.is_empty());
    true
}
