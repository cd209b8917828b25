//! The devices of servers in other processes and on other machines: the half of a client.
//!
//! A connection knows what its server declares, and the annotated layers of the program send each call as one message
//! (`wire`, `call`). The list of kernels that a server can offer is here too ([`Kernels`]), because their handlers
//! build the operands of this crate. The crate `kernels-serving` has the server, and `burn_kernels::remote` both.

mod address;
pub(crate) mod call;
pub(crate) mod connect;
pub(crate) mod credential;
pub(crate) mod declaration;
mod devices;
pub(crate) mod endpoint;
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub mod fuzz;
mod load;
pub(crate) mod offer;
#[cfg(feature = "npu")]
pub(crate) mod platform;
pub(crate) mod sessions;
pub(crate) mod wire;

pub use address::{Address, InvalidAddress};
pub use connect::{ConnectError, connect, failure};
pub use declaration::Identity;
pub use devices::{RemoteDevice, describe};
pub use endpoint::client_identity;
pub use load::{LoadError, Stored, load_flat, load_tensor, look};
pub use offer::Kernels;

#[cfg(all(feature = "packages", feature = "npu"))]
pub(crate) use connect::is_own;
#[cfg(feature = "npu")]
pub(crate) use devices::with_platform;
