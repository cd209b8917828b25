//! Control connections between threads, with peers that break every rule.

use super::message::Message;
use super::*;
use std::io::{Read, Write};
use std::thread::{self, JoinHandle};
use std::time::Instant;

const TOKEN: Token = [5; 32];

fn options(seconds: f32) -> Options {
    // A test's process must not end. Tests of programs have the default.
    let on_loss = Some(Arc::new(|_: &Error| ()) as _);
    Options {
        timeout: Duration::from_secs_f32(seconds),
        on_loss,
        ..Options::default()
    }
}

fn membership(rank: usize, size: usize, seconds: f32) -> Membership {
    let names = (0..size)
        .map(|rank| format!("rank {rank} on host h{rank}"))
        .collect();
    Membership {
        rank,
        names,
        token: TOKEN,
        options: options(seconds),
    }
}

/// Starts the hub of a group, and returns its port.
fn hub(size: usize, seconds: f32) -> (u16, JoinHandle<Result<Control, Error>>) {
    let listener = listen("rank 0 on host h0", 0, true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let start = move || Control::connect(membership(0, size, seconds), Way::Listen(listener));
    (port, thread::spawn(start))
}

fn spoke(port: u16, rank: usize, size: usize, seconds: f32) -> Result<Control, Error> {
    Control::connect(
        membership(rank, size, seconds),
        Way::Connect("127.0.0.1".into(), port),
    )
}

fn group(size: usize, seconds: f32) -> Vec<Control> {
    let (port, hub) = hub(size, seconds);
    let spokes: Vec<_> = (1..size)
        .map(|rank| thread::spawn(move || spoke(port, rank, size, seconds)))
        .collect();
    let ranks = std::iter::once(hub).chain(spokes);
    ranks.map(|rank| rank.join().unwrap().unwrap()).collect()
}

/// A peer made by hand, past its hello and welcome.
fn peer(port: u16, rank: u32) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    Message::Hello { token: TOKEN, rank }
        .write(&mut stream)
        .unwrap();
    stream
}

/// Waits for the group's end and returns its error with the time that it took.
fn failure(control: &Control) -> (String, Duration) {
    let start = Instant::now();
    loop {
        if let Some(error) = control.failure().error() {
            assert_eq!(error.kind(), ErrorKind::Lost);
            return (error.to_string(), start.elapsed());
        }
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "no loss was seen"
        );
        thread::sleep(Duration::from_millis(2));
    }
}

/// Calls a function for all ranks at once, and returns the results in their order.
fn at_once<R: Send>(ranks: &[Control], call: impl Fn(usize, &Control) -> R + Sync) -> Vec<R> {
    let call = &call;
    thread::scope(|scope| {
        let threads = ranks
            .iter()
            .enumerate()
            .map(|(rank, control)| scope.spawn(move || call(rank, control)));
        threads
            .collect::<Vec<_>>()
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    })
}

#[test]
fn every_group_has_a_secret_of_its_own() {
    assert_ne!(new_token(), new_token());
    assert_ne!(new_token()[..8], new_token()[8..16]);
}

#[test]
fn digests_are_compared_and_the_ranks_leave() {
    let ranks = group(4, 20.0);
    for _ in 0..20 {
        assert!(
            at_once(&ranks, |_, control| control.agree("seed", &[1; 32]))
                .iter()
                .all(Result::is_ok)
        );
    }
    let errors = at_once(&ranks, |rank, control| {
        control
            .agree("data file", &[u8::from(rank == 2); 32])
            .unwrap_err()
    });
    for error in &errors {
        assert_eq!(error, &errors[0]);
        assert_eq!(error.kind(), ErrorKind::Differs);
    }
    let text = "rank 2 on host h2 differs in the data file from rank 0 on host h0 and 2 ranks more";
    assert_eq!(errors[0].to_string(), text);
    // The connection goes on after a difference, and ends without a loss.
    assert!(
        at_once(&ranks, |_, control| control.agree("seed", &[1; 32]))
            .iter()
            .all(Result::is_ok)
    );
    at_once(&ranks, |_, control| control.leave());
    assert!(
        ranks
            .iter()
            .all(|control| control.failure().error().is_none())
    );
}

#[test]
fn silent_work_longer_than_the_timeout_is_not_a_loss() {
    let ranks = group(3, 1.0);
    thread::sleep(Duration::from_millis(2500));
    assert!(
        ranks
            .iter()
            .all(|control| control.failure().error().is_none())
    );
    assert!(
        at_once(&ranks, |_, control| control.agree("seed", &[1; 32]))
            .iter()
            .all(Result::is_ok)
    );
}

#[test]
fn a_rank_that_closes_ends_all_others() {
    for lost in [0, 2] {
        let mut ranks = group(3, 20.0);
        drop(ranks.remove(lost));
        for control in &ranks {
            let (text, time) = failure(control);
            assert!(
                text.starts_with(&format!("rank {lost} on host h{lost} is gone")),
                "{text}"
            );
            assert!(time < Duration::from_secs(5));
            assert_eq!(
                control.agree("seed", &[1; 32]).unwrap_err().to_string(),
                text
            );
        }
    }
}

#[test]
fn a_rank_that_gives_up_is_named_with_its_reason() {
    for lost in [0, 1] {
        let ranks = group(3, 20.0);
        ranks[lost].fail("disk full\x1b[2J");
        for control in &ranks {
            let text = failure(control).0;
            assert_eq!(
                text,
                format!(r"rank {lost} on host h{lost}: disk full\u{{1b}}[2J")
            );
        }
    }
}

#[test]
fn who_waits_for_a_verdict_learns_of_a_loss() {
    let mut ranks = group(3, 20.0);
    let last = ranks.pop().unwrap();
    let errors = at_once(&ranks, |rank, control| {
        if rank == 0 {
            last.fail("out of memory");
        }
        control.agree("seed", &[1; 32]).unwrap_err().to_string()
    });
    assert_eq!(errors, ["rank 2 on host h2: out of memory"; 2]);
}

/// Starts a group of three whose last rank is made by hand, and returns the others with the stream.
fn with_peer(seconds: f32) -> (Vec<Control>, TcpStream) {
    let (port, hub) = hub(3, seconds);
    let other = thread::spawn(move || spoke(port, 1, 3, seconds));
    let mut stream = peer(port, 2);
    let ranks = vec![hub.join().unwrap().unwrap(), other.join().unwrap().unwrap()];
    assert_eq!(Message::read(&mut stream).unwrap(), Message::Welcome);
    (ranks, stream)
}

#[test]
fn a_silent_rank_ends_all_others_within_the_timeout() {
    let (ranks, _stream) = with_peer(2.0);
    let start = Instant::now();
    for control in &ranks {
        let (text, _) = failure(control);
        assert!(
            text.starts_with("rank 2 on host h2 gave no sign of life"),
            "{text}"
        );
    }
    assert!(
        start.elapsed() < Duration::from_secs(2),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn a_rank_0_that_is_silent_ends_the_others() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let rank = thread::spawn(move || spoke(port, 1, 2, 2.0));
    let (mut stream, _) = listener.accept().unwrap();
    assert_eq!(
        Message::read(&mut stream).unwrap(),
        Message::Hello {
            token: TOKEN,
            rank: 1
        }
    );
    Message::Welcome.write(&mut stream).unwrap();
    let (text, _) = failure(&rank.join().unwrap().unwrap());
    assert!(
        text.starts_with("rank 0 on host h0 gave no sign of life"),
        "{text}"
    );
}

#[test]
fn garbage_of_a_rank_ends_all_others() {
    let huge = u32::MAX.to_le_bytes();
    let mut twice = Vec::new();
    for _ in 0..2 {
        Message::Digest {
            digest: [0; 32],
            what: "seed".into(),
        }
        .write(&mut twice)
        .unwrap();
    }
    let mut verdict = Vec::new();
    Message::Verdict("no\x1b[2J".into())
        .write(&mut verdict)
        .unwrap();
    for bytes in [
        &huge[..],
        &[1, 0, 0, 0, 99],
        &[3, 0, 0, 0, 5, 0xff, 0xff],
        &twice,
        &verdict,
    ] {
        let (ranks, mut stream) = with_peer(20.0);
        stream.write_all(bytes).unwrap();
        for control in &ranks {
            let (text, _) = failure(control);
            assert!(
                text.starts_with("rank 2 on host h2 sent a"),
                "{bytes:?}: {text}"
            );
            assert!(!text.contains('\x1b'), "{text}");
        }
    }
}

#[test]
fn strangers_have_no_effect() {
    let (port, hub) = hub(2, 20.0);
    let stranger = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(bytes).unwrap();
        stream
    };
    let hello = |token: Token, rank: u32| {
        let mut bytes = Vec::new();
        Message::Hello { token, rank }.write(&mut bytes).unwrap();
        stranger(&bytes)
    };
    // A silent one, others of every kind, and ranks that the group lacks.
    let silent = stranger(&[]);
    let mut refused = vec![
        stranger(b"GET / HTTP/1.1\r\n\r\n"),
        stranger(&u32::MAX.to_le_bytes()),
    ];
    refused.extend([
        hello([6; 32], 1),
        hello(TOKEN, 0),
        hello(TOKEN, 2),
        hello(TOKEN, u32::MAX),
    ]);
    for stream in &mut refused {
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        // Closed: nothing was sent.
        assert!(matches!(stream.read(&mut [0; 16]), Ok(0) | Err(_)));
    }
    let rank = spoke(port, 1, 2, 20.0).unwrap();
    let ranks = [hub.join().unwrap().unwrap(), rank];
    assert!(
        at_once(&ranks, |_, control| control.agree("seed", &[1; 32]))
            .iter()
            .all(Result::is_ok)
    );
    drop(silent);
}

#[test]
fn ranks_that_do_not_connect_are_named() {
    let (port, hub) = hub(4, 1.0);
    let here = thread::spawn(move || spoke(port, 2, 4, 1.0).err().unwrap());
    let error = hub.join().unwrap().err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Connection);
    let text =
        "rank 1 on host h1, rank 3 on host h3 did not connect to rank 0 on host h0 within 1s";
    assert!(error.to_string().starts_with(text), "{error}");
    // The rank that did connect says the same.
    assert_eq!(here.join().unwrap(), error);
}

#[test]
fn a_port_in_use_and_a_port_without_a_listener_are_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let error = listen("rank 0 on host h0", port, true).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connection);
    let text =
        format!("rank 0 on host h0 can't listen on port {port}: it is in use by another program");
    assert!(error.to_string().starts_with(&text), "{error}");
    drop(listener);
    let error = spoke(port, 1, 2, 1.0).err().unwrap();
    assert!(
        error
            .to_string()
            .starts_with("rank 1 on host h1 can't connect to rank 0 on host h0"),
        "{error}"
    );
}

/// The process waits somewhere else than in the group: the handler ends it, here a flag.
#[test]
fn a_process_that_stays_after_a_loss_is_ended() {
    let (port, hub) = hub(2, 2.0);
    let (sender, receiver) = std::sync::mpsc::channel();
    let mut own = membership(1, 2, 2.0);
    own.options.on_loss = Some(Arc::new(move |error: &Error| {
        sender.send(error.to_string()).unwrap()
    }));
    let rank = Control::connect(own, Way::Connect("127.0.0.1".into(), port)).unwrap();
    let start = Instant::now();
    drop(hub.join().unwrap().unwrap());
    let text = receiver.recv_timeout(Duration::from_secs(10)).unwrap();
    assert!(text.starts_with("rank 0 on host h0 is gone"), "{text}");
    assert!(
        start.elapsed() < Duration::from_secs(2),
        "{:?}",
        start.elapsed()
    );
    drop(rank);
}

#[test]
fn a_process_that_leaves_after_a_loss_is_not_ended() {
    let (port, hub) = hub(2, 1.0);
    let (sender, receiver) = std::sync::mpsc::channel();
    let mut own = membership(1, 2, 1.0);
    own.options.on_loss = Some(Arc::new(move |error: &Error| {
        sender.send(error.to_string()).unwrap()
    }));
    let rank = Control::connect(own, Way::Connect("127.0.0.1".into(), port)).unwrap();
    drop(hub.join().unwrap().unwrap());
    failure(&rank);
    drop(rank);
    // The sender goes with the watching thread.
    assert_eq!(
        receiver.recv_timeout(Duration::from_secs(10)),
        Err(std::sync::mpsc::RecvTimeoutError::Disconnected)
    );
}
