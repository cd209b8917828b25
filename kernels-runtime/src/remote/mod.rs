//! Devices of other processes and machines, with their kernels.
//!
//! Burn Remote runs a program's tensor operations on a server's devices. Here both sides know this
//! crate's kernels too: the server runs them, the client's annotated layers send each as one
//! operation, and reports name the device as what it is (`cpu`, `npu`), not as a remote one.
//!
//! ```no_run
//! use kernels_runtime::remote::{ServeOptions, Server, connect};
//! use burn::backend::Flex;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // On the machine with the device:
//! let options = ServeOptions::websocket(([127, 0, 0, 1], 0));
//! let server = Server::start::<Flex>([Default::default()], options)?;
//! println!("{} {}", server.address(), server.token());
//!
//! // In the program that trains, with that address and token:
//! let devices = connect(server.address(), server.token())?;
//! # Ok(())
//! # }
//! ```
//!
//! * **Trust.** A server lets in who presents its token. Over Iroh everything is encrypted; over a
//!   WebSocket nothing is, the token included: it is for loopback and networks that are trusted. A
//!   client can read the files in the folders that the server was given, no others; it can have the server
//!   connect to addresses that it names.
//! * **Strangers** at a WebSocket's port meet a relay, which reads 64 KiB from each until it has seen the
//!   token, for some seconds and from so many at once ([`Limits`]). It refuses web pages whose origin was not
//!   [allowed](ServeOptions::allow_origin), and servers that fetch tensors unless
//!   [transfers](ServeOptions::transfers) are. Over Iroh, Burn reads before the token, up to 1 GiB a
//!   connection; there, connections without a token are counted and watched, and closed within 10 ms after
//!   they sent 128 KiB. [Listed endpoints](ServeOptions::allow_endpoint) keep strangers out.
//! * **Other users of the machine** reach a server on loopback, the one of the `npu` feature in the process too,
//!   as strangers do: they see its port and can occupy places of those that wait for their token. Behind the
//!   relay, Burn listens on another port of loopback. On Linux the kernel drops what others send there; elsewhere
//!   they get no session, but can send messages of up to 1 GiB. Who may capture packets of loopback sees
//!   tokens and tensors.
//! * **Releases.** Server and client must be of one release; [`connect`] refuses another. Numbers and
//!   keys travel so that nothing is taken for something else (`wire`).
//! * **Other devices.** Remote devices that [`connect`] did not give run references.
//! * **Errors.** An operation that panics on the server, ours or one of Burn's, ends the device's
//!   session: reads fail from then on, none hangs. Burn tells a client no more; [`failure`] asks
//!   the server why, and [`connect`] gives new devices. What was on the old ones is lost.
//! * **Limits.** A session holds no more of a device's memory than [`ServeOptions::max_session_memory`] says, half
//!   of it if nothing is said, and all sessions together three quarters. What an operation makes is worked out before
//!   it runs; if that is too much it is an operation that failed, and other sessions go on.
//! * **Size.** Burn sends at most 1 GiB at once: larger tensors are made on the device, read by the server
//!   ([`load_tensor`]), or moved in slices. One that is sent whole ends the session.
//! * **Memory** of a client that ends or dies is freed by the server.

mod address;
mod bounded;
pub(crate) mod call;
mod charged;
mod connect;
mod credential;
mod devices;
mod files;
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub mod fuzz;
mod hello;
mod host;
mod iroh;
mod limits;
mod load;
mod offer;
mod options;
#[cfg(feature = "npu")]
pub(crate) mod platform;
mod relay;
mod serve_error;
mod server;
mod session_memory;
mod sessions;
pub(crate) mod wire;

pub use address::{Address, InvalidAddress};
pub use bounded::{Buffer, InMemory};
pub use connect::{ConnectError, connect, failure};
pub use devices::{RemoteDevice, describe};
pub use host::{Host, Identity, MemoryLimits};
pub use iroh::client_identity;
pub use limits::Limits;
pub use load::{LoadError, Stored, load_flat, load_tensor, look};
pub use offer::Kernels;
pub use options::ServeOptions;
pub use serve_error::ServeError;
pub use server::{Server, serve};

#[cfg(feature = "npu")]
pub(crate) use bounded::machine_memory;
#[cfg(feature = "npu")]
pub(crate) use connect::connect_to;
#[cfg(feature = "npu")]
pub(crate) use devices::with_platform;
