//! `kernels serve`: this machine's devices for programs elsewhere.

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
/// Prints the address and, unless BURN_KERNELS_TOKEN holds one (of 16 bytes or more), a new token;
/// clients set BURN_KERNELS_TOKEN to it and name the device `--device remote:ADDRESS`, or call
/// `remote::connect`. Runs until Ctrl-C.
///
/// A client with the token can use the device as any program of this machine could, and have the server connect
/// to addresses that it names. It can also reach other clients: guess the names of tensors that move between
/// sessions, seed the processor's random generator, and hold memory that --max-session-memory does not count
/// (messages on their way, answers it does not read, tensors that nobody fetches, sessions that wait for one).
/// So give the token only to clients that may see each other's work, and start a server for each group of them.
///
/// A stranger without it can send 64 KiB over a WebSocket, in the time of --max-handshake.
/// Over Iroh, Burn reads up to 1 GiB before the token: a connection that sends more than 128 KiB is closed,
/// but only 10 ms later; --allow-endpoint keeps strangers out altogether.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The device to serve.
    #[arg(long, value_enum, default_value_t = Which::Cpu)]
    device: Which,
    /// Serve over a WebSocket at this address, unencrypted: for loopback and trusted networks.
    /// Without it devices are served over Iroh, encrypted and reachable from anywhere.
    #[arg(long, value_name = "IP:PORT", value_parser = socket, conflicts_with_all = ["iroh_at", "identity"])]
    websocket: Option<SocketAddr>,
    /// Serve over Iroh without relays; clients dial this address.
    #[arg(long, value_name = "IP:PORT", value_parser = socket)]
    iroh_at: Option<SocketAddr>,
    /// The file of the server's Iroh identity, made if it is not there; with it the address stays.
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
    /// A folder whose safetensors files the server reads for clients on this machine, so that their
    /// weights don't cross the connection. May be given several times.
    #[arg(long, value_name = "DIR")]
    weights: Vec<PathBuf>,
    /// The most of the device's memory that one session may hold, such as 8GiB. An operation that would make it more ends
    /// its session with an error; the others go on. Without it, half of a processor's memory and all of an NPU's.
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    max_session_memory: Option<ByteSize>,
    /// Let in every program of this machine, without a token (WebSocket on loopback only).
    #[arg(long, requires = "websocket")]
    without_token: bool,
    /// Let in scripts of web pages of this origin, such as `https://example.org` (WebSocket only). May be
    /// given several times; programs that are no browser need none.
    #[arg(long, value_name = "ORIGIN", requires = "websocket")]
    allow_origin: Vec<String>,
    /// Let in this Iroh endpoint, and only those that are given. May be given several times. A client has
    /// the one of the file that its BURN_KERNELS_IDENTITY names, and prints it.
    #[arg(long, value_name = "ID", conflicts_with = "websocket")]
    allow_endpoint: Vec<EndpointId>,
    /// Let other servers fetch tensors, which they do without a token: with a number that the client makes
    /// for each. Over Iroh only those that --allow-endpoint names.
    #[arg(long)]
    transfers: bool,
    #[command(flatten)]
    limits: LimitArgs,
}

/// The limits of clients and strangers.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Limits")]
struct LimitArgs {
    /// Connections with the token: sessions over a WebSocket, programs over Iroh.
    #[arg(long, value_name = "N", default_value_t = 256)]
    max_connections: usize,
    /// Connections that have not presented the token yet. Whoever has most of them loses its oldest when
    /// another comes.
    #[arg(long, value_name = "N", default_value_t = 64)]
    max_waiting: usize,
    /// Seconds until a connection must have presented the token. Another server has six times as long until it
    /// names a tensor that is there.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    max_handshake: u64,
    /// Bytes of a client's message, 64 KiB to 1 GiB [default: 1 GiB]. Weights travel in messages
    /// (WebSocket only).
    #[arg(long, value_name = "BYTES", requires = "websocket")]
    max_message: Option<u64>,
    /// Messages a second of a connection [default: 50000]. Who sends more waits (WebSocket only).
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

/// What is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Which {
    /// The processor, by Burn's Flex backend.
    Cpu,
    /// All Ascend NPUs of this machine.
    #[cfg(feature = "npu")]
    Npu,
}

/// What can be listened on is a number: a name may mean several interfaces.
fn socket(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "it takes an IP address and a port, such as 127.0.0.1:4000 or 0.0.0.0:4000".to_owned()
    })
}

/// Reads a size. Less than a MiB is a slip: no session can work with it.
fn memory(text: &str) -> Result<ByteSize, String> {
    let size = text.parse::<ByteSize>().ok();
    size.filter(|size| *size >= ByteSize::mib(1))
        .ok_or_else(|| "it takes a size of 1MiB or more, such as 8GiB or 512MiB".to_owned())
}

/// Runs the command.
///
/// # Errors
/// The address can't be listened on, a folder is not there, or an option means nothing.
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
