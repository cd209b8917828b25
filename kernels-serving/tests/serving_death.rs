//! Tests that a server goes on and frees a client's memory when the client dies.
//!
//! The client is another process of this test program; the allocator counts the memory.

#![cfg(feature = "remote")]

use burn::backend::Flex;
use burn::tensor::{DType, Tensor};
use kernels_serving::remote::{self, ServeOptions, Server, connect};
use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all memory is the system allocator's; the counter allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller fulfils the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller fulfils the contract of `dealloc`; `at` came from `System`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const ADDRESS: &str = "TEST_OF_REMOTE_DEATH_ADDRESS";
const TOKEN: &str = "TEST_OF_REMOTE_DEATH_TOKEN";

/// The number of bytes that the client holds: 64 MiB.
const HELD: usize = 64 << 20;

/// Runs as the other process and holds memory on the server until it is killed. Alone it does nothing.
#[test]
fn client() {
    let (Ok(address), Ok(token)) = (std::env::var(ADDRESS), std::env::var(TOKEN)) else {
        return;
    };
    let device = connect(address.as_str(), &token).unwrap().remove(0);
    let held = Tensor::<1>::ones([HELD / 4], (&device, DType::F32));
    device.sync().unwrap();
    println!("\nholding");
    std::thread::sleep(Duration::from_secs(120));
    drop(held);
}

#[test]
fn a_client_that_dies_frees_its_memory_on_the_server() {
    if std::env::var(ADDRESS).is_ok() {
        return;
    }
    let options = ServeOptions::websocket(([127, 0, 0, 1], 0));
    let server = Server::start::<Flex>([Default::default()], options).unwrap();
    let device = connect(server.address(), server.token()).unwrap().remove(0);
    let kept = Tensor::<1>::ones([1000], (&device, DType::F32));
    device.sync().unwrap();
    let before = LIVE.load(Ordering::Relaxed);
    for _ in 0..2 {
        let mut client = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "client", "--nocapture"])
            .env(ADDRESS, server.address().to_string())
            .env(TOKEN, server.token())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(client.stdout.take().unwrap());
        let holding = output.lines().any(|line| line.unwrap() == "holding");
        assert!(holding, "the client ended early");
        assert_eq!(server.sessions(), 2);
        assert!(LIVE.load(Ordering::Relaxed) > before + HELD);
        client.kill().unwrap();
        client.wait().unwrap();
        wait_until("the session ends", || server.sessions() == 1);
        wait_until("its memory is freed", || {
            LIVE.load(Ordering::Relaxed) < before + HELD / 16
        });
    }
    // The other client is not affected.
    assert_eq!(kept.sum().into_scalar::<f32>(), 1000.0);
    assert!(remote::failure(&device).is_none());
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "waited in vain until {what}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}
