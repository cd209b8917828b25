//! `kernels serve`: this machine's devices for programs elsewhere.

use crate::output;
use crate::served::TOKEN;
use anyhow::Context;
use burn::backend::Flex;
use burn_kernels::remote::{ServeOptions, Server};
use bytesize::ByteSize;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Serve a device of this machine to programs elsewhere, with its kernels
///
/// Prints the address and, unless BURN_KERNELS_TOKEN holds one, a new token; clients set
/// BURN_KERNELS_TOKEN to it and name the device `--device remote:ADDRESS`, or call
/// `remote::connect`. Runs until Ctrl-C.
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
    /// How much of the device's memory one session may hold, such as 8GiB. An operation that would make it more ends
    /// its session with an error; the others go on. Without it, half of a processor's memory and all of an NPU's.
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    max_session_memory: Option<ByteSize>,
    /// Let in every program of this machine, without a token (WebSocket on loopback only).
    #[arg(long, requires = "websocket")]
    without_token: bool,
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

/// What no session can work with is a slip.
fn memory(text: &str) -> Result<ByteSize, String> {
    let size = text.parse::<ByteSize>().ok();
    size.filter(|size| *size >= ByteSize::mib(1))
        .ok_or_else(|| "it takes a size of 1MiB or more, such as 8GiB or 512MiB".to_owned())
}

/// Runs the command.
///
/// # Errors
/// The address can't be listened on, or a folder is not there.
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
    args.weights
        .iter()
        .fold(options, |options, folder| options.weights(folder))
}
