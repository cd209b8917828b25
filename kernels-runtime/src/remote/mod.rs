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
//!   client can read the files in the folders that the server was given, no others.
//! * **Releases.** Server and client must be of one release; [`connect`] refuses another. Numbers and
//!   keys travel so that nothing is taken for something else (`wire`).
//! * **Other devices.** Remote devices that [`connect`] did not give run references.
//! * **Errors.** An operation that panics on the server, ours or one of Burn's, ends the device's
//!   session: reads fail from then on, none hangs. Burn tells a client no more; [`failure`] asks
//!   the server why, and [`connect`] gives new devices. What was on the old ones is lost.
//!   The server itself ends where an operation on its *processor* wants more memory than there is, since Rust
//!   aborts then; of a device it is an error as any other.
//! * **Size.** Burn sends at most 1 GiB at once: larger tensors are made on the device, read by the server
//!   ([`load_tensor`]), or moved in slices. One that is sent whole ends the session.
//! * **Memory** of a client that ends or dies is freed by the server.

mod address;
mod call;
mod connect;
mod credential;
mod files;
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub mod fuzz;
mod hello;
mod host;
mod load;
mod ops;
mod server;
mod sessions;
mod table;
mod wire;

pub use address::{Address, InvalidAddress};
pub use connect::{ConnectError, connect, failure};
pub use host::{Host, Identity};
pub use load::{LoadError, Stored, load_flat, load_tensor, look};
pub use ops::Kernels;
pub use server::{ServeError, ServeOptions, Server, serve};
pub use table::{RemoteDevice, describe};

#[cfg(feature = "npu")]
pub(crate) use connect::connect_to;
pub(crate) use table::place;
#[cfg(feature = "npu")]
pub(crate) use table::with_platform;
