//! Tests harmful clients beside a good one. The good client keeps getting right answers, and after the others have gone
//! the server's memory is what it was before.
//!
//! The server is another process of this test program, because memory is measured for a whole process.

use crate::hostile::{
    PATIENCE, Recording, SERVE, Victim, ask, dial, flood, frame, header, init, open, read_frame,
    recorder, replay, until_closed,
};
use burn::backend::Flex;
use burn::tensor::{DType, Device, Tensor, TensorData};
use kernels_serving::remote::{Limits, ServeOptions, Server, connect};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The server's time limit for the token.
const HANDSHAKE: Duration = Duration::from_secs(2);

/// The number of sessions that come and go.
const SESSIONS: usize = 500;

/// Runs as the server process. Alone it does nothing.
#[test]
fn server() {
    if std::env::var(SERVE).is_err() {
        return;
    }
    let options = ServeOptions::websocket(([127, 0, 0, 1], 0));
    let options = options.limits(Limits::default().handshake(HANDSHAKE));
    let server = Server::start::<Flex>([Default::default()], options).unwrap();
    println!("\naddress {}\ntoken {}", server.address(), server.token());
    // Until the other end is closed.
    let _ = std::io::stdin().read(&mut [0]);
}

/// The name of an attack on the server, and its function.
type Attack<'a> = (&'a str, &'a dyn Fn(&Victim));

/// Sends numbers to the device, computes one operation and reads the result.
fn answer(device: &Device) -> Vec<u32> {
    let numbers = (0..1 << 14).map(|i| (i % 613) as f32).collect::<Vec<_>>();
    let x = Tensor::<2>::from_data(TensorData::new(numbers, [16, 1024]), (device, DType::F32));
    let y = x.mul_scalar(3.0).add_scalar(0.5).try_into_data().unwrap();
    y.iter::<f32>().map(f32::to_bits).collect()
}

/// Records a client that gets its answer and disconnects.
fn record(victim: &Victim) -> Recording {
    let (address, recording) = recorder(&victim.host);
    let url = format!("ws://{address}");
    let device = connect(url.as_str(), &victim.token).unwrap().remove(0);
    assert_eq!(answer(&device), answer(&Device::flex()));
    let recording = recording.join().unwrap();
    // The request, the session, the declaration, the answer.
    assert!(recording.len() >= 4, "{} turns", recording.len());
    recording
}

/// Replays recordings until there were so many sessions.
fn come_and_go(victim: &Victim, recordings: &[Recording], sessions: usize) {
    let begun = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for mine in recordings.chunks(2) {
            scope.spawn(|| {
                let mut turn = mine.iter().cycle();
                while begun.fetch_add(1, Ordering::Relaxed) < sessions {
                    let recording = turn.next().unwrap();
                    wait_until("the session before is closed", || {
                        replay(&victim.host, recording)
                    });
                }
            });
        }
    });
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A guard that ends the good client, also if the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn hostile_clients_cost_nothing_that_stays_and_disturb_nobody() {
    if std::env::var(SERVE).is_ok() {
        return;
    }
    let victim = Victim::start();
    let recordings: Vec<_> = (0..8).map(|_| record(&victim)).collect();
    let (stop, answers) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let good = scope.spawn(|| {
            let url = format!("ws://{}", victim.host);
            let device = connect(url.as_str(), &victim.token).unwrap().remove(0);
            let expected = answer(&Device::flex());
            while !stop.load(Ordering::Relaxed) {
                assert_eq!(answer(&device), expected);
                answers.fetch_add(1, Ordering::Relaxed);
            }
        });
        let _over = Over(&stop);
        let more = |least: usize| {
            let before = answers.load(Ordering::Relaxed);
            wait_until("the good client has its answers", || {
                assert!(!good.is_finished(), "the good client failed");
                answers.load(Ordering::Relaxed) >= before + least
            });
        };
        more(20);
        // Memory is compared after a few sessions, because the allocator keeps some memory of the first ones.
        come_and_go(&victim, &recordings, SESSIONS / 2);
        more(20);
        let before = victim.kib("VmRSS");
        let attacks: [Attack<'_>; 7] = [
            ("bytes without end", &floods),
            ("frames of 1 GiB without a token", &declared),
            (
                "connections that say nothing, or a byte now and then",
                &slow,
            ),
            ("halves of messages", &halves),
            ("wrong tokens", &wrong_tokens),
            ("web pages, and servers that fetch tensors", &wrong_requests),
            ("sessions that come and go", &|victim: &Victim| {
                come_and_go(victim, &recordings, SESSIONS);
            }),
        ];
        for (name, attack) in attacks {
            let begun = (Instant::now(), answers.load(Ordering::Relaxed));
            attack(&victim);
            let (took, beside) = (begun.0.elapsed(), answers.load(Ordering::Relaxed) - begun.1);
            more(3);
            let peak = victim.kib("VmHWM");
            println!("{name}: {took:?}, {beside} answers beside, peak {peak} KiB");
            // Without limits it would be several GiB.
            assert!(
                peak < before + (64 << 10),
                "{name}: {peak} KiB after {before} KiB"
            );
            wait_until(&format!("memory is back after {name}"), || {
                let now = victim.kib("VmRSS");
                println!("memory {before} KiB, now {now} KiB");
                now <= before + before / 10
            });
        }
    });
}

/// Opens 40 connections that each send up to 64 MiB without a valid request.
fn floods(victim: &Victim) {
    for _ in 0..10 {
        let mut sockets: Vec<_> = (0..4).map(|_| dial(&victim.host)).collect();
        for socket in &mut sockets {
            let sent = flood(socket, 64 << 20);
            assert!(sent < 64 << 20, "all was taken");
            until_closed(socket);
        }
    }
}

/// Opens 8 connections that announce a frame of 1 GiB and send up to 64 MiB of it.
fn declared(victim: &Victim) {
    for _ in 0..8 {
        let mut socket = open(&victim.host);
        socket.write_all(&header(1 << 30)).unwrap();
        let sent = flood(&mut socket, 64 << 20);
        assert!(sent < 64 << 20, "all was taken");
        until_closed(&mut socket);
    }
}

/// Opens more connections than may wait. Those that are accepted are closed in time.
fn slow(victim: &Victim) {
    let begun = Instant::now();
    let mut sockets: Vec<_> = (0..150).map(|_| dial(&victim.host)).collect();
    let request = crate::hostile::request(&victim.host, "/session", "");
    for byte in request.as_bytes().iter().take(8) {
        for socket in &mut sockets {
            // Most are closed at once.
            let _ = socket.write_all(&[*byte]);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let waiting = sockets.iter().filter(|socket| is_open(socket)).count();
    assert!((1..=64).contains(&waiting), "{waiting} wait");
    for socket in &mut sockets {
        until_closed(socket);
    }
    assert!(begun.elapsed() < 2 * HANDSHAKE, "{:?}", begun.elapsed());
}

fn is_open(socket: &TcpStream) -> bool {
    socket.set_nonblocking(true).unwrap();
    let peeked = socket.peek(&mut [0]);
    socket.set_nonblocking(false).unwrap();
    matches!(peeked, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
}

/// Opens 30 connections that stop in the middle of the message with the token.
fn halves(victim: &Victim) {
    let message = frame(&init(2, 1, victim.token.as_bytes()));
    let mut sockets: Vec<_> = (0..30).map(|_| open(&victim.host)).collect();
    for (index, socket) in sockets.iter_mut().enumerate() {
        socket.write_all(&message[..1 + index]).unwrap();
    }
    for socket in &mut sockets {
        assert!(until_closed(socket) < 2 * HANDSHAKE);
    }
}

/// Opens 100 connections without the token, or with most of it.
fn wrong_tokens(victim: &Victim) {
    for index in 0..100 {
        let token = &victim.token.as_bytes()[..index % victim.token.len()];
        let mut socket = open(&victim.host);
        socket.write_all(&frame(&init(2, 1, token))).unwrap();
        let (_, said) = read_frame(&mut socket);
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(said.contains("Unauthorized"), "{said}");
        until_closed(&mut socket);
    }
}

/// Sends 100 requests that are answered with an error.
fn wrong_requests(victim: &Victim) {
    for _ in 0..25 {
        for (path, headers, status) in [
            ("/session", "Origin: https://example.org\r\n", "403"),
            ("/session", "Origin: null\r\n", "403"),
            ("/data", "", "403"),
            ("/", "", "404"),
        ] {
            let (answer, mut socket) = ask(&victim.host, path, headers);
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status} ")),
                "{answer}"
            );
            until_closed(&mut socket);
        }
    }
}
