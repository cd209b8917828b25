//! `kernels serve`: serves this machine's devices to programs elsewhere.

use crate::output;
use crate::remote::TOKEN;
use anyhow::Context;
use burn::backend::Flex;
use burn::remote::EndpointId;
use burn_kernels::remote::{Limits, ServeOptions, Server};
use bytesize::ByteSize;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Serve a device of this machine to programs elsewhere, with its kernels
///
/// Prints the address and a new token. If BURN_KERNELS_TOKEN is set, its value (16 bytes or more) is the token, and
/// none is printed. Clients set BURN_KERNELS_TOKEN to the token and pass `--device remote:ADDRESS`, or call
/// `remote::connect`. The server runs until Ctrl-C.
///
/// A client with the token can use the device like a program of this machine, and can make the server connect to
/// addresses that the client names. It can also affect other clients: it can guess the names of tensors that move
/// between sessions, seed the processor's random generator, and hold memory that --max-session-memory does not count
/// (messages in transit, answers that it does not read, tensors that are never fetched, sessions that wait for one). So
/// give the token only to clients that may see each other's work, and start a server for each group of them.
///
/// A stranger without the token can send 64 KiB over a WebSocket, within the time of --max-handshake. Over Iroh, Burn
/// reads up to 1 GiB before the token. A connection that sends more than 128 KiB is closed, but only 10 ms later;
/// --allow-endpoint keeps strangers out altogether.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The device to serve.
    #[arg(long, value_enum, default_value_t = Which::Cpu)]
    device: Which,
    /// Serve over an unencrypted WebSocket at this address, for loopback and trusted networks. By default devices are
    /// served over Iroh, encrypted and reachable from anywhere.
    #[arg(long, value_name = "IP:PORT", value_parser = socket, conflicts_with_all = ["iroh_at", "identity"])]
    websocket: Option<SocketAddr>,
    /// Serve over Iroh without relays; clients connect to this address.
    #[arg(long, value_name = "IP:PORT", value_parser = socket)]
    iroh_at: Option<SocketAddr>,
    /// The file of the server's Iroh identity. It is created if missing, and keeps the server's address the same.
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
    /// A folder of safetensors files that the server reads itself for clients on this machine, so that weights don't
    /// cross the connection. Can be given several times.
    #[arg(long, value_name = "DIR")]
    weights: Vec<PathBuf>,
    /// The largest amount of device memory for one session, such as 8GiB. An operation that would exceed it ends its
    /// session with an error; other sessions go on. The default is half of the machine's memory, and for an NPU all of
    /// the device's memory if that is less.
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    max_session_memory: Option<ByteSize>,
    /// Accept every program of this machine without a token (only over a WebSocket on loopback).
    #[arg(long, requires = "websocket")]
    without_token: bool,
    /// Accept scripts of web pages of this origin, such as `https://example.org` (WebSocket only). Can be given several
    /// times. Programs other than browsers don't need it.
    #[arg(long, value_name = "ORIGIN", requires = "websocket")]
    allow_origin: Vec<String>,
    /// Accept only the Iroh endpoints given by this option. Can be given several times. A client's endpoint is that of
    /// the file in its BURN_KERNELS_IDENTITY; the client prints it.
    #[arg(long, value_name = "ID", conflicts_with = "websocket")]
    allow_endpoint: Vec<EndpointId>,
    /// Allow other servers to fetch tensors. They present no token, but a number that the client creates for each
    /// tensor. Over Iroh, only the servers given by --allow-endpoint can fetch.
    #[arg(long)]
    transfers: bool,
    #[command(flatten)]
    limits: LimitArgs,
}

/// Limits for clients and strangers.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Limits")]
struct LimitArgs {
    /// The largest number of connections with the token: sessions over a WebSocket, programs over Iroh.
    #[arg(long, value_name = "N", default_value_t = 256)]
    max_connections: usize,
    /// The largest number of connections that have not presented the token yet. When another one comes, the oldest of
    /// the address or Iroh endpoint with the most such connections is closed.
    #[arg(long, value_name = "N", default_value_t = 64)]
    max_waiting: usize,
    /// The time in seconds within which a connection must present the token. Another server has six times as long to
    /// name a tensor that exists.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    max_handshake: u64,
    /// The largest message of a client in bytes, 64 KiB to 1 GiB [default: 1 GiB]. Weights travel in messages
    /// (WebSocket only).
    #[arg(long, value_name = "BYTES", requires = "websocket")]
    max_message: Option<u64>,
    /// The largest number of messages per second of a connection [default: 50000]. Further messages wait (WebSocket
    /// only).
    #[arg(long, value_name = "N", requires = "websocket")]
    max_rate: Option<u32>,
}

impl LimitArgs {
    fn limits(&self) -> Limits {
        let limits = Limits::default()
            .connections(self.max_connections)
            .waiting(self.max_waiting)
            .handshake(Duration::from_secs(self.max_handshake));
        let limits = match self.max_message {
            Some(bytes) => limits.message(bytes),
            None => limits,
        };
        match self.max_rate {
            Some(most) => limits.messages_per_second(most),
            None => limits,
        }
    }
}

/// The devices to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Which {
    /// The processor, with Burn's Flex backend.
    Cpu,
    /// All Ascend NPUs of this machine.
    #[cfg(feature = "npu")]
    Npu,
}

/// Parses a numeric address to listen on. A name may stand for several interfaces.
fn socket(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "it takes an IP address and a port, such as 127.0.0.1:4000 or 0.0.0.0:4000".to_owned()
    })
}

/// Parses a size. Less than a MiB is refused, because no session can work with it.
fn memory(text: &str) -> Result<ByteSize, String> {
    let size = text.parse::<ByteSize>().ok();
    size.filter(|size| *size >= ByteSize::mib(1))
        .ok_or_else(|| "it takes a size of 1MiB or more, such as 8GiB or 512MiB".to_owned())
}

/// Runs the command.
///
/// # Errors
/// Returns an error if the server can't listen on the address, if a folder does not exist, or if an option has no
/// effect here.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let server = start(args, options(args)).context("the device can't be served")?;
    for (index, identity) in server.devices().iter().enumerate() {
        let (kind, name) = (identity.kind, &identity.name);
        output::note(format_args!("serving {kind}:{index} {name}"));
    }
    output::text(format_args!("address {}", server.address()))?;
    if !args.without_token && std::env::var_os(TOKEN).is_none() {
        output::text(format_args!("token {}", server.token()))?;
    }
    Ok(server.wait()?)
}

fn start(args: &Args, options: ServeOptions) -> anyhow::Result<Server> {
    match args.device {
        Which::Cpu => Ok(Server::start::<Flex>([Default::default()], options)?),
        #[cfg(feature = "npu")]
        Which::Npu => Ok(burn_kernels::npu::serve(options)?),
    }
}

fn options(args: &Args) -> ServeOptions {
    let mut options = match (args.websocket, args.iroh_at) {
        (Some(address), _) => ServeOptions::websocket(address),
        (None, Some(address)) => ServeOptions::iroh_at(address),
        (None, None) => ServeOptions::iroh(),
    };
    if let Some(path) = &args.identity {
        options = options.identity(path);
    }
    if let Ok(token) = std::env::var(TOKEN) {
        options = options.token(token);
    }
    if args.without_token {
        options = options.without_token();
    }
    if let Some(size) = args.max_session_memory {
        options = options.max_session_memory(size.as_u64());
    }
    if args.transfers {
        options = options.transfers();
    }
    for folder in &args.weights {
        options = options.weights(folder);
    }
    for origin in &args.allow_origin {
        options = options.allow_origin(origin);
    }
    for id in &args.allow_endpoint {
        options = options.allow_endpoint(*id);
    }
    options.limits(args.limits.limits())
}
