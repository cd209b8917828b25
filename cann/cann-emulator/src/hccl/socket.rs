//! The sockets of groups. Their names are in no folder, so a killed process leaves nothing behind.

use std::io;
use std::os::unix::net::{UnixListener, UnixStream};

#[cfg(target_os = "linux")]
fn address(id: u64) -> io::Result<std::os::unix::net::SocketAddr> {
    use std::os::linux::net::SocketAddrExt;
    std::os::unix::net::SocketAddr::from_abstract_name(format!("cann-emulator-{id:016x}"))
}

#[cfg(not(target_os = "linux"))]
fn address(_: u64) -> io::Result<std::os::unix::net::SocketAddr> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "groups of several processes need Linux",
    ))
}

pub(crate) fn listen(id: u64) -> io::Result<UnixListener> {
    UnixListener::bind_addr(&address(id)?)
}

pub(crate) fn connect(id: u64) -> io::Result<UnixStream> {
    UnixStream::connect_addr(&address(id)?)
}
