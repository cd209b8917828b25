//! Jobs under `mpirun`, with the lines that their ranks print.

use crate::{PATIENCE, SCENE};
use rustix::process::Pid;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Runs a rank and says its status.
const SHELL: &str = "\"$0\" \"$@\"; status=$?; echo; echo \"status $status\"";

/// Who ends all ranks when one dies.
#[derive(Clone, Copy)]
pub enum Cleanup {
    /// The group, whose work `mpirun` must not do.
    ByGroup,
    /// `mpirun` or the group, whichever is first.
    ByLauncher,
}

/// A job under `mpirun`.
pub struct Job {
    child: Child,
    lines: mpsc::Receiver<String>,
    seen: String,
    start: Instant,
}

impl Job {
    pub fn start(ranks: usize, scene: &str, cleanup: Cleanup, variables: &[(&str, &str)]) -> Self {
        let version = Command::new("mpirun").arg("--version").output();
        let version = version.expect("the feature `mpi` is tested with `mpirun`, which is missing");
        let open_mpi = String::from_utf8_lossy(&version.stdout).contains("Open MPI");
        let mut mpirun = Command::new("mpirun");
        if open_mpi {
            mpirun.args(["--allow-run-as-root", "--oversubscribe"]);
        }
        match (cleanup, open_mpi) {
            (Cleanup::ByLauncher, _) => {}
            (Cleanup::ByGroup, true) => {
                mpirun.arg("--enable-recovery");
            }
            (Cleanup::ByGroup, false) => {
                mpirun.arg("-disable-auto-cleanup");
            }
        }
        mpirun
            .args(["-n", &ranks.to_string()])
            .envs(variables.iter().copied());
        Self::start_by(mpirun, scene, cleanup)
    }

    /// Starts a job by `mpirun` with its options.
    pub fn start_by(mut mpirun: Command, scene: &str, cleanup: Cleanup) -> Self {
        // `mpirun` that doesn't clean up ends with 0. The shell says the status of each rank.
        if let Cleanup::ByGroup = cleanup {
            mpirun.args(["sh", "-c", SHELL]);
        }
        mpirun.arg(std::env::current_exe().unwrap()).args([
            "--ignored",
            "--exact",
            "rank",
            "--nocapture",
        ]);
        mpirun
            .env(SCENE, scene)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = mpirun.spawn().unwrap();
        let (sender, lines) = mpsc::channel();
        let streams: [Box<dyn Read + Send>; 2] = [
            Box::new(child.stdout.take().unwrap()),
            Box::new(child.stderr.take().unwrap()),
        ];
        for stream in streams {
            let sender = sender.clone();
            thread::spawn(move || {
                BufReader::new(stream)
                    .lines()
                    .map_while(Result::ok)
                    .for_each(|line| drop(sender.send(line)));
            });
        }
        Self {
            child,
            lines,
            seen: String::new(),
            start: Instant::now(),
        }
    }

    /// Reads lines until one starts with a text, and returns its rest.
    fn line(&mut self, start: &str) -> String {
        loop {
            let left = PATIENCE.saturating_sub(self.start.elapsed());
            let Ok(line) = self.lines.recv_timeout(left) else {
                panic!("no line starts with `{start}`:\n{}", self.seen);
            };
            self.seen += &line;
            self.seen += "\n";
            if let Some(rest) = line.strip_prefix(start) {
                return rest.into();
            }
        }
    }

    /// Waits for the end. Returns the ranks' statuses in order, and all lines.
    pub fn end(mut self) -> (Vec<i32>, String) {
        self.wait();
        self.lines
            .iter()
            .for_each(|line| self.seen += &format!("{line}\n"));
        let status = |line: &str| line.strip_prefix("status ")?.trim().parse().ok();
        let mut statuses: Vec<i32> = self.seen.lines().filter_map(status).collect();
        statuses.sort();
        (statuses, std::mem::take(&mut self.seen))
    }

    /// Waits for the end of `mpirun`, and returns its own status.
    pub fn end_of_launcher(mut self) -> ExitStatus {
        self.wait()
    }

    fn wait(&mut self) -> ExitStatus {
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(
                self.start.elapsed() < PATIENCE,
                "the job does not end:\n{}",
                self.rest()
            );
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the lines up to now.
    pub fn rest(&mut self) -> String {
        self.lines
            .try_iter()
            .for_each(|line| self.seen += &format!("{line}\n"));
        self.seen.clone()
    }

    /// Returns the processes of the ranks, which have said them.
    pub fn pids(&mut self, ranks: usize) -> Vec<Pid> {
        let mut pids = vec![None; ranks];
        while pids.iter().any(Option::is_none) {
            let line = self.line("pid ");
            let (rank, pid) = line.split_once(' ').unwrap();
            pids[rank.parse::<usize>().unwrap()] = Pid::from_raw(pid.trim().parse().unwrap());
        }
        pids.into_iter().flatten().collect()
    }
}

// A failed test leaves no job behind.
impl Drop for Job {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
