//! Ranks of two hosts whose network goes: two network namespaces, joined by a virtual cable.

use crate::job::{Cleanup, Job};
use crate::{SILENT, TIMEOUT, runs};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// Addresses of a network for documentation (RFC 5737), which no other network has.
const ADDRESSES: [&str; 2] = ["192.0.2.1", "192.0.2.2"];

/// Two namespaces that are joined.
struct Hosts([String; 2]);

impl Hosts {
    /// Returns `None` if this system or user can't make them.
    fn new() -> Option<Self> {
        let names = ["a", "b"].map(|name| format!("kd{}{name}", std::process::id()));
        let hosts = Self(names);
        let [a, b] = &hosts.0;
        let mut made = ip(&["netns", "add", a]) && ip(&["netns", "add", b]);
        made = made
            && ip(&[
                "-n", a, "link", "add", a, "type", "veth", "peer", b, "netns", b,
            ]);
        for (name, address) in hosts.0.iter().zip(ADDRESSES) {
            made =
                made && ip(&[
                    "-n",
                    name,
                    "address",
                    "add",
                    &format!("{address}/24"),
                    "dev",
                    name,
                ]) && ip(&["-n", name, "link", "set", name, "up"])
                    && ip(&["-n", name, "link", "set", "lo", "up"]);
        }
        made.then_some(hosts)
    }

    /// Returns `mpirun` on the first host, with a rank on each.
    fn mpirun(&self) -> Command {
        let [a, b] = &self.0;
        // Stands for `ssh`: the first argument is the host. The second host has a name of its own.
        let agent = self.agent();
        let script = format!(
            "#!/bin/sh\nshift\nexec ip netns exec {b} unshare --uts sh -c \"hostname {b}; $*\"\n"
        );
        fs::write(&agent, script).unwrap();
        fs::set_permissions(&agent, Permissions::from_mode(0o755)).unwrap();
        let mut mpirun = Command::new("ip");
        mpirun
            .args(["netns", "exec", a, "mpirun", "--allow-run-as-root"])
            .args(["--enable-recovery", "-n", "2", "--map-by", "node"])
            .args([
                "--host",
                &ADDRESSES.map(|address| format!("{address}:1")).join(","),
            ])
            .args(["--mca", "plm_rsh_agent"])
            .arg(agent)
            .args(["--mca", "btl", "self,tcp"])
            .args(["-x", crate::SCENE, "-x", "MASTER_ADDR", "-x", "MASTER_PORT"])
            .env("MASTER_ADDR", ADDRESSES[0])
            .env("MASTER_PORT", "29500");
        mpirun
    }

    fn agent(&self) -> PathBuf {
        std::env::temp_dir().join(&self.0[0])
    }

    fn cut(&self) {
        let a = &self.0[0];
        assert!(ip(&["-n", a, "link", "set", a, "down"]));
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in &self.0 {
            // A daemon of `mpirun` waits for the network.
            let pids = Command::new("ip").args(["netns", "pids", name]).output();
            let pids = pids.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
            for pid in pids.iter().flat_map(|pids| pids.split_whitespace()) {
                if let Some(pid) = pid.parse().ok().and_then(Pid::from_raw) {
                    let _ = kill_process(pid, Signal::KILL);
                }
            }
            ip(&["netns", "delete", name]);
        }
        let _ = fs::remove_file(self.agent());
    }
}

fn ip(arguments: &[&str]) -> bool {
    let output = Command::new("ip").args(arguments).output();
    output.is_ok_and(|output| output.status.success())
}

/// Each rank takes the other for lost, and ends though no message of the other comes.
#[test]
fn ranks_whose_network_goes_end_on_both_sides() {
    let Some(hosts) = Hosts::new() else {
        println!("NOT CHECKED: ranks whose network goes, as `ip netns` or veth can't be used here");
        return;
    };
    let mut job = Job::start_by(hosts.mpirun(), "sum on end", Cleanup::ByGroup);
    let pids = job.pids(2);
    // Into the sums.
    thread::sleep(Duration::from_millis(500));
    hosts.cut();
    let start = Instant::now();
    while pids.iter().any(|pid| runs(*pid)) {
        let time = start.elapsed();
        assert!(time < TIMEOUT, "ranks still run: {pids:?}\n{}", job.rest());
        thread::sleep(Duration::from_millis(20));
    }
    // What the second host says can't come any more.
    thread::sleep(Duration::from_millis(300));
    let lines = job.rest();
    let named = lines.lines().filter(|line| {
        line.starts_with("error Lost: ")
            && line.contains("rank 1 on host ")
            && line.contains(SILENT)
    });
    assert_eq!(named.count(), 1, "{lines}");
}
