//! Tests that connections of strangers change nothing.

use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};

use super::processes::{across, write_root};
use super::*;

/// Connects to the socket of a root.
fn connect(root: &HcclRootInfo) -> UnixStream {
    let bytes: Vec<u8> = root.internal.iter().map(|byte| *byte as u8).collect();
    let id = u64::from_le_bytes(bytes[20..28].try_into().expect("eight bytes"));
    let address = SocketAddr::from_abstract_name(format!("cann-emulator-{id:016x}"));
    UnixStream::connect_addr(&address.expect("a name")).expect("somebody listens")
}

#[test]
fn strangers_are_sent_away_and_a_group_forms_among_them() {
    across(|test| {
        let session = session(1, 0);
        let root = root();
        // One says nothing, one ends at once, and the others say something wrong.
        let silent = connect(&root);
        drop(connect(&root));
        let mut hello = b"cann-emulator/02".to_vec();
        hello.extend([0; 36]);
        let mut garbage = vec![
            vec![0xff; 4096],
            hello.clone(),
            b"GET / HTTP/1.1\r\n\r\n".repeat(9),
        ];
        hello[0] ^= 1;
        garbage.push(hello);
        for bytes in garbage {
            let mut stranger = connect(&root);
            // The other end may be closed before all is written.
            let _ = stranger.write_all(&bytes);
            let answer = stranger.read(&mut [0; 64]);
            assert!(matches!(answer, Ok(0) | Err(_)), "{answer:?}");
        }
        // More than are served at once, all silent.
        let crowd: Vec<UnixStream> = (0..100).map(|_| connect(&root)).collect();
        // The rank of the other process comes after them, and tries again until the silent ones are sent away.
        let text = write_root(&root);
        let mut other = test.process("every", 2, "1", &[("HCCL_TEST_ROOT", &text)]);
        run(&root, 2, 0, 0, work::every_collective);
        let (well, text) = other.end();
        assert!(well, "{text}");
        drop((silent, crowd));
        assert_eq!(session.end(), Vec::<String>::new());
    });
}
