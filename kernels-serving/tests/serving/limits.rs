//! Tests of a server's refusals with their reasons: too many connections, too large messages, web pages, other servers,
//! and other programs of the machine.

use crate::hostile::{PATIENCE, ask, frame, init, open, read_frame, until_closed};
use burn::backend::Flex;
use burn::server::{TokenAuthorizer, WebSocketTransport};
use burn::tensor::{DType, Device, Tensor, TensorData};
use burn_remote::server::BackendServer;
use kernels_serving::remote::{self, Address, ConnectError, Limits, ServeOptions, Server, connect};
use std::io::Write;
use std::net::TcpListener;
use std::time::{Duration, Instant};

const LOOPBACK: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

fn serve(options: ServeOptions) -> Server {
    Server::start::<Flex>([Default::default()], options).unwrap()
}

fn limited(limits: Limits) -> Server {
    serve(ServeOptions::websocket(LOOPBACK).limits(limits))
}

fn host(server: &Server) -> &str {
    match server.address() {
        Address::WebSocket { host } => host,
        other => panic!("{other}"),
    }
}

fn device(server: &Server) -> Device {
    connect(server.address(), server.token()).unwrap().remove(0)
}

fn numbers(count: usize, device: &Device) -> Tensor<1> {
    let numbers = (0..count).map(|i| (i % 613) as f32).collect::<Vec<_>>();
    Tensor::from_data(TensorData::new(numbers, [count]), (device, DType::F32))
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The relay gives exactly Burn's answers to the first messages.
#[test]
fn a_session_is_refused_in_burns_own_words() {
    const TOKEN: &str = "the token of both";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let burn = listener.local_addr().unwrap().to_string();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let plain = BackendServer::<Flex>::new([Default::default()])
        .with_authorizer(TokenAuthorizer::new(TOKEN).unwrap());
    runtime.spawn(plain.serve_async(WebSocketTransport::from_listener(listener)));
    let ours = serve(ServeOptions::websocket(LOOPBACK).token(TOKEN));
    let answers = |host: &str, message: &[u8]| {
        let mut socket = open(host);
        socket.write_all(&frame(message)).unwrap();
        let answers = [read_frame(&mut socket), read_frame(&mut socket)];
        until_closed(&mut socket);
        answers
    };
    let token = TOKEN.as_bytes();
    for (what, message) in [
        ("a wrong token", init(2, 7, b"another token, wrong")),
        ("no token", init(2, 7, b"")),
        ("another version", init(3, 7, token)),
        ("garbage", b"\xff\x13garbage".to_vec()),
        ("nothing", Vec::new()),
        (
            "two messages",
            [
                &[0x92][..],
                &init(2, 7, token)[1..],
                &init(2, 7, token)[1..],
            ]
            .concat(),
        ),
    ] {
        let (said, expected) = (answers(host(&ours), &message), answers(&burn, &message));
        assert_eq!(
            said,
            expected,
            "{what}: {}",
            String::from_utf8_lossy(&said[0].1)
        );
    }
    runtime.shutdown_background();
}

#[test]
fn a_full_server_says_so_until_somebody_leaves() {
    let server = limited(Limits::default().connections(2));
    let first = device(&server);
    let mut second = open(host(&server));
    second
        .write_all(&frame(&init(2, 7, server.token().as_bytes())))
        .unwrap();
    let (_, said) = read_frame(&mut second);
    assert!(String::from_utf8_lossy(&said).contains("Init"), "{said:?}");
    let refused = connect(server.address(), server.token()).unwrap_err();
    assert!(matches!(refused, ConnectError::Full { .. }), "{refused}");
    assert!(
        refused.to_string().contains("--max-connections"),
        "{refused}"
    );
    assert_eq!(numbers(9, &first).into_data().num_elements(), 9);
    drop(second);
    wait_until("there is a place", || {
        connect(server.address(), server.token()).is_ok()
    });
}

#[test]
fn a_message_that_is_too_large_ends_its_session_and_no_other() {
    let server = limited(Limits::default().message(1 << 20));
    let (sender, other) = (device(&server), device(&server));
    // A mebibyte with Burn's header is above the limit; less is not.
    assert_eq!(
        numbers((1 << 18) - 1024, &sender)
            .into_data()
            .num_elements(),
        (1 << 18) - 1024
    );
    assert!(numbers(1 << 18, &sender).try_into_data().is_err());
    let why = remote::failure(&sender).unwrap();
    assert!(why.contains("--max-message"), "{why}");
    assert_eq!(numbers(9, &other).into_data().num_elements(), 9);
}

#[test]
fn who_sends_too_many_messages_waits_and_loses_nothing() {
    let server = limited(Limits::default().messages_per_second(30));
    let device = device(&server);
    let begun = Instant::now();
    for count in 1..=60 {
        assert_eq!(numbers(count, &device).into_data().num_elements(), count);
    }
    // Each round sends one or two messages.
    let took = begun.elapsed();
    assert!((1..10).contains(&took.as_secs()), "{took:?}");
}

#[test]
fn web_pages_are_let_in_by_their_origin() {
    let allowed = "https://example.org";
    let server = serve(ServeOptions::websocket(LOOPBACK).allow_origin(allowed));
    let status = |headers: &str| {
        let (answer, _) = ask(host(&server), "/session", headers);
        answer[9..12].to_owned()
    };
    assert_eq!(status(""), "101");
    assert_eq!(status("Origin: https://example.org\r\n"), "101");
    for other in [
        "Origin: https://example.org.attacker.net\r\n",
        "Origin: http://example.org\r\n",
        "origin: null\r\n",
        "Origin: https://example.org\r\nOrigin: https://attacker.net\r\n",
    ] {
        assert_eq!(status(other), "403", "{other}");
    }
}

/// The time limit, short because the test waits six times as long.
const HANDSHAKE: Duration = Duration::from_millis(400);

fn transferring() -> ServeOptions {
    let limits = Limits::default().handshake(HANDSHAKE);
    ServeOptions::websocket(LOOPBACK).transfers().limits(limits)
}

/// Without the limit, Burn would wait forever for a tensor's name.
#[test]
fn who_names_no_tensor_gives_its_place_back() {
    let server = serve(transferring());
    let request = [&[0x81, 0xad][..], b"TensorRequest", &[7]].concat();
    for probes in [false, true] {
        let (answer, mut socket) = ask(host(&server), "/data", "");
        assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
        let begun = Instant::now();
        // An answer to a ping does not request a tensor.
        while probes && begun.elapsed() < 3 * HANDSHAKE {
            socket.write_all(&[0x89, 0x80, 0, 0, 0, 0]).unwrap();
            let (kind, _) = read_frame(&mut socket);
            assert_eq!(kind, 0x8a);
            std::thread::sleep(Duration::from_millis(50));
        }
        socket.write_all(&frame(&request)).unwrap();
        until_closed(&mut socket);
        let took = begun.elapsed();
        assert!(took >= 6 * HANDSHAKE && took < PATIENCE / 2, "{took:?}");
    }
}

#[test]
fn tensors_are_given_to_other_servers_where_that_is_allowed() {
    let start = |options: ServeOptions| serve(options);
    let target = start(ServeOptions::websocket(LOOPBACK));
    let open = start(transferring());
    let closed = start(ServeOptions::websocket(LOOPBACK));
    let moved = |from: &Server| {
        let x = numbers(100, &device(from));
        let device = device(&target);
        let expected = numbers(100, &Device::flex()).into_data();
        (
            x.to_device(&device)
                .try_into_data()
                .map(|data| data == expected),
            device,
        )
    };
    assert!(matches!(moved(&open), (Ok(true), _)));
    // The connection of a server that has fetched a tensor stays open.
    std::thread::sleep(6 * HANDSHAKE + Duration::from_millis(500));
    assert!(matches!(moved(&open), (Ok(true), _)));
    let (refused, device) = moved(&closed);
    assert!(refused.is_err());
    let why = remote::failure(&device).unwrap();
    assert!(why.contains("--transfers"), "{why}");
}

/// Returns the sockets on which the process of a test listens, from the kernel's tables.
#[cfg(target_os = "linux")]
fn listening(process: u32) -> Vec<u16> {
    let files = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let links = files.filter_map(|file| std::fs::read_link(file.unwrap().path()).ok());
    let sockets: Vec<_> = links
        .filter_map(|link| {
            let link = link.to_str()?;
            Some(link.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
        })
        .collect();
    let table = std::fs::read_to_string(format!("/proc/{process}/net/tcp")).unwrap();
    let rows = table
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    // Local address, state and inode; 0A is a listener.
    rows.filter(|row| row[3] == "0A" && sockets.iter().any(|socket| socket == row[9]))
        .map(|row| u16::from_str_radix(row[1].split_once(':').unwrap().1, 16).unwrap())
        .collect()
}

/// Burn's own listener would accept 1 GiB from any program of the machine.
#[test]
#[cfg(target_os = "linux")]
fn nobody_reaches_burns_listener_but_the_relay() {
    // Runs in a separate process, because other tests listen too.
    const ALONE: &str = "TEST_OF_THE_DOOR_ALONE";
    if std::env::var(ALONE).is_err() {
        let alone = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "limits::nobody_reaches_burns_listener_but_the_relay",
            ])
            .env(ALONE, "1")
            .output()
            .unwrap();
        assert!(
            alone.status.success(),
            "{}",
            String::from_utf8_lossy(&alone.stdout)
        );
        return;
    }
    let server = serve(ServeOptions::websocket(LOOPBACK));
    let outer: u16 = host(&server).rsplit_once(':').unwrap().1.parse().unwrap();
    let ports = listening(std::process::id());
    let inner: Vec<_> = ports.iter().filter(|port| **port != outer).collect();
    let [inner] = inner[..] else {
        panic!("{ports:?} are listened on, {outer} of them for clients")
    };
    let refused = || {
        let address = ([127, 0, 0, 1], *inner).into();
        std::net::TcpStream::connect_timeout(&address, Duration::from_millis(300)).is_err()
    };
    assert!(refused());
    // The same holds while clients connect.
    std::thread::scope(|scope| {
        let clients = scope.spawn(|| (0..20).map(|_| device(&server)).collect::<Vec<_>>());
        while !clients.is_finished() {
            assert!(refused());
        }
        for device in clients.join().unwrap() {
            assert_eq!(numbers(9, &device).into_data().num_elements(), 9);
        }
    });
    assert!(refused());
}
