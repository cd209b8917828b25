//! Devices of other processes and machines, with their kernels.
//!
//! Burn Remote runs a program's tensor operations on a server's devices. With this module, both sides also know this
//! crate's kernels. The server runs them, the client's annotated layers send each call as one operation, and reports
//! name the device by its kind (`cpu`, `npu`), not as a remote one.
//!
//! ```no_run
//! # extern crate kernels_serving as burn_kernels;
//! use burn_kernels::remote::{ServeOptions, Server, connect};
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
//! * **Trust.** A server lets in any client that presents its token. Over Iroh, everything is encrypted. Over a
//!   WebSocket, nothing is, including the token, so it is for loopback and trusted networks. A client can read the
//!   files in the folders that the server was given, and no others. It can make the server connect to addresses of its
//!   choice.
//! * **Strangers** who connect to a WebSocket's port reach a relay. It reads 64 KiB from each until it has seen the
//!   token, for a limited time and from a limited number of connections ([`Limits`]). It refuses web pages whose origin
//!   was not [allowed](ServeOptions::allow_origin), and servers that fetch tensors unless
//!   [transfers](ServeOptions::transfers) are allowed. Over Iroh, Burn reads up to 1 GiB from a connection before the
//!   token. Connections without a token are therefore counted and watched, and closed within 10 ms after they sent 128
//!   KiB. [Listed endpoints](ServeOptions::allow_endpoint) keep strangers out.
//! * **Other users of the machine** reach a server on loopback in the same way as strangers. This includes the server
//!   that the `npu` feature starts in the process. They see its port and can occupy places of connections that wait for
//!   their token. Behind the relay, Burn listens on another loopback port. On Linux, the kernel drops everything that
//!   others send there. On other systems they get no session, but can send messages of up to 1 GiB. A user who may
//!   capture loopback packets can see tokens and tensors.
//! * **Releases.** Server and client must be of the same release; [`connect`] refuses another one. Numbers and keys are
//!   encoded so that none can be taken for another (`kernels_runtime::remote`).
//! * **Other devices.** Remote devices that do not come from [`connect`] run references.
//! * **Errors.** An operation that panics on the server, of this crate or of Burn, ends the device's session. Later
//!   reads fail, and none hangs. Burn gives a client no more information; [`failure`] asks the server for the reason,
//!   and [`connect`] returns new devices. All data on the old devices is lost.
//! * **Several devices.** The NPUs that one [`connect`] returned reduce tensors together (`burn::tensor::distributed`), and
//!   so do those of this process. A device that ends or fails meanwhile is an error of the others.
//! * **Limits.** A session holds no more of a device's memory than [`ServeOptions::max_session_memory`] allows, half of
//!   it by default. All sessions together hold at most three quarters. The memory that an operation needs is computed
//!   before it runs. If it is too much, the operation fails, and other sessions continue.
//! * **Size.** Burn sends at most 1 GiB at once. Larger tensors can be created on the device, read by the server
//!   ([`load_tensor`]), or moved in slices. A larger tensor that is sent whole ends the session.
//! * **Memory** of a client that ends or dies is freed by the server.

mod answers;
mod bounded;
mod credential;
mod custom_operation;
mod files;
#[cfg(feature = "npu")]
mod flush;
mod host;
mod iroh;
mod limits;
mod options;
mod relay;
mod serve_error;
mod server;
mod session_memory;

pub use bounded::{Buffer, InMemory};
pub use host::{Host, MemoryLimits};
#[doc(inline)]
pub use kernels_runtime::remote::*;
pub use limits::Limits;
pub use options::ServeOptions;
pub use serve_error::ServeError;
pub use server::{Server, serve};

#[cfg(feature = "npu")]
pub(crate) use bounded::machine_memory;
#[cfg(feature = "npu")]
pub(crate) use flush::Sending;
