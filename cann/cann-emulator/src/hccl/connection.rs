//! The sending side of a connection: a thread that writes messages, so that nobody waits for a slow reader.

use std::io;
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Sender, channel};

use super::meeting::Delivery;
use super::wire::Message;

struct Envelope {
    bytes: Vec<u8>,
    /// Dropped when the message is written, or never will be.
    #[expect(dead_code, reason = "only its drop matters")]
    delivery: Option<Delivery>,
}

/// Sends messages to a process. The connection ends when the last clone is dropped and all is written.
#[derive(Clone)]
pub(crate) struct Post(Sender<Envelope>);

impl Post {
    pub(crate) fn start(stream: UnixStream) -> io::Result<Self> {
        let (sender, envelopes) = channel::<Envelope>();
        let write = move || {
            for envelope in envelopes {
                if send_all(&stream, &envelope.bytes).is_err() {
                    break;
                }
            }
            let _ = stream.shutdown(Shutdown::Both);
        };
        std::thread::Builder::new()
            .name("cann-emulator post".to_owned())
            .spawn(write)?;
        Ok(Self(sender))
    }

    /// Sends a message, unless the connection has ended.
    pub(crate) fn send(&self, message: &Message, delivery: Option<Delivery>) {
        let bytes = message.encode();
        let _ = self.0.send(Envelope { bytes, delivery });
    }
}

/// Writes all bytes. If nobody can read them, that is an error and no signal, which would end a C program.
pub(crate) fn send_all(stream: &UnixStream, mut bytes: &[u8]) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const FLAGS: libc::c_int = libc::MSG_NOSIGNAL;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const FLAGS: libc::c_int = 0;
    while !bytes.is_empty() {
        // SAFETY: the slice is valid for reads of its length, and the stream owns its descriptor.
        let sent = unsafe {
            libc::send(
                stream.as_raw_fd(),
                bytes.as_ptr().cast(),
                bytes.len(),
                FLAGS,
            )
        };
        match usize::try_from(sent) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}
