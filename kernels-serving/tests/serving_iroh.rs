//! Tests of clients that Iroh's gate accepts, and of connections without a token, which it closes.

#![cfg(feature = "remote")]

mod hostile;

use burn::backend::Flex;
use burn::remote::EndpointId;
use burn::tensor::{DType, Device, Tensor};
use iroh::endpoint::{Connection, presets};
use iroh::{Endpoint, EndpointAddr, RelayMode};
use kernels_serving::remote::{
    Address, ConnectError, Limits, ServeOptions, Server, client_identity, connect,
};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const HANDSHAKE: Duration = Duration::from_secs(2);

fn options() -> ServeOptions {
    // A free port, released before the server takes it.
    let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let options = ServeOptions::iroh_at(free.local_addr().unwrap());
    options.limits(
        Limits::default()
            .handshake(HANDSHAKE)
            .waiting(4)
            .connections(2),
    )
}

fn serve(options: ServeOptions) -> Server {
    Server::start::<Flex>([Default::default()], options).unwrap()
}

fn at(server: &Server) -> (EndpointId, SocketAddr) {
    match server.address() {
        Address::Iroh { id, direct } => (*id, direct.unwrap()),
        other => panic!("{other}"),
    }
}

fn sum(device: &Device) -> f32 {
    Tensor::<1>::ones([1000], (device, DType::F32))
        .sum()
        .into_scalar()
}

/// Connects by hand from a separate endpoint.
async fn dial(server: &Server) -> (Endpoint, Connection) {
    let builder = Endpoint::builder(presets::Minimal).relay_mode(RelayMode::Disabled);
    let endpoint = builder.bind().await.unwrap();
    let (id, address) = at(server);
    let address = EndpointAddr::new(id).with_ip_addr(address);
    let begun = Instant::now();
    // The server was started just before and may not answer yet.
    loop {
        match endpoint.connect(address.clone(), b"burn/remote/1").await {
            Ok(connection) => return (endpoint, connection),
            Err(error) => assert!(begun.elapsed().as_secs() < 20, "{error}"),
        }
    }
}

/// Returns the server's reason when it closes the connection.
async fn closed(connection: &Connection) -> String {
    let closed = tokio::time::timeout(Duration::from_secs(20), connection.closed());
    closed.await.expect("it is closed").to_string()
}

/// Requests a session. Returns the first bytes of the answer.
async fn present(connection: &Connection, session: u64, token: &str) -> Option<Vec<u8>> {
    let (mut send, mut receive) = connection.open_bi().await.ok()?;
    // `{version: 1, kind: "Session"}`, and the session.
    let header = [&[0x92, 1, 0xa7][..], b"Session"].concat();
    for frame in [header, hostile::init(2, session, token.as_bytes())] {
        let length = (frame.len() as u64).to_le_bytes();
        send.write_all(&[&length[..], &frame].concat()).await.ok()?;
    }
    let mut answer = vec![0; 16];
    receive.read_exact(&mut answer).await.ok()?;
    Some(answer)
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(work)
}

#[test]
fn connections_without_a_token_are_closed_and_clients_go_on() {
    let server = serve(options());
    let device = connect(server.address(), server.token()).unwrap().remove(0);
    run(async {
        // A connection that sends nothing.
        let (_idle, idle) = dial(&server).await;
        let begun = Instant::now();
        let why = closed(&idle).await;
        assert!(why.contains("no token came in time"), "{why}");
        assert!(begun.elapsed() < 2 * HANDSHAKE);
        // A connection that announces a frame of 1 GiB and sends it.
        let (_flood, flood) = dial(&server).await;
        let (mut send, _receive) = flood.open_bi().await.unwrap();
        send.write_all(&(1_u64 << 30).to_le_bytes()).await.unwrap();
        let block = vec![0; 1 << 20];
        let mut sent = 0_u64;
        while send.write_all(&block).await.is_ok() {
            sent += block.len() as u64;
            assert!(sent < 1 << 30, "all was taken");
        }
        let why = closed(&flood).await;
        assert!(why.contains("more than a handshake"), "{why}");
        // The bytes that arrived in 10 ms.
        assert!(sent < 256 << 20, "{sent} bytes");
        println!("{sent} bytes were sent");
        // Connections with the token: the client above and these, one more than the limit.
        let (_second, second) = dial(&server).await;
        let said = present(&second, 7, server.token()).await.unwrap();
        assert!(String::from_utf8_lossy(&said).contains("Init"), "{said:?}");
        let (_third, third) = dial(&server).await;
        // The answer may come before the connection is closed.
        let _ = present(&third, 8, server.token()).await;
        // The gate checks each connection every few milliseconds. It accepts the first whose token it sees.
        let (why, stays) = tokio::select! {
            why = closed(&third) => (why, &second),
            why = closed(&second) => (why, &third),
        };
        assert!(why.contains("--max-connections"), "{why}");
        assert!(stays.close_reason().is_none());
        // More connections than may wait.
        let mut line = Vec::new();
        for _ in 0..6 {
            line.push(dial(&server).await);
        }
        let why = closed(&line[0].1).await;
        assert!(why.contains("too many connections wait"), "{why}");
    });
    assert_eq!(sum(&device), 1000.0);
}

#[test]
fn listed_endpoints_are_let_in_and_no_others() {
    let folder = std::env::temp_dir().join(format!("kernels-iroh-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let stranger = serve(options());
    let id = client_identity(folder.join("client")).unwrap();
    assert_eq!(client_identity(folder.join("client")).unwrap(), id);
    let another = client_identity(folder.join("another")).unwrap_err();
    assert!(another.to_string().contains(&id.to_string()), "{another}");
    let listed = serve(options().allow_endpoint(id));
    let device = connect(listed.address(), listed.token()).unwrap().remove(0);
    assert_eq!(sum(&device), 1000.0);
    let unlisted = serve(options().allow_endpoint(at(&stranger).0));
    let refused = connect(unlisted.address(), unlisted.token()).unwrap_err();
    assert!(matches!(refused, ConnectError::Closed { .. }), "{refused}");
    run(async {
        let (_endpoint, connection) = dial(&listed).await;
        let why = closed(&connection).await;
        assert!(why.contains("--allow-endpoint"), "{why}");
    });
    // One identity can't have a second endpoint with relays.
    let relayed = format!("iroh://{}", at(&listed).0);
    let mixed = connect(relayed.as_str(), listed.token()).unwrap_err();
    assert!(mixed.to_string().contains("`client_identity`"), "{mixed}");
    std::fs::remove_dir_all(&folder).unwrap();
}
